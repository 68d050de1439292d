"""Statistics of rows that institutions keep, through the plans that answer them; a person has at most one row."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from evidence.bars.asked import Ask, BarAnswer, Barred, Ends
from evidence.bars.rows import Floats, bounds_of, rows_of, sample_quantiles
from thebes.curator.questions.noise import noise_for
from thebes.curator.questions.plans import Plan
from thebes.curator.questions.question import Question
from thebes.data.engines.source import frame_table
from thebes.data.schema import schema_of
from thebes.privacy.mechanisms.additive import Additive
from thebes.privacy.mechanisms.summed_noise import together
from thebes.privacy.randomness import Randomness

_LEVEL = 0.95
_SMOOTH = ("normal", "lognormal")
_COLUMNS = {"count": (), "correlation": ("x", "y")}


def barred() -> list[Barred]:
    """List every statistic with noise added once, and with that of three sites."""
    quantile: Callable[[Floats], Ends] = partial(sample_quantiles, alpha=0.5)
    asked: list[tuple[str, dict[str, Any], tuple[str, ...], Callable[[Floats], Ends], float]] = [
        ("count", {}, ("normal",), lambda rows: (float(rows.size), float(rows.size)), 1.25),
        ("sum", {}, _SMOOTH, lambda rows: (float(rows.sum()), float(rows.sum())), 1.25),
        ("mean", {}, _SMOOTH, lambda rows: (float(rows.mean()), float(rows.mean())), 1.3),
        ("variance", {}, _SMOOTH, lambda rows: (float(rows.var()), float(rows.var())), 2.5),
        ("correlation", {}, ("normal",), lambda rows: (_together(rows), _together(rows)), 4.0),
        ("quantile", {"quantile": 0.5}, (*_SMOOTH, "two lumps"), quantile, 40.0),
    ]
    return [
        Barred(statistic, way, laws, partial(_asked, statistic, more, sites, delta), exact, tight)
        for statistic, more, laws, exact, tight in asked
        for way, sites, delta in (("rows of a site", 1, 0.0), ("three sites, Gaussian noise", 3, 1e-6))
    ]


def _neighbours(rows: Floats) -> Floats:
    """A second number for each row, the mean of its own and the next one's."""
    return (rows + np.roll(rows, 1)) / 2


def _together(rows: Floats) -> float:
    return float(np.corrcoef(rows, _neighbours(rows))[0, 1])


def _asked(statistic: str, more: dict[str, Any], sites: int, delta: float, law: str, n: int, epsilon: float) -> Ask:
    low, high = bounds_of(law)
    number = {"type": "float", "low": low, "high": high}
    columns = {"who": {"type": "integer", "key": True}, "x": number, "y": number}
    schema = schema_of({"unit": "person", "max_rows_per_unit": 1, "columns": columns})
    question = Question(statistic, _COLUMNS.get(statistic, ("x",)), **more)
    plan = question.plan(schema, epsilon=epsilon, delta=delta)
    frame = pd.DataFrame({"who": np.arange(n), "x": rows_of(law, n), "y": _neighbours(rows_of(law, n))})
    totals = plan.totals(frame_table(schema, frame))
    noise = noise_for(plan, schema, epsilon=epsilon, delta=delta)
    return partial(_answered, plan, totals, noise, sites)


def _answered(plan: Plan, totals: Any, noise: Additive, sites: int, randomness: Randomness) -> BarAnswer:
    noised = sum(noise.add(totals if site == 0 else np.zeros_like(totals), randomness) for site in range(sites))
    found = plan.finish(np.asarray(noised), together([noise] * sites), (_LEVEL,))
    return BarAnswer(float(found.value), found.intervals[_LEVEL])
