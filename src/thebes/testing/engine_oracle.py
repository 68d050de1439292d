"""The sums that every engine must give, counted one row after the other: slow and obvious."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from thebes.data.filter import Among, Compared, Condition, Either, Every, Present, RowFilter
from thebes.data.schema import Schema
from thebes.data.table import Axis, Factor, Sums


def sums(rows: list[Row], schema: Schema, wanted: Sums) -> list[list[int]]:
    """Compute what `Table.sums` must give."""
    stepped = dict.fromkeys(factor.column for term in wanted.terms for factor in term.factors)

    def signature(row: Row) -> list[int]:
        steps = [_step(row, name, wanted.bits, schema) for name in stepped]
        return steps + [sign(row, axis, schema) for axis in wanted.axes]

    totals = [[0] * len(wanted.terms) for _ in range(wanted.cells)]
    for row in counted(rows, schema, wanted.columns, wanted.where, signature, wanted.axes):
        cell = 0
        for axis in wanted.axes:
            cell = cell * axis.cells + _cell(row, axis, schema)
        for n, term in enumerate(wanted.terms):
            totals[cell][n] += math.prod(_share(row, f, wanted.bits, schema) for f in term.factors)
    return totals


def counted(
    rows: list[Row],
    schema: Schema,
    named: Sequence[str],
    where: RowFilter | None,
    signature: Callable[[Row], list[int]],
    axes: Sequence[Axis] = (),
) -> list[Row]:
    """The rows that count."""
    among = {axis.column: axis.values for axis in axes if axis.values is not None and not axis.missing}

    def complete(row: Row) -> bool:
        for name in named:
            value, declared = _value(row, name), among.get(name, schema.columns[name].values)
            if value is None or (declared is not None and value not in [_declared(v, name, schema) for v in declared]):
                return False
        return True

    kept = [row for row in rows if complete(row) and (where is None or _holds(row, where.condition))]
    if schema.unit == "event":
        return kept
    people: dict[str, list[Row]] = defaultdict(list)
    for row in kept:
        if row["who"] is not None:
            people[row["who"]].append(row)
    most = schema.max_rows_per_unit
    if all(len(theirs) <= most for theirs in people.values()):
        return [row for theirs in people.values() for row in theirs]
    return [row for who, theirs in people.items() for row in _chosen(who, theirs, schema, signature)]


def _chosen(who: str, theirs: list[Row], schema: Schema, signature: Callable[[Row], list[int]]) -> list[Row]:
    person = _text_number(who)
    again: dict[tuple[Any, ...], int] = defaultdict(int)
    ordered = []
    for row in theirs:
        late = () if schema.time is None else (_lateness(row[schema.time]),)
        signs = signature(row)
        again[(*late, *signs)] += 1
        numbers = [*signs, again[(*late, *signs)]]
        upper = math.floor(float(person) / 2**30)
        drawn = ((person - upper * 2**30 + 1) * _scattered(numbers) + upper) % PRIME
        ordered.append(((*late, drawn, *numbers), row))
    return [row for _, row in sorted(ordered, key=lambda pair: pair[0])[: schema.max_rows_per_unit]]


def _scattered(numbers: list[int]) -> int:
    factor, total = 1, 0
    for number in numbers:
        factor = factor * 48_271 % PRIME
        total += ((-1 - number if number < 0 else number) % PRIME * factor + 11) % PRIME
    return total % PRIME


def _lateness(moment: datetime | None) -> int:
    return 2**63 - 1 if moment is None else -1 - _micros(moment)


def _fine(columns: Sequence[str], schema: Schema) -> Callable[[Row], list[int]]:
    def signature(row: Row) -> list[int]:
        ranged = {name: schema.columns[name].ranged for name in columns}
        return [_step(row, name, 26, schema) if ranged[name] else _number(row, name, schema) for name in ranged]

    return signature


def _numbers(row: Row, columns: Sequence[str], schema: Schema) -> tuple[float, ...]:
    found = []
    for name in columns:
        column = schema.columns[name]
        if column.ranged:
            found.append(_clamped(row, name, schema))
        else:
            declared = [_declared(value, name, schema) for value in column.values or ()]
            found.append(float(declared.index(row[name])))
    return tuple(found)


def _value(row: Row, name: str) -> Any:
    value = row[name]
    return None if isinstance(value, float) and math.isnan(value) else value


def _declared(value: Any, name: str, schema: Schema) -> Any:
    if schema.columns[name].type != "timestamp":
        return value
    return datetime.fromisoformat(value).replace(tzinfo=None)


def _clamped(row: Row, name: str, schema: Schema) -> float:
    column = schema.columns[name]
    assert column.low is not None
    assert column.high is not None
    return min(max(float(row[name]), column.low), column.high)


def _step(row: Row, name: str, bits: int, schema: Schema) -> int:
    column = schema.columns[name]
    assert column.low is not None
    assert column.high is not None
    return math.floor((_clamped(row, name, schema) - column.low) / (column.high - column.low) * (1 << bits) + 0.5)


def _share(row: Row, factor: Factor, bits: int, schema: Schema) -> int:
    t, steps = _step(row, factor.column, bits, schema), 1 << bits
    if factor.degree == 1:
        return (steps - t, t)[factor.place]
    square, mixed = t * t // steps, 2 * t * (steps - t) // steps
    return (steps - square - mixed, mixed, square)[factor.place]


def _cell(row: Row, axis: Axis, schema: Schema) -> int:
    if axis.missing and _value(row, axis.column) is None:
        return axis.cells - 1
    if axis.values is not None:
        declared = [_declared(value, axis.column, schema) for value in axis.values]
        if axis.missing and row[axis.column] not in declared:
            return axis.cells - 1
        return int(declared.index(row[axis.column]))
    assert axis.edges is not None
    number = _clamped(row, axis.column, schema)
    return max(n for n in range(len(axis.edges) - 1) if number >= axis.edges[n])


def place(row: Row, axis: Axis, schema: Schema) -> int:
    """Find the cell that a row is in, -1 for none."""
    found = _cell(row, replace(axis, missing=True), schema)
    return found if axis.missing or found < axis.cells else -1


def sign(row: Row, axis: Axis, schema: Schema) -> int:
    """Return the number by which a row is told from others along an axis."""
    if _value(row, axis.column) is None:
        return -1
    return _cell(row, axis, schema) if axis.edges is not None else _number(row, axis.column, schema)


def _number(row: Row, name: str, schema: Schema) -> int:
    value = row[name]
    if schema.columns[name].type == "string":
        return _text_number(value)
    return _micros(value) if isinstance(value, datetime) else int(value)


def _text_number(text: str) -> int:
    return int.from_bytes(hashlib.md5(text.encode(), usedforsecurity=False).digest()[:8]) >> 4


def _micros(moment: datetime) -> int:
    return (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)


def _holds(row: Row, condition: Condition) -> bool:
    if isinstance(condition, Every):
        return all(_holds(row, part) for part in condition.parts)
    if isinstance(condition, Either):
        return any(_holds(row, part) for part in condition.parts)
    value = _value(row, condition.column)
    if isinstance(condition, Present):
        return (value is not None) is condition.there
    if value is None:
        return False
    if isinstance(condition, Among):
        return (value in condition.values) is condition.inside
    return _compares(value, condition)


def _compares(value: Any, condition: Compared) -> bool:
    other = condition.value
    return bool(
        {
            "=": lambda: value == other,
            "<>": lambda: value != other,
            "<": lambda: value < other,
            "<=": lambda: value <= other,
            ">": lambda: value > other,
            ">=": lambda: value >= other,
        }[condition.operator]()
    )


Row = dict[str, Any]

PRIME = 2**31 - 1
