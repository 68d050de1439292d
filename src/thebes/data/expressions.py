"""New columns made of declared ones, by a few operations that are data: no SQL, no program. Most are numbers; a choice
of words by conditions is a column with declared values, by which rows can be grouped.

Every expression has bounds that follow from those of its columns, so what it makes can be clipped and counted like any
declared column. What is computed of a row is a function of that row alone, bit for bit, whatever other rows there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.condition_mask import check_masked, mask
from thebes.data.filter import RowFilter, named_columns, read_filter
from thebes.data.schema import Column, ColumnType, Schema
from thebes.privacy.faults import Mistake

Floats = NDArray[np.float64]
Ends = tuple[float, float]
Word = bool | int | str

DEEPEST = 20
CHOOSE = "choose"  #: what a choice of words is; it stands alone, in no other expression
_KINDS: dict[type, ColumnType] = {bool: "boolean", int: "integer", str: "string"}
MOST_PARTS = 200
FARTHEST = 1e100
_SHAPE = 'must be a column\'s name, a number, or one operation such as {"multiply": ["a", "b"]}'
_LANES = 64  #: every row is computed in a full vector instruction


@dataclass(frozen=True)
class Expression:
    """`columns` are those that it needs, `low` and `high` what it always lies between."""

    columns: tuple[str, ...]
    low: float
    high: float
    _value: Callable[[Mapping[str, Floats]], Floats]
    words: tuple[Word, ...] | None = None  #: of a choice: the values it has; what is computed is their places

    def of(self, columns: Mapping[str, Floats]) -> Floats:
        """Its value in every row, within its bounds."""
        rows = len(next(iter(columns.values())))
        lacking = -rows % _LANES if rows else 0
        full = {name: np.append(numbers, np.repeat(numbers[:1], lacking)) for name, numbers in columns.items()}
        with np.errstate(all="ignore"):
            found = np.asarray(self._value(full), dtype=np.float64)[:rows]
        middle = self.low + (self.high - self.low) / 2
        return np.asarray(np.clip(np.where(np.isnan(found), middle, found), self.low, self.high))

    @property
    def column(self) -> Column:
        """As a schema declares it."""
        if self.words is not None:
            return Column(type=_KINDS[type(self.words[0])], values=self.words)
        return Column(type="float", low=self.low, high=self.high)


def read_expression(body: Any, schema: Schema, field: str) -> Expression:
    """Read an expression, or refuse it naming `field` and what is wrong."""
    reader = _Reader(schema, field)
    if _is_choice(body):
        words, made = reader.words(body[CHOOSE])
        return Expression(tuple(reader.named), made.low, made.high, made.value, words)
    made = reader.read(body, 0)
    if not reader.named:
        raise Mistake(field, "names no column")
    if not (math.isfinite(made.low) and math.isfinite(made.high) and -FARTHEST < made.low < made.high < FARTHEST):
        raise Mistake(field, "has no bounds that could be clipped to; use clamp, or other columns")
    return Expression(tuple(reader.named), made.low, made.high, made.value)


def check_expression(body: Any, field: str) -> None:
    """Refuse what no schema could make an expression of."""
    if _is_choice(body):
        for condition, _ in _words(field, body[CHOOSE])[0]:
            named_columns(condition)
        return
    parts = 0

    def walk(part: Any, depth: int) -> None:
        nonlocal parts
        parts += 1
        if depth > DEEPEST or parts > MOST_PARTS:
            raise Mistake(field, f"is nested deeper than {DEEPEST} levels, or has more than {MOST_PARTS} parts")
        if isinstance(part, str) or (isinstance(part, (int, float)) and not isinstance(part, bool)):
            return
        if not isinstance(part, Mapping) or len(part) != 1:
            raise Mistake(field, _SHAPE)
        ((operation, arguments),) = part.items()
        if operation == "if":
            condition, *branches = _branches(field, arguments)
            named_columns(condition)
            for one in branches:
                walk(one, depth + 1)
        elif operation != "is":
            given = _given(field, operation, arguments)
            for one in given:
                walk(one, depth + 1)

    walk(body, 0)


def _is_choice(body: Any) -> bool:
    return isinstance(body, Mapping) and list(body) == [CHOOSE]


def _words(field: str, arguments: Any) -> tuple[list[tuple[str, Word]], tuple[Word, ...]]:
    """The conditions of a choice of words with the word of each, and all words."""
    shape = f'must write {CHOOSE} as {{"{CHOOSE}": [["age < 18", "child"], ["age < 65", "adult"], "old"]}}'
    if not isinstance(arguments, (list, tuple)) or not 2 <= len(arguments) <= MOST_PARTS:
        raise Mistake(field, shape)
    *pairs, otherwise = arguments
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not isinstance(pair[0], str):
            raise Mistake(field, shape)
    told = [*(pair[1] for pair in pairs), otherwise]
    if type(told[0]) not in _KINDS or any(type(word) is not type(told[0]) for word in told):
        raise Mistake(field, f"must {CHOOSE} among texts, among whole numbers, or between true and false")
    words = tuple(dict.fromkeys(told))
    if len(words) < 2:
        raise Mistake(field, f"must {CHOOSE} among at least two different values")
    return [(pair[0], pair[1]) for pair in pairs], words


def _branches(field: str, arguments: Any) -> list[Any]:
    """The condition of a choice, and what counts where it holds and where it does not."""
    if not isinstance(arguments, (list, tuple)) or len(arguments) != 3 or not isinstance(arguments[0], str):
        raise Mistake(field, 'must write if as {"if": ["age >= 65", expression, expression]}')
    return list(arguments)


def _given(field: str, operation: Any, arguments: Any) -> list[Any]:
    """The parts of an operation, as many as it takes."""
    known = _OPERATIONS.get(operation) if isinstance(operation, str) else None
    if known is None:
        raise Mistake(
            field, f"uses an operation that does not exist; there are {', '.join((*_OPERATIONS, 'is', 'if'))}"
        )
    least, most, _ = known
    given = list(arguments) if isinstance(arguments, (list, tuple)) else [arguments]
    if not least <= len(given) <= most:
        takes = least if least == most else "two or more"
        raise Mistake(field, f"gives {operation} {len(given)} parts; it takes {takes}")
    return given


def columns_in(body: Any) -> tuple[str, ...]:
    """The columns that an expression names, before it is known which there are."""
    if isinstance(body, str):
        return (body,)
    if isinstance(body, Mapping) and len(body) == 1:
        ((operation, arguments),) = body.items()
        if operation == CHOOSE:
            conditions = [condition for condition, _ in _words("features", arguments)[0]]
            return tuple(dict.fromkeys(name for condition in conditions for name in named_columns(condition)))
        if operation == "is":
            return columns_in(arguments[0]) if isinstance(arguments, (list, tuple)) and arguments else ()
        if operation == "if":
            condition, *branches = _branches("features", arguments)
            return tuple(dict.fromkeys([*named_columns(condition), *(n for one in branches for n in columns_in(one))]))
        parts = arguments if isinstance(arguments, (list, tuple)) else [arguments]
        return tuple(dict.fromkeys(name for part in parts[:MOST_PARTS] for name in columns_in(part)))
    return ()


@dataclass(frozen=True)
class _Made:
    low: float
    high: float
    value: Callable[[Mapping[str, Floats]], Floats]


class _Reader:
    def __init__(self, schema: Schema, field: str) -> None:
        self.schema, self.field = schema, field
        self.named: dict[str, None] = {}
        self.parts = 0

    def wrong(self, message: str) -> Mistake:
        return Mistake(self.field, message)

    def read(self, body: Any, depth: int) -> _Made:
        self.parts += 1
        if depth > DEEPEST or self.parts > MOST_PARTS:
            raise self.wrong(f"is nested deeper than {DEEPEST} levels, or has more than {MOST_PARTS} parts")
        if isinstance(body, str):
            return self.of_column(body)
        if isinstance(body, (int, float)) and not isinstance(body, bool):
            return self.constant(body)
        if not isinstance(body, Mapping) or len(body) != 1:
            raise self.wrong(_SHAPE)
        ((operation, arguments),) = body.items()
        if operation == "is":
            return self.indicator(arguments)
        if operation == "if":
            return self.choice(arguments, depth)
        given = _given(self.field, operation, arguments)
        return _OPERATIONS[operation][2](self, [self.read(part, depth + 1) for part in given])

    def of_column(self, name: str) -> _Made:
        column = self.schema.column(name, self.field)
        if not column.ranged:
            raise self.wrong(
                f"counts with {name!r}, which needs a declared low and high; to ask for one of its values use is"
            )
        self.named[name] = None
        assert column.low is not None  # noqa: S101
        assert column.high is not None  # noqa: S101
        return _Made(column.low, column.high, lambda columns: columns[name])

    def constant(self, value: float) -> _Made:
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not abs(number) < FARTHEST:
            raise self.wrong("has a number that is too large")
        return _Made(number, number, lambda columns: np.full(len(next(iter(columns.values()))), number))

    def indicator(self, arguments: Any) -> _Made:
        """1 where a column has that declared value, else 0."""
        if not isinstance(arguments, (list, tuple)) or len(arguments) != 2 or not isinstance(arguments[0], str):
            raise self.wrong('must write is as {"is": ["column", value]}')
        name, value = arguments
        values = self.schema.column(name, self.field).values
        if values is None:
            raise self.wrong(f"asks for a value of {name!r}, which declares none")
        places = [i for i, declared in enumerate(values) if type(declared) is type(value) and declared == value]
        if not places:
            raise self.wrong(f"asks for a value that {name!r} does not declare")
        self.named[name] = None
        return _Made(0.0, 1.0, lambda columns: (columns[name] == places[0]).astype(np.float64))

    def choice(self, arguments: Any, depth: int) -> _Made:
        """One of two expressions, by a condition over columns as they are counted, within their bounds."""
        text, *branches = _branches(self.field, arguments)
        condition = self.condition(text)
        one, other = (self.read(branch, depth + 1) for branch in branches)
        schema = self.schema
        return _Made(
            min(one.low, other.low),
            max(one.high, other.high),
            lambda c: np.where(mask(condition.condition, c, schema), one.value(c), other.value(c)),
        )

    def words(self, arguments: Any) -> tuple[tuple[Word, ...], _Made]:
        """One of several values, by the first condition that holds, or else the last: as its place among them."""
        pairs, words = _words(self.field, arguments)
        place = {word: float(number) for number, word in enumerate(words)}
        held = [(self.condition(text).condition, place[word]) for text, word in pairs]
        otherwise, schema = place[arguments[-1]], self.schema

        def chosen(columns: Mapping[str, Floats]) -> Floats:
            found = np.full(len(next(iter(columns.values()))), otherwise)
            for condition, number in reversed(held):
                found = np.where(mask(condition, columns, schema), number, found)
            return found

        return words, _Made(0.0, float(len(words) - 1), chosen)

    def condition(self, text: str) -> RowFilter:
        try:
            condition = read_filter(text, self.schema)
        except Mistake as refused:
            raise self.wrong(f"has a condition that {refused.message}") from None
        check_masked(condition.condition, self.schema, self.field)
        self.named.update(dict.fromkeys(condition.columns))
        return condition


def _corners(parts: Sequence[_Made], function: Callable[[float, float], float]) -> Ends:
    a, b = parts
    found = [function(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return min(found), max(found)


def _add(reader: _Reader, parts: list[_Made]) -> _Made:
    return _Made(
        sum(p.low for p in parts), sum(p.high for p in parts), lambda c: _folded([p.value(c) for p in parts], np.add)
    )


def _multiply(reader: _Reader, parts: list[_Made]) -> _Made:
    made = parts[0]
    for part in parts[1:]:
        low, high = _corners([made, part], lambda x, y: x * y)
        made = _Made(low, high, lambda c, a=made, b=part: a.value(c) * b.value(c))  # type: ignore[misc]
    return made


def _subtract(reader: _Reader, parts: list[_Made]) -> _Made:
    a, b = parts
    return _Made(a.low - b.high, a.high - b.low, lambda c: a.value(c) - b.value(c))


def _divide(reader: _Reader, parts: list[_Made]) -> _Made:
    a, b = parts
    if b.low <= 0 <= b.high:
        raise reader.wrong("divides by what may be 0; clamp it away from there")
    low, high = _corners(parts, lambda x, y: x / y)
    return _Made(low, high, lambda c: a.value(c) / b.value(c))


def _least(reader: _Reader, parts: list[_Made]) -> _Made:
    ends = min(p.low for p in parts), min(p.high for p in parts)
    return _Made(*ends, lambda c: _folded([p.value(c) for p in parts], np.minimum))


def _greatest(reader: _Reader, parts: list[_Made]) -> _Made:
    ends = max(p.low for p in parts), max(p.high for p in parts)
    return _Made(*ends, lambda c: _folded([p.value(c) for p in parts], np.maximum))


def _clamp(reader: _Reader, parts: list[_Made]) -> _Made:
    inner, low, high = parts
    if low.low != low.high or high.low != high.high or not low.low < high.low:
        raise reader.wrong('must write clamp as {"clamp": [expression, low, high]}, two numbers that rise')
    ends = min(max(inner.low, low.low), high.low), max(min(inner.high, high.low), low.low)
    return _Made(*ends, lambda c: np.clip(inner.value(c), low.low, high.low))


def _square(reader: _Reader, parts: list[_Made]) -> _Made:
    (p,) = parts
    far, near = max(p.low * p.low, p.high * p.high), min(p.low * p.low, p.high * p.high)
    return _Made(0.0 if p.low <= 0 <= p.high else near, far, lambda c: p.value(c) ** 2)


def _absolute(reader: _Reader, parts: list[_Made]) -> _Made:
    (p,) = parts
    far, near = max(abs(p.low), abs(p.high)), min(abs(p.low), abs(p.high))
    return _Made(0.0 if p.low <= 0 <= p.high else near, far, lambda c: np.abs(p.value(c)))


def _rising(
    function: Callable[[Floats], Floats], inside: Callable[[float, float], bool], why: str
) -> Callable[[_Reader, list[_Made]], _Made]:
    def make(reader: _Reader, parts: list[_Made]) -> _Made:
        (p,) = parts
        if not inside(p.low, p.high):
            raise reader.wrong(why)
        low, high = (float(function(np.array([end]))[0]) for end in (p.low, p.high))
        return _Made(low, high, lambda c: np.asarray(function(p.value(c))))

    return make


def _folded(values: Sequence[Floats], function: Callable[[Floats, Floats], Floats]) -> Floats:
    found = values[0]
    for value in values[1:]:
        found = function(found, value)
    return found


_ROOT = _rising(np.sqrt, lambda low, high: low >= 0, "takes the root of what may be below 0; clamp it")
_LOG = _rising(np.log, lambda low, high: low > 0, "takes the logarithm of what may be 0 or below; clamp it")
_EXP = _rising(np.exp, lambda low, high: high <= 200, "raises e to what may be above 200; clamp it")

#: name -> (fewest parts, most parts, what is made of them)
_OPERATIONS: dict[str, tuple[int, int, Callable[[_Reader, list[_Made]], _Made]]] = {
    "add": (2, MOST_PARTS, _add),
    "subtract": (2, 2, _subtract),
    "multiply": (2, MOST_PARTS, _multiply),
    "divide": (2, 2, _divide),
    "square": (1, 1, _square),
    "abs": (1, 1, _absolute),
    "sqrt": (1, 1, _ROOT),
    "log": (1, 1, _LOG),
    "exp": (1, 1, _EXP),
    "least": (2, MOST_PARTS, _least),
    "greatest": (2, MOST_PARTS, _greatest),
    "clamp": (3, 3, _clamp),
}
