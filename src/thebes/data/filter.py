"""Conditions that say which rows count: over declared columns, read from SQL and nothing else of it.

A condition is brought into a form without NOT, in which every part asks one column and is true only where that column
has a value. What SQL calls unknown is then the same as false, so that every engine selects the same rows. A number
that is NaN is no value.
"""

from __future__ import annotations

import logging
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from thebes.data.schema import Schema
from thebes.privacy.faults import Mistake

if TYPE_CHECKING:
    from sqlglot import exp

LONGEST = 4000  #: characters
DEEPEST = 20  #: parentheses and NOTs inside each other
MOST_PARTS = 500
MOST_LISTED = 1000  #: values after IN
_LISTED = 12  #: declared values that a refusal lists
_QUOTED = "has something in double quotes that is no column; a text stands in single quotes"
ENDS = (-(2**63), 2**63 - 1)  #: of whole numbers in a column; what lies beyond counts as the end
#: from here on a float no longer says which whole number was meant, so it counts as the end: keys would be merged
EXACT = 2**53

Value = bool | int | float | str | datetime
Operator = Literal["=", "<>", "<", "<=", ">", ">="]


#: the signs of comparisons, and what each asks of two values or of whole columns
COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Compared:
    """The column has a value, and it compares so."""

    column: str
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class Among:
    """The column has a value, and it is one of these (or, where `inside` is False, none of them)."""

    column: str
    values: tuple[Value, ...]
    inside: bool = True


@dataclass(frozen=True, slots=True)
class Present:
    """The column has a value (or, where `there` is False, has none)."""

    column: str
    there: bool = True


@dataclass(frozen=True, slots=True)
class Every:
    """All of these hold; without any it is true."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """At least one of these holds; without any it is false."""

    parts: tuple[Condition, ...]


Condition = Compared | Among | Present | Every | Either
NEVER = Either(())


@dataclass(frozen=True, slots=True)
class RowFilter:
    """A condition that was read and found allowed. `text` is what the document says."""

    text: str
    condition: Condition

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that it asks."""
        return tuple(dict.fromkeys(leaf.column for leaf in leaves(self.condition)))


def leaves(condition: Condition) -> Iterator[Compared | Among | Present]:
    """The parts that ask one column each."""
    if isinstance(condition, (Every, Either)):
        for part in condition.parts:
            yield from leaves(part)
    else:
        yield condition


def read_filter(text: str, schema: Schema) -> RowFilter:
    """Read a condition, or refuse it naming what it may not contain."""
    return RowFilter(text, _Reader(schema).condition(_tree(text), negated=False, depth=0))


def named_columns(text: str) -> tuple[str, ...]:
    """List what a condition calls the columns that it asks, before it is known which there are."""
    from sqlglot import exp

    return tuple(dict.fromkeys(column.name for column in _tree(text).find_all(exp.Column)))


def _tree(text: str) -> exp.Expr:
    from sqlglot import errors, parse

    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # it would print the text
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise _refuse("must be a condition such as age >= 18 AND sex = 'female'")
    if len(text) > LONGEST:
        raise _refuse(f"must not be longer than {LONGEST} characters")
    try:
        text.encode()
        found = [tree for tree in parse(text) if tree is not None]
    except (errors.SqlglotError, RecursionError, ValueError):
        raise _refuse("is not a condition in SQL") from None
    if len(found) != 1:
        raise _refuse("must be exactly one condition")
    tree = found[0]
    for parts, node in enumerate(tree.walk()):
        if node.comments:
            raise _refuse("may not contain comments")
        if parts > MOST_PARTS + 2 * MOST_LISTED:
            raise _refuse(f"has more than {MOST_PARTS} parts")
    return tree


def _refuse(message: str) -> Mistake:
    return Mistake("where", message)


