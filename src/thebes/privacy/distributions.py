"""Probabilities and quantiles of the normal, beta, gamma, Student's and binomial distributions, without scipy (111 MB).

Must stay true: each is within a relative 1e-12 of the truth (of itself, and in the lower tail of its tail too), which
tests hold beside scipy's and beside exact arithmetic; whoever states a privacy loss or a bar with one rounds outward by
more. The lower tail is what is computed: quantiles of p above 1/2 are those of 1 - p on the other side.

Beta and gamma distributions are solved for in u, the logit or the logarithm of the variable. There their densities are
log-concave, hence ln P(u) is concave, and Newton's steps on it rise to the root from the left after the first one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
_N = TypeVar("_N", float, Floats)

_ROOT = math.sqrt(0.5)
_LOG_ROOT_2_PI = 0.5 * math.log(2 * math.pi)
_SERIES_BELOW = -20.0  #: from here outward the tail's own series is more than exact enough
_MANY = 1e6  #: degrees of freedom from which on Student's distribution is a correction of the normal one
_STEPS, _TERMS = 60, 20_000
_ALONE = 32  #: numbers up to which one after another is quicker than together
_FARTHEST, _LEAST_SHAPE = 700.0, 1e-9  #: of a logit or logarithm; of a shape that is solved for


def normal_cdf(x: float) -> float:
    """P(Z <= x) of a standard normal Z. The rounding of x costs a relative x^2 2^-52 far out."""
    return 0.5 * math.erfc(-x * _ROOT)


def log_normal_cdf(x: float) -> float:
    """Ln P(Z <= x), however far out: below -20 by the asymptotic series of the tail, whose terms shrink there."""
    if x >= 0:
        return math.log1p(-0.5 * math.erfc(x * _ROOT))
    if x > _SERIES_BELOW:
        return math.log(normal_cdf(x))
    if x == -math.inf:
        return x
    total = term = 1.0
    for k in range(1, 12):
        term *= -(2 * k - 1) / (x * x)
        total += term
    return -0.5 * x * x - math.log(-x) - _LOG_ROOT_2_PI + math.log(total)


def normal_quantile(p: ArrayLike) -> Floats:
    """The x with P(Z <= x) = p. Source: Wichura 1988 (AS 241, PPND16), which errs by about 1 part in 10^16."""
    share = np.asarray(p, dtype=np.float64)
    away = share - 0.5
    with np.errstate(divide="ignore", invalid="ignore"):
        r = np.sqrt(-np.log(np.where(away < 0, share, 1 - share)))
        tail = np.where(
            r <= 5, _ratio(_NEAR_TOP, _NEAR_BOTTOM, r - 1.6), _ratio(_FAR_TOP, _FAR_BOTTOM, np.minimum(r, 40) - 5)
        )
    tail = np.where(np.isinf(r), np.inf, tail)
    middle = away * _ratio(_MIDDLE_TOP, _MIDDLE_BOTTOM, 0.180625 - away * away)
    return np.asarray(np.where(np.abs(away) <= 0.425, middle, np.copysign(tail, away)))[()]


def expit(x: ArrayLike) -> Floats:
    """1 / (1 + e^-x), as exact far out on either side."""
    return np.asarray(np.exp(-np.logaddexp(0.0, -np.asarray(x, dtype=np.float64))))[()]


def log_beta(a: float, b: float) -> float:
    """Return ln B(a, b)."""
    low, high = min(a, b), max(a, b)
    if high < 10:
        return math.lgamma(low) + math.lgamma(high) - math.lgamma(low + high)
    # Gamma(high) / Gamma(low + high) by Stirling's formula, so that their large logarithms are never subtracted
    ratio = -(high - 0.5) * math.log1p(low / high) - low * math.log(low + high) + low
    return math.lgamma(low) + ratio + _stirling(high) - _stirling(low + high)


def beta_cdf(a: float, b: float, x: ArrayLike) -> Floats:
    """P(X <= x) of a beta variable: the regularised incomplete beta function I_x(a, b)."""
    place = np.clip(np.asarray(x, dtype=np.float64), 0, 1)
    inside = (place > 0) & (place < 1)
    safe = np.where(inside, place, 0.5)
    return np.asarray(np.where(inside, np.exp(_beta(a, b, safe, 1 - safe)[0]), place))[()]


def beta_quantile(a: float, b: float, p: ArrayLike) -> Floats:
    """The x with P(X <= x) = p of a beta variable. Of a shape below 1e-9 it is the end where nearly all of it lies."""
    share = np.asarray(p, dtype=np.float64)
    if min(a, b) < _LEAST_SHAPE:
        return np.full(share.shape, float(b < a))[()]
    inside = (share > 0) & (share < 1)
    return np.asarray(np.where(inside, expit(_beta_logit(a, b, np.where(inside, share, 0.5))), share))[()]


@lru_cache(maxsize=4096)
def gamma_quantile(a: float, p: float) -> float:
    """The x with P(X <= x) = p of a gamma variable of shape a and scale 1."""
    if not 0 < p < 1:
        return 0.0 if p <= 0 else math.inf
    lower = p <= 0.5
    side = 1.0 if lower else -1.0

    def tail(v: Floats) -> tuple[Floats, Floats]:
        found = [_gamma(a, math.exp(side * each)) for each in v.tolist()]
        return np.array([below if lower else above for below, above, _ in found]), np.array([f[2] for f in found])

    z = float(normal_quantile(p))
    cube = 1 - 1 / (9 * a) + z / (3 * math.sqrt(a))  # Wilson & Hilferty 1931, as a place to begin
    start = math.log(a * cube**3) if cube > 0.1 else (math.log(p) + math.lgamma(a + 1)) / a
    return math.exp(side * float(_solved(tail, np.array([p if lower else 1 - p]), np.array([side * start]))[0]))


@lru_cache(maxsize=4096)
def student_quantile(degrees: float, p: float) -> float:
    """The x with P(T <= x) = p of Student's t with so many degrees of freedom."""
    if p > 0.5:
        return -student_quantile(degrees, 1 - p)
    if degrees >= _MANY:  # Cornish-Fisher: what is left out is below z^7 / degrees^3
        z = float(normal_quantile(p))
        return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
    if p <= 0 or p == 0.5:
        return -math.inf if p <= 0 else 0.0
    logit = float(_beta_logit(degrees / 2, 0.5, np.array([2 * p]))[0])
    return -math.sqrt(degrees) * math.exp(-logit / 2)


