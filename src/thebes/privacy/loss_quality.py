"""The figure of a model that predicts numbers: its squared error beside that of the best one number for everybody, or
R2, the part of that which it explains."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from thebes.privacy import quality
from thebes.privacy.faults import Mistake
from thebes.privacy.measurement import Interval
from thebes.privacy.mechanisms.additive import Hiding
from thebes.privacy.model_quality import CLAIM, LEVEL, NO_BETTER, Quality, ends, verdict_of

LEAST_R2 = -1.0  #: a model that loses twice what the best one number does, or more, is worth this


def of_losses(
    cells: ArrayLike,
    noise: Hiding,
    *,
    steps: int,
    width: float,
    share: float | None,
    epsilon: float,
    of: str,
    explained: bool = False,
) -> Quality:
    """Read the figure off the noisy cells of `LossBesideGuess`, in `steps` to the row; each has independent `noise`.
    `width` is the range of the values in their own unit. Where `explained`, the figure is R2, no less than `LEAST_R2`.

    Over n rows let S be the sum of losses and b0, b1, b2 the sums of (1-t)^2, 2t(1-t) and t^2 of the values t.

    *Interval.* The mean loss over everybody lies between the ends of Chernoff's bound (`quality.chernoff`) for S lost
    and n - S kept, which is worst at the most and the least of these: each side fails in half of the chance, half of
    that for the rows, a quarter for either sum of noise.

    *R2* over everybody is 1 - L / V, with L the mean loss and V the variance of a value (below); each side fails where
    L or V lies beyond its own end, each in half of the chance.

    *Better.* The best one number loses the variance V of a value. The mean of (t - t')^2 over pairs of rows, 2 V over
    everybody, is 2 Q / (n (n - 1)) with Q = b0 b2 - b1^2 / 4. It is an average over orders of the rows, each the mean
    of (n - 1) / 2 independent pairs or more, so by Jensen's inequality Chernoff's bound holds for it with so many
    draws (Hoeffding 1963, section 5): Q / n lost, (n - 1) / 2 - Q / n kept. With noise Q is at least b0 b2 - b1^2 / 4
    at the least b0 and b2 and the most b1, and n at most the most of its sum. The model is better if V's least passes
    the mean loss's most: `CLAIM` is shared evenly by the two bounds' rows and, in six parts, by the noises of both.

    *No better.* The same with the other ends: it explains less than `NEAR` of V.
    """
    found = np.asarray(cells, dtype=np.float64).reshape(-1) / steps
    if found.shape != (4,) or not np.isfinite(found).all():
        raise Mistake("cells", "must be four finite numbers")
    lost, rows = float(found[0]), max(float(found[1:].sum()), 1.0)
    spread = max(float(found[1] * found[3] - found[2] ** 2 / 4), 0.0) / rows**2
    side = (1 - LEVEL) / 2
    least, _ = _mean(found, noise, steps, side)
    _, most = _mean(found, noise, steps, side)
    surest, largest = _mean(found, noise, steps, CLAIM / 2)[1], _mean(found, noise, steps, NO_BETTER / 2)[0]
    low = _variance(found, noise, steps, CLAIM / 2)[0] - surest
    above = _variance(found, noise, steps, NO_BETTER / 2)[1]
    square, loss = width**2, min(max(lost / rows, 0.0), 1.0)
    value, bar, guessing = loss * square, Interval(LEVEL, least * square, most * square), min(spread, 0.25) * square
    if explained:
        (fewest, farthest), (narrow, wide) = (
            _mean(found, noise, steps, side / 2),
            _variance(found, noise, steps, side / 2),
        )
        bar = Interval(LEVEL, _part(farthest, narrow), _part(fewest, wide))
        value, guessing = min(max(_part(loss, spread), float(bar.low)), float(bar.high)), 0.0
    return Quality(
        metric="r2" if explained else "mse",
        value=value,
        interval=bar,
        guessing=guessing,
        verdict=verdict_of(low, 1 - largest / above if above > 0 else 1.0),
        people=max(0, round(float(found[1:].sum()))),
        share=share,
        epsilon=epsilon,
        of=of,
    )


def _part(lost: float, variance: float) -> float:
    """Return what part of the variance is explained where so much is lost; of no variance nothing can be."""
    return max(LEAST_R2, 1 - lost / variance) if variance > 0 else LEAST_R2


def _mean(found: Any, noise: Hiding, steps: int, failing: float) -> tuple[float, float]:
    """(least, most) of the mean loss over everybody, each wrong with odds of `failing`."""
    least_lost, most_lost = _ends(found[0], noise, steps, 1, failing / 4)
    least_kept, most_kept = _ends(found[1:].sum() - found[0], noise, steps, 4, failing / 4)
    low = quality.chernoff_below(least_lost, most_kept, failing / 2)
    return low, quality.chernoff(most_lost, least_kept, failing / 2)


def _variance(found: Any, noise: Hiding, steps: int, failing: float) -> tuple[float, float]:
    """(least, most) of the variance over everybody, each wrong with odds of `failing`: half of it pays for the rows,
    an eighth for each of b0, b1, b2 and their sum."""
    (low0, high0), (low1, high1), (low2, high2) = (
        _ends(cell, noise, steps, 1, failing / 8) for cell in found[1:].tolist()
    )
    least_rows, most_rows = _ends(found[1:].sum(), noise, steps, 3, failing / 8)
    least = max(0.0, low0 * low2 - high1**2 / 4) / max(most_rows, 1.0)
    most = max(0.0, high0 * high2 - low1**2 / 4) / max(least_rows, 1.0)
    low = quality.chernoff_below(least, max(0.0, (most_rows - 1) / 2 - least), failing / 2) / 2
    return low, quality.chernoff(most, (least_rows - 1) / 2 - most, failing / 2) / 2


def _ends(value: float, noise: Hiding, steps: int, cells: int, failing: float) -> tuple[float, float]:
    low, high = ends(value * steps, noise, cells, failing)
    return low / steps, high / steps
