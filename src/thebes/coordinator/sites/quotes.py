"""The quote in which a site says beforehand what an answer would cost it, read from a message of a stranger."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from thebes.ledger.filters import FILTERS
from thebes.privacy.faults import Mistake
from thebes.tasks.aggregation.sites import SOURCES
from thebes.wire.link import Word

_LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class Quoted:
    """`cost` (epsilon, delta) and `source` of an answer now, where the document says its epsilon; `known` is what the
    aggregator may reckon with (see `Setting.quotes`)."""

    cost: tuple[float, float] | None
    source: str | None
    known: Mapping[str, Any]


def quoted(answer: Mapping[str, Any]) -> Quoted | str:
    """A site's answer, or why it gives none; a Mistake where it is neither."""
    if answer["kind"] == Word.REFUSAL:
        reason = answer.get("reason")
        said = reason if isinstance(reason, str) and reason.isprintable() and reason else "without a reason"
        return f"refused: {said[:_LONGEST_REASON]}"
    if answer["kind"] != Word.QUOTED:
        raise Mistake("quote", "is answered by something else")
    cost, source, made = _amounts(answer.get("cost")), answer.get("source"), _amounts(answer.get("made"))
    known: dict[str, Any] = {} if made is None or not made[0] else {"made": list(made)}
    synopsis = _amounts(answer.get("synopsis"))
    if synopsis is not None:
        known["synopsis"] = list(synopsis)
    if answer.get("filter") in FILTERS:
        known["filter"] = answer["filter"]
    return Quoted(cost, str(source) if source in SOURCES else None, known)


def written(said: Quoted | str) -> Any:
    """For a process that did not hear it, as JSON."""
    return said if isinstance(said, str) else {"cost": said.cost, "source": said.source, "known": dict(said.known)}


def read(told: Any) -> Quoted | str:
    """The inverse of `written`."""
    if isinstance(told, str):
        return told
    return Quoted(None if told["cost"] is None else tuple(told["cost"]), told["source"], told["known"])


def _amounts(told: object) -> tuple[float, float] | None:
    """An epsilon and a delta."""
    if told is None:
        return None
    if not isinstance(told, list) or len(told) != 2:
        raise Mistake("quote", "does not say an epsilon and a delta")
    for number in told:
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not 0 <= number < math.inf:
            raise Mistake("quote", "does not say an epsilon and a delta")
    return float(told[0]), float(told[1])
