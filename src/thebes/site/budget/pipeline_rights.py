"""The rights that say what a developer may spend at a growing data set by pipelines: what HOME/policy.toml says of the
kind "pipeline".

What must stay true: without a rule that covers developer, data set and kind nothing is spent; all claims on a block
that a rule covers never add up to more than it says. (Whoever asks holds `deciding` until the claim is made.)
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from thebes.curator.cache.planner import BOUGHT
from thebes.curator.pipelines.attempt_store import CLAIM, Attempts
from thebes.curator.streams.stream import OURS, Context, Stream
from thebes.ledger import Budget, BudgetExceeded, LedgerClaim
from thebes.ledger.amounts import NOTHING, Amount, delta_steps
from thebes.privacy.faults import Refusal
from thebes.site.budget.counted_claims import counted
from thebes.site.budget.policy import ANY, PolicyRule, TaskFacts
from thebes.site.budget.policy_file import PolicyFile
from thebes.site.home import OUTBOX, SiteHome
from thebes.site.requests.response_store import Subject, subjects_in
from thebes.site.streams import context_of

KIND = "pipeline"


class PipelineRights:
    """Of one developer at one growing data set of a home. The policy is read anew whenever it is asked."""

    def __init__(self, home: SiteHome, stream: Stream, developer: str, attempts: Attempts) -> None:
        self._home, self._stream, self._developer, self._attempts = home, stream, developer, attempts
        self._policy = PolicyFile(home.policy)
        self._known: tuple[int, PolicyRule, dict[str, Budget]] | None = None  # as of so many entries in the journal

    def rule(self) -> PolicyRule:
        """The rule that covers the developer's pipelines here; a Refusal where none does."""
        policy = self._policy()
        found = policy.rule(TaskFacts(self._developer, self._stream.name, KIND, "site"))
        if found is None:
            why = policy.trouble or f"no rule lets {self._developer} run pipelines over {self._stream.name}"
            raise Refusal(
                f"{why}; thebes dataset grant {self._stream.name} --to {self._developer} --kinds {KIND} adds one"
            )
        return found

    def context(self, named: str | None) -> Context:
        """For whom the developer's pipelines work here, of the contexts that the rule gives in one that is named."""
        return context_of(self._stream, self.rule(), self._developer, named)

    def __call__(self, blocks: Sequence[str], epsilon: Decimal, delta: Decimal) -> None:
        """BudgetExceeded where the rule's requestors have had too much of one of these blocks."""
        rule, ledger = self.rule(), self._stream.ledger
        price = Budget(Amount(epsilon), Amount(delta))
        entries = ledger.head().length
        if self._known is None or self._known[:2] != (entries, rule):
            self._known = (entries, rule, self._counted(rule))
        counted, most = self._known[2], self._stream.terms.delta if rule.delta is None else rule.delta
        for name in blocks:
            had = counted.get(_over_all(name), NOTHING)
            left = Budget(
                Amount(max(Decimal(0), rule.epsilon - had.epsilon)), Amount(max(Decimal(0), most - had.delta))
            )
            if price.epsilon > left.epsilon or (rule.delta is not None and price.delta > left.delta):
                raise BudgetExceeded(name, price, left, str(rule))

    def _counted(self, rule: PolicyRule) -> dict[str, Budget]:
        """Return what counts against a rule, by block, over all contexts."""
        ledger, terms = self._stream.ledger, self._stream.terms
        claims = {claim.id: claim for claim in ledger.claims()}
        subjects, said = subjects_in(self._home.folder / OUTBOX), self._attempts.amounts()
        found: dict[str, dict[int, Budget]] = {}
        for name, held in ledger.holdings().items():
            if not name.startswith(f"{self._stream.name}/"):
                continue
            for number, steps in held.items():
                claim = claims.get(number)
                subject = subjects.get("" if claim is None else claim.key or "")
                if claim is None or not self._covers(rule, claim, subject):
                    continue
                own = said.get(claim.key or "")
                had = own or counted(claim.loss, steps, subject, terms.filter, delta_steps(terms.delta))
                found.setdefault(_over_all(name), {})[number] = had
        return {
            name: Budget(
                Amount(sum(each.epsilon for each in had.values())), Amount(sum(each.delta for each in had.values()))
            )
            for name, had in found.items()
        }

    def _covers(self, rule: PolicyRule, claim: LedgerClaim, subject: Subject | None) -> bool:
        """Return whether a claim counts against a rule; of one whose task is not known its requestor decides."""
        key = claim.key or ""
        if key.startswith((*OURS, BOUGHT)):
            return False
        if key.startswith(CLAIM):
            return rule.covers(TaskFacts(claim.spender, self._stream.name, KIND, "site"))
        if subject is not None:
            return rule.covers(TaskFacts(claim.spender, self._stream.name, subject.kind, subject.noise))
        return claim.spender in rule.requestors or ANY in rule.requestors


def _over_all(block: str) -> str:
    """Return what is said of all contexts of a block, and of everybody's own budget there."""
    return block.partition("@")[0]
