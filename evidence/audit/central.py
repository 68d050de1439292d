"""Mechanisms of somebody who holds many people's rows: additive noise, and choices by the exponential mechanism."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.accounting.gaussian import ratio_for
from thebes.privacy.measurement import Measurement
from thebes.privacy.mechanisms.additive import Additive, Gaussian, Laplace
from thebes.privacy.mechanisms.bounds import Bounds, estimate_bounds
from thebes.privacy.mechanisms.correlation import correlation
from thebes.privacy.mechanisms.count import count
from thebes.privacy.mechanisms.estimated_range import EstimatedRange, estimate_range, rows_outside
from thebes.privacy.mechanisms.exponential import exponential
from thebes.privacy.mechanisms.histogram import by_key, histogram, histogram_of_unknown_keys
from thebes.privacy.mechanisms.ladder import Ladder
from thebes.privacy.mechanisms.mean import mean
from thebes.privacy.mechanisms.quantile import iqr, median, quantile, quantiles
from thebes.privacy.mechanisms.sample_aggregate import sample_and_aggregate
from thebes.privacy.mechanisms.sparse_vector import AboveThreshold, first_above
from thebes.privacy.mechanisms.sum import sum_
from thebes.privacy.mechanisms.variance import std, variance
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Randomness, system
from thebes.privacy.samplers import LARGEST_SCALE
from thebes.privacy.stability import Change, Sensitivity, change_of
from thebes.privacy.transformations.sums import VectorSum
from thebes.tasks.audit.case import Audited, Case, Draw, Written, repeatedly

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE_ONE
BOUNDS = (0.0, 10.0)
FAST = system()

Rows = list[float]
Release = Callable[[Rows, Adjacency], Measurement]

#: Rows in the low half of the range; the last of them is exchanged for the highest value, or taken away.
LOW: Rows = [0.0, 0.0, 1.0, 2.0, 0.0]
HIGH: Rows = [0.0, 0.0, 1.0, 2.0, 10.0]


def _neighbours(adjacency: Adjacency) -> tuple[Rows, Rows]:
    return (LOW, HIGH) if adjacency is REPLACE else (HIGH[:-1], HIGH)


def _released(release: Release, adjacency: Adjacency, rows: Rows, look: Callable[[Measurement], Any]) -> Draw:
    return repeatedly(lambda: look(release(rows, adjacency)))


def _extreme(adjacency: Adjacency) -> tuple[Rows, Rows]:
    return ([0.0, 0.0, 0.0] if adjacency is REPLACE else [0.0, 0.0]), [0.0, 0.0, 10.0]


def _value(measured: Measurement) -> Any:
    return measured.value


def _case(
    name: str,
    release: Release,
    *,
    epsilon: float = 1.0,
    delta: float = 0.0,
    adjacencies: tuple[Adjacency, ...] = (REPLACE, ADD),
    neighbours: Callable[[Adjacency], tuple[Rows, Rows]] = _neighbours,
    look: Callable[[Measurement], Any] = _value,
    draws: int = 3000,
) -> list[Case]:
    cases: list[Case] = []
    for adjacency in adjacencies:
        a, b = neighbours(adjacency)
        draw_a, draw_b = (_released(release, adjacency, rows, look) for rows in (a, b))
        cases.append(Audited(name, epsilon, delta, adjacency, draw_a, draw_b, draws=draws))
    return cases


def cases() -> list[Case]:
    """All of this room."""
    return [*_noise(), *_statistics(), *_ordered(), *_selections(), *_questions()]


# --- noise itself, many draws at once ---


def _noise() -> list[Case]:
    one, far = Sensitivity(1, 1), Sensitivity(1000, 1_000_000)

    def additive(noise: Any, sensitivity: Sensitivity, distance: int) -> Draw:
        drawn = noise.noise(sensitivity)
        return lambda n: drawn.add(np.full(n, distance, dtype=np.int64), FAST)

    made: list[Case] = []
    for label, noise, delta in (
        ("Laplace", Laplace(1), 0.0),
        ("Gaussian", Gaussian(1, 1e-3), 1e-3),
        ("Gaussian, large epsilon", Gaussian(4, 1e-3), 1e-3),
    ):
        for sensitivity in (one, far):
            draw_a, draw_b = (additive(noise, sensitivity, d) for d in (0, sensitivity.l1))
            title = f"{label} noise on {sensitivity.l1} step{'s' * (sensitivity.l1 > 1)}"
            made.append(Audited(title, float(noise.epsilon), delta, ADD, draw_a, draw_b, draws=100_000))
    return [*made, *_outermost()]


def _outermost() -> list[Case]:
    """The samplers alone, at the largest scale they take and at the least whose noise samples can show, with the two
    answers as far apart as a loss of `epsilon` allows (for Gaussian noise with delta 1e-3)."""

    def sampled(gaussian: bool, scale: float, distance: int) -> Draw:
        draw = FAST.gaussian if gaussian else FAST.laplace
        return lambda n: draw(np.full(n, distance, dtype=np.int64), scale=scale)

    made: list[Case] = []
    for gaussian, size, scale, epsilon, distance in (
        (False, "largest", LARGEST_SCALE, 1.0, int(LARGEST_SCALE)),
        (False, "least", 0.25, 4.0, 1),
        (True, "largest", LARGEST_SCALE, 1.0, int(LARGEST_SCALE / ratio_for(1.0, 1e-3))),
        (True, "least", 0.5, 8.0, 1),
    ):
        delta = 1e-3 if gaussian else 0.0
        label = f"{'Gaussian' if gaussian else 'Laplace'} sampler, {size} scale"
        draw_a, draw_b = (sampled(gaussian, scale, d) for d in (0, distance))
        made.append(Audited(label, epsilon, delta, ADD, draw_a, draw_b, draws=100_000))
    return made


# --- statistics ---


def _statistics() -> list[Case]:
    options: dict[str, Any] = {"bounds": BOUNDS, "epsilon": 1, "randomness": FAST}
    smooth: dict[str, Any] = {**options, "delta": 1e-2}
    known: dict[str, Any] = {"keys": (0.0, 1.0, 2.0, 10.0), "epsilon": 1, "randomness": FAST}
    return [
        *_case("count", lambda x, a: count([v > 5 for v in x], epsilon=1, adjacency=a, randomness=FAST)),
        *_case(
            "count with delta",
            lambda x, a: count([v > 5 for v in x], epsilon=3, delta=1e-2, adjacency=a, randomness=FAST),
            epsilon=3.0,
            delta=1e-2,
        ),
        *_case("sum", lambda x, a: sum_(x, adjacency=a, **options)),
        *_case("sum with delta", lambda x, a: sum_(x, adjacency=a, **smooth), delta=1e-2),
        *_case("mean", lambda x, a: mean(x, adjacency=a, **options)),
        *_case("mean, rows public", lambda x, a: mean(x, adjacency=a, n=5, **options), adjacencies=(REPLACE,)),
        *_case("variance", lambda x, a: variance(x, adjacency=a, **options)),
        *_case("variance, rows public", lambda x, a: variance(x, adjacency=a, n=5, **options), adjacencies=(REPLACE,)),
        *_case("standard deviation", lambda x, a: std(x, adjacency=a, **options)),
        *_case("histogram", lambda x, a: histogram(x, adjacency=a, **known)),
        *_case("histogram with delta", lambda x, a: histogram(x, adjacency=a, delta=1e-2, **known), delta=1e-2),
        *_case(
            "histogram of unknown keys",
            lambda x, a: histogram_of_unknown_keys(
                [str(v) for v in x], epsilon=2, delta=1e-2, adjacency=a, randomness=FAST
            ),
            epsilon=2.0,
            delta=1e-2,
            neighbours=lambda a: ([0.0] * 4 + [1.0] * (a is REPLACE), [0.0] * 5),
            look=lambda m: [by_key(m).get(key, -1.0) for key in ("0.0", "1.0", "10.0")],
        ),
        *(
            case
            for norm, noise, delta in ((1, Laplace(1), 0.0), (2, Gaussian(1, 1e-2), 1e-2))
            for case in _case(f"vector sum, L{norm}", partial(_vector, norm, noise), delta=delta)
        ),
        *_case(
            "sample and aggregate",
            lambda x, a: sample_and_aggregate(
                x, function="mean", blocks=3, bounds=BOUNDS, epsilon=3, adjacency=a, randomness=FAST, bits=2
            ),
            epsilon=3.0,
            neighbours=_extreme,
            draws=2000,
        ),
        *_correlations(),
    ]


def _correlations() -> list[Case]:
    made: list[Case] = []
    for adjacency in (ADD, REPLACE):
        others = [(0.0, 0.0), (0.0, 10.0)]
        rows = others + [(0.0, 10.0)] * (adjacency is REPLACE), [*others, (10.0, 0.0)]
        draws = [repeatedly(partial(_correlated, each, adjacency)) for each in rows]
        made.append(Audited("correlation", 1.0, 0.0, adjacency, draws[0], draws[1], draws=2000))
    return made


def _correlated(rows: list[tuple[float, float]], adjacency: Adjacency) -> float:
    x, y = zip(*rows, strict=True)
    measured = correlation(
        x, y, bounds=(0, 10), other_bounds=(0, 10), epsilon=1, adjacency=adjacency, bits=4, randomness=FAST
    )
    return float(measured.value)


def _vector(norm: int, noise: Any, x: Rows, adjacency: Adjacency) -> Measurement:
    rows = [[v / 5 - 1, 0.0, 0.0] for v in x]  # from one end of the ball to the other
    made: Measurement = (VectorSum(1.0, norm, 3, bits=10) >> noise)(rows, adjacency=adjacency, randomness=FAST)
    return made


# --- order statistics and bounds ---


def _ordered() -> list[Case]:
    options: dict[str, Any] = {"bounds": BOUNDS, "epsilon": 3, "randomness": FAST, "bits": 2}
    return [
        *_case("median", lambda x, a: median(x, adjacency=a, **options), epsilon=3.0, neighbours=_extreme),
        *_case(
            "median with an interval",
            lambda x, a: median(x, adjacency=a, level=0.9, **options),
            epsilon=3.0,
            neighbours=_extreme,
            look=lambda m: [m.value, *_ends(m)],
        ),
        *_case(
            "median with an interval, rows public",
            lambda x, a: median(x, adjacency=a, level=0.9, n=3, **options),
            epsilon=3.0,
            neighbours=_extreme,
            adjacencies=(REPLACE,),
            look=lambda m: [m.value, *_ends(m)],
        ),
        *_case(
            "interquartile range",
            lambda x, a: iqr(x, adjacency=a, level=0.9, **options),
            epsilon=3.0,
            neighbours=_extreme,
            look=lambda m: [m.value, *_ends(m)],
            draws=2000,
        ),
        *_ladders(),
        *_case(
            "quantile", lambda x, a: quantile(x, alpha="0.9", adjacency=a, **options), epsilon=3.0, neighbours=_extreme
        ),
        *_case(
            "quantiles",
            lambda x, a: quantiles(x, alphas=["0.25", "0.75"], adjacency=a, **options),
            epsilon=3.0,
            neighbours=_extreme,
            draws=2000,
        ),
        *_case(
            "bounds",
            lambda x, a: estimate_bounds(
                x, epsilon=3, adjacency=a, randomness=FAST, false_positive=0.5, lowest=_LOWEST_POWER
            ),
            epsilon=3.0,
            neighbours=lambda a: ([4.0] * 4, [4.0] * 3 + [1e300]) if a is REPLACE else ([4.0], [4.0] * 2),
            look=_bounds,
            draws=2000,
        ),
        *_case(
            "range taken outward",
            lambda x, a: estimate_range(
                x, epsilon=4, adjacency=a, randomness=FAST, false_positive=0.5, lowest=_LOWEST_POWER
            ),
            epsilon=4.0,
            neighbours=lambda a: ([4.0] * 7, [4.0] * 6 + [1e304]) if a is REPLACE else ([4.0] * 5, [4.0] * 5 + [1e304]),
            look=_outward,
            draws=2000,
        ),
        *_outside(),
    ]


def _outside() -> list[Case]:
    """The rows outside a range with the noise itself, where the row that differs goes out of it, or comes there."""
    made: list[Case] = []
    for name, change, public in (
        ("replaced, rows public", change_of(REPLACE, public_size=True), True),
        ("replaced, rows private", change_of(REPLACE), False),
        ("one more", change_of(ADD), False),
    ):
        runs = [
            partial(_counted_outside, rows, change, public)
            for rows in (([5.0] if change.adjacency is REPLACE else []), [50.0])
        ]
        made.append(
            Written(f"drawn: rows outside a range, {name}", 1.0, 0.0, change.adjacency, runs[0], runs[1], used=0.99)
        )
    return made


def _counted_outside(last: Rows, change: Change, public: bool, randomness: Randomness) -> None:
    rows = np.array([1.0, 4.0, *last])
    rows_outside(rows, Bounds(*BOUNDS), epsilon=Decimal(1), change=change, public=public, randomness=randomness)


def _ladders() -> list[Case]:
    """The counts about a median with the noise itself, where the row that differs lies on the other side of it."""
    made: list[Case] = []
    for adjacency in (REPLACE, ADD):
        bars = Ladder(8, 16, 0.5, 0.95)
        noise = Laplace(1).noise(bars.counts.sensitivity(change_of(adjacency)))
        runs = [partial(_laddered, bars, noise, _extreme(adjacency)[i]) for i in (0, 1)]
        made.append(Written("drawn: counts about a median", 1.0, 0.0, adjacency, runs[0], runs[1], used=0.99))
    return made


def _laddered(bars: Ladder, noise: Additive, rows: Rows, randomness: Randomness) -> None:
    bars.interval(np.sort(np.array(rows, dtype=np.int64)), noise, randomness, None)


def _ends(measured: Measurement) -> list[float]:
    interval = measured.interval(0.9)
    return [0.0, 0.0] if interval is None else [float(interval.low), float(interval.high)]


_LOWEST_POWER = 1000  # few bins, so that the odds of each outcome are large enough to be counted


def _bounds(measured: Measurement) -> NDArray[np.float64]:
    found = measured.value
    if not isinstance(found, Bounds):
        return np.array([-2.0, -2.0])
    return np.array([math.copysign(math.log2(max(1.0, abs(v))), v) for v in (found.low, found.high)])


def _outward(measured: Measurement) -> NDArray[np.float64]:
    """The range that was found, and the noisy rows outside; -2 and no rows where nothing was seen."""
    found = measured.value
    if not isinstance(found, EstimatedRange):
        return np.array([-2.0, -2.0, 0.0])
    ends = (found.bounds.low, found.bounds.high)
    return np.array([*(math.copysign(math.log2(max(1.0, abs(v))), v) for v in ends), found.cells[0]])


# --- choices ---


def _selections() -> list[Case]:
    #: Three candidates' counts; one unit moves its vote, or a vote appears.
    def votes(adjacency: Adjacency) -> tuple[Rows, Rows]:
        return ([3.0, 2.0, 2.0], [2.0, 3.0, 2.0]) if adjacency is REPLACE else ([2.0, 2.0, 2.0], [3.0, 2.0, 2.0])

    def whole(counts: Rows) -> list[int]:
        return [int(c) for c in counts]

    options: dict[str, Any] = {"epsilon": 2, "randomness": FAST}
    return [
        *_case(
            "exponential mechanism",
            lambda x, a: exponential(whole(x), sensitivity=1, adjacency=a, **options),
            epsilon=2.0,
            neighbours=votes,
        ),
        *_case(
            "exponential mechanism, monotone",
            lambda x, a: exponential(whole(x), sensitivity=1, adjacency=a, monotone=True, **options),
            epsilon=2.0,
            neighbours=votes,
            adjacencies=(ADD,),
        ),
    ]


# --- questions one after another ---


def _questions() -> list[Case]:
    def counts(adjacency: Adjacency) -> tuple[Rows, Rows]:
        return ([1.0, 0.0, 0.0], [0.0, 1.0, 1.0]) if adjacency is REPLACE else ([0.0, 0.0, 0.0], [0.0, 1.0, 1.0])

    def first(x: Rows, adjacency: Adjacency, monotone: bool = False) -> Measurement:
        return first_above(
            [int(c) for c in x],
            threshold=1,
            epsilon=2,
            sensitivity=1,
            adjacency=adjacency,
            randomness=FAST,
            monotone=monotone,
        )

    def twice(x: Rows, adjacency: Adjacency) -> list[float]:
        gate = AboveThreshold(1, epsilon=1, sensitivity=1, adjacency=adjacency, randomness=FAST)
        answers = []
        for c in [*x, *x]:
            if not gate.open:
                if gate.openings == 2:
                    break
                gate.reopen()
            answers.append(float(gate.above(int(c))))
        return answers + [-1.0] * (6 - len(answers))

    def place(measured: Measurement) -> float:
        return -1.0 if measured.value is None else float(measured.value)

    made = [
        *_case("sparse vector", first, epsilon=2.0, neighbours=counts, look=place),
        *_case(
            "sparse vector, monotone",
            lambda x, a: first(x, a, True),
            epsilon=2.0,
            neighbours=counts,
            look=place,
            adjacencies=(ADD,),
        ),
    ]
    for adjacency in (REPLACE, ADD):
        draw_a, draw_b = (repeatedly(partial(twice, rows, adjacency)) for rows in counts(adjacency))
        made.append(Audited("sparse vector, opened twice", 2.0, 0.0, adjacency, draw_a, draw_b, draws=1500))
    return made
