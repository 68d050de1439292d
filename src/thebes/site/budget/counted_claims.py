"""The claims at a home's blocks as rules count them: what each stands for, and whose it is.

What must stay true: a rule counts everything that was ever claimed and that it would cover today, whichever process
made the claim: those of tasks are told here as they are made, what others claim is read off the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from thebes.curator.cache.planner import BOUGHT
from thebes.curator.pipelines.attempt_store import CLAIM as PIPELINE
from thebes.curator.streams.stream import OURS
from thebes.ledger import Budget, Ledger
from thebes.ledger.amounts import NOTHING, Amount, Steps, delta_steps
from thebes.ledger.filters import FILTERS
from thebes.ledger.losses import loss_of_text
from thebes.privacy.faults import Fault
from thebes.privacy.losses import Loss, Pure
from thebes.site.budget.policy import ANY, PolicyRule, TaskFacts
from thebes.site.requests.response_store import CLAIM, Subject


@dataclass(frozen=True, slots=True)
class Payer:
    """The payer of a claim, as a rule is asked about it. Of one whose task is not known any more every rule that speaks
    of its requestor counts it."""

    asked: TaskFacts
    known: bool

    def counts(self, rule: PolicyRule) -> bool:
        """Return whether a rule counts what was paid, as far as it is not about one task alone."""
        if self.known:
            return rule.covers_kind(self.asked)
        return self.asked.requestor in rule.requestors or ANY in rule.requestors


class ClaimSums:
    """The sums of what the claims on one block count for, by payer."""

    def __init__(self) -> None:
        self._claims: dict[int, tuple[Payer, str, Budget]] = {}
        self._sums: dict[Payer, Budget] = {}
        self._by_task: dict[str, dict[Payer, Budget]] = {}  # by the digest of the document, where it is known

    def set(self, claim: int, counts: Budget, payer: Payer | None = None, task: str = "") -> None:
        """Set what a claim counts for from now on; `payer` and `task`, the digest of its document, are told the first
        time."""
        who, about, before = self._claims.get(claim, (payer, task, NOTHING))
        if who is None:
            raise Fault("a claim is nobody's")
        for sums in (self._sums, self._by_task.setdefault(about, {})) if about else (self._sums,):
            total = sums.get(who, NOTHING)
            sums[who] = Budget(
                total.epsilon - before.epsilon + counts.epsilon, total.delta - before.delta + counts.delta
            )
        self._claims[claim] = (who, about, counts)

    def under(self, rule: PolicyRule) -> Budget:
        """Return what counts against a rule; against one about a single task also what was paid for tasks that nobody
        knows any more, as that may have been this one."""
        found = [total for payer, total in self._sums.items() if payer.counts(rule) and not (rule.task and payer.known)]
        if rule.task:
            found += [total for payer, total in self._by_task.get(rule.task, {}).items() if payer.counts(rule)]
        return Budget(Amount(sum(t.epsilon for t in found)), Amount(sum(t.delta for t in found)))


class CountedClaims:
    """All claims on one home's blocks, and what each counts for. `subjects` tells what was written down of tasks, by
    the key of their claim, and `attempts` what each attempt of a pipeline may spend, by its key. Whoever uses it holds
    a lock."""

    def __init__(
        self,
        ledger: Ledger,
        subjects: Callable[[], Mapping[str, Subject]],
        attempts: Callable[[], Mapping[str, Budget]],
    ) -> None:
        self._ledger, self._attempts = ledger, attempts
        self._amounts: dict[str, Budget] = {}  # of attempts, as they were last read
        self._counted: dict[str, ClaimSums] = {}  # by block
        self._terms: dict[str, tuple[str, int]] = {}  # of every block: its filter, its delta in steps
        self._elsewhere: dict[int, dict[str, Steps]] = {}  # what claims of others hold, by claim and block
        self._keys: dict[int, str] = {}  # of claims of others
        self._read = -1
        known = subjects()
        while self._read != (before := ledger.head().length):
            self._read, self._counted, self._elsewhere = before, {}, {}
            claims = {claim.id: claim for claim in ledger.claims()}
            for name, held in ledger.holdings().items():
                for number, steps in held.items():
                    claim = claims[number]
                    if _own(claim.key):
                        continue
                    subject = known.get(claim.key or "")
                    counts = self._counts(claim.loss, name, subject, steps, claim.key)
                    payer = _payer(name, claim.spender, subject, claim.key)
                    self.of(name).set(number, counts, payer, "" if subject is None else subject.digest)
                    if subject is None:
                        self._elsewhere.setdefault(number, {})[name] = steps
                        self._keys[number] = claim.key or ""

    def of(self, block: str) -> ClaimSums:
        """Return what the claims on a block count for; a rule counts over all its contexts together, and over everybody
        who has a budget of their own."""
        return self._counted.setdefault(block.partition("@")[0], ClaimSums())

    def refresh(self) -> None:
        """Count what others have claimed since."""
        for entry in self._ledger.journal(self._read):
            self._read, facts = entry.number, entry.facts
            if entry.event == "reserve" and not _own(facts["key"]) and not (facts["key"] or "").startswith(CLAIM):
                for block, place, steps in _spread(facts["charges"]):
                    self._elsewhere.setdefault(facts["claim"], {}).setdefault(block, {})[place] = steps
                    self._keys[facts["claim"]] = facts["key"] or ""
                for block, held in self._elsewhere.get(facts["claim"], {}).items():
                    counts = self._counts(loss_of_text(facts["loss"]), block, None, held, facts["key"])
                    self.of(block).set(facts["claim"], counts, _payer(block, facts["spender"], None, facts["key"]))
            elif entry.event in ("consume", "release") and facts["claim"] in self._elsewhere:
                self._gone_back(facts["claim"], facts["returned"])

    def _gone_back(self, claim: int, returned: list[dict[str, Any]]) -> None:
        held = self._elsewhere[claim]
        for block, place, steps in _spread(returned):
            held[block][place] -= steps
            self.of(block).set(claim, self._said(self._keys[claim], held[block]) or self._reading(block, held[block]))

    def _said(self, key: str | None, steps: Steps) -> Budget | None:
        """Return what an attempt of a pipeline said that it may spend, as long as it holds anything; None of other
        claims."""
        if key is None or not key.startswith(PIPELINE):
            return None
        if not any(steps.values()):
            return NOTHING
        if key not in self._amounts:
            self._amounts = dict(self._attempts())
        return self._amounts.get(key)

    def _counts(self, loss: Loss, block: str, subject: Subject | None, steps: Steps, key: str | None) -> Budget:
        """Return what a claim from before counts for: what it said where an attempt of a pipeline made it, else see
        `counted`."""
        said = self._said(key, steps)
        return counted(loss, steps, subject, *self._terms_of(block)) if said is None else said

    def _reading(self, block: str, steps: Steps) -> Budget:
        counting, delta = self._terms_of(block)
        return FILTERS[counting].worth(steps, delta)

    def _terms_of(self, block: str) -> tuple[str, int]:
        if block not in self._terms:
            self._terms |= {b.name: (b.filter, delta_steps(b.budget.delta)) for b in self._ledger.blocks()}
        return self._terms[block]


def counted(loss: Loss, steps: Steps, subject: Subject | None, filter: str, delta: int) -> Budget:
    """Return what a claim that no journal of attempts knows counts for under a rule: what it holds or has spent where
    that is an epsilon; else what its document said, whole; and where nobody remembers that, what a block that counts
    with `filter` beside `delta` reads off its own count."""
    if isinstance(loss, Pure) and "epsilon" in steps:
        return Budget.of_steps(steps["epsilon"], 0)
    if subject is not None:
        return Budget(Amount(subject.epsilon), Amount(subject.delta))
    return FILTERS[filter].worth(steps, delta)


def _own(key: str | None) -> bool:
    """Return whether a claim buys sizes of a growing data set, or what a synopsis is made of: nobody asked for it."""
    return key is not None and key.startswith((*OURS, BOUGHT))


def _spread(groups: list[dict[str, Any]]) -> Iterator[tuple[str, str, int]]:
    """(block, place, steps) of what the journal writes together."""
    for group in groups:
        for block in group["blocks"]:
            for place, steps in group["amounts"].items():
                yield block, place, int(steps)


def _payer(block: str, spender: str, subject: Subject | None, key: str | None) -> Payer:
    dataset = block.partition("/")[0]
    if subject is None and key is not None and key.startswith(PIPELINE):
        return Payer(TaskFacts(spender, dataset, "pipeline", "site"), known=True)
    kind, noise = ("", "") if subject is None else (subject.kind, subject.noise)
    return Payer(TaskFacts(spender, dataset, kind, noise), known=subject is not None)
