"""The plan by which each statistic is answered: which whole-number sums, how far one row moves them, and what the noisy
sums say.

A plan is a pure function of the question and of a schema's columns. Of how many rows one person may have it knows
nothing, so that sites that differ in this can be added up.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from thebes.curator.questions.groups import Groups
from thebes.data.derived_columns import DerivedColumns
from thebes.data.filter import RowFilter
from thebes.data.table import Factor, Sums, Table, Term
from thebes.privacy.faults import Mistake
from thebes.privacy.grid import Grid
from thebes.privacy.measurement import Floats, Interval
from thebes.privacy.mechanisms.additive import Hiding
from thebes.privacy.mechanisms.correlation import ProductMoments
from thebes.privacy.mechanisms.mean import ends_of, share_between, share_of
from thebes.privacy.mechanisms.offset import Off
from thebes.privacy.mechanisms.variance import VarianceMoments
from thebes.privacy.stability import Transformation
from thebes.privacy.transformations.counts import Count, HistogramCounts, UnitCount
from thebes.privacy.transformations.groups import Grouped
from thebes.privacy.transformations.moments import BernsteinProducts, BernsteinSums
from thebes.privacy.transformations.sums import ShiftedSum

Integers = NDArray[np.int64]
Ends = tuple[float, float]

NONE_DERIVED = DerivedColumns()
MOST_ROWS = 2**40  #: that a data set may be said to have
_MOST_SURE = 1 - 1e-8  #: beyond, the width of noise is known too roughly


@dataclass(frozen=True, slots=True)
class NoisyResult:
    """The finding of noisy totals: a number, or one for each group by name, with error bars at the levels asked for."""

    value: Any
    intervals: Mapping[float, Interval] = field(default_factory=dict)


class QuestionPlan(ABC):
    """A question over one set of columns as noise and an answer need it: its totals, and what they say."""

    groups: Groups
    where: RowFilter | None

    @property
    @abstractmethod
    def transformation(self) -> Transformation:
        """The transformation that noise has to hide: the totals of every group, one after another."""

    @property
    @abstractmethod
    def ends_of_totals(self) -> Ends:
        """Between which ends one row's addition to a total lies."""

    @property
    @abstractmethod
    def measured(self) -> tuple[tuple[Plan, int], ...]:
        """The plans whose totals make up these, each with how many times it is taken."""

    @abstractmethod
    def totals(self, table: Table) -> Integers:
        """The exact totals over a table's rows."""

    @abstractmethod
    def finish(
        self, totals: Floats, hidden: Hiding | None, levels: tuple[float, ...], *, beta: float = 0.0
    ) -> NoisyResult:
        """Post-processing alone: what the totals say, and between which ends each answer lies by itself. `hidden` is
        the noise in them, None where there is none. `beta` are the odds that what it bounds is exceeded: they add to
        those of missing the noise, so that high levels have no interval (union bound)."""

    @property
    def single(self) -> Plan | None:
        """The plan itself where it is of one statistic; None of several at once."""
        return None

    @property
    def size(self) -> int:
        return self.transformation.reach.coordinates

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters that a certificate gives of how it was computed."""
        return {"cells": self.size}

    @property
    def notes(self) -> tuple[str, ...]:
        """The sentences that a certificate must also say."""
        return ()

    @property
    def step(self) -> float:
        """The worth of one step of the totals, in rows."""
        return 1.0

    def examine(self, totals: Integers) -> None:
        """Refuse exact totals that no rows can have."""
        self._fair((totals >= 0).all())

    def _fair(self, truth: object) -> None:
        if not truth:
            raise Mistake("payload.totals", "cannot be the totals of any rows of this schema")


class Plan(QuestionPlan):
    """The plan of one statistic."""

    features: DerivedColumns  #: of which columns that are asked are made, where they are not the data set's own

    @property
    def single(self) -> Plan:
        return self

    @property
    @abstractmethod
    def row(self) -> Transformation:
        """The part that one row adds to its group's totals."""

    @property
    @abstractmethod
    def sums(self) -> Sums:
        """The sums that are asked of a table."""

    @abstractmethod
    def value(self, totals: Floats) -> float:
        """The answer that one group's totals give."""

    @abstractmethod
    def ends(self, totals: Floats, hidden: Hiding, level: float) -> Ends:
        """Return the ends between which the exact answer lies that noise hid, with at least this probability."""

    @property
    def transformation(self) -> Transformation:
        return self.row if self.groups.count == 1 else Grouped(self.row, self.groups.count)

    @property
    def measured(self) -> tuple[tuple[Plan, int], ...]:
        return ((self, 1),)

    @property
    def ends_of_totals(self) -> Ends:
        return 0.0, float(self.row.reach.l1)

    def totals(self, table: Table) -> Integers:
        return self.of_sums(self.features.table(table).sums(self.sums)).reshape(-1)

    def of_sums(self, sums: Integers) -> Integers:
        """Return what is noised, from what the table gives: one row for each group."""
        return sums

    def finish(
        self, totals: Floats, hidden: Hiding | None, levels: tuple[float, ...], *, beta: float = 0.0
    ) -> NoisyResult:
        each = np.asarray(totals, dtype=np.float64).reshape(self.groups.count, -1)
        values = [self.value(own) for own in each]
        if hidden is None:
            return NoisyResult(self.groups.told(values))
        bars = {}
        for level, sure in sure_levels(levels, hidden, beta):
            low, high = np.array([self.ends(own, hidden, sure) for own in each]).T
            bars[level] = Interval(level, low, high) if self.groups.axes else Interval(level, low[0], high[0])
        return NoisyResult(self.groups.told(values), bars)


