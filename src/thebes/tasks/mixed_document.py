"""The part of a document that says what its reports, which nobody can assign to their owners, are to promise together.

The requestor names the epsilon of whoever sees the collected reports; from it follows the local epsilon, which is
written into the document before anybody signs or is asked. What must stay true: a document that says `mixed` keeps it
with the fewest people that it may be answered by; what a person pays is the local epsilon and nothing less.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, model_validator

from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.tasks.document import SERVER_FLOOR, PeopleDocument, Strict, is_new, rule
from thebes.tasks.mixed_reports import (
    COLLUDING,
    LARGEST_LOCAL,
    MixedCrowd,
    deciding,
    local_epsilon,
    mixed_figure,
    usual_delta,
)

PLANNED = "planned"  #: the group that is still to be


class MixedPromise(Strict):
    """The second promise: (epsilon, delta) against whoever sees the answers and cannot tell whose is whose, if at
    least a share 1 - `colluding` of those who answered followed the rules and hid where they sent from: who breaks the
    rules, tells what it sent, sends from its own address or does not exist covers nobody. Answers wait up to
    `delay_seconds`, each a random time of its own, from one range for everybody."""

    epsilon: float = Field(gt=0, le=LARGEST_LOCAL)
    delta: float = Field(gt=0, lt=1)
    colluding: float = Field(default=COLLUDING, ge=0, le=0.95)
    delay_seconds: float = Field(default=120.0, ge=30, le=86_400)


class MixedDocument(PeopleDocument):
    """A document whose owners perturb what they send, all by the same pure mechanism."""

    mixed: MixedPromise | None = None

    @classmethod
    def completed(cls, plain: Mapping[str, Any]) -> dict[str, Any]:
        """Write in which delta and which local epsilon are meant, where the document says what it is to promise mixed:
        the largest in hundredths that keeps it with `min_count` people."""
        mixed, given = plain.get("mixed"), dict(plain)
        if not isinstance(mixed, Mapping):
            return given if mixed is None else {"epsilon": 1.0, **given}
        least = given.get("min_count", SERVER_FLOOR)
        if "delta" not in mixed and isinstance(least, int) and least > 0:
            given["mixed"] = {**mixed, "delta": usual_delta(least)}
        if given.get("epsilon") is not None:
            return given
        wanted = mixed.get("epsilon")
        if isinstance(wanted, (int, float)) and not isinstance(wanted, bool) and 0 < wanted <= LARGEST_LOCAL:
            given["epsilon"] = wanted  # always kept: mixing never costs more than the local loss
            document = cls.model_validate(given)
            assert document.mixed is not None  # noqa: S101
            given["epsilon"] = document.fitting_epsilon
        else:
            given["epsilon"] = 1.0  # what is wrong is said of mixed
        return given

    @model_validator(mode="after")
    def _mixes(self) -> Self:
        mixed = self.mixed
        if mixed is None:
            return self
        if self.anonymity != "token":
            raise rule("mixed", 'needs "anonymity": "token" and a group: else whose answer is whose is seen')
        if self.delta > 0:
            raise rule("mixed", "is for pure reports: leave delta out (mixed has one of its own)")
        if mixed.delta > 1 / (10 * self.min_count):
            raise rule("mixed.delta", f"must be at most {figure(1 / (10 * self.min_count))}: 1 in 10 times min_count")
        if getattr(self, "quality", None):
            raise rule("quality", "must be left out with mixed: the few who check would be mixed among too few")
        if is_new() and self.figure(self.fewest) > mixed.epsilon:
            fits = self.fitting_epsilon
            raise rule("epsilon", f"is too large for mixed with {self.min_count} people; {figure(fits)} would fit")
        return self

    @property
    def fitting_epsilon(self) -> float:
        """The largest local epsilon that keeps what `mixed` says with the fewest people."""
        mixed = self.mixed
        assert mixed is not None  # noqa: S101
        crowds = self.fewest
        return local_epsilon(
            mixed.epsilon, lambda epsilon: mixed_figure(crowds, epsilon, delta=mixed.delta, colluding=mixed.colluding)
        )

    @property
    def fewest(self) -> list[MixedCrowd]:
        """The smallest crowds that its reports may be mixed in, one for each phase."""
        return [self.crowd(phase, self.least_in(phase)) for phase in range(self.phases)]

    @property
    def deciding_crowd(self) -> MixedCrowd:
        """The one of these that the promise comes from: in all others it is smaller."""
        mixed = self.mixed
        assert mixed is not None  # noqa: S101
        return deciding(self.fewest, self.epsilon, delta=mixed.delta, colluding=mixed.colluding)

    @property
    def honest(self) -> int:
        """The number of honest reports that the promise rests on."""
        mixed = self.mixed
        assert mixed is not None  # noqa: S101
        return self.deciding_crowd.honest(mixed.delta, mixed.colluding)

    @property
    def promised(self) -> dict[str, float] | None:
        """The figure that mixing proves with the fewest people, and on how many honest ones of how many it rests; None
        where the document does not say `mixed`."""
        if self.mixed is None:
            return None
        told = {"epsilon": self.figure(self.fewest), "delta": self.mixed.delta}
        return {**told, "n": self.deciding_crowd.least, "honest": self.honest}

    def crowd(self, phase: int, people: int, smallest: int | None = None) -> MixedCrowd:
        """Return among how many people a report to each part of a phase is mixed. `smallest` is what the smallest peer
        partition had."""
        packets = self.packets(phase) * self.turns(phase)
        return MixedCrowd(people, self.partitions_in(phase), self.participations * packets, smallest)

    def partitions_in(self, phase: int) -> int:
        """Return into how many peer partitions a phase may fall at most."""
        return 1

    def figure(self, crowds: list[MixedCrowd]) -> float:
        """Return the epsilon that mixing in these crowds proves, at the delta that is asked for."""
        mixed = self.mixed
        assert mixed is not None  # noqa: S101
        return mixed_figure(crowds, self.epsilon, delta=mixed.delta, colluding=mixed.colluding)


def planned(document: Mapping[str, Any], *, mixed: float, people: int) -> MixedDocument:
    """The document with the largest local epsilon that keeps a mixed one of `mixed` where so many people answer; for a
    group that is still to be, where it names none."""
    from thebes.tasks import registry

    before = document.get("mixed")
    given = {name: value for name, value in document.items() if name not in ("epsilon", "delta", "max_count")}
    given |= {"min_count": people, "mixed": {**(before if isinstance(before, Mapping) else {}), "epsilon": mixed}}
    found = registry.check({"anonymity": "token", "group": PLANNED, **given})
    if not isinstance(found, MixedDocument):
        raise Mistake("type", "is a kind whose answers cannot be mixed")
    return found
