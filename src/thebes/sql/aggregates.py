"""The aggregates of a statement: which statistics a document must ask, and what makes its columns of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from thebes.curator.questions.joint import MOST_STATISTICS
from thebes.data.expressions import DEEPEST
from thebes.sql import arithmetic
from thebes.sql.arithmetic import Arithmetic, BarredValue
from thebes.sql.refusal import refusal
from thebes.sql.row_expression import RowExpressions

_ONE = (exp.Sum, exp.Avg, exp.VariancePop, exp.Variance, exp.StddevPop, exp.Stddev, exp.StddevSamp)
_LEVEL = (exp.Median, exp.Quantile, exp.PercentileCont, exp.PercentileDisc)
_SPREAD = (exp.VariancePop, exp.Variance, exp.StddevPop, exp.Stddev, exp.StddevSamp)
_ROOT = (exp.StddevPop, exp.Stddev, exp.StddevSamp)
_WHOLE = (exp.VariancePop, exp.StddevPop)  #: of all rows; the others divide by one less
AGGREGATES = (exp.Count, *_ONE, *_LEVEL, exp.WithinGroup)
_OFFERED = "COUNT, SUM, AVG, VARIANCE, STDDEV, MEDIAN and QUANTILE_CONT are offered"

_CORNERS: dict[type, Callable[[float, float], float]] = {
    exp.Add: operator.add,
    exp.Sub: operator.sub,
    exp.Mul: operator.mul,
}
_COMPARED: dict[type, Callable[[Any, Any], bool]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
    exp.And: lambda a, b: bool(a) and bool(b),
    exp.Or: lambda a, b: bool(a) or bool(b),
}
_ONE_PART: dict[type, Callable[[list[BarredValue]], BarredValue]] = {
    exp.Sqrt: arithmetic.rising(math.sqrt, least=0.0),
    exp.Ln: arithmetic.rising(math.log),
    exp.Exp: arithmetic.rising(math.exp),
    exp.Abs: arithmetic.absolute,
}


class Aggregates:
    """The statistics and features that a statement needs, found while its columns are read."""

    def __init__(self, rows: RowExpressions, keys: tuple[str, ...], cases: Mapping[str, exp.Case]) -> None:
        self._rows, self._keys, self._cases = rows, keys, cases
        self.statistics: dict[str, dict[str, Any]] = {}
        self.features: dict[str, Any] = {name: rows.choice(case) for name, case in cases.items()}
        self.named: dict[str, Arithmetic] = {}  #: columns that were read, by their names

    def read(self, node: exp.Expr, depth: int = 0) -> Arithmetic:
        """Read arithmetic over aggregates and keys."""
        if depth > DEEPEST:
            raise refusal(node, f"is nested deeper than {DEEPEST} levels")
        if isinstance(node, AGGREGATES):
            return self._aggregate(node)
        if isinstance(node, exp.Column):
            return self._column(node)
        if isinstance(node, exp.Literal):
            return arithmetic.constant(node.name if node.is_string else float(node.name))
        if isinstance(node, exp.Boolean):
            return arithmetic.constant(bool(node.this))
        if isinstance(node, exp.Paren):
            return self.read(node.this, depth + 1)
        if isinstance(node, exp.Case):
            return self._case(node)
        if isinstance(node, exp.Neg):
            zero = arithmetic.constant(0.0)
            return arithmetic.joined([zero, self.read(node.this, depth + 1)], arithmetic.corners(operator.sub))
        if isinstance(node, exp.Not):
            return arithmetic.joined([self.read(node.this, depth + 1)], lambda parts: BarredValue(not parts[0].value))
        return self._operation(node, depth + 1)

    def _operation(self, node: exp.Expr, depth: int) -> Arithmetic:
        kind = type(node)
        if kind in _CORNERS or kind in _COMPARED or kind in (exp.Div, exp.Pow):
            parts = [self.read(node.this, depth), self.read(node.expression, depth)]
            made = (
                arithmetic.corners(_CORNERS[kind])
                if kind in _CORNERS
                else arithmetic.compared(_COMPARED[kind])
                if kind in _COMPARED
                else (arithmetic.divided if kind is exp.Div else arithmetic.power)
            )
            return arithmetic.joined(parts, made)
        if isinstance(node, exp.Coalesce):
            return self._filled(node, depth)
        if kind in _ONE_PART:
            return arithmetic.joined([self.read(node.this, depth)], _ONE_PART[kind])
        if isinstance(node, exp.Round):
            digits = node.args.get("decimals")
            if digits is not None and not (isinstance(digits, exp.Literal) and digits.name.isdecimal()):
                raise refusal(node, "ROUND takes a whole number of digits")
            places = 0 if digits is None else int(digits.name)
            return arithmetic.joined(
                [self.read(node.this, depth)], arithmetic.rising(lambda value: round(value, places))
            )
        if isinstance(node, (exp.Max, exp.Min)):
            end = "0.99" if isinstance(node, exp.Max) else "0.01"
            raise refusal(node, f"is one person's value; ask QUANTILE_CONT(column, {end})")
        if isinstance(node, exp.Corr):
            raise refusal(node, "is not offered in SQL; a query of the statistic correlation names two columns")
        raise refusal(
            node, f"is not offered: {_OFFERED}, and + - * / comparisons, ROUND, SQRT, POWER, ABS, LN over them"
        )

    def _case(self, node: exp.Case) -> Arithmetic:
        for name, case in self._cases.items():
            if node == case:
                return arithmetic.key(name)
        raise refusal(node, "stands outside an aggregate, so it would be a row's value; put the same into GROUP BY")

    def _column(self, node: exp.Column) -> Arithmetic:
        if node.name in self.named:
            return self.named[node.name]
        if node.name in self._cases:
            return arithmetic.key(node.name)
        name = self._rows.name(node)
        if name not in self._keys:
            raise refusal(node, "stands outside an aggregate, so it would be a row's value; add it to GROUP BY")
        return arithmetic.key(name)

    def _aggregate(self, node: exp.Expr) -> Arithmetic:
        if isinstance(node, exp.WithinGroup):
            ordered = node.expression.expressions[0].this
            return self._quantile(node, ordered, node.this.this, node.this)
        of = node.this
        if of is not None and of.find(exp.AggFunc) is not None:
            raise refusal(node, "an aggregate inside an aggregate needs a query in a query, which is not offered")
        if isinstance(of, exp.Coalesce):
            return self._of_filled(node, of)
        if isinstance(node, exp.Count):
            return self._count(node, of)
        if isinstance(of, exp.Distinct):
            raise refusal(node, "DISTINCT is not offered; GROUP BY the column to see its values")
        if isinstance(node, _LEVEL):
            level = node.args.get("quantile") or node.args.get("expression")  # the parser has two names for it
            return self._quantile(node, of, level, node)
        if isinstance(node, _SPREAD):
            return self._spread(node, self._measured(of))
        return self._asked("sum" if isinstance(node, exp.Sum) else "mean", column=self._measured(of))

    def _filled(self, node: exp.Coalesce, depth: int) -> Arithmetic:
        """Read an aggregate in whose place a number stands where it is missing; a count never is, nor a sum here."""
        number, made = float(self._rows.stand_in(node)), self.read(node.this, depth)
        if isinstance(node.this, exp.Sum) and number:
            raise refusal(node, "a sum of nothing is 0 here; write COALESCE(SUM(column), 0)")
        if isinstance(node.this, (exp.Sum, exp.Count)):
            return made
        return arithmetic.joined([made, arithmetic.constant(number)], arithmetic.filled)

    def _of_filled(self, node: exp.Expr, of: exp.Coalesce) -> Arithmetic:
        """Read an aggregate over an expression in which a number stands in for what is missing: as many rows as lack a
        value add that number each."""
        number = float(self._rows.stand_in(of))
        if not isinstance(node, (exp.Sum, exp.Avg, exp.Count)):
            raise refusal(node, "a row without a value is left out of it; SUM, AVG and COUNT take COALESCE(column, 0)")
        column = self._measured(of.this)
        if isinstance(node, exp.Count):
            return self._asked("count")
        made = self._asked("sum", column=column)
        if number:
            lacking = [self._asked("count"), self._asked("count", column=column)]
            added = [arithmetic.constant(number), arithmetic.joined(lacking, arithmetic.corners(operator.sub))]
            each = [made, arithmetic.joined(added, arithmetic.corners(operator.mul))]
            made = arithmetic.joined(each, arithmetic.corners(operator.add))
        return (
            made if isinstance(node, exp.Sum) else arithmetic.joined([made, self._asked("count")], arithmetic.divided)
        )

    def _count(self, node: exp.Count, of: exp.Expr) -> Arithmetic:
        if isinstance(of, exp.Star) or (isinstance(of, exp.Literal) and not of.is_string):
            return self._asked("count")
        if isinstance(of, exp.Distinct):
            if [part.sql().lower() for part in of.expressions] == ["person"] and "person" not in self._rows.taken:
                return self._asked("people")
            raise refusal(
                node,
                "DISTINCT goes with COUNT(DISTINCT person) only, where no column has that name; GROUP BY the column to "
                "see its values",
            )
        if isinstance(of, exp.Column) and not self._rows.column(name := self._rows.name(of)).ranged:
            there = self._feature({"if": [f"{name} IS NOT NULL", 1, 0]})  # a row without a value is left out of it
            return self._asked("count", column=there)
        return self._asked("count", column=self._measured(of))

    def _spread(self, node: exp.Expr, column: str) -> Arithmetic:
        made = self._asked("variance", column=column)
        if not isinstance(node, _WHOLE):  # times n / (n - 1), both as they were released
            rows, one = self._asked("count", column=column), arithmetic.constant(1.0)
            less = arithmetic.joined([rows, one], arithmetic.corners(operator.sub))
            made = arithmetic.joined(
                [made, arithmetic.joined([rows, less], arithmetic.divided)], arithmetic.corners(operator.mul)
            )
        return arithmetic.joined([made], arithmetic.rising(math.sqrt, least=0.0)) if isinstance(node, _ROOT) else made

    def levels(self, node: exp.Expr) -> list[tuple[str, exp.Expr]]:
        """Return the quantiles that a list of levels asks, each by its level; nothing where there is no list."""
        level = node.args.get("quantile") or node.args.get("expression") if isinstance(node, _LEVEL) else None
        if not isinstance(level, exp.Array) or not level.expressions:
            return []
        return [(one.sql("duckdb"), type(node)(this=node.this, quantile=one)) for one in level.expressions]

    def _quantile(self, node: exp.Expr, of: exp.Expr, level: exp.Expr | None, kind: exp.Expr) -> Arithmetic:
        if isinstance(kind, exp.Median):
            share = 0.5
        elif isinstance(level, exp.Literal) and not level.is_string:
            share = float(level.name)
        else:
            raise refusal(
                node,
                "must say one level, such as QUANTILE_CONT(age, 0.9), or be a column with a list of them, [0.1, 0.9]",
            )
        if not 0 < share < 1:
            raise refusal(node, "must say a level between 0 and 1; the ends are single people's values")
        return self._asked("quantile", column=self._measured(of), quantile=share)

    def _measured(self, of: exp.Expr) -> str:
        """Return the column or feature that an expression over a row is."""
        if isinstance(of, exp.Paren):
            return self._measured(of.this)
        if isinstance(of, exp.Star):
            raise refusal(of, "rows never leave; name a column")
        body = self._rows.body(of)
        return body if isinstance(body, str) else self._feature(body)

    def _feature(self, body: Any) -> str:
        """Return the name of a feature that is this expression."""
        for name, known in self.features.items():
            if known == body:
                return name
        name = f"x{len(self.features) + 1}"
        while name in self._rows.taken or name in self.features:
            name += "x"
        self.features[name] = body
        return name

    def _asked(self, what: str, **fields: Any) -> Arithmetic:
        wanted = {"statistic": what, **fields}
        for name, known in self.statistics.items():
            if known == wanted:
                return arithmetic.statistic(name)
        if len(self.statistics) >= MOST_STATISTICS:
            raise refusal("SELECT", f"measures more than {MOST_STATISTICS} statistics, which would share one epsilon")
        name = f"s{len(self.statistics) + 1}"
        self.statistics[name] = wanted
        return arithmetic.statistic(name)
