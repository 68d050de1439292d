"""Tests of noise that accept the true scale and reject scales 30 % off, at p values where nothing flakes.

Every check accepts at p > 1e-9 and demands rejection at p < 1e-9 of both wrong scales: a test that could not
tell them apart fails too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Cdf = Callable[[NDArray[np.float64]], NDArray[np.float64]]

LEVEL = 1e-9


def fit_p_value(samples: ArrayLike, cdf: Cdf) -> float:
    """Kolmogorov-Smirnov p value of `samples` under a continuous `cdf` (noise on a fine grid counts as continuous)."""
    from scipy.stats import kstest

    return float(kstest(np.asarray(samples, dtype=np.float64), cdf).pvalue)


def assert_scale(samples: ArrayLike, cdf_at: Callable[[float], Cdf], scale: float) -> None:
    """`samples` fit `cdf_at(scale)` and neither `cdf_at(0.7 scale)` nor `cdf_at(1.3 scale)`."""
    p = {factor: fit_p_value(samples, cdf_at(scale * factor)) for factor in (0.7, 1.0, 1.3)}
    assert p[1.0] > LEVEL, f"the claimed scale is rejected (p = {p[1.0]:.1e})"
    assert p[0.7] < LEVEL, f"a scale 30 % too small is not rejected (p = {p[0.7]:.1e})"
    assert p[1.3] < LEVEL, f"a scale 30 % too large is not rejected (p = {p[1.3]:.1e})"


def assert_size(noise: ArrayLike, kind: str, scale: float) -> None:
    """The sum of |noise| of Laplace noise, or of squares of Gaussian, has the law of this scale, and of none 30 %
    off. Tells them apart from fewer draws than `assert_scale`, which looks at the whole shape."""
    from scipy.stats import chi2, gamma

    drawn = np.asarray(noise, dtype=np.float64)

    def p(factor: float) -> float:
        if kind == "laplace":
            below = float(gamma.cdf(np.abs(drawn).sum() / (scale * factor), drawn.size))
        else:
            below = float(chi2.cdf((drawn**2).sum() / (scale * factor) ** 2, drawn.size))
        return 2 * min(below, 1 - below)

    assert p(1.0) > LEVEL, f"the claimed scale is rejected (p = {p(1.0):.1e})"
    assert p(0.7) < LEVEL, f"a scale 30 % too small is not rejected (p = {p(0.7):.1e})"
    assert p(1.3) < LEVEL, f"a scale 30 % too large is not rejected (p = {p(1.3):.1e})"


def assert_rate(successes: int, trials: int, rate_at: Callable[[float], float], epsilon: float) -> None:
    """`successes` of `trials` fit `rate_at(epsilon)` and neither `rate_at(0.7 epsilon)` nor `rate_at(1.3 epsilon)`."""
    from scipy.stats import binomtest

    p = {f: float(binomtest(successes, trials, rate_at(epsilon * f)).pvalue) for f in (0.7, 1.0, 1.3)}
    assert p[1.0] > LEVEL, f"the claimed epsilon is rejected (p = {p[1.0]:.1e})"
    assert p[0.7] < LEVEL, f"an epsilon 30 % too small is not rejected (p = {p[0.7]:.1e})"
    assert p[1.3] < LEVEL, f"an epsilon 30 % too large is not rejected (p = {p[1.3]:.1e})"


def laplace_cdf(scale: float) -> Cdf:
    """The cdf of centred Laplace noise."""
    from scipy.stats import laplace

    return lambda x: np.asarray(laplace.cdf(x, scale=scale), dtype=np.float64)


def gaussian_cdf(scale: float) -> Cdf:
    """The cdf of centred Gaussian noise."""
    from scipy.stats import norm

    return lambda x: np.asarray(norm.cdf(x, scale=scale), dtype=np.float64)


def odds_p_value(counts: ArrayLike, odds: ArrayLike) -> float:
    """Chi-square p value of observed `counts` under `odds`; outcomes expected fewer than 5 times are put together."""
    from scipy.stats import chisquare

    seen, share = np.asarray(counts, dtype=np.float64), np.asarray(odds, dtype=np.float64)
    expected = share / share.sum() * seen.sum()
    rare = expected < 5
    seen = np.append(seen[~rare], seen[rare].sum()) if rare.any() else seen
    expected = np.append(expected[~rare], expected[rare].sum()) if rare.any() else expected
    if expected[-1] < 5 and rare.any():
        if seen[-1] > 50:
            return 0.0  # far more rare outcomes than there can be
        seen, expected = seen[:-1], expected[:-1] * (seen[:-1].sum() / expected[:-1].sum())
    return float(chisquare(seen, expected).pvalue)


def assert_odds(counts: ArrayLike, odds_at: Callable[[float], ArrayLike], epsilon: float) -> None:
    """`counts` fit `odds_at(epsilon)` and neither `odds_at(0.7 epsilon)` nor `odds_at(1.3 epsilon)`."""
    p = {factor: odds_p_value(counts, odds_at(epsilon * factor)) for factor in (0.7, 1.0, 1.3)}
    assert p[1.0] > LEVEL, f"the claimed epsilon is rejected (p = {p[1.0]:.1e})"
    assert p[0.7] < LEVEL, f"an epsilon 30 % too small is not rejected (p = {p[0.7]:.1e})"
    assert p[1.3] < LEVEL, f"an epsilon 30 % too large is not rejected (p = {p[1.3]:.1e})"
