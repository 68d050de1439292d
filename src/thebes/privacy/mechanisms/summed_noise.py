"""Several independent noises on the same totals, one from each place that added its own: how large their sum may be.

Sums of Laplace noise have no simple distribution. Here it is computed from the characteristic function, which is a
product: a sum over equally spaced frequencies gives the distribution modulo a period, hence exactly but for the odds
of lying beyond the period, which are held below 1e-12 by Chernoff's bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.distributions import gamma_quantile, normal_quantile
from thebes.privacy.faults import Fault
from thebes.privacy.measurement import Floats
from thebes.privacy.mechanisms.additive import Additive, Ball, Hiding
from thebes.privacy.mechanisms.offset import Off

_POINTS = 2**16  #: frequencies, and places at which the distribution is known
_SHARES = 64  #: how finely the share of a pair is told apart; it is rounded to the side that is wider
_SQUARES = 2**14  #: how finely squared lengths are told apart, rounded up
_CAUTION = 1e-9  #: above every numerical error


def together(noises: Sequence[Additive]) -> Hiding:
    """Return what hides the sum of totals that were noised apart from each other; of one it is that noise itself."""
    if not noises:
        raise Fault("nothing was noised")
    return noises[0] if len(noises) == 1 else Several(tuple(noises))


def parts_of(hidden: Hiding) -> tuple[Additive, ...]:
    """The inverse of `together`."""
    if isinstance(hidden, Several):
        return hidden.noises
    if isinstance(hidden, Additive):
        return (hidden,)
    raise Fault("this noise has no parts that are known")


def apart(hidden: Hiding) -> tuple[tuple[Additive, ...], float]:
    """The noises in it, and by how much every coordinate may be off besides."""
    if isinstance(hidden, Off):
        return () if hidden.beside is None else parts_of(hidden.beside), hidden.by
    return parts_of(hidden), 0.0


@dataclass(frozen=True, slots=True)
class Several:
    """The sum of independent noises. Gaussian parts add up to one; where both kinds occur each may miss half as often
    (union bound)."""

    noises: tuple[Additive, ...]

    @property
    def kind(self) -> str:
        return " and ".join(sorted({noise.kind for noise in self.noises}))

    @property
    def _scales(self) -> tuple[float, ...]:
        return tuple(sorted(noise.scale for noise in self.noises if noise.kind == "laplace"))

    @property
    def _smooth(self) -> tuple[float, float]:
        # Continuous Gaussians add up; each rounding moves the sum by at most half a step of that noise's own grid.
        parts = [noise for noise in self.noises if noise.kind == "gaussian"]
        return math.hypot(*(noise.scale for noise in parts)), sum(1 / noise.finer for noise in parts)

    def _parts(self, level: float) -> tuple[tuple[float, ...], tuple[float, float], float]:
        scales, smooth = self._scales, self._smooth
        return scales, smooth, (1 + level) / 2 if scales and smooth[0] else level

    def width(self, level: float) -> float:
        """See `Hiding`. Of Laplace noise the distribution is that of the whole steps that were drawn."""
        scales, (deviation, step), each = self._parts(level)
        width = 0.0
        finer = {noise.finer for noise in self.noises if noise.kind == "laplace"}
        if len(finer) == 1:
            (unit,) = finer
            width = _reach(tuple(scale * unit for scale in scales), each, whole=True) / unit
        elif scales:  # grids of several kinds: each rounds by less than a step of its own
            width = _reach(scales, each) + sum(1 / noise.finer for noise in self.noises if noise.kind == "laplace")
        return width + deviation * _normal(each) + step / 2

    def pair_width(self, share: float, level: float) -> float:
        """See `Hiding`. The pair is the less concentrated the farther its share is from 1/2 (Proschan 1965), so the
        share is rounded away from there. One step is added for each noise in whole steps."""
        scales, (deviation, step), each = self._parts(level)
        p = min(1.0, math.ceil(max(share, 1 - share) * _SHARES) / _SHARES)
        width = 0.0
        if scales:
            weighed = tuple(sorted(w * scale for scale in scales for w in (p, 1 - p) if w > 0))
            width = _reach(weighed, each) + len(scales)
        return width + deviation * _normal(each) * math.hypot(p, 1 - p) + step / 2

    def ball(self, size: int, level: float) -> Ball:
        """See `Hiding`: in L2. Squared lengths of Laplace noise are added up on a grid, each rounded up."""
        scales, (deviation, step), each = self._parts(level)
        radius = _radius(scales, size, each) + math.sqrt(size) * len(scales) if scales else 0.0
        radius += deviation * math.sqrt(2 * gamma_quantile(size / 2, each)) + math.sqrt(size) * step
        return Ball(radius, 2)


@lru_cache(maxsize=64)
def _normal(level: float) -> float:
    return float(normal_quantile((1 + level) / 2))


def weighed_width(hidden: Hiding, weights: Floats, level: float) -> float:
    """Within what of 0 a sum of coordinates' noises lies that has these weights. Computed for continuous noise; one
    step for each noise in whole steps is added for every coordinate, by its weight."""
    noises, off = apart(hidden)
    size = np.abs(weights[weights != 0])
    scales = np.array([noise.scale for noise in noises if noise.kind == "laplace"])
    smooth = [noise for noise in noises if noise.kind == "gaussian"]
    each = (1 + level) / 2 if scales.size and smooth else level
    width = off * float(size.sum())
    if scales.size and size.size:
        weighed = tuple(np.sort(np.outer(scales, size).reshape(-1)).tolist())
        width += _reached(*_continuous(weighed), each) + scales.size * float(size.sum())
    if smooth:
        deviation = math.hypot(*(noise.scale for noise in smooth)) * float(np.sqrt((size**2).sum()))
        width += deviation * _normal(each) + sum(1 / noise.finer for noise in smooth) * float(size.sum()) / 2
    return width


def weighed_widths(noises: Sequence[Additive], weights: Floats, times: NDArray[np.int64], level: float) -> Floats:
    """Within what of 0 a weighed sum of many coordinates lies: for every row of `times`, so many coordinates have each
    of the `weights`, and every coordinate has all of the `noises`.

    Chernoff's bound, P(|S| > x) <= 2 exp(log E e^(aS) - a x), for the best of many a: the logarithm is at most
    -log(1 - (a scale)^2) for Laplace noise (the discrete one is what a continuous one is without an independent part
    of mean 0, so its exponential moments are smaller by Jensen's inequality) and at most (a scale)^2 / 2 for Gaussian
    noise, which is subgaussian (Canonne, Kamath & Steinke 2020).
    """
    laplace = np.array([noise.scale for noise in noises if noise.kind == "laplace"])
    smooth = sum(noise.scale**2 for noise in noises if noise.kind == "gaussian")
    odds = math.log(2 / (1 - level))
    size = np.abs(weights)
    if not laplace.size:
        return np.asarray(np.sqrt(2 * odds * smooth * (times @ size**2)))
    rates = np.geomspace(1e-4, 0.999, 100) / (laplace.max() * max(size.max(), 1e-300))
    at = rates[:, None] * size  # one row for each rate
    moments = -np.log1p(-((at[:, :, None] * laplace) ** 2)).sum(axis=2) + at**2 * smooth / 2
    return np.asarray(((times @ moments.T + odds) / rates).min(axis=1))


def _reached(places: Floats, mass: Floats, level: float) -> float:
    """The first place within which the noise lies with probability `level`."""
    enough = np.flatnonzero(mass >= level + _CAUTION)
    if not enough.size:
        raise Fault("a distribution of noise does not reach its level")
    return float(places[enough[0]])


@lru_cache(maxsize=4096)
def _reach(scales: tuple[float, ...], level: float, *, whole: bool = False) -> float:
    """The same for noises of these scales, of which many groups ask alike."""
    return _reached(*(_whole if whole else _continuous)(scales), level)


def farthest(scales: tuple[float, ...]) -> float:
    """Within what of 0 a sum of Laplace noises of these scales lies but for odds of 1e-12.

    Chernoff: P(|S| > x) <= 2 exp(1.151 a^2 sum b^2 - a x), as -log(1 - y) <= 1.151 y up to y = 1/4.
    """
    spread = math.fsum(b * b for b in scales)
    rate = min(1 / (2 * max(scales)), 1 / math.sqrt(spread))
    return (math.log(2e12) + 1.151 * rate * rate * spread) / rate


@lru_cache(maxsize=512)
def _continuous(scales: tuple[float, ...]) -> tuple[Floats, Floats]:
    """(x, P(|S| <= x)) for the sum of continuous Laplace noises of these scales."""
    reach = farthest(scales)
    frequency = math.pi / reach
    j = np.arange(1, _POINTS // 2)
    each, times = np.unique(scales, return_counts=True)
    phi = np.exp(-times @ np.log1p(np.square(np.outer(each, j * frequency))))
    terms = np.zeros(_POINTS, dtype=np.complex128)
    terms[1 : _POINTS // 2] = phi / j
    x = np.arange(_POINTS, dtype=np.float64) * (2 * reach / _POINTS)
    mass = (frequency * x + 2 * _sines(terms)) / math.pi
    return x[: _POINTS // 2], mass[: _POINTS // 2]


@lru_cache(maxsize=512)
def _whole(scales: tuple[float, ...]) -> tuple[Floats, Floats]:
    """(k, P(|S| <= k)) for the sum of discrete Laplace noises of these scales, at every whole k, or at equally spaced
    ones where there are more than a few thousand."""
    apart = max(1, math.ceil(2 * (farthest(scales) + len(scales)) / _POINTS))
    period = apart * _POINTS
    j = np.arange(1, _POINTS // 2 + 1)
    t = 2 * math.pi * j / period
    each, times = np.unique(scales, return_counts=True)
    q = np.exp(-1 / each)
    phi = np.exp(-times @ np.log1p(np.outer(4 * q / np.expm1(-1 / each) ** 2, np.sin(t / 2) ** 2)))
    if apart == 1:
        phi[-1] /= 2  # the highest frequency stands for itself, every other one for two
    # sin((k + 1/2) t) with k = apart * i + apart - 1
    terms = np.zeros(_POINTS, dtype=np.complex128)
    terms[1 : _POINTS // 2 + 1] = phi / np.sin(t / 2) * np.exp(1j * (apart - 0.5) * t)
    k = apart * np.arange(_POINTS, dtype=np.float64) + apart - 1.0
    mass = ((2 * k + 1) + 2 * _sines(terms)) / period
    return k[: _POINTS // 2], mass[: _POINTS // 2]


def _sines(terms: NDArray[np.complex128]) -> Floats:
    """Im sum_j terms[j] e^(2 pi i jk / n) for every k."""
    return np.asarray(np.fft.ifft(terms).imag * len(terms), dtype=np.float64)


@lru_cache(maxsize=256)
def _radius(scales: tuple[float, ...], size: int, level: float) -> float:
    """Within what of 0 a vector of `size` such sums lies in L2."""
    x, mass = _continuous(scales)
    most = float(x[int(np.searchsorted(mass, 1 - 1e-7))])
    step = most * most / _SQUARES
    edges = np.sqrt(np.arange(_SQUARES + 1) * step)
    odds = np.diff(np.interp(edges, x, mass))
    odds = np.concatenate([[0.0], np.maximum(odds, 0.0)])  # what lies between two edges counts as the farther one
    length = 1 << ((_SQUARES + 1) * size - 1).bit_length()
    total = np.fft.irfft(np.fft.rfft(odds, length) ** size, length)
    squares = np.arange(length, dtype=np.float64) * step
    return math.sqrt(_reached(squares, np.cumsum(total) - _CAUTION, level))
