"""The shape of every local mechanism: an owner perturbs, a server that trusts nobody checks and estimates.

Local promises hold for each report alone and hide any exchange of its owner's value (replace-one); that somebody
took part is not hidden. Nothing here ever sees two owners' values on the owner's side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy.distributions import normal_cdf, normal_quantile, student_quantile
from thebes.privacy.events import ApproximateEvent, Event, PureEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.guarantees import Guarantee
from thebes.privacy.losses import Approximate, Pure
from thebes.privacy.measurement import Interval
from thebes.privacy.promise import Adjacency, Unit
from thebes.privacy.randomness import Randomness

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimate that many reports give together, with the error that their noise leaves.

    `value` is unbiased. `standard_error` and `interval` speak of noise: how far `value` may lie from the same figure
    over the contributors' true values, each coordinate by itself, by the normal approximation (some hundreds of
    reports). How well the contributors stand for anybody else is not claimed.
    """

    value: Floats
    standard_error: Floats
    contributors: int
    _within: Callable[[float], tuple[Floats, Floats]] = field(repr=False, compare=False)

    def interval(self, level: float = 0.95) -> Interval:
        """Return where each true figure lies with probability about `level`."""
        if not 0 < level < 1:
            raise Mistake("level", "must lie between 0 and 1")
        low, high = self._within(float(normal_quantile((1 + level) / 2)))
        return Interval(level, low, high)


def about(value: Floats, error: Floats, contributors: int) -> Estimate:
    """An estimate whose error was read off the scatter of the reports themselves.

    Its interval is Student's, as the scatter of few is uncertain: as surely as the normal z holds, with n - 1 degrees
    of freedom.
    """

    def within(z: float) -> tuple[Floats, Floats]:
        reach = -student_quantile(max(contributors - 1, 1), normal_cdf(-z)) * error
        return value - reach, value + reach

    return Estimate(value, error, contributors, within)


@runtime_checkable
class LocalMechanism(Protocol):
    """A randomiser that runs at an owner, with everything a server needs to read its reports.

    Both sides build it from the same public numbers; `parameters` names them. `epsilon` and `delta` are declared,
    `loss` is what the coins really cost (never more).
    """

    name: str
    epsilon: Decimal
    delta: Decimal

    def perturb(self, values: Any, randomness: Randomness) -> NDArray[Any]:
        """One report for each owner's value; each owner's draw is its own."""

    def check(self, reports: ArrayLike) -> NDArray[Any]:
        """The reports as an array, or a `Mistake` where one could not have come from `perturb`."""

    def estimate(self, reports: ArrayLike) -> Estimate:
        """The unbiased figure over all owners: frequencies for categories, the mean for numbers and rows."""

    def expected_error(self, contributors: int) -> float:
        """Expected squared distance (summed over coordinates) of the estimate's value at the worst true values."""

    def loss(self) -> Pure | Approximate:
        """The exact loss of one report, rounded up; at most the declared epsilon and delta."""

    def parameters(self) -> dict[str, Any]:
        """Public numbers for a certificate, ready for JSON."""

    @property
    def adjacency(self) -> Adjacency:
        """Always replace-one: a report exists for every owner who takes part."""
        return Adjacency.REPLACE_ONE

    def event(self) -> Event:
        """Return what one report is, for an accountant."""
        loss = self.loss()
        return PureEvent(loss.epsilon) if isinstance(loss, Pure) else ApproximateEvent(loss.epsilon, loss.delta)

    def guarantee(self, unit: str | Unit) -> Guarantee:
        """The loss of one report for `unit`, which the caller must be able to vouch for."""
        return Guarantee(self.loss(), unit, self.adjacency)


def contributors_of(value: int) -> int:
    """A public number of reports."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise Mistake("contributors", "must be a whole number of at least 1")
    return int(value)


def whole_number(argument: str, value: int, least: int, most: int) -> int:
    """A declared size."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value <= most:
        raise Mistake(argument, f"must be a whole number from {least} to {most}")
    return int(value)


def integers_within(argument: str, values: ArrayLike, low: int, high: int, *, width: int | None = None) -> Integers:
    """Whole numbers of [low, high]: a vector, or rows of `width`. Messages never repeat what was found."""
    shape = "a list" if width is None else f"rows of {width}"
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError, TypeError):
        raise Mistake(argument, f"must be {shape} of whole numbers") from None
    if array.ndim != (1 if width is None else 2) or (width is not None and array.shape[1] != width):
        raise Mistake(argument, f"must be {shape} of whole numbers")
    if array.shape[0] == 0:
        raise Mistake(argument, "must not be empty")
    if array.dtype.kind not in "iu":
        raise Mistake(argument, "must be whole numbers")
    if int(array.min()) < low or int(array.max()) > high:
        raise Mistake(argument, f"must lie between {low} and {high}")
    return array.astype(np.int64, copy=False)
