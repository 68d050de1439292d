"""A question about many people's rows, read from a document's fields, and what it needs of a schema."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from thebes.curator.questions.groups import Groups, bins_of, keys_of
from thebes.curator.questions.plans import (
    NONE_DERIVED,
    CorrelationPlan,
    CountPlan,
    MeanPlan,
    Plan,
    SumPlan,
    VariancePlan,
)
from thebes.curator.questions.quantiles import BINS, QuantilePlan, levels_for
from thebes.data.derived_columns import DerivedColumns
from thebes.data.filter import RowFilter, read_filter
from thebes.data.schema import MOST_ROWS, Column, Schema
from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.grid import Grid
from thebes.privacy.samplers import LARGEST_SCALE
from thebes.privacy.transformations.counts import LevelCounts

STATISTICS = ("count", "sum", "mean", "variance", "histogram", "quantile", "correlation")
GROUPED = ("count", "sum", "mean", "variance", "quantile")  #: what may be asked by groups
MOST_CELLS = 10_000  #: of counts
MOST_GROUPS = 1_000  #: of anything else
MOST_BINS = 4096  #: of a quantile
MOST_COUNTS = 100_000  #: of quantiles by groups
_FARTHEST = 20  #: a sum's range may begin at most 2^this times its width from 0

#: the steps of a range, as bits; fewer where epsilon is so small that noise on them would not fit
_SUM_BITS, _CELL_BITS, _PRODUCT_BITS = 22, 20, 16


@dataclass(frozen=True, slots=True)
class Question:
    """One statistic of one or two columns, over the rows that meet a condition, perhaps by groups."""

    statistic: str
    columns: tuple[str, ...] = ()
    where: str | None = None
    by: tuple[str, ...] = ()
    bins: int | tuple[float, ...] | None = None
    quantile: float | None = None
    features: DerivedColumns = NONE_DERIVED  #: columns made of others, of which the question may be

    @property
    def text(self) -> str:
        """As it can be kept; `question_of` reads it."""
        told = {name: value for name, value in asdict(self).items() if name != "features"}
        return json.dumps({**told, "features": self.features.expressions} if self.features else told)

    def problem(self) -> tuple[str, str] | None:
        """The field that does not go with the others, and what is wrong with it; None where all fit together."""
        name = self.statistic
        if name == "correlation":
            if len(self.columns) != 2 or self.columns[0] == self.columns[1]:
                return "columns", "must name the two columns whose correlation is asked for"
        elif name == "count":
            if self.columns:
                return "column", "is not needed to count rows; a condition may say which of them (column IS NOT NULL)"
        elif len(self.columns) != 1:
            return "column", f"must name the column whose {name} is asked for"
        if self.by and name not in GROUPED:
            return "by", f"goes with {', '.join(GROUPED)} only"
        if len(set(self.by)) != len(self.by):
            return "by", "must not name a column twice"
        if (self.quantile is None) is (name == "quantile"):
            missing = "is missing: say which one, from 0 to 1, such as 0.5 for the median"
            return "quantile", missing if self.quantile is None else "goes with the statistic quantile only"
        return self._bins_problem()

    def _bins_problem(self) -> tuple[str, str] | None:
        if self.bins is None:
            return None
        if self.statistic == "quantile":
            if not isinstance(self.bins, int) or not 2 <= self.bins <= MOST_BINS or self.bins & (self.bins - 1):
                return "bins", f"must be a power of two from 2 to {MOST_BINS} here"
        elif self.statistic != "histogram":
            return "bins", "goes with a histogram or a quantile only"
        elif isinstance(self.bins, int):
            if not 2 <= self.bins <= MOST_CELLS:
                return "bins", f"must be from 2 to {MOST_CELLS}, or a list of places to cut at"
        elif not self.bins or len(self.bins) >= MOST_CELLS or any(a >= b for a, b in pairwise(self.bins)):
            return "bins", "must be a list of rising places to cut at"
        return None

    def plan(self, schema: Schema, *, epsilon: exact.Number = 0, delta: exact.Number = 0) -> Plan:
        """Plan how a data set of this schema answers, within a budget (0: without noise). Refuses a schema that cannot,
        naming the field and the column."""
        where, features = self._condition(schema), self.features.among((*self.columns, *self.by))
        schema = features.schema(schema)
        groups = keys_of(schema, self.by, field="by")
        most = MOST_CELLS if self.statistic == "count" else MOST_GROUPS
        if groups.count > most:
            raise Mistake("by", f"makes {groups.count} groups; at most {most} can be told apart")
        if self.statistic == "count":
            return CountPlan(groups, where, features)
        if self.statistic == "histogram":
            return CountPlan(self._histogram(schema), where, features)
        columns = [(name, self._ranged(schema, name)) for name in self.columns]
        name, column = columns[0]
        if self.statistic == "sum":
            return SumPlan(groups, where, name, _sum_grid(name, column, epsilon), features)
        if self.statistic == "quantile":
            share, bins = self.quantile or 0.5, self.bins if isinstance(self.bins, int) else BINS
            levels = levels_for(bins, share, epsilon=epsilon, delta=delta) if epsilon else (bins,)
            if groups.count * sum(levels) > MOST_COUNTS:
                raise Mistake(
                    "by",
                    f"makes {groups.count} groups, each with {sum(levels)} counts for its quantile: at most "
                    f"{MOST_COUNTS} together; ask for fewer bins",
                )
            (axis,) = bins_of(name, column, bins).axes
            return QuantilePlan(groups, where, axis, share, LevelCounts(levels), features)
        if self.statistic == "correlation":
            bits = _bits(_PRODUCT_BITS, epsilon, factors=2)
            (first, one), (second, other) = columns
            grids = (one.grid(bits), other.grid(bits))
            return CorrelationPlan(groups, where, (first, second), grids, features)
        grid = column.grid(_bits(_CELL_BITS, epsilon))
        made = MeanPlan if self.statistic == "mean" else VariancePlan
        return made(groups, where, name, grid, features)

    def _condition(self, schema: Schema) -> RowFilter | None:
        return None if self.where is None else read_filter(self.where, schema)

    def _ranged(self, schema: Schema, name: str) -> Column:
        field = "columns" if self.statistic == "correlation" else "column"
        column = schema.column(name, field)
        if not column.ranged:
            raise Mistake(field, f"names {name!r}, which needs a declared low and high")
        return column

    def _histogram(self, schema: Schema) -> Groups:
        (name,) = self.columns
        column = schema.column(name)
        if not column.ranged:
            if self.bins is not None:
                raise Mistake("bins", f"is for numbers in a range; {name!r} is counted by its declared values")
            return keys_of(schema, self.columns, field="column")
        if self.bins is None:
            raise Mistake("bins", f"must say into how many bins the range of {name!r} is cut, or where")
        return bins_of(name, column, self.bins)


def question_of(text: str) -> Question:
    """The inverse of `Question.text`."""
    told = json.loads(text)
    features = DerivedColumns.of(told.pop("features", None))
    fields: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in told.items()}
    return Question(**fields, features=features)


def _bits(most: int, epsilon: exact.Number, *, factors: int = 1) -> int:
    """So many that noise for a person with as many rows as a schema may declare still fits its samplers. It depends on
    the document alone, so that every site chooses alike."""
    price = float(exact.declared("epsilon", epsilon))
    if price <= 0:
        return most
    room = math.log2(LARGEST_SCALE) - math.log2(MOST_ROWS / price) - 1
    return max(1, min(most, int(room / factors)))


def _sum_grid(name: str, column: Column, epsilon: exact.Number) -> Grid:
    whole = column.grid(1)
    far = max(0, math.ceil(math.log2(max(abs(whole.low), abs(whole.high)) / (whole.high - whole.low))))
    if far > _FARTHEST:
        raise Mistake("column", f"names {name!r}, whose bounds are too close together for a sum; ask for its mean")
    return column.grid(max(1, _bits(_SUM_BITS, epsilon) - far))