def sure_levels(levels: tuple[float, ...], hidden: Hiding, beta: float) -> Iterator[tuple[float, float]]:
    """Yield each level at which the width of the noise is known well enough, with the level that the noise must be
    within for it: what is bounded is exceeded with the odds `beta`."""
    for level in levels:
        sure = level + beta
        if sure <= (1.0 if isinstance(hidden, Off) and hidden.beside is None else _MOST_SURE):
            yield level, sure


@dataclass(frozen=True)
class CountPlan(Plan):
    """The plan of how many rows there are, or how many in each group. Unbiased: a count may come out below 0."""

    groups: Groups
    where: RowFilter | None
    features: DerivedColumns = NONE_DERIVED

    @property
    def row(self) -> Transformation:
        return Count()

    @property
    def transformation(self) -> Transformation:
        return HistogramCounts(self.groups.count) if self.groups.count > 1 else Count()

    @property
    def sums(self) -> Sums:
        return Sums((Term(),), axes=self.groups.axes, where=self.where)

    def value(self, totals: Floats) -> float:
        return float(totals[0])

    def ends(self, totals: Floats, hidden: Hiding, level: float) -> Ends:
        width = hidden.width(level)
        return float(totals[0]) - width, float(totals[0]) + width


@dataclass(frozen=True)
class PeoplePlan(CountPlan):
    """The plan of how many units there are, or how many in each group: of a person with several rows one."""

    @property
    def row(self) -> UnitCount:
        return UnitCount(self.groups.count)

    @property
    def transformation(self) -> Transformation:
        return self.row if self.groups.count == 1 else Grouped(self.row, self.groups.count)

    @property
    def sums(self) -> Sums:
        return Sums((Term(),), axes=self.groups.axes, where=self.where, units=True)


@dataclass(frozen=True)
class SumPlan(Plan):
    """The sum of a column, in steps of its range. Where the range begins is rounded to a whole number of steps: with
    what rounding a value takes, at most one step for each row (`parameters["rounding"]`)."""

    groups: Groups
    where: RowFilter | None
    column: str
    grid: Grid
    features: DerivedColumns = NONE_DERIVED

    @property
    def row(self) -> ShiftedSum:
        return ShiftedSum(self.grid, round(self.grid.low / self.grid.step))

    @property
    def sums(self) -> Sums:
        terms = (Term(), Term((Factor(self.column, 1, 1),)))
        return Sums(terms, bits=self.grid.bits, axes=self.groups.axes, where=self.where)

    def of_sums(self, sums: Integers) -> Integers:
        added: Integers = self.row.shift * sums[:, 0] + sums[:, 1]
        return added

    @property
    def parameters(self) -> dict[str, Any]:
        return {**super().parameters, "rounding": self.grid.step}

    @property
    def step(self) -> float:
        """In the column's own measure."""
        return self.grid.step

    @property
    def ends_of_totals(self) -> Ends:
        return float(min(0, self.row.shift)), float(max(0, self.row.shift + self.grid.steps))

    def examine(self, totals: Integers) -> None:
        """Any sum between the ends can be one of some rows."""

    def value(self, totals: Floats) -> float:
        return float(totals[0]) * self.grid.step

    def ends(self, totals: Floats, hidden: Hiding, level: float) -> Ends:
        width = hidden.width(level)
        return (float(totals[0]) - width) * self.grid.step, (float(totals[0]) + width) * self.grid.step


