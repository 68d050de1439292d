"""Noise on integers by opendp's exact rational samplers. opendp takes a while to import, so only on first use."""

from __future__ import annotations

import math
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake

Integers = NDArray[np.int64]


@lru_cache(maxsize=1)
def _opendp() -> Any:
    """The parts of opendp that are used here: `opendp.prelude` loads scikit-learn, too, and takes ten times as long."""
    from opendp import domains, measurements, metrics, mod

    mod.enable_features("contrib")
    return SimpleNamespace(
        vector_domain=domains.vector_domain,
        atom_domain=domains.atom_domain,
        l1_distance=metrics.l1_distance,
        l2_distance=metrics.l2_distance,
        m=measurements,
    )


def _noised(values: Integers, scale: float, gaussian: bool) -> Integers:
    if not (math.isfinite(scale) and scale >= 0):
        raise Mistake("scale", "must be finite and not negative")
    flat = np.ascontiguousarray(values, dtype=np.int64).reshape(-1)
    if scale == 0 or flat.size == 0:
        return flat.reshape(values.shape).copy()
    dp = _opendp()
    domain = dp.vector_domain(dp.atom_domain(T="i64"), size=flat.size)
    if gaussian:
        mechanism = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale)
    else:
        mechanism = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale)
    return np.asarray(mechanism(flat), dtype=np.int64).reshape(values.shape)


def add_laplace(values: Integers, *, scale: float) -> Integers:
    """Each value plus discrete Laplace noise (geometric on both sides). Source: Ghosh et al. 2009; opendp's sampler."""
    return _noised(values, scale, gaussian=False)


def add_gaussian(values: Integers, *, scale: float) -> Integers:
    """Each value plus discrete Gaussian noise. Source: Canonne, Kamath & Steinke 2020; opendp's sampler."""
    return _noised(values, scale, gaussian=True)
