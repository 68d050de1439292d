"""Tests of noise that accept the true scale and reject scales 30 % off, at p values where nothing flakes.

Every check accepts at p > 1e-9 and demands rejection at p < 1e-4 of both wrong scales: a test that could not tell them
apart fails too, and so does noise that is 30 % off, but for once in 10,000 times. Before it looks at what was drawn a
check works out how often right noise would be taken for wrong, and asks for more draws where that is not rare: too few
fail always, not now and then.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Cdf = Callable[[NDArray[np.float64]], NDArray[np.float64]]

LEVEL = 1e-9
WRONG, REJECTED = (0.7, 1.3), 1e-4
MISSED = 1e-6
"""How often, at most, right draws do not reject a wrong scale."""


def fit_p_value(samples: ArrayLike, cdf: Cdf) -> float:
    """Kolmogorov-Smirnov p value of `samples` under a continuous `cdf` (noise on a fine grid counts as continuous)."""
    from scipy.stats import kstest

    return float(kstest(np.asarray(samples, dtype=np.float64), cdf).pvalue)


def assert_scale(samples: ArrayLike, cdf_at: Callable[[float], Cdf], scale: float) -> None:
    """`samples` fit `cdf_at(scale)` and neither `cdf_at(0.7 scale)` nor `cdf_at(1.3 scale)`."""
    from scipy.stats import binom, kstwo

    drawn = np.sort(np.asarray(samples, dtype=np.float64).ravel())
    n, places = drawn.size, drawn[:: max(1, drawn.size // 500)]
    far = kstwo.isf(REJECTED, n)  # how far from its cdf the share below some place must be

    def missed(factor: float) -> float:
        """The odds that at two places, one in each half, no more and no fewer draws lie outside of them than the wrong
        scale allows. Many on one side leave fewer for the other, so that the odds of both are at most their product."""
        share, wrong = cdf_at(scale)(places), cdf_at(scale * factor)(places)
        half = places.size // 2
        wider = share[half // 4] > wrong[half // 4]  # the draws are, than the wrong scale says
        odds = 1.0
        for outside, expected in ((share[:half], wrong[:half]), (1 - share[half:], 1 - wrong[half:])):
            if wider:
                passing = binom.cdf(np.floor(n * (expected + far)), n, outside)
            else:
                passing = binom.sf(np.ceil(n * (expected - far)) - 1, n, outside)
            odds *= float(passing.min())
        return odds

    _told_apart("scale", lambda factor: fit_p_value(drawn, cdf_at(scale * factor)), missed, n)


def assert_size(noise: ArrayLike, kind: str, scale: float) -> None:
    """The sum of |noise| of Laplace noise, or of squares of Gaussian, has the law of this scale, and of none 30 %
    off. Tells them apart from fewer draws than `assert_scale`, which looks at the whole shape."""
    from scipy.stats import chi2, gamma

    drawn = np.asarray(noise, dtype=np.float64).ravel() / scale
    n = drawn.size
    law, size, power = (gamma(n), np.abs(drawn).sum(), 1) if kind == "laplace" else (chi2(n), (drawn**2).sum(), 2)

    def p(factor: float) -> float:
        stretched = size / factor**power
        return float(2 * min(law.cdf(stretched), law.sf(stretched)))

    def missed(factor: float) -> float:
        return float(law.cdf(law.isf(REJECTED / 2) * factor**power) - law.cdf(law.ppf(REJECTED / 2) * factor**power))

    _told_apart("scale", p, missed, n)


def assert_rate(successes: int, trials: int, rate_at: Callable[[float], float], epsilon: float) -> None:
    """`successes` of `trials` fit `rate_at(epsilon)` and neither `rate_at(0.7 epsilon)` nor `rate_at(1.3 epsilon)`."""
    from scipy.stats import binom, binomtest

    def p(factor: float) -> float:
        return float(binomtest(successes, trials, rate_at(epsilon * factor)).pvalue)

    def missed(factor: float) -> float:
        wrong, right = binom(trials, rate_at(epsilon * factor)), binom(trials, rate_at(epsilon))
        return float(right.cdf(wrong.isf(REJECTED / 2)) - right.cdf(wrong.ppf(REJECTED / 2) - 1))

    _told_apart("epsilon", p, missed, trials)


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
    from scipy.stats import chi2, ncx2

    n = int(np.asarray(counts).sum())

    def missed(factor: float) -> float:
        """Pearson's statistic under the right odds is about a shifted chi-square; common outcomes alone are looked at,
        each as wide as it is under the right odds where that is wider."""
        right, wrong = (np.asarray(odds_at(epsilon * f), dtype=np.float64) for f in (1.0, factor))
        right, wrong = right / right.sum(), wrong / wrong.sum()
        common = n * wrong >= 5
        right, wrong = right[common], wrong[common]
        wide = max(1.0, float(np.max(right / wrong)))
        shift = n * float(((right - wrong) ** 2 / wrong).sum())
        freedom = max(1, wrong.size - 1)
        return float(ncx2.cdf(chi2.isf(REJECTED, freedom) / wide, freedom, shift / wide))

    _told_apart("epsilon", lambda factor: odds_p_value(counts, odds_at(epsilon * factor)), missed, n)


def _told_apart(what: str, p: Callable[[float], float], missed: Callable[[float], float], draws: int) -> None:
    for factor in WRONG:
        odds = missed(factor)
        assert odds < MISSED, f"{draws} draws let {factor} times the {what} pass with odds {odds:.0e}: draw more"
    assert p(1.0) > LEVEL, f"the claimed {what} is rejected (p = {p(1.0):.1e})"
    for factor in WRONG:
        assert p(factor) < REJECTED, f"{factor} times the claimed {what} is not rejected (p = {p(factor):.1e})"
