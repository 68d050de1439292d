"""Expressions over one row: arithmetic of columns, as the features of a document say it, and conditions on columns."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any

from sqlglot import exp

from thebes.data.expressions import CHOOSE, DEEPEST
from thebes.data.schema import Column, Schema, only_for_networks
from thebes.privacy.faults import Mistake
from thebes.sql.refusal import refusal

_ARITHMETIC: dict[type, str] = {exp.Add: "add", exp.Sub: "subtract", exp.Mul: "multiply", exp.Div: "divide"}
_ONE: dict[type, str] = {exp.Abs: "abs", exp.Sqrt: "sqrt", exp.Ln: "log", exp.Exp: "exp"}
_TURNED: dict[type, Any] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.EQ: exp.EQ,
    exp.NEQ: exp.NEQ,
}
_MOST_WORD = 10**9
_OFFERED = "+ - * /, ABS, SQRT, LN, EXP, LEAST, GREATEST and CASE WHEN are offered over the columns of a row"


class RowExpressions:
    """The expressions over rows of one schema. Where two data sets are joined, `tables` has the columns of each, by
    what it is called and by their names there."""

    def __init__(self, schema: Schema, tables: Mapping[str, Mapping[str, str]] = MappingProxyType({})) -> None:
        self._schema, self._tables = schema, tables
        self._names = {name.lower(): name for name, column in schema.columns.items() if not column.key}

    def name(self, node: exp.Column) -> str:
        """Return a column's name as it is declared."""
        written = node.name
        if node.table and self._tables:
            return self._of_table(node)
        both = [called for called, columns in self._tables.items() if written.lower() in columns]
        if len(both) > 1 and written.lower() not in self._names:
            raise refusal(node, f"is a column of both; write {both[0]}.{written} or {both[1]}.{written}")
        name = written if written in self._names.values() else self._names.get(written.lower())
        if name is None:
            there = ", ".join(sorted(self._names.values()))
            quoted = "; a text stands in single quotes" if node.this.args.get("quoted") else ""
            raise refusal(node, f"is not a column that can be asked about; there are {there}{quoted}")
        if self._schema.columns[name].tensor is not None:
            raise refusal(node, f"is a column {only_for_networks(self._schema.columns[name])}")
        return name

    def _of_table(self, node: exp.Column) -> str:
        columns = self._tables.get(node.table.lower())
        if columns is None:
            raise refusal(node, f"is not of a data set in FROM; there are {', '.join(self._tables)}")
        if node.name.lower() not in columns:
            raise refusal(node, f"is not a column that can be asked about; there are {', '.join(sorted(columns))}")
        return columns[node.name.lower()]

    @property
    def taken(self) -> set[str]:
        """The names that columns have."""
        return {name.lower() for name in self._schema.columns}

    def column(self, name: str) -> Column:
        return self._schema.columns[name]

    def body(self, node: exp.Expr, depth: int = 0) -> Any:
        """Return an expression as a document's features say it."""
        if depth > DEEPEST:
            raise refusal(node, f"is nested deeper than {DEEPEST} levels")

        def inner(part: exp.Expr) -> Any:
            return self.body(part, depth + 1)

        if isinstance(node, exp.Column):
            return self._number(node)
        if isinstance(node, exp.Literal) and not node.is_string:
            return float(node.name)
        if isinstance(node, exp.Paren):
            return inner(node.this)
        if isinstance(node, exp.Neg):
            number = node.this
            if isinstance(number, exp.Literal) and not number.is_string:
                return -float(number.name)
            return {"subtract": [0, inner(number)]}
        if type(node) in _ARITHMETIC:
            return {_ARITHMETIC[type(node)]: [inner(node.this), inner(node.expression)]}
        if type(node) in _ONE:
            return {_ONE[type(node)]: inner(node.this)}
        if isinstance(node, (exp.Least, exp.Greatest)):
            parts = [inner(part) for part in (node.this, *node.expressions)]
            return {"least" if isinstance(node, exp.Least) else "greatest": parts}
        if isinstance(node, exp.Case):
            return self._case(node, depth)
        if isinstance(node, exp.Coalesce):
            raise refusal(
                node,
                "a row without a value is left out of an expression; SUM, AVG and COUNT take it as a whole, such as "
                "AVG(COALESCE(column, 0))",
            )
        if isinstance(node, exp.Predicate):
            told = node.sql("duckdb")
            raise refusal(node, f"is true or false; for the share of rows write CASE WHEN {told} THEN 1 ELSE 0 END")
        raise refusal(node, f"is not offered: {_OFFERED}")

    def stand_in(self, node: exp.Coalesce) -> Fraction:
        """Return the number that stands in for what is missing."""
        number = _value(node.expressions[0]) if len(node.expressions) == 1 else None
        if number is None:
            raise refusal(node, "takes one expression and one number, such as COALESCE(column, 0)")
        return number

    def choice(self, node: exp.Case) -> Any:
        """Return a CASE by which rows are grouped as a document's features say it."""
        branches, otherwise = self._branches(node, "ELSE 'other'")
        return {CHOOSE: [*([self.condition(when), _word(word)] for when, word in branches), _word(otherwise)]}

    def condition(self, node: exp.Expr) -> str:
        """Return a condition as a document says it: over columns, compared with values."""
        if node.find(exp.AggFunc) is not None:
            raise refusal(node, "an aggregate stands where a condition on rows must")
        made = node.copy().transform(self._solved)
        for column in made.find_all(exp.Column):
            name = self.name(column)
            column.set("this", exp.to_identifier(name))
            if self._tables:
                column.set("table", None)
        return made.sql("duckdb")

    def _number(self, node: exp.Column) -> str:
        name = self.name(node)
        if not self.column(name).ranged:
            raise refusal(node, "has no declared low and high; CASE WHEN ... THEN 1 ELSE 0 END counts its values")
        return name

    def _case(self, node: exp.Case, depth: int) -> Any:
        branches, otherwise = self._branches(node, "ELSE 0")
        made = self.body(otherwise, depth + 1)
        for when, value in reversed(branches):
            made = {"if": [self.condition(when), self.body(value, depth + 1), made]}
        return made

    def _branches(self, node: exp.Case, example: str) -> tuple[list[tuple[exp.Expr, exp.Expr]], exp.Expr]:
        """The conditions of a CASE, each with what counts where it holds, and what counts where none does."""
        if node.this is not None:
            raise refusal(node, "write CASE WHEN condition THEN ..., with a condition at every WHEN")
        otherwise = node.args.get("default")
        if otherwise is None or isinstance(otherwise, exp.Null):
            raise refusal(node, f"must say what counts otherwise: {example}")
        return [(when.this, when.args["true"]) for when in node.args["ifs"]], otherwise

    def _solved(self, node: exp.Expr) -> exp.Expr:
        """Solve a comparison of arithmetic over one column with a number, so that the column stands alone."""
        if type(node) not in _TURNED:
            return node
        left, right, kind = node.this, node.expression, type(node)
        if _value(left) is not None:
            left, right, kind = right, left, _TURNED[kind]
        number = _value(right)
        if number is None or isinstance(left, exp.Column):
            return node
        while not isinstance(left, exp.Column):
            left, number, kind = self._undone(left, number, kind)
        return kind(this=left.copy(), expression=_literal(number))

    def _undone(self, node: exp.Expr, number: Fraction, kind: Any) -> tuple[exp.Expr, Fraction, Any]:
        """Take one operation off the left side."""
        if isinstance(node, exp.Paren):
            return node.this, number, kind
        if isinstance(node, exp.Neg):
            return node.this, -number, _TURNED[kind]
        if isinstance(node, exp.Coalesce):
            raise refusal(node, "is not offered in a condition; add OR column IS NULL, or AND column IS NOT NULL")
        one, other = node.this, node.args.get("expression")
        a, b = _value(one), None if other is None else _value(other)
        if isinstance(node, exp.Add) and (a is not None or b is not None):
            return (other, number - a, kind) if a is not None else (one, number - b, kind)  # type: ignore[return-value, operator]
        if isinstance(node, exp.Sub) and b is not None:
            return one, number + b, kind
        if isinstance(node, exp.Sub) and a is not None:
            return other, a - number, _TURNED[kind]  # type: ignore[return-value]
        by = a if a is not None else b
        if isinstance(node, exp.Mul) and by:
            return (other if a is not None else one), number / by, kind if by > 0 else _TURNED[kind]  # type: ignore[return-value]
        if isinstance(node, exp.Div) and b:
            return one, number * b, kind if b > 0 else _TURNED[kind]
        raise refusal(node, "must be a column, or + - * / of one column with numbers, compared with a number")


