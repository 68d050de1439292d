"""The tests of whether a model is good enough, said with a stated confidence although both the test rows and the noise
are chance.

What must stay true: whatever hides one unit in the sums is drawn from `epsilon` or from `rho`, and ACCEPT or REJECT is
wrong with probability at most `eta`: one part of it pays for the rows (`privacy.quality`), the others for each noise.

Sage noises the sum of losses and the number of rows apart, each with half of epsilon. Here a row hands out one unit to
two cells, its loss to `lost` and the rest to `kept`: together they are no more sensitive than a histogram, so both are
noised with the whole epsilon (`moments.BernsteinSums`), and each bound is worst at one end of each cell. In L2 they are
no more sensitive either, so that Gaussian noise of a whole rho serves as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy import exact, quality
from thebes.privacy.events import Event
from thebes.privacy.faults import Mistake
from thebes.privacy.grid import Grid
from thebes.privacy.losses import Concentrated, Pure
from thebes.privacy.measurement import Floats
from thebes.privacy.mechanisms.additive import Additive
from thebes.privacy.mechanisms.concentrated import noise_of, quieter
from thebes.privacy.randomness import Randomness, system
from thebes.privacy.stability import Change, Sensitivity, change_of
from thebes.privacy.transformations.moments import BernsteinSums

BITS = 20  #: a loss is rounded up to a multiple of 2^-BITS of the largest
#: parts of the chance of error, for the rows and for each cell's noise; the kept ones are many and bear more of it
_TWO, _THREE = (0.5, 0.45, 0.05), (0.5, 0.05, 0.2, 0.25)


class Verdict(StrEnum):
    """The verdict that is given of an attempt. Only RETRY goes on: with more data or more budget."""

    ACCEPT = "ACCEPT"  #: the target is met; the model may be published
    REJECT = "REJECT"  #: no model of its kind meets the target, with whatever data and budget
    RETRY = "RETRY"  #: these rows and this budget cannot tell
    TIMEOUT = "TIMEOUT"  #: it was tried as long as its owner wanted


@dataclass(frozen=True, slots=True)
class Validation:
    """The finding of a test. `value` is the noisy metric, `bound` what the metric over everybody is no worse than (with
    probability 1 - eta), `rows` the noisy number of test rows. `clipped` is the largest loss one row may have: the
    promise is about losses cut there. The test's rows paid `epsilon` or, for Gaussian noise, `rho`."""

    metric: str
    target: float
    verdict: Verdict
    value: float | None
    bound: float | None
    eta: float
    epsilon: Decimal | None
    delta: Decimal = Decimal(0)
    rho: Decimal | None = None
    rows: float | None = None
    method: str = ""
    clipped: float | None = None
    events: tuple[Event, ...] = field(default=(), repr=False)

    def as_json(self) -> dict[str, Any]:
        told = {
            "metric": self.metric,
            "target": self.target,
            "verdict": str(self.verdict),
            "value": self.value,
            "bound": self.bound,
            "eta": self.eta,
            "epsilon": None if self.epsilon is None else float(self.epsilon),
            "delta": float(self.delta) if self.rho is None else None,
            "rho": None if self.rho is None else float(self.rho),
            "rows": self.rows,
            "method": self.method,
            "clipped": self.clipped,
        }
        return {name: value for name, value in told.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Best:
    """The least that any model of a class loses in all on `rows` rows, each row's loss between 0 and the largest for
    every one of them (misses, for accuracy).

    One row more lets the least total rise by no more than one row can lose, and never lets it fall; so (total, rows
    less total) is as sensitive as a histogram. For a convex class that is its empirical minimum. Outputs may be rounded
    to steps of 2^-BITS of their range.
    """

    total: Fraction | float
    rows: int


@dataclass(frozen=True, slots=True)
class Metric:
    """A quality that one row's prediction has: its loss (or whether it is right), and its largest."""

    name: str
    losses: Callable[[Floats, Floats], Floats]  #: (truth, predicted) -> one number a row
    largest: float | None  #: None: follows from the range of the output
    higher: bool = False  #: whether more is better: values are then 1 where right and 0 where wrong


def _log_loss(truth: Floats, predicted: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(-np.log(np.where(truth > 0.5, predicted, 1 - predicted)))


def _right(truth: Floats, predicted: Floats) -> Floats:
    said = np.isfinite(predicted)  # nothing is right about what is no number
    return np.asarray(said & ((predicted > 0.5) == (truth > 0.5)), dtype=np.float64)


METRICS: dict[str, Metric] = {
    one.name: one
    for one in (
        Metric("mse", lambda truth, predicted: np.asarray((truth - predicted) ** 2), None),
        Metric("mae", lambda truth, predicted: np.asarray(np.abs(truth - predicted)), None),
        Metric("log_loss", _log_loss, math.log(20)),
        Metric("accuracy", _right, 1.0, higher=True),
    )
}

#: how the mean over everybody is bounded from the rows seen
METHODS = ("bernstein", "chernoff", "binomial", "empirical")


def is_met(metric: str, value: float, target: float) -> bool:
    """Return whether `value` is at least as good as `target`."""
    return value >= target if _higher(metric) else value <= target


def validate(
    metric: str,
    target: float,
    values: ArrayLike | Iterable[ArrayLike],
    *,
    epsilon: exact.Number,
    rho: Decimal = Decimal(0),
    eta: float,
    change: Change | str,
    largest: float = 1.0,
    method: str | None = None,
    best: Best | None = None,
    randomness: Randomness | None = None,
) -> Validation:
    """Test a model by its rows' losses in [0, `largest`], or by whether each is right (metric "accuracy").

    ACCEPT: the metric over everybody meets `target`, except with probability `eta`. `values` is one array or several
    in turn; losses beyond the largest are cut there, and a loss that is no number counts as the largest. Models and
    target must not depend on the test rows. REJECT needs `best`: it is said where even the best model of the class,
    over everybody, misses the target. Then ACCEPT and REJECT each have half of eta and half of epsilon. With a `rho`
    the noise is Gaussian, of that price instead of epsilon's, wherever that is quieter.

    `method`: "chernoff" (default; never above "bernstein", `privacy.quality`), "bernstein" (Sage's, corrected),
    "empirical" (better where few rows have large losses); accuracy: "binomial" (default; exact). Rows of one unit may
    depend on each other: a unit of up to m rows (`change`) is taken as one of n / m draws, which only "bernstein"
    bears, and is then the default.
    """
    hiding, failing, price = change_of(change), _failing(eta), exact.epsilon(epsilon)
    higher = _higher(metric)
    if not _positive(largest):
        raise Mistake("largest", "must be a finite number greater than 0")
    if higher and largest != 1:
        raise Mistake("largest", "of accuracy is 1")
    if isinstance(target, bool) or not isinstance(target, (int, float)) or not math.isfinite(target):
        raise Mistake("target", "must be a finite number")
    if higher and not 0 <= target <= 1:
        raise Mistake("target", "of accuracy must lie between 0 and 1")
    way = _method(method, higher, hiding)
    chance = randomness or system()
    if best is not None:
        failing, price, rho = failing / 2, price / 2, rho / 2
    least = 1 - target if higher else target / largest  # as a mean of losses in [0, 1]
    cells = _cells(values, largest, higher, degree=2 if way == "empirical" else 1)
    paid = quieter(price, rho)
    noise = noise_of(paid).noise(cells.sensitivity(hiding))
    found = noise.add(cells.totals, chance) / cells.steps
    most = at_most(found, noise, cells.steps, failing, method=way, rows_of_a_unit=hiding.rows)
    rows = float(found.sum())
    lost = found[1] if len(found) == 2 else found[1] / 2 + found[2]
    mean = min(max(float(lost) / max(rows, 1.0), 0.0), 1.0)
    verdict = Verdict.ACCEPT if most <= least else Verdict.RETRY
    events: tuple[Event, ...] = (noise.event,)
    if best is not None:
        floor, event = _floor(best, largest, paid, failing, hiding, higher, chance)
        events = (*events, event)
        if verdict is Verdict.RETRY and floor > least:
            verdict = Verdict.REJECT
    return Validation(
        metric=metric,
        target=float(target),
        verdict=verdict,
        value=1 - mean if higher else mean * largest,
        bound=1 - most if higher else most * largest,
        eta=float(eta),
        epsilon=exact.epsilon(epsilon) if isinstance(paid, Pure) else None,
        rho=None if isinstance(paid, Pure) else paid.rho * (1 if best is None else 2),
        rows=rows,
        method=way,
        clipped=None if higher else float(largest),
        events=events,
    )


def at_most(
    found: Floats, noise: Additive, steps: int, failing: float, *, method: str, rows_of_a_unit: int = 1
) -> float:
    """Return what the mean loss over everybody is no more than, except with probability `failing`, read off noisy
    cells: (kept, lost) or, for "empirical", the sums of (1-x)^2, 2x(1-x) and x^2. `steps` of the noise's totals make a
    row."""
    high, low = _reach(noise, steps)
    if method == "empirical":
        by_rows, kept, mixed, squared = (failing * part for part in _THREE)
        return quality.empirical(high(found[2], squared), high(found[1], mixed), low(found[0], kept), by_rows)
    by_rows, lost, kept = (failing * part for part in _TWO)
    bound: quality.Bound = getattr(quality, method)
    return bound(high(found[1], lost) / rows_of_a_unit, low(found[0], kept) / rows_of_a_unit, by_rows)


def absolute(
    metric: str,
    target: float,
    noise: Callable[[float], ArrayLike],
    *,
    eta: float,
    rows: Callable[[float], ArrayLike] | None = None,
    reach: float = 0.0,
    best_noise: Callable[[float], ArrayLike] | None = None,
) -> Validation:
    """Test whether every one of the statistics that were released is within `target` of the truth.

    `noise(failing)` is how far each released number may lie from that of the rows, except with probability `failing`;
    `rows(failing)` at least how many rows each was computed over, in a range of length `reach`: then the truth is the
    mean over everybody (Hoeffding), else that of the rows themselves. k statistics share eta evenly. Everything here
    is known without a look at the rows, or was paid for with the statistics. REJECT: `best_noise`, what the whole
    budget would give, misses the target already; more rows help a mean but never a sum.
    """
    failing = _failing(eta)
    if not _positive(target):
        raise Mistake("target", "must be a finite number greater than 0")
    count = np.atleast_1d(np.asarray(noise(failing), dtype=np.float64)).size
    each = failing / count / (1 if rows is None else 3)  # each number's noise, its number of rows, its rows
    off = np.atleast_1d(np.asarray(noise(each), dtype=np.float64))
    if rows is not None:
        least = np.broadcast_to(np.asarray(rows(each), dtype=np.float64), off.shape)
        off = off + reach * np.array([quality.hoeffding(float(n), each) for n in least])
    worst = float(off.max())
    verdict = Verdict.ACCEPT if worst <= target else Verdict.RETRY
    if verdict is Verdict.RETRY and rows is None and best_noise is not None:
        least_noise = np.asarray(best_noise(each), dtype=np.float64)
        verdict = Verdict.REJECT if float(least_noise.max()) > target else verdict
    bound = worst if math.isfinite(worst) else None
    return Validation(metric, float(target), verdict, None, bound, float(eta), Decimal(0), method="noise alone")


def together(found: Mapping[str, Validation] | Iterable[Validation]) -> Verdict:
    """One verdict of several metrics: ACCEPT where all accept, REJECT where any rejects.

    A model that misses one of its targets is accepted only if that target's own test errs, so eta need not be shared
    for ACCEPT. Tests that may REJECT share it: give each its part.
    """
    verdicts = [one.verdict for one in (found.values() if isinstance(found, Mapping) else found)]
    if not verdicts:
        raise Mistake("targets", "needs at least one metric")
    if Verdict.REJECT in verdicts:
        return Verdict.REJECT
    return Verdict.ACCEPT if all(one is Verdict.ACCEPT for one in verdicts) else Verdict.RETRY


# --- inside ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Cells:
    """Exact totals in steps: (kept, lost), or the sums of (1-x)^2, 2x(1-x) and x^2."""

    totals: NDArray[np.int64]
    steps: int
    sensitive: Callable[[Change], Sensitivity]

    def sensitivity(self, change: Change) -> Sensitivity:
        return self.sensitive(change)


def _cells(values: Any, largest: float, higher: bool, degree: int) -> _Cells:
    sums = BernsteinSums(Grid(0.0, 1.0, BITS), degree)
    totals = np.zeros(degree + 1, dtype=np.int64)
    for part in _parts(values):
        numbers = np.asarray(part)
        if numbers.ndim != 1 or numbers.dtype.kind not in "biuf":
            raise Mistake("values", "must be one number for each row")
        losses = 1 - numbers.astype(np.float64) if higher else numbers.astype(np.float64) / largest
        losses = np.nan_to_num(losses, nan=1.0, posinf=1.0, neginf=0.0)
        # rounded up, so that nobody's loss is told smaller than it is
        totals += sums.total(np.ceil(np.clip(losses, 0.0, 1.0) * sums.grid.steps) / sums.grid.steps)
    return _Cells(totals, sums.grid.steps, sums.sensitivity)


def _parts(values: Any) -> Iterable[Any]:
    """One array, or the arrays that come in turn."""
    if isinstance(values, np.ndarray):
        return (values,)
    parts: Iterable[Any] = values if not isinstance(values, (list, tuple)) or _nested(values) else (np.array(values),)
    return parts


def _nested(values: list[Any] | tuple[Any, ...]) -> bool:
    return not values or isinstance(values[0], (np.ndarray, list, tuple))


def _reach(noise: Additive, steps: int) -> tuple[Callable[[float, float], float], Callable[[float, float], float]]:
    """(highest, lowest) that a cell may have been, except with a chance: the noise is symmetric, so that one side has
    half of what both have."""

    def width(failing: float) -> float:
        return noise.width(1 - 2 * failing) / steps

    return (lambda cell, f: max(0.0, float(cell) + width(f))), (lambda cell, f: max(0.0, float(cell) - width(f)))


def _floor(
    best: Best,
    largest: float,
    paid: Pure | Concentrated,
    failing: float,
    change: Change,
    higher: bool,
    chance: Randomness,
) -> tuple[float, Event]:
    """At least what any model of the class loses over everybody, as a mean of losses in [0, 1]: two steps less than the
    bound, as outputs off by half a step of their range move a square by one of the largest."""
    steps = 1 << BITS
    if not (isinstance(best.rows, int) and best.rows >= 0 and 0 <= best.total <= best.rows * largest):
        raise Mistake("best", "must be a total that its rows can lose")
    if change.rows > 1:
        raise Mistake("best", "goes with rows that are units of their own")
    # Rounded down as a whole: a row more moves the rounded total by 0 to steps, the rest by what is missing to steps.
    lost = math.floor(Fraction(best.total) / Fraction(largest) * steps)
    noise = noise_of(paid).noise(Sensitivity(steps, steps**2, 2).times(change.rows))
    cells = noise.add(np.array([best.rows * steps - lost, lost], dtype=np.int64), chance) / steps
    high, low = _reach(noise, steps)
    by_rows, by_lost, by_kept = (failing * part for part in _TWO)
    bound = quality.binomial_below if higher else quality.chernoff_below
    return bound(low(cells[1], by_lost), high(cells[0], by_kept), by_rows) - 2 / steps, noise.event


def _method(method: str | None, higher: bool, change: Change) -> str:
    way = method or ("bernstein" if change.rows > 1 else "binomial" if higher else "chernoff")
    if way not in METHODS:
        raise Mistake("method", f"must be one of {', '.join(METHODS)}")
    if way == "binomial" and not higher:
        raise Mistake("method", "binomial is for accuracy, where a row is right or wrong")
    if change.rows > 1 and way != "bernstein":
        raise Mistake("method", "must be bernstein where one unit may have several rows")
    return way


def _higher(metric: str) -> bool:
    known = METRICS.get(metric)
    return known is not None and known.higher


def _failing(eta: float) -> float:
    if isinstance(eta, bool) or not isinstance(eta, (int, float)) or not 0 < eta < 0.5:
        raise Mistake("eta", "must be greater than 0 and below one half")
    return float(eta)


def _positive(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf
