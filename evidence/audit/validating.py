"""Validators: all that is told of a test, with one row there or not whose loss is the largest, the least or between."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np

from thebes.curator.pipelines.validators import Best, Validation, validate
from thebes.privacy.losses import Concentrated, concentrated_to_approximate
from thebes.privacy.promise import Adjacency, Unit
from thebes.privacy.randomness import system
from thebes.privacy.stability import Change
from thebes.tasks.audit.case import Audited, Case, Draw, repeatedly

ADD = Adjacency.ADD_REMOVE_ONE
FAST = system()
OTHERS = [0.0, 1.0, 0.5, 0.25]


def cases() -> list[Case]:
    """Every method of bounding, with and without a test that rejects."""
    several = Change(ADD, rows=3, unit=Unit.PERSON)
    tests: list[tuple[str, dict[str, Any], list[float]]] = [
        ("losses", {}, [1.0]),
        ("losses, a middling one", {}, [0.5]),
        ("losses, empirical", {"method": "empirical"}, [0.5]),
        ("losses, three rows of a person", {"change": several}, [1.0, 1.0, 1.0]),
        ("accuracy", {"metric": "accuracy"}, [1.0]),
    ]
    made: list[Case] = [
        Audited(f"validator: {name}", 1.0, 0.0, ADD, _draw(OTHERS, **how), _draw(OTHERS + mine, **how), draws=3000)
        for name, how, mine in tests
    ]
    rho = Decimal("0.5")
    delta = 1e-2
    smooth = float(concentrated_to_approximate(Concentrated(rho), delta).epsilon)
    for name, mine, more in (
        ("losses, in rho", [1.0], {"change": ADD}),
        ("losses, in rho, three rows of a person", [1.0, 1.0, 1.0], {"change": several}),
    ):
        without, beside = (_draw(rows, rho=rho, **more) for rows in (OTHERS, OTHERS + mine))
        made.append(Audited(f"validator: {name}", smooth, delta, ADD, without, beside, draws=6000))
    neighbours = (OTHERS, 1.0), ([*OTHERS, 1.0], 2.0)
    one, other = (_draw(rows, best=Best(total, len(rows))) for rows, total in neighbours)
    made.append(Audited("validator: losses, and the least of a class", 1.0, 0.0, ADD, one, other, draws=3000))
    return made


def broken() -> list[Case]:
    """The sum of losses and the number of rows, each noised as if the other were not told."""

    def draw(losses: list[float]) -> Draw:
        exact = np.array([sum(losses), len(losses)])
        return lambda n: exact + np.random.default_rng().laplace(scale=1.0, size=(n, 2))

    pair = draw(OTHERS), draw([*OTHERS, 1.0])
    return [
        Audited("validator: sum and number, the whole epsilon for each", 1.0, 0.0, ADD, *pair, True, draws=1_000_000)
    ]


def _draw(rows: list[float], metric: str = "mse", change: Any = ADD, **more: Any) -> Draw:
    def told() -> list[float]:
        asked = {"epsilon": 0.1 if "rho" in more else 1.0, "eta": 0.1, "change": change, "randomness": FAST, **more}
        return _numbers(validate(metric, 0.6, np.array(rows), **asked))

    return repeatedly(told)


def _numbers(found: Validation) -> list[float]:
    rows, value, bound = found.rows or 0.0, found.value or 0.0, found.bound or 0.0
    return [rows, value, rows * value, bound, float(len(str(found.verdict)))]
