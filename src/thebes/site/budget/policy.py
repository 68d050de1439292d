"""The policy of who may ask what, and how much: HOME/policy.toml, which only the steward writes.

What must stay true: whatever no rule allows is refused; a file that is not there, or cannot be read exactly as
written, allows nothing. A rule looks at who asks for what, never at data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from thebes.privacy.faults import Refusal

ANY = "*"
NOISES = ("site", "coordinator", "split")
LEAST_HELPED = 100  #: people, where a rule about helping does not say


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """The facts that a rule is shown of a task."""

    requestor: str
    dataset: str
    kind: str
    noise: str
    digest: str = ""  #: of its document
    helper: str = ""  #: with noise that is split: the fingerprint of the helper that the document names


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """`requestors` may ask about `datasets` by `kinds` with noise added in one of the places of `noise`, together for
    no more than (epsilon, delta) at each data set. `contexts` are whose rows, of a data set whose rows are kept apart;
    without them it allows nothing there. Without a delta the data set's own stands. `steady` answers leave
    at whole seconds and do not say how long they took. With `task`, the digest of a document, it is about that task
    alone. One that is `ended` allows nothing any more. `helpers` are the fingerprints of those that may be the second
    server where noise is split. `number` counts from 1 in the file."""

    number: int
    requestors: tuple[str, ...]
    datasets: tuple[str, ...]
    kinds: tuple[str, ...]
    epsilon: Decimal
    delta: Decimal | None = None
    noise: tuple[str, ...] = ("site",)
    contexts: tuple[str, ...] = ()
    steady: bool = False
    task: str = ""
    ended: bool = False
    helpers: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"rule {self.number} of policy.toml"

    def covers(self, asked: TaskFacts) -> bool:
        """Return whether the rule speaks about this."""
        return self.covers_kind(asked) and self.task in ("", asked.digest)

    def trusts(self, asked: TaskFacts) -> bool:
        """Return whether the rule lets shares be sealed for that helper. Whatever was paid counts under it anyway."""
        return asked.noise != "split" or asked.helper in self.helpers

    def covers_kind(self, asked: TaskFacts) -> bool:
        """Return whether the rule speaks about a task of this kind, as far as it is not about one task alone."""
        return (
            _in(asked.requestor, self.requestors)
            and _in(asked.dataset, self.datasets)
            and _in(asked.kind, self.kinds)
            and asked.noise in self.noise
        )


@dataclass(frozen=True, slots=True)
class HelpRule:
    """For tasks that `requestors` ask of people this site is the second of two servers: of at least `min_count` people,
    each of whom pays no more than (epsilon, delta); with `sites` also for questions to sites. No row of the site is
    touched by it."""

    number: int
    requestors: tuple[str, ...]
    epsilon: Decimal
    delta: Decimal = Decimal(0)
    min_count: int = LEAST_HELPED
    ended: bool = False
    sites: bool = False

    def covers(self, requestor: str, epsilon: Decimal, delta: Decimal) -> bool:
        """Return whether the rule allows it, whatever the number of people is."""
        return not self.ended and _in(requestor, self.requestors) and epsilon <= self.epsilon and delta <= self.delta


@dataclass(frozen=True, slots=True)
class PolicyRefusal:
    """Whatever `requestors` ask about `datasets` by `kinds` is refused, before any rule is asked, and they are told the
    `reason`. With `task` it is about the task with that digest alone; one that is `ended` refuses nothing any
    more."""

    number: int
    requestors: tuple[str, ...]
    reason: str
    datasets: tuple[str, ...] = (ANY,)
    kinds: tuple[str, ...] = (ANY,)
    task: str = ""
    ended: bool = False

    def covers(self, asked: TaskFacts) -> bool:
        """Return whether this is refused."""
        return (
            not self.ended
            and _in(asked.requestor, self.requestors)
            and _in(asked.dataset, self.datasets)
            and _in(asked.kind, self.kinds)
            and self.task in ("", asked.digest)
        )


@dataclass(frozen=True, slots=True)
class Policy:
    """Rules in the order of the file: the first that covers what is asked decides, one about that task alone before all
    others, unless a refusal covers it. `trouble` is why there are none."""

    rules: tuple[PolicyRule, ...] = ()
    refusals: tuple[PolicyRefusal, ...] = ()
    trouble: str | None = None
    helping: tuple[HelpRule, ...] = ()

    def helps(self, requestor: str, epsilon: Decimal, delta: Decimal, *, sites: bool = False) -> HelpRule | None:
        """Return the first rule by which this site is the helper of a task of people, or of `sites`; None where none
        allows it."""
        found = (rule for rule in self.helping if rule.covers(requestor, epsilon, delta) and (rule.sites or not sites))
        return next(found, None)

    def rule(self, asked: TaskFacts) -> PolicyRule | None:
        """The rule that allows it; None where none does."""
        if any(refused.covers(asked) for refused in self.refusals):
            return None
        found = [rule for rule in self.rules if not rule.ended and rule.covers(asked) and rule.trusts(asked)]
        return next((rule for rule in found if rule.task), found[0] if found else None)

    def missing(self, kinds: Sequence[str], datasets: Sequence[str]) -> str:
        """Say which rules name a kind or a data set that is not there, and so allow less than they seem to; nothing
        where none does."""
        known = {"kinds": (ANY, *kinds), "datasets": (ANY, *datasets)}
        return "; ".join(
            f"{rule} names {name!r} among its {key}, where there are only {', '.join(known[key][1:]) or 'none'}"
            for rule in self.rules
            if not rule.ended
            for key in known
            for name in getattr(rule, key)
            if name not in known[key]
        )

    def refusal(self, asked: TaskFacts) -> str:
        """Say why nothing allows it, for whoever asked: nothing of what the file allows others."""
        for refused in self.refusals:
            if refused.covers(asked):
                return f"the site's steward refused this: {refused.reason}"
        if asked.noise == "split" and any(rule.covers(asked) and not rule.ended for rule in self.rules):
            return "the site's policy names other helpers than this document does, by their fingerprints"
        for noise in NOISES[:2]:
            if noise != asked.noise and self.rule(replace(asked, noise=noise)) is not None:
                return f"the site's policy allows this only with noise added by the {noise}"
        return "the site's policy does not allow this"


def contexts_of(rule: PolicyRule, declared: Sequence[str]) -> tuple[str, ...]:
    """In which of the contexts that a data set keeps apart a rule lets somebody ask (none where it keeps none); a
    Refusal where the rule does not say, or speaks of contexts that are not there."""
    if not declared and rule.contexts:
        raise Refusal(f"{rule} is for some contexts alone, and this data set has none; its steward adds a rule without")
    if declared and not rule.contexts:
        raise Refusal(f"{rule} does not say in which contexts of this data set one may ask; its steward adds contexts")
    found = tuple(name for name in declared if _in(name, rule.contexts))
    if declared and not found:
        raise Refusal(f"{rule} names no context that this data set has")
    return found


def _in(name: str, names: tuple[str, ...]) -> bool:
    return name in names or ANY in names
