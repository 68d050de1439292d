"""opendp's exact samplers: the reference beside which our own are tested."""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.randomness import Randomness, Words, system

Integers = NDArray[np.int64]


@lru_cache(maxsize=1)
def opendp() -> SimpleNamespace:
    """Load the parts of opendp that tests use: `opendp.prelude` takes ten times as long."""
    from opendp import domains, measurements, metrics, mod

    mod.enable_features("contrib")
    return SimpleNamespace(
        vector_domain=domains.vector_domain,
        atom_domain=domains.atom_domain,
        l1_distance=metrics.l1_distance,
        l2_distance=metrics.l2_distance,
        m=measurements,
    )


class OpenDP(Randomness):
    """Noise by opendp; words from the operating system."""

    drawn_by = "opendp"

    def words(self, count: int) -> Words:
        return system().words(count)

    def laplace(self, values: Integers, *, scale: float) -> Integers:
        dp = opendp()
        return self._noised(values, lambda domain: dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale))

    def gaussian(self, values: Integers, *, scale: float) -> Integers:
        dp = opendp()
        return self._noised(values, lambda domain: dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale))

    def _noised(self, values: Integers, made) -> Integers:  # type: ignore[no-untyped-def]
        dp, flat = opendp(), np.ascontiguousarray(values).reshape(-1)
        mechanism = made(dp.vector_domain(dp.atom_domain(T="i64"), size=flat.size))
        return np.asarray(mechanism(flat), dtype=np.int64).reshape(values.shape)
