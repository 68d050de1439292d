"""The audit's rows of rows that people change themselves: all that the server is sent."""

from __future__ import annotations

from functools import partial
from typing import Any

from thebes.privacy.promise import Adjacency
from thebes.tasks.audit.case import Audited, Case, Written
from thebes.tasks.audit.people import HERE, RANGE, SET, THERE, document_of, sent, sent_once
from thebes.tasks.bounded.kind import SHORT
from thebes.tasks.protocols import Ask

_DRAWS = 60_000
_MIXED: dict[str, Any] = {"type": "bounded", "featurizer": "SELECT x, g FROM p.t", "bounds": {"x": RANGE, "g": SET}}
_NUMBER: dict[str, Any] = {
    "type": "bounded",
    "featurizer": "SELECT x FROM p.t",
    "bounds": {"x": RANGE},
    "mechanism": "split",
}


def cases() -> list[Case]:
    """List each mechanism over a mixed row, and one number; every column of a row with the whole epsilon, as the
    thesis has it, is what must be caught."""
    one, other = (partial(sent_once, document_of(_NUMBER), own) for own in (HERE, THERE))
    return [
        *(_row(f"bounded, {mechanism}", {"mechanism": mechanism}) for mechanism in ("split", "privunit", SHORT)),
        _checked("g", {"weights": [[0.0], [0.0]], "starts": [1.0, -1.0], "guess": 2, "classes": [0, 2]}),
        _checked("x", {"weights": [[0.0, 0.0]], "starts": [1.0], "guess": -1.0}),
        Written("drawn: bounded, one number", 1.0, 0.0, Adjacency.REPLACE_ONE, one, other, used=0.99),
        _row(
            "bounded, the whole epsilon for each of two columns",
            {"mechanism": "split", "epsilon": 2.0},
            positive_control=True,
        ),
    ]


def _checked(predicted: str, model: dict[str, Any]) -> Case:
    """Ask what a model of a column gains, made up so that the two rows' gains differ."""
    document = document_of({**_MIXED, "quality": True, "predicted": predicted})
    one, other = (sent(document, own, asks=[Ask("a", "phase-1", 1, model)]) for own in (HERE, THERE))
    name = f"bounded, a model of {predicted} checked"
    return Audited(name, 1.0, 0.0, Adjacency.REPLACE_ONE, one, other, draws=_DRAWS)


def _row(name: str, more: dict[str, Any], *, positive_control: bool = False) -> Audited:
    document = document_of({**_MIXED, **more})
    one, other = (sent(document, own) for own in (HERE, THERE))
    return Audited(name, 1.0, 0.0, Adjacency.REPLACE_ONE, one, other, positive_control, _DRAWS)
