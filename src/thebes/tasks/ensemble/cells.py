"""From values to cells: a feature's value falls into a bin, the bins of a subset and the label into one cell.

Owners, aggregator and released model cut alike, from what is public: the document and the thresholds in the ask.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.rows import Rows
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.tasks.document import Range, Values
from thebes.tasks.ensemble.kind import MISSING, MOST_BINS, MOST_CELLS, EnsembleDocument

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class FeatureCut:
    """The cut of one column: a range at rising `thresholds` (a value at one counts as above), a set into `groups` of
    positions among its values. What is missing takes the default's bin, or without one a last bin of its own."""

    column: str
    bound: Range | Values
    thresholds: tuple[float, ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()

    @property
    def known(self) -> int:
        """The bins of values that are there."""
        return len(self.thresholds) + 1 if isinstance(self.bound, Range) else len(self.groups)

    @property
    def size(self) -> int:
        return self.known + (self.bound.default is None)

    def bins(self, rows: Rows) -> Integers:
        """Each row's bin."""
        bound = self.bound
        if isinstance(bound, Range):
            numbers, missing = rows.numbers(self.column)
            stand_in = self.known if bound.default is None else self._of(np.array([bound.default]))[0]
            return np.where(missing, stand_in, self._of(np.where(missing, bound.low, numbers)))
        place = np.empty(len(bound.values), dtype=np.int64)
        for number, group in enumerate(self.groups):
            place[list(group)] = number
        index, missing = rows.categories(self.column, bound.values)
        stand_in = self.known if bound.default is None else place[bound.values.index(bound.default)]
        return np.where(missing, stand_in, place[index])

    def _of(self, numbers: NDArray[np.float64]) -> Integers:
        return np.searchsorted(np.array(self.thresholds), numbers, side="right").astype(np.int64)

    def within(self, coarser: FeatureCut) -> Integers | None:
        """The bin of `coarser` that each bin of this cut lies in; None where one lies in several."""
        last = [coarser.known] if self.bound.default is None else []
        if self.column != coarser.column:
            return None
        if isinstance(self.bound, Range):
            if not set(coarser.thresholds) <= set(self.thresholds):
                return None
            return np.array([*np.searchsorted(coarser.thresholds, (-math.inf, *self.thresholds), side="right"), *last])
        place = {value: number for number, group in enumerate(coarser.groups) for value in group}
        found = [{place[value] for value in group} for group in self.groups]
        if any(len(several) > 1 for several in found):
            return None
        return np.array([*(several.pop() for several in found), *last])

    def names(self) -> list[str]:
        """Name the bins."""
        if isinstance(self.bound, Range):
            ends = [figure(end) for end in (self.bound.low, *self.thresholds, self.bound.high)]
            found = [f"{low} to {high}" for low, high in itertools.pairwise(ends)]
        else:
            told = [{True: "yes", False: "no"}[v] if isinstance(v, bool) else str(v) for v in self.bound.values]
            found = [" or ".join(told[i] for i in group) for group in self.groups]
        return found + [MISSING] * (self.bound.default is None)

    def as_json(self) -> dict[str, Any]:
        if isinstance(self.bound, Range):
            return {"column": self.column, "thresholds": list(self.thresholds)}
        return {"column": self.column, "groups": [list(group) for group in self.groups]}

    @classmethod
    def asked(cls, document: EnsembleDocument, told: object) -> FeatureCut:
        """A cut as an ask names it; whatever else it may say, only a cut of a consented feature is one."""
        column = told.get("column") if isinstance(told, Mapping) else None
        if not isinstance(told, Mapping) or column not in document.features:
            raise _strange("asks for a column that is not among the features")
        bound = document.bounds[column]
        return cls(column, bound, *_pieces(bound, told))


def _pieces(bound: Range | Values, told: Mapping[str, Any]) -> tuple[tuple[float, ...], tuple[tuple[int, ...], ...]]:
    try:
        if isinstance(bound, Range):
            thresholds = tuple(float(t) for t in told["thresholds"])
            rising = all(a < b for a, b in itertools.pairwise(thresholds))
            if len(thresholds) < MOST_BINS and rising and all(map(math.isfinite, thresholds)):
                return thresholds, ()
        else:
            groups = tuple(tuple(int(i) for i in group) for group in told["groups"])
            if sorted(i for group in groups for i in group) == list(range(len(bound.values))) and all(groups):
                return (), groups
    except (KeyError, TypeError, ValueError, OverflowError):
        pass
    raise _strange("cuts a feature in a way that cannot be")


def _strange(what: str) -> Mistake:
    return Mistake("ask", f"{what}; the server did not keep to the task")


def given(document: EnsembleDocument, column: str) -> FeatureCut:
    """The cut the document itself gives; a range whose thresholds are looked for has none yet."""
    bound = document.bounds[column]
    if isinstance(bound, Range):
        return FeatureCut(column, bound, document.bins[column] if isinstance(document.bins, dict) else ())
    grouped = (document.groups or {}).get(column)
    if grouped is None or column == document.label:
        return FeatureCut(column, bound, groups=tuple((i,) for i in range(len(bound.values))))
    # `1`, `1.0` and `True` are one value to Python; a document's digest tells them apart
    place = {repr(value): i for i, value in enumerate(bound.values)}
    return FeatureCut(column, bound, groups=tuple(tuple(place[repr(value)] for value in group) for group in grouped))


@dataclass(frozen=True)
class SubsetCells:
    """A subset of features with the label: one cell for each combination of bins, the label's running fastest."""

    cuts: tuple[FeatureCut, ...]
    label: FeatureCut

    @property
    def shape(self) -> tuple[int, ...]:
        return (*(cut.size for cut in self.cuts), self.label.size)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(cut.column for cut in self.cuts)

    def places(self, rows: Rows) -> Integers:
        """Each row's place among the combinations of features, without the label."""
        found = np.zeros(rows.people, dtype=np.int64)
        for cut in self.cuts:
            found = found * cut.size + cut.bins(rows)
        return found

    def of(self, rows: Rows) -> Integers:
        """Each row's cell."""
        return self.places(rows) * self.label.size + self.label.bins(rows)


def cells_of(document: EnsembleDocument, cuts: Sequence[FeatureCut]) -> SubsetCells:
    """The cells of a subset, if there are not too many of them."""
    made = SubsetCells(tuple(cuts), given(document, document.label))
    if made.size > MOST_CELLS:
        raise Mistake("subset_size", f"makes histograms of more than {MOST_CELLS} cells: ask for fewer or coarser ones")
    return made