def binomial_pmf(count: ArrayLike, trials: ArrayLike, p: float) -> Floats:
    """P(X = count) of so many trials that succeed with probability p, strictly between 0 and 1; from its greatest value
    down (Loader 2000). Whole numbers; 0 outside 0 .. trials."""
    q = 1 - p
    k, n = np.broadcast_arrays(np.asarray(count, dtype=np.float64), np.asarray(trials, dtype=np.float64))
    inside = (k >= 0) & (k <= n)
    k = np.where(inside, k, 0.0)
    rest = n - k
    x, y, whole = np.maximum(k, 1.0), np.maximum(rest, 1.0), np.maximum(n, 1.0)
    logs = _whole_stirling(whole) - _whole_stirling(x) - _whole_stirling(y)
    logs += 0.5 * np.log(whole / (x * y)) - _LOG_ROOT_2_PI - _deviance(x, n * p) - _deviance(y, n * q)
    logs = np.where(k == 0, n * math.log1p(-p), np.where(rest == 0, n * math.log(p), logs))
    return np.asarray(np.where(inside, np.exp(logs), 0.0))


def _deviance(x: Floats, mean: Floats) -> Floats:
    """Return x ln(x / mean) + mean - x, without a difference of large numbers where they are near each other."""
    safe = np.maximum(mean, 1e-300)
    apart = (safe - x) / x
    near = np.abs(apart) < 0.3
    return np.asarray(np.where(near, -x * _log1p_less(np.where(near, apart, 0.0)), x * np.log(x / safe) + safe - x))


def _whole_stirling(z: Floats) -> Floats:
    """The part of ln z! that Stirling's formula leaves, of whole numbers from 1 on."""
    w = 1 / (z * z)
    series = (1 / 12 - w * (1 / 360 - w * (1 / 1260 - w * (1 / 1680 - w * (1 / 1188 - w * 691 / 360360))))) / z
    return np.asarray(np.where(z < len(_FEW), _FEW[np.minimum(z, len(_FEW) - 1).astype(np.int64)], series))


# --- the beta distribution ------------------------------------------------------------------------------------


def _beta_logit(a: float, b: float, p: Floats) -> Floats:
    """The logit of the quantile, p within (0, 1)."""
    lower = p <= 0.5
    result = np.empty_like(p)
    for side, mine, first, second in ((1.0, lower, a, b), (-1.0, ~lower, b, a)):
        share = p[mine] if side > 0 else 1 - p[mine]
        if not share.size:
            continue
        spread = math.sqrt(1 / first + 1 / second)
        centre = math.log(first / second) + spread * normal_quantile(share)
        left = (np.log(share) + log_beta(first, second) + math.log(first)) / first  # of x^a / (a B), where x is small
        start = centre if first >= 1 else np.asarray(left)
        solved = _solved(lambda u, f=first, s=second: _beta(f, s, expit(u), expit(-u)), share, start)  # type: ignore[misc]
        result[mine] = side * solved
    return result


