"""The audit's rows of models that are drawn and discarded: the changed model that one owner sends, and that who sent
the drawn one takes apart again."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from thebes.privacy.promise import Adjacency
from thebes.tasks.audit.case import Audited, Case
from thebes.tasks.audit.people import sent
from thebes.tasks.contributions import Contributions
from thebes.tasks.draw_discard.kind import KIND
from thebes.tasks.protocols import Ask

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
HERE, THERE = {"x": 1.0, "y": 0.0}, {"x": 1.0, "y": 1.0}
DRAWN = [0.25, 0.25]


def cases() -> list[Case]:
    """List every mechanism by the whole gradient; by weight also both weights together, at twice a weight's epsilon.
    What is promised for one weight claimed for the whole model, the seed's reading of its epsilon, must be caught."""
    by_weight: dict[str, Any] = {"mechanism": "laplace", "epsilon": None, "epsilon_per_weight": 0.5}
    twice: dict[str, Any] = {**by_weight, "epsilon_per_weight": 2 * EPSILON}
    careless = "draw-discard, a weight's epsilon claimed for all"
    return [
        _row("draw-discard, privunit", mechanism="privunit"),
        _row("draw-discard, laplace-l1", mechanism="laplace-l1"),
        _row("draw-discard, gaussian", delta=1e-2, mechanism="gaussian"),
        _row("draw-discard, laplace by weight: both", **by_weight),
        _row("draw-discard, laplace by weight: one", claim=0.5, seen=slice(0, 1), **by_weight),
        _row(careless, claim=2 * EPSILON, positive_control=True, **twice),
    ]


def _row(
    name: str, *, claim: float = EPSILON, seen: slice = slice(None), positive_control: bool = False, **more: Any
) -> Audited:
    document = KIND.check({n: v for n, v in {**DOCUMENT, **more}.items() if v is not None})
    ask = Ask("a", "phase-0", 0, {"weights": DRAWN, "version": 0, "lane": 0})

    def look(given: Contributions) -> NDArray[Any]:
        return given.fields["weights"][:, seen]

    one, other = (sent(document, own, asks=[ask], look=look) for own in (HERE, THERE))
    draws = 240_000 if positive_control else 60_000
    return Audited(name, claim, document.delta, Adjacency.REPLACE_ONE, one, other, positive_control, draws)
