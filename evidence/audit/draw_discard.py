"""The changed model that one owner sends for a draw-discard task, and that who sent the drawn one takes apart again."""

from __future__ import annotations

from typing import Any

import numpy as np

from thebes.data.rows import Rows
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import bulk
from thebes.tasks import registry
from thebes.tasks.protocols import Ask
from thebes.testing.audit import Audited, Case, Draw

EPSILON = 1.0
_RANGE = {"type": "range", "low": 0.0, "high": 1.0}
DOCUMENT = {
    "type": "draw-discard",
    "epsilon": EPSILON,
    "featurizer": "SELECT x, y FROM p.t",
    "family": "linear",
    "inputs": ["x"],
    "output": "y",
    "bounds": {"x": _RANGE, "y": _RANGE},
    "learning_rate": 0.1,
    "clip": 0.5,
}
#: rows whose gradients at the drawn model point opposite ways, both longer than the clip
HERE, THERE = (1.0, 0.0), (1.0, 1.0)
DRAWN = [0.25, 0.25]


def cases() -> list[Case]:
    """Every mechanism by the whole gradient; by weight also both weights together, at twice a weight's epsilon."""
    found: list[Case] = [
        _case(f"draw-discard, {mechanism}", mechanism=mechanism) for mechanism in ("privunit", "laplace-l1")
    ]
    found.append(_case("draw-discard, gaussian", delta=1e-2, mechanism="gaussian"))
    by_weight: dict[str, Any] = {"mechanism": "laplace", "epsilon": None, "epsilon_per_weight": 0.5}
    found.append(_case("draw-discard, laplace by weight: both", **by_weight))
    found.append(_case("draw-discard, laplace by weight: one", claim=0.5, seen=slice(0, 1), **by_weight))
    return found


def broken() -> list[Case]:
    """By weight, what is promised for one weight claimed for the whole model: the seed's reading of its epsilon."""
    by_weight: dict[str, Any] = {"mechanism": "laplace", "epsilon": None, "epsilon_per_weight": 2 * EPSILON}
    name = "draw-discard, a weight's epsilon claimed for all"
    return [_case(name, claim=2 * EPSILON, positive_control=True, **by_weight)]


def _case(
    name: str, *, claim: float = EPSILON, seen: slice = slice(None), positive_control: bool = False, **more: Any
) -> Audited:
    document: Any = registry.check({n: v for n, v in {**DOCUMENT, **more}.items() if v is not None})
    return Audited(
        name,
        claim,
        document.delta,
        Adjacency.REPLACE_ONE,
        _drawn(document, HERE, seen),
        _drawn(document, THERE, seen),
        draws=240_000 if positive_control else 60_000,
        positive_control=positive_control,
    )


def _drawn(document: Any, row: tuple[float, float], seen: slice) -> Draw:
    owner, randomness = registry.owner(document), bulk()
    ask = Ask("a", "phase-0", 0, {"weights": DRAWN, "version": 0, "lane": 0})

    def draw(n: int) -> np.ndarray:
        given = owner.contribute(document, ask, rows_of(row, n), _Paid(), randomness=randomness)
        return np.asarray(given.fields["weights"], dtype=np.float64)[:, seen]

    return draw


def rows_of(row: tuple[float, float], people: int) -> Rows:
    """So many people who all have this row."""
    return Rows.one_each({"x": np.full(people, row[0]), "y": np.full(people, row[1])})


class _Paid:
    def consume(self, *, epsilon: Any, delta: Any = 0) -> None:
        return None