def _beta(a: float, b: float, x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Ln P(X <= x), and that of the density of the logit there, for x + y = 1."""
    dense = _log_beta_density(a, b, x, y)
    lead = (a + b) * _apart(a, b, x, y)
    beyond = lead > 0  # the fraction is for x below the middle; it is the other side's beyond
    first, second = np.where(beyond, b, a), np.where(beyond, a, b)
    tail = dense + np.log(_fraction(first, second, np.where(beyond, y, x), np.where(beyond, x, y), np.abs(lead)))
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(beyond, np.log1p(-np.exp(np.minimum(tail, 0))), tail)), dense


def _log_beta_density(a: float, b: float, x: Floats, y: Floats) -> Floats:
    """ln(x^a y^b / B(a, b)), from its greatest value down (Loader 2000): no large logarithms are subtracted."""
    middle, other = a / (a + b), b / (a + b)
    apart = _apart(a, b, x, y)
    u, v = apart / middle, -apart / other
    close = (np.abs(u) < 0.3) & (np.abs(v) < 0.3)
    with np.errstate(divide="ignore"):
        logs = [
            np.where(np.abs(w) < 0.3, np.log1p(np.clip(w, -0.5, 0.5)), np.log(at / of))
            for w, at, of in ((u, x, middle), (v, y, other))
        ]
        down = np.where(close, a * _log1p_less(u) + b * _log1p_less(v), a * logs[0] + b * logs[1])
    top = 0.5 * math.log(middle * other * (a + b)) - _LOG_ROOT_2_PI
    return np.asarray(down + (top + _stirling(a + b) - _stirling(a) - _stirling(b)))


def _apart(a: float, b: float, x: Floats, y: Floats) -> Floats:
    """Subtract the mean from x; of the smaller one of x and y no digit is lost."""
    return np.asarray(np.where(x < y, x - a / (a + b), b / (a + b) - y))


def _fraction(a: Floats, b: Floats, x: Floats, y: Floats, lead: Floats) -> Floats:
    """P(X <= x) over the density of its logit, for x at most the mean, with `lead` = a - (a + b) x. A number is the
    same to its last bit alone and in any company."""
    if x.size <= _ALONE:
        given = zip(a.flat, b.flat, x.flat, y.flat, lead.flat, strict=True)
        return np.array([_settled(*map(float, each)) for each in given]).reshape(x.shape)
    last, found, going = np.full_like(x, np.inf), np.ones_like(x), np.ones(x.shape, dtype=np.bool_)
    for value in itertools.islice(_convergents(a, b, x, y, lead), _TERMS):
        found = np.where(going, value, found)
        going &= np.abs(value - last) > 2e-16 * np.abs(value)
        if not going.any():
            break
        last = value
    return found


def _settled(a: float, b: float, x: float, y: float, lead: float) -> float:
    last, value = math.inf, 1.0
    for value in itertools.islice(_convergents(a, b, x, y, lead), _TERMS):
        if abs(value - last) <= 2e-16 * abs(value):
            break
        last = value
    return value


def _convergents(a: _N, b: _N, x: _N, y: _N, lead: _N) -> Iterator[_N]:
    """Yield what `_fraction` tends to: the continued fraction of DiDonato & Morris 1992 (TOMS 708, BFRAC), whose terms
    keep their digits where x is near 1. One number or an array of them."""
    c, ratio, one = 1 + lead, b / a, 1 + 1 / a
    p: Any = 1.0
    before_top: Any = 0.0
    top: Any = 1.0
    before_bottom: Any = 1.0
    bottom: Any = c / one
    s = a + 1
    value = top / bottom
    yield value
    for n in itertools.count(1):
        t, w = n / a, n * (b - n) * x
        e = a / s
        alpha = p * (p + ratio) * e * e * (w * x)
        beta = n + w / s + (1 + t) / (one + 2 * t) * (c + n * (1 + y))
        p, s = 1 + t, s + 2
        before_top, top = top, alpha * before_top + beta * top
        before_bottom, bottom = bottom, alpha * before_bottom + beta * bottom
        value = top / bottom
        before_top, before_bottom, top, bottom = before_top / bottom, before_bottom / bottom, value, 1.0
        yield value


# --- the gamma distribution -----------------------------------------------------------------------------------


def _gamma(a: float, x: float) -> tuple[float, float, float]:
    """Logarithms: of P(X <= x), of P(X > x), and of the density of ln X there."""
    v = (x - a) / a
    down = a * (float(_log1p_less(np.array(v))) if abs(v) < 0.3 else math.log(x / a) - v)
    dense = 0.5 * math.log(a) - _LOG_ROOT_2_PI + down - _stirling(a)
    if x < a + 1:
        total = term = 1 / a
        for n in range(1, _TERMS):
            term *= x / (a + n)
            total += term
            if term < total * 1e-17:
                break
        tail = min(dense + math.log(total), -1e-300)
        return tail, math.log(-math.expm1(tail)), dense
    b, c = x + 1 - a, 1e300
    d = value = 1 / b
    for n in range(1, _TERMS):
        top = -n * (n - a)
        b += 2
        d = 1 / ((top * d + b) or 1e-300)
        c = (b + top / c) or 1e-300
        value *= c * d
        if abs(c * d - 1) <= 3e-16:
            break
    tail = min(dense + math.log(value), -1e-300)
    return math.log(-math.expm1(tail)), tail, dense


# --- what both need -------------------------------------------------------------------------------------------


def _solved(tail: Callable[[Floats], tuple[Floats, Floats]], share: Floats, start: Floats) -> Floats:
    """The u at which the tail reaches `share`, by Newton's steps on the logarithm of the tail."""
    u, wanted = np.clip(start.astype(np.float64), -_FARTHEST, _FARTHEST), np.log(share)
    going = np.ones(u.shape, dtype=np.bool_)  # a root stays where it was found, in whatever company
    for _ in range(_STEPS):
        at = u[going]
        below, dense = tail(at)
        step = np.clip((wanted[going] - below) * np.exp(np.clip(below - dense, -700, 700)), -20, 20)
        u[going] = after = np.clip(at + step, -_FARTHEST, _FARTHEST)
        going[going] = np.abs(after - at) > 1e-15 * np.maximum(1, np.abs(after)) + 1e-15
        if not going.any():
            break
    return u


def _stirling(z: float) -> float:
    """The part of ln Gamma(z) that Stirling's formula leaves."""
    if z < 10:
        return math.lgamma(z) - (z - 0.5) * math.log(z) + z - _LOG_ROOT_2_PI
    w = 1 / (z * z)
    inner = 1 / 1260 - w * (1 / 1680 - w * (1 / 1188 - w * (691 / 360360 - w / 156)))
    return (1 / 12 - w * (1 / 360 - w * inner)) / z


def _log1p_less(u: Floats) -> Floats:
    """ln(1 + u) - u for |u| < 0.3 and a little more, from the series of atanh(u / (2 + u))."""
    r = u / (2 + u)
    square = r * r
    total = np.zeros_like(square)
    for k in range(25, 1, -2):
        total = (total + 1 / k) * square
    return np.asarray(2 * r * total - 2 * square / (1 - r))


_FEW = np.array([0.0, *(math.lgamma(z + 1) - (z + 0.5) * math.log(z) + z - _LOG_ROOT_2_PI for z in range(1, 16))])


def _ratio(top: tuple[float, ...], bottom: tuple[float, ...], x: Floats) -> Floats:
    return _polynomial(top, x) / _polynomial(bottom, x)


def _polynomial(coefficients: tuple[float, ...], x: Floats) -> Floats:
    value = 0 * x
    for each in coefficients:
        value = value * x + each
    return value


# The coefficients of AS 241, the highest power first.
_MIDDLE_TOP = (
    2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
    1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080e0,
)  # fmt: skip
_MIDDLE_BOTTOM = (
    5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
    5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0,
)  # fmt: skip
_NEAR_TOP = (
    7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258e0,
    3.64784832476320460504e0, 5.76949722146069140550e0, 4.63033784615654529590e0, 1.42343711074968357734e0,
)  # fmt: skip
_NEAR_BOTTOM = (
    1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
    6.89767334985100004550e-1, 1.67638483018380384940e0, 2.05319162663775882187e0, 1.0,
)  # fmt: skip
_FAR_TOP = (
    2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
    2.96560571828504891230e-1, 1.78482653991729133580e0, 5.46378491116411436990e0, 6.65790464350110377720e0,
)  # fmt: skip
_FAR_BOTTOM = (
    2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
    1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0,
)  # fmt: skip
