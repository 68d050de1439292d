"""The expected error of a question in every trust model, side by side: the same promise to the same made-up people.

What must stay true: all is simulated by what would answer; numbers of two models are told only in the same measure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.simulation.rehearsal import SHARE, rehearsed
from thebes.tasks import registry
from thebes.tasks.document import Document, PeopleDocument, Range, Values
from thebes.tasks.rehearsal import REPEATS, RIGHT, WRONG, shares
from thebes.tasks.trust_models import MODELS, TrustModel, trust_models


@dataclass(frozen=True, slots=True)
class TrustError:
    """One line of the comparison. `errors` has, by what is told, the distance from the truth that 95 of 100 answers
    keep, of a model what they get wrong at most; None where too few answered. `epsilon` and `delta` are what one
    contributor pays. Without `errors`, `why` says what stands against it."""

    model: str
    epsilon: float | None = None
    delta: float | None = None
    errors: Mapping[str, float | None] = field(default_factory=dict)
    why: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def trust_errors(
    document: Document, *, people: int | None = None, repeats: int = REPEATS, seconds: float = float("inf")
) -> list[TrustError]:
    """Rehearse a question of people in every trust model that it can have, by so many people (`min_count`, where
    nothing is said). Begins no further repeat after `seconds` in all."""
    if not isinstance(document, PeopleDocument):
        raise Mistake("type", "is a kind that institutions answer: their noise is added at each site, or here")
    if people is not None:
        fewer = {"min_count": people, "max_count": None}
        given = {name: value for name, value in {**document.as_json(), **fewer}.items() if value is not None}
        if getattr(document, "mixed", None) is not None:
            del given["epsilon"]  # follows from how many there are
        found = registry.check(given)
        assert isinstance(found, PeopleDocument)  # noqa: S101
        document = found
    models = trust_models(document)
    each = seconds / sum(model.document is not None for model in models)
    return [_told(model, repeats, each) for model in models]


def _told(model: TrustModel, repeats: int, seconds: float) -> TrustError:
    if model.document is None:
        return TrustError(model.name, why=model.why)
    document = registry.check(model.document)
    assert isinstance(document, PeopleDocument)  # noqa: S101
    kind, price = registry.rehearsal(document.type), registry.drawn(document.type).price(document)
    paid = (float(price.epsilon), float(price.delta))
    if refused := kind.refused(document):
        return TrustError(model.name, *paid, why=refused)
    try:
        found = rehearsed(document, kind, repeats=min(repeats, kind.repeats), seconds=seconds)
    except Mistake as refusal:
        return TrustError(model.name, *paid, why=str(refusal))
    return TrustError(model.name, *paid, dict(_error(document, found["people"], each) for each in found["quantities"]))


def _error(document: PeopleDocument, people: int, told: Mapping[str, Any]) -> tuple[str, float | None]:
    """Return what a number is of, in words that every model shares, and how far it is off."""
    what, within = str(told["what"]), told.get("within", told.get("most"))
    if what == RIGHT:
        return WRONG, None if told["least"] is None else 1 - told["least"]
    if document.type != "basic":
        return what, within
    column = document.gives[0]
    bound, statistic = (document.bounds or {}).get(column), getattr(document, "aggregator", "")
    if statistic == "histogram" and isinstance(bound, Values):
        return shares(column), None if within is None else within / people
    return f"the mean of {column}" if statistic == "mean" and isinstance(bound, Range) else what, within


def as_lines(found: list[TrustError]) -> list[str]:
    """Write the comparison as lines of a terminal."""
    lines = [f"{'trusted':<8} {'each pays':>18}  {SHARE:.0%} of the answers are within"]
    for one in found:
        paid = "" if one.epsilon is None else f"{figure(one.epsilon, 3)}"
        paid += f", delta {figure(one.delta, 1)}" if one.delta else ""
        told = "; ".join(f"{'?' if off is None else figure(off, 2)} ({what})" for what, off in one.errors.items())
        lines.append(f"{one.model:<8} {paid:>18}  {told or one.why}")
    return [*lines, "", *(f"{name:<8} {words}" for name, words in MODELS.items())]
