"""Reports that are sets of categories: one row of zeros and ones for each owner."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.local.categories import CategoryMechanism
from thebes.privacy.mechanisms.local.shape import Integers

Bits = NDArray[np.uint8]


class SetMechanism(CategoryMechanism):
    """A report is a set of categories and supports every member."""

    def check(self, reports: ArrayLike) -> Bits:
        """Rows of `size` zeros and ones."""
        try:
            array = np.asarray(reports)
        except (ValueError, OverflowError, TypeError):
            raise Mistake("reports", f"must be rows of {self.size} zeros and ones") from None
        if array.ndim != 2 or array.shape[1] != self.size or array.dtype.kind not in "biu":
            raise Mistake("reports", f"must be rows of {self.size} zeros and ones")
        if array.shape[0] == 0:
            raise Mistake("reports", "must not be empty")
        if int(array.min()) < 0 or int(array.max()) > 1:
            raise Mistake("reports", "must hold only zeros and ones")
        return array.astype(np.uint8, copy=False)

    def _support(self, reports: NDArray[np.int64] | NDArray[np.uint8]) -> Integers:
        return np.asarray(np.sum(reports, axis=0, dtype=np.int64))