@dataclass(frozen=True)
class MomentsPlan(Plan):
    """The plan of what follows from the moments of one column up to a degree: every row hands out its tokens to
    degree + 1 cells (see `BernsteinSums`), so that exact totals of rows are whole multiples of a row's."""

    groups: Groups
    where: RowFilter | None
    column: str
    grid: Grid
    features: DerivedColumns = NONE_DERIVED

    degree: ClassVar[int]

    @property
    def row(self) -> Transformation:
        return BernsteinSums(self.grid, self.degree)

    @property
    def step(self) -> float:
        return 1 / self.grid.steps

    @property
    def sums(self) -> Sums:
        terms = tuple(Term((Factor(self.column, self.degree, place),)) for place in range(self.degree + 1))
        return Sums(terms, bits=self.grid.bits, axes=self.groups.axes, where=self.where)

    def examine(self, totals: Integers) -> None:
        super().examine(totals)
        self._fair((totals.reshape(-1, self.degree + 1).sum(axis=1) % self.grid.steps == 0).all())


class MeanPlan(MomentsPlan):
    """The mean of a column within its bounds (see `mechanisms.mean`); of no rows it is noise within the bounds."""

    degree = 1

    def value(self, totals: Floats) -> float:
        share = share_of(totals[0], totals[1], self.grid)
        return float(self.grid.low + min(max(share, 0.0), 1.0) * (self.grid.high - self.grid.low))

    def ends(self, totals: Floats, hidden: Hiding, level: float) -> Ends:
        return ends_of(share_between(float(totals[0]), float(totals[1]), noise=hidden, level=level), self.grid)


class VariancePlan(MomentsPlan):
    """The mean squared distance from the mean (see `mechanisms.variance`)."""

    degree = 2

    def value(self, totals: Floats) -> float:
        return VarianceMoments.of_cells(totals).variance(self.grid.steps) * (self.grid.high - self.grid.low) ** 2

    def ends(self, totals: Floats, hidden: Hiding, level: float) -> Ends:
        return VarianceMoments.of_cells(totals).ends(hidden, level, self.grid)


@dataclass(frozen=True)
class CorrelationPlan(Plan):
    """Pearson's correlation of two columns (see `mechanisms.correlation`)."""

    groups: Groups
    where: RowFilter | None
    columns: tuple[str, str]
    grids: tuple[Grid, Grid]
    features: DerivedColumns = NONE_DERIVED

    @property
    def row(self) -> BernsteinProducts:
        return BernsteinProducts(*self.grids)

    @property
    def step(self) -> float:
        return 1 / self.row.tokens

    @property
    def sums(self) -> Sums:
        first, second = self.columns
        terms = tuple(Term((Factor(first, 2, i), Factor(second, 2, j))) for i in range(3) for j in range(3))
        return Sums(terms, bits=self.grids[0].bits, axes=self.groups.axes, where=self.where)

    def examine(self, totals: Integers) -> None:
        super().examine(totals)
        self._fair((totals.reshape(-1, 9).sum(axis=1) % self.row.tokens == 0).all())

    def value(self, totals: Floats) -> float:
        return ProductMoments.of_cells(totals).correlation(self.row.tokens)

    def ends(self, totals: Floats, hidden: Hiding, level: float) -> Ends:
        return ProductMoments.of_cells(totals).ends(hidden, level, self.grids)
