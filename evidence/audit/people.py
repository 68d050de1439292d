"""Tasks that people answer, through both halves of their kinds: all that is told of one person's row, where everybody
else's is known. Who trusts a server is attacked by a reader of its release, who trusts nobody by the server itself.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.rows import Rows
from thebes.privacy.promise import Adjacency, Unit
from thebes.privacy.randomness import Randomness, bulk
from thebes.tasks import registry
from thebes.tasks.protocols import Ask, Setting
from thebes.tasks.release import Release
from thebes.testing.audit import Audited, Case, Draw, repeatedly
from thebes.testing.kinds import Purse

REPLACE = Adjacency.REPLACE_ONE
FAST = bulk()
_DRAWS, _FITS = 1500, 400
_NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
RANGE = {"type": "range", "low": 0.0, "high": 1.0, "default": 0.0}
SET = {"type": "set", "values": ["a", "b", "c"], "default": "a"}
_LABEL = {"type": "set", "values": [0, 1], "default": 0}
_MIXED: dict[str, Any] = {"x": RANGE, "g": SET}
PAIR: dict[str, Any] = {"x": RANGE, "y": _LABEL}

#: four whose rows the attacker knows, about whom the fifth tips every scale; and the two rows that the fifth may have
OTHERS: list[dict[str, Any]] = [
    {"x": 0.0, "g": "a", "y": 0},
    {"x": 0.0, "g": "b", "y": 0},
    {"x": 1.0, "g": "a", "y": 1},
    {"x": 1.0, "g": "c", "y": 1},
]
HERE: dict[str, Any] = {"x": 0.0, "g": "a", "y": 0}
THERE: dict[str, Any] = {"x": 1.0, "g": "c", "y": 1}

Look = Callable[[Release], list[float]]


def cases() -> list[Case]:
    """Statistics, a model, and rows. Other models are attacked in `learning`, and what a gradient's owner sends in
    `local`: that takes a process of its own."""
    told: list[tuple[str, dict[str, Any], dict[str, Any], Look, float]] = [
        ("basic, mean", {"aggregator": "mean", "featurizer": "SELECT x FROM p.t"}, {"x": RANGE}, _value, 0.0),
        ("basic, median", {"aggregator": "median", "featurizer": "SELECT x FROM p.t"}, {"x": RANGE}, _value, 0.0),
        ("basic, histogram", {"aggregator": "histogram", "featurizer": "SELECT g FROM p.t"}, {"g": SET}, _counts, 0.0),
        (
            "basic, mean with delta",
            {"aggregator": "mean", "featurizer": "SELECT x FROM p.t", "delta": 1e-2},
            {"x": RANGE},
            _value,
            1e-2,
        ),
        (
            "integrated, naive Bayes",
            {"type": "integrated", "model": "GaussianNB", "inputs": ["x"], "output": "y",
             "featurizer": "SELECT x, y FROM p.t"},
            PAIR,
            _bayes,
            0.0,
        ),
    ]  # fmt: skip
    made: list[Case] = []
    for name, fields, bounds, look, delta in told:
        document = document_of({"type": "basic", **fields}, bounds)
        draws = [repeatedly(partial(_seen, look, document, row)) for row in (HERE, THERE)]
        made.append(
            Audited(
                name, 1.0, delta, REPLACE, draws[0], draws[1], draws=_DRAWS if fields.get("type") is None else _FITS
            )
        )
    for mechanism in ("split", "privunit"):
        document = document_of(
            {"type": "bounded", "mechanism": mechanism, "featurizer": "SELECT x, g FROM p.t"}, _MIXED
        )
        draws = [_sent(document, row) for row in (HERE, THERE)]
        made.append(Audited(f"bounded, {mechanism}", 1.0, 0.0, REPLACE, draws[0], draws[1], draws=60_000))
    return made


def _seen(look: Look, document: Any, row: dict[str, Any]) -> list[float]:
    return look(released(document, row))


def broken() -> list[Case]:
    """Every column of a row with the whole epsilon, as the thesis has it."""
    document = document_of({"type": "bounded", "epsilon": 2.0, "featurizer": "SELECT x, g FROM p.t"}, _MIXED)
    draws = [_sent(document, row) for row in (HERE, THERE)]
    name = "bounded, the whole epsilon for each of two columns"
    return [Audited(name, 1.0, 0.0, REPLACE, draws[0], draws[1], positive_control=True, draws=60_000)]


def document_of(fields: dict[str, Any], bounds: dict[str, Any]) -> Any:
    return registry.check({"epsilon": 1.0, "min_count": 5, "bounds": bounds, **fields})


def rows_of(document: Any, people: list[dict[str, Any]]) -> Rows:
    return Rows.one_each({name: np.array([person[name] for person in people]) for name in document.bounds})


def released(document: Any, own: dict[str, Any], randomness: Randomness = FAST) -> Release:
    """Release what everybody is told of the four and the fifth."""
    everybody = [*OTHERS, own]
    aggregator: Any = registry.aggregator(document, Setting(unit=Unit.PERSON, randomness=randomness, simulated=True))
    aggregator.expect(len(everybody))
    ask = aggregator.ask("somebody")
    assert isinstance(ask, Ask)
    owner = registry.owner(document, simulated=True)
    aggregator.accept(owner.contribute(document, ask, rows_of(document, everybody), Purse(), randomness=randomness))
    aggregator.advance(_NOON)
    release: Release = aggregator.release()
    return release


def _sent(document: Any, own: dict[str, Any]) -> Draw:
    """Draw what one person sends, again and again."""
    owner, ask = registry.owner(document), Ask("any", "phase-0", 0, {})

    def draw(n: int) -> NDArray[np.float64]:
        given = owner.contribute(document, ask, rows_of(document, [own] * n), Purse(), randomness=FAST)
        return np.column_stack([_numbers(np.asarray(field)).reshape(n, -1) for field in given.fields.values()])

    return draw


def _numbers(field: NDArray[Any]) -> NDArray[np.float64]:
    if field.dtype.kind in "OUS":
        return np.array([SET["values"].index(value) for value in field.tolist()], dtype=np.float64)
    return field.astype(np.float64)


def _value(release: Release) -> list[float]:
    return [float(release.value)]


def _counts(release: Release) -> list[float]:
    return [float(release.value[value]) for value in SET["values"]]


def _bayes(release: Any) -> list[float]:
    model = release.model
    parts = (model.means_, model.variances_, model.class_prior_)
    return [float(number) for part in parts for number in np.ravel(np.asarray(part, dtype=np.float64))]