_NOT: dict[Operator, Operator] = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_TURNED: dict[Operator, Operator] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class _Reader:
    """One condition's tree, part after part; everything that is not named here is refused."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.names = {name.lower(): name for name in schema.columns}
        self.parts = 0

    def condition(self, node: exp.Expr, *, negated: bool, depth: int) -> Condition:
        from sqlglot import exp

        self.parts += 1
        if depth > DEEPEST:
            raise _refuse(f"is nested deeper than {DEEPEST} levels")
        if self.parts > MOST_PARTS:
            raise _refuse(f"has more than {MOST_PARTS} parts")
        if isinstance(node, exp.Paren):
            return self.condition(node.this, negated=negated, depth=depth + 1)
        if isinstance(node, exp.Not):
            return self.condition(node.this, negated=not negated, depth=depth + 1)
        if isinstance(node, (exp.And, exp.Or)):
            parts = tuple(self.condition(part, negated=negated, depth=depth + 1) for part in _chain(node))
            return Every(parts) if isinstance(node, exp.And) is not negated else Either(parts)
        if isinstance(node, exp.Column):
            name = self.column(node)
            if self.schema.columns[name].type != "boolean":
                raise _refuse(f"has {name!r} alone where a condition must stand; compare it with a value")
            return Compared(name, "=", not negated)
        operator = _operators().get(type(node))
        if operator is not None:
            return self.compared(node, operator, negated)
        if isinstance(node, exp.In):
            return self.among(node, negated)
        if isinstance(node, exp.Between):
            return self.between(node, negated)
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            return Present(self.column(node.this), there=negated)
        if isinstance(node, exp.Is) and _is_not_null(node.expression):
            return Present(self.column(node.this), there=not negated)
        if isinstance(node, (exp.Literal, exp.Boolean, exp.Null)):
            raise _refuse("holds a value where a condition must stand; compare a column with it")
        raise _refuse(f"may not contain {_spelled(node)}")

    def compared(self, node: exp.Expr, operator: Operator, negated: bool) -> Condition:
        from sqlglot import exp

        left, right = node.this, node.expression
        if not isinstance(left, exp.Column) and isinstance(right, exp.Column):
            left, right, operator = right, left, _TURNED[operator]
        name = self.column(left)
        if isinstance(right, exp.Column):
            self.column(right)
            raise _refuse(f"compares {name!r} with another column; compare it with a value")
        return self.comparison(name, _NOT[operator] if negated else operator, right)

    def comparison(self, name: str, operator: Operator, node: exp.Expr) -> Condition:
        value = self.value(name, node)
        kind = self.schema.columns[name].type
        if kind == "boolean" and operator not in ("=", "<>"):
            raise _refuse(f"orders {name!r}, which is true or false; compare it with = or <>")
        if operator in ("=", "<>"):
            self.declared(name, value)
        if kind != "integer":
            return Compared(name, operator, value)
        assert isinstance(value, (int, float))  # noqa: S101
        return _whole(name, operator, value)

    def among(self, node: exp.In, negated: bool) -> Condition:
        listed = node.expressions
        if node.args.get("query") is not None or node.args.get("unnest") is not None or node.args.get("field"):
            raise _refuse("may not contain a query after IN; list values")
        if not listed:
            raise _refuse("lists no value after IN")
        if len(listed) > MOST_LISTED:
            raise _refuse(f"lists more than {MOST_LISTED} values after IN")
        name = self.column(node.this)
        values = [self.value(name, item) for item in listed]
        for value in values:
            self.declared(name, value)
        if self.schema.columns[name].type == "integer":
            values = [int(v) for v in values if isinstance(v, (int, float)) and _is_whole(v) and _within(v)]
        if not values:
            return Present(name) if negated else NEVER
        return Among(name, tuple(dict.fromkeys(values)), inside=not negated)

    def between(self, node: exp.Between, negated: bool) -> Condition:
        if node.args.get("symmetric"):
            raise _refuse("may not contain BETWEEN SYMMETRIC")
        name = self.column(node.this)
        if negated:
            ends = (self.comparison(name, "<", node.args["low"]), self.comparison(name, ">", node.args["high"]))
            return Either(ends)
        return Every((self.comparison(name, ">=", node.args["low"]), self.comparison(name, "<=", node.args["high"])))

    def declared(self, name: str, value: Value) -> None:
        """Refuse to ask whether a column is what it is declared never to be: the answer would be paid for, and be
        noise."""
        column = self.schema.columns[name]
        if column.values is None or value in column.held:
            return
        listed = ", ".join(map(repr, column.values[:_LISTED]))
        more = "" if len(column.values) <= _LISTED else f" and {len(column.values) - _LISTED} more"
        raise _refuse(f"compares {name!r} with a value that is not among its declared ones, {listed}{more}")

    def column(self, node: exp.Expr) -> str:
        from sqlglot import exp

        if isinstance(node, exp.Paren):
            return self.column(node.this)
        if not isinstance(node, exp.Column):
            if isinstance(node, (exp.Literal, exp.Boolean, exp.Null, exp.Neg)):
                raise _refuse("compares no column; each comparison is of one column with a value")
            raise _refuse(f"may not contain {_spelled(node)}")
        if node.table or not isinstance(node.this, exp.Identifier):
            raise _refuse("may not name a table; a column's name is enough")
        written = node.name
        quoted = bool(node.this.args.get("quoted"))
        name = written if quoted or written in self.schema.columns else self.names.get(written.lower(), written)
        if quoted and name not in self.schema.columns:
            raise _refuse(_QUOTED)
        self.schema.column(name, "where")
        return name

    def value(self, name: str, node: exp.Expr) -> Value:
        from sqlglot import exp

        kind = self.schema.columns[name].type
        if isinstance(node, exp.Paren):
            return self.value(name, node.this)
        if isinstance(node, exp.Null):
            raise _refuse(f"compares {name!r} with NULL, which is never true; write IS NULL or IS NOT NULL")
        negative = isinstance(node, exp.Neg)
        literal = node.this if negative else node
        if isinstance(literal, exp.Boolean) and not negative:
            if kind == "boolean":
                return bool(literal.this)
        elif isinstance(literal, exp.Literal) and not literal.is_string:
            if kind in ("integer", "float"):
                return _number(name, literal.name, kind, negative)
        elif isinstance(literal, exp.Literal) and not negative:
            if kind == "string":
                return literal.name
            if kind == "timestamp":
                return moment(literal.name, name)
        elif isinstance(literal, exp.Column):
            self.column(literal)
            raise _refuse(f"compares {name!r} with another column; compare it with a value")
        else:
            raise _refuse(f"may not contain {_spelled(literal)}")
        raise _refuse(f"compares {name!r} with a value that is not of its type, {kind}")


def _chain(node: exp.Expr) -> list[exp.Expr]:
    """The operands of one AND after another (or OR), however the parser nested them."""
    found, stack = [], [node]
    while stack:
        top = stack.pop()
        if type(top) is type(node):
            stack += [top.expression, top.this]
        else:
            found.append(top)
    return found


def _is_not_null(node: exp.Expr) -> bool:
    from sqlglot import exp

    return isinstance(node, exp.Not) and isinstance(node.this, exp.Null)


def _operators() -> dict[type, Operator]:
    from sqlglot import exp

    return {exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}


def _number(name: str, written: str, kind: str, negative: bool) -> int | float:
    try:
        value: int | float = int(written) if written.isdecimal() and len(written) <= 400 else float(written)
        close = float(value)
    except (ValueError, OverflowError):
        raise _refuse(f"compares {name!r} with a number that cannot be read") from None
    if not math.isfinite(close):
        raise _refuse(f"compares {name!r} with a number that is too large")
    if kind == "float" and isinstance(value, int) and int(close) != value:
        raise _refuse(f"compares {name!r} with a number of more digits than it holds")
    value = close if kind == "float" else value
    return -value if negative else value


def _is_whole(value: float) -> bool:
    return value == math.floor(value)


def _within(value: float) -> bool:
    return ENDS[0] <= value <= ENDS[1]


def _whole(name: str, operator: Operator, value: int | float) -> Condition:
    """A comparison of whole numbers with any number, as one with a whole number of 64 bits."""
    if not _is_whole(value):
        if operator in ("=", "<>"):
            return NEVER if operator == "=" else Present(name)
        value = math.floor(value) if operator in ("<=", ">") else math.ceil(value)
    whole = int(value)
    if _within(whole):
        return Compared(name, operator, whole)
    always = operator == "<>" or (operator in ("<", "<=")) is (whole > 0)
    return Present(name) if always and operator != "=" else NEVER


def moment(written: str, name: str) -> datetime:
    """A point in time as ISO 8601 writes it, in UTC and without a zone; without one it is meant as UTC."""
    try:
        if len(written) > 40:
            raise ValueError
        read = datetime.fromisoformat(written)
        return read if read.tzinfo is None else read.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        message = f"compares {name!r} with what is not a point in time; write one as 2026-01-31 or 2026-01-31T09:30:00Z"
        raise _refuse(message) from None


def _spelled(node: object) -> str:
    # A node's class in words: "TableSample" -> "table sample".
    return "".join(f" {c.lower()}" if c.isupper() else c for c in type(node).__name__).strip()
