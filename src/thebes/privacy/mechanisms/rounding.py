"""The difference between numbers as they are clamped and as a total has them, for bars about the clamped ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

Ends = tuple[float, float]
_FLOATS = 2.0**-48  #: of a row's largest square: what floats may lose in a dozen sums and products


def cells_moved(means: Ends) -> Ends:
    """Between which ends the cells of `BernsteinSums` have steps too many of a squared distance from one of `means`.

    They hold t^2 less f/s, f being what is left of s t^2 beyond whole steps, and t less e/s with e = 0, 1/2 or 1 for
    f = 0, up to 1/2 and above (the floors of t^2 and of 2t(1-t) in steps are off by f and by the rest of -2f). So a
    squared distance from m has 2 m e - f steps too many: 0, m - f or 2 m - f by the three cases.
    """
    return min(0.0, means[0] - 0.5, 2 * means[0] - 1), max(means[1], 2 * means[1] - 0.5)


def centred_moved(means: Ends) -> Ends:
    """The same of `CentredMoments`, wherever the mean lies: the sum is exact, and of twice the centred square, of which
    an eighth counts, less than a step is left out."""
    return -0.125, 0.0


@dataclass(frozen=True, slots=True)
class Rounding:
    """Rounding to a grid of `steps` steps, over at most `rows` rows. A length is the square root of a sum of squared
    distances from the mean; a length over one row is a standard deviation.

    A number x in [0, 1] lies within half a step of t on the grid, and the total has t - e/s in its place with e in
    0 .. 1, and t^2 less something. So

    - x is off from that by between -1/2 and 3/2 steps: of length at most `off`, one step a row, since what varies
      within two steps lies within one of their middle;
    - a squared distance from a mean m of the total has between `moved`'s ends of steps too many;
    - m is the mean of t - e/s, at most a step from that of t, which takes one step squared a row from the sum about it;
    - the length of x is within that of t by half a step a row.

    Lengths obey the triangle inequality, and a sum of products of distances is at most the product of lengths (Cauchy),
    which is why what rounding does to it is small beside the spreads themselves, for any rows.
    """

    steps: int
    rows: float
    moved: Callable[[Ends], Ends] = cells_moved

    @property
    def off(self) -> float:
        return math.sqrt(self.rows) / self.steps

    def lengths(self, squares: Ends, means: Ends) -> Ends:
        """Return the ends of the clamped values' length, by those of the total's squared distances from a mean of
        these."""
        few, many = self.moved(means)
        least = squares[0] - self.rows * ((many + 1 / self.steps) / self.steps + _FLOATS)
        largest = squares[1] - self.rows * (few / self.steps - _FLOATS)  # noise can be below all of it
        return (
            max(0.0, math.sqrt(max(0.0, least)) - self.off / 2),
            math.sqrt(max(0.0, largest)) + self.off / 2,
        )