def _word(node: exp.Expr) -> bool | int | str:
    """Return the value by which a CASE names a group."""
    if isinstance(node, exp.Literal) and node.is_string:
        return str(node.name)
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    number = _value(node)
    if number is None or number.denominator != 1 or abs(number) > _MOST_WORD:
        raise refusal(node, "names a group: a CASE in GROUP BY chooses among texts or whole numbers")
    return int(number)


def _value(node: exp.Expr) -> Fraction | None:
    """Return the number that constant arithmetic gives; None where it is none."""
    if isinstance(node, exp.Literal) and not node.is_string:
        try:
            return Fraction(node.name)
        except (ValueError, ZeroDivisionError):
            raise refusal(node, "cannot be read as a number") from None
    if isinstance(node, exp.Paren):
        return _value(node.this)
    if isinstance(node, exp.Neg):
        inner = _value(node.this)
        return None if inner is None else -inner
    if type(node) in _ARITHMETIC:
        a, b = _value(node.this), _value(node.expression)
        if a is None or b is None:
            return None
        if isinstance(node, exp.Div):
            if not b:
                raise refusal(node, "divides by 0")
            return a / b
        return a + b if isinstance(node, exp.Add) else a - b if isinstance(node, exp.Sub) else a * b
    return None


def _literal(number: Fraction) -> exp.Expr:
    if number.denominator == 1:
        made: exp.Expr = exp.Literal.number(abs(number.numerator))
    else:
        try:
            made = exp.Literal.number(repr(abs(float(number))))
        except OverflowError:
            raise Mistake("sql", "compares with a number that is too large") from None
    return exp.Neg(this=made) if number < 0 else made
