"""The requirements on every engine, as one suite: give it a way to open rows and call each check.

The right answers come from plain Python over plain lists, one row and one whole number at a time.
"""

from __future__ import annotations

import hashlib
import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from thebes.data.engines.table import EngineTable
from thebes.data.filter import Among, Compared, Condition, Either, Every, Present, RowFilter, read_filter
from thebes.data.schema import Schema, schema_of
from thebes.data.table import Axis, Factor, Sums, Term

Row = dict[str, Any]
Open = Callable[[Schema, list[Row]], EngineTable]

PRIME = 2**31 - 1
NAMES = (
    "Zoë",
    "Zoe\u0308",
    "李小龍",
    "o'Hara",
    'say "hi", now',
    "a;b\tc",
    "👩🏽\u200d⚕️",
    "ﬀ",
    "two\u2028lines",
    "NULL",
    "-1",
)
WARDS = ("north", "süd", "west, upper", "'")

BODY: dict[str, Any] = {
    "unit": "person",
    "max_rows_per_unit": 2,
    "columns": {
        "who": {"type": "string", "key": True},
        "age": {"type": "integer", "low": 0, "high": 120},
        "weight": {"type": "float", "low": -3.7, "high": 250.1},
        "ward": {"type": "string", "values": list(WARDS)},
        "floor": {"type": "integer", "values": [-2, 0, 7]},
        "smoker": {"type": "boolean", "values": [False, True]},
        "seen": {"type": "timestamp", "values": ["2026-02-01", "2026-02-02T03:04:05.678901Z"]},
        "note": {"type": "string"},
    },
}
SCHEMA = schema_of(BODY)
LATEST = schema_of({**BODY, "time": "seen"})
ROWS_ARE_UNITS = schema_of({**BODY, "unit": "event", "max_rows_per_unit": 1})
#: the types of the columns above in a typed source
TYPES = {name: column["type"] for name, column in BODY["columns"].items()}

CONDITIONS = (
    "age >= 18",
    "NOT (age > 17.5 AND weight < 70)",
    "age BETWEEN 0 AND 120 OR weight IS NULL",
    "ward IN ('north', '''') OR ward > 'south'",
    "ward <> 'süd' AND NOT smoker",
    "NOT (smoker OR floor IN (7, -2.0, 3.5))",
    "note = 'it''s' OR note IS NULL OR note < 'M'",
    "weight = 70.25 OR weight <> 70.25 AND weight > 1e300",
    "seen >= '2026-02-02T05:04:05.678901+02:00' OR seen < '2026-01-31'",
    "age < 99999999999999999999 AND age > -9223372036854775808",
    "weight NOT BETWEEN -1e9 AND 0.1",
    "floor IS NOT NULL AND ward IS NULL",
    "age = 3.5",
)


def rows_of(count: int, seed: int = 3) -> list[Row]:
    """Made-up rows with everything in them that a row may do to whoever adds it up."""
    draw = random.Random(seed)  # noqa: S311 (of test data)

    def one(*choices: Any, missing: float = 0.1) -> Any:
        return None if draw.random() < missing else draw.choice(choices)

    def moment() -> datetime:
        return datetime(2026, 2, 1) + timedelta(microseconds=draw.randrange(-(10**11), 10**11))

    return [
        {
            "who": one(*NAMES, *(f"p{n}" for n in range(count // 4)), missing=0.03),
            "age": one(draw.randrange(-3, 130), draw.randrange(18, 22), 2**63 - 2, -(2**63) + 2),
            "weight": one(draw.uniform(-10, 300), 70.25, -3.7, 250.1, 1e308, -1e-308, math.nan, math.inf, -math.inf),
            "ward": one(*WARDS, "North", "somewhere else"),
            "floor": one(-2, 0, 7, 8),
            "smoker": one(True, False),
            "seen": one(moment(), datetime(2026, 2, 1), datetime(2026, 2, 2, 3, 4, 5, 678901)),
            "note": one("it's", "Straße", "L", "\U0001f600", "\uffee"),
        }
        for _ in range(count)
    ]


def questions() -> Iterable[Sums]:
    """Sums of every shape."""
    age, weight = ([[Factor(c, d, p) for p in range(d + 1)] for d in (1, 2)] for c in ("age", "weight"))
    edges = (-3.7, 0.0, 50.0, 70.25, 100.0, 250.1)
    yield Sums((Term(),))
    for factors in (*age, *weight):
        yield Sums(tuple(Term((factor,)) for factor in factors))
    yield Sums(tuple(Term((a, w)) for a in age[0] for w in weight[1]), bits=20)
    yield Sums((Term(), Term((age[1][2],))), bits=25, axes=(Axis("ward", WARDS),))
    yield Sums((Term(),), axes=(Axis("weight", edges=edges), Axis("smoker", (True, False))))
    yield Sums((Term(), Term((weight[0][1],))), axes=(Axis("floor", (7, -2)), Axis("age", edges=(0.0, 18.0, 120.0))))
    yield Sums((Term(),), axes=(Axis("seen", tuple(BODY["columns"]["seen"]["values"])),))
    yield Sums((Term(),), axes=(Axis("smoker", (True,)), Axis("ward", ("', '",))))
    whole = (Axis("weight", edges=edges, missing=True), Axis("ward", WARDS[:2], missing=True))
    yield Sums((Term(),), axes=(*whole, Axis("floor", (7, -2), missing=True)))
    seen = Axis("seen", tuple(BODY["columns"]["seen"]["values"]), missing=True)
    yield Sums((Term(), Term((age[0][1],))), axes=(seen, Axis("smoker", (True, False), missing=True)))


# --- the checks -----------------------------------------------------------------------------------------


def check_sums(opened: Open) -> None:
    rows = rows_of(240)
    for schema in (ROWS_ARE_UNITS, SCHEMA):
        table = opened(schema, rows)
        for wanted in questions():
            _same(table, rows, wanted)
        table.close()


def check_conditions(opened: Open) -> None:
    rows = rows_of(240, seed=5)
    table = opened(SCHEMA, rows)
    for text in CONDITIONS:
        where = read_filter(text, SCHEMA)
        _same(table, rows, Sums((Term(), Term((Factor("age", 1, 1),))), where=where))
    table.close()


def check_clipping(opened: Open) -> None:
    """Of one person the latest rows count, without a time some that are drawn, and never more than declared."""
    crowd = [{**row, "who": NAMES[n % 3]} for n, row in enumerate(rows_of(120, seed=7))]
    for most, schema in ((2, LATEST), (50, LATEST), (7, SCHEMA)):
        clipped = schema.model_copy(update={"max_rows_per_unit": most})
        table = opened(clipped, crowd)
        total = int(table.sums(Sums((Term(),)))[0, 0])
        assert total <= 3 * most, "more rows of somebody were counted than declared"
        for wanted in list(questions())[1::2]:
            _same(table, crowd, wanted)
        table.close()


def check_batches(opened: Open) -> None:
    rows = rows_of(120, seed=11)
    names = ["weight", "ward", "smoker", "age", "floor", "seen"]
    for schema, where in ((SCHEMA, None), (LATEST, "age >= 18 OR weight < 3"), (ROWS_ARE_UNITS, "note IS NOT NULL")):
        table = opened(schema, rows)
        condition = read_filter(where, schema) if where else None
        for columns in (["weight"], names, ["smoker", "smoker"], []):
            right = sorted(
                _numbers(row, columns, schema)
                for row in counted(rows, schema, columns, condition, _fine(columns, schema))
            )
            for size in (1, 7, 10_000) if columns == names else (7,):
                batches = list(table.batches(columns, condition, rows=size))
                found = [tuple(row) for batch in batches for row in batch.numbers.tolist()]
                assert sorted(found) == right, "the rows are not those that count"
                people = [set(batch.people.tolist()) for batch in batches]
                assert all(not a & b for n, a in enumerate(people) for b in people[n + 1 :]), "somebody is in two"
                together = np.concatenate([batch.people for batch in batches]) if batches else np.zeros(0, dtype=int)
                assert (np.diff(together) >= 0).all(), "somebody's rows lie apart"
                assert (np.bincount(together) <= schema.max_rows_per_unit).all() if len(together) else True
        table.close()


def check_few_rows(opened: Open) -> None:
    """Nobody, one row, and rows in which everything is missing."""
    nothing = dict.fromkeys(SCHEMA.columns)
    some = {"who": "x", "age": 3, "weight": 1.5, "ward": "süd", "floor": 0, "smoker": True, "note": "L"}
    for rows in ([], [{**some, "seen": datetime(2026, 2, 1)}], [nothing, {**nothing, "who": "x"}]):
        for schema in (LATEST, ROWS_ARE_UNITS):
            table = opened(schema, rows)
            for wanted in list(questions())[::3]:
                _same(table, rows, wanted)
            found = [tuple(row) for batch in table.batches(["age", "ward"]) for row in batch.numbers.tolist()]
            assert found == [_numbers(row, ["age", "ward"], schema) for row in rows if row["age"] is not None]
            table.close()


def check_same_order(opened: Open, other: Open) -> None:
    """Two engines give the same rows in the same order: a training on one is the training on the other."""
    rows = rows_of(200, seed=13)
    for schema in (SCHEMA, LATEST, ROWS_ARE_UNITS):
        one, two = opened(schema, rows), other(schema, rows)
        for a, b in zip(
            one.batches(["age", "ward", "weight"], rows=16),
            two.batches(["age", "ward", "weight"], rows=16),
            strict=True,
        ):
            assert np.array_equal(a.numbers, b.numbers)
            assert np.array_equal(a.people, b.people)
        one.close()
        two.close()


CHECKS = (check_sums, check_conditions, check_clipping, check_batches, check_few_rows)


def _same(table: EngineTable, rows: list[Row], wanted: Sums) -> None:
    assert table.sums(wanted).tolist() == sums(rows, table.schema, wanted), f"another answer to {wanted}"


# --- the slow and obvious way ---------------------------------------------------------------------------


def sums(rows: list[Row], schema: Schema, wanted: Sums) -> list[list[int]]:
    """Compute what `Table.sums` must give."""
    stepped = dict.fromkeys(factor.column for term in wanted.terms for factor in term.factors)

    def sign(row: Row, axis: Axis) -> int:
        if _value(row, axis.column) is None:
            return -1
        return _cell(row, axis, schema) if axis.edges is not None else _number(row, axis.column, schema)

    def signature(row: Row) -> list[int]:
        steps = [_step(row, name, wanted.bits, schema) for name in stepped]
        return steps + [sign(row, axis) for axis in wanted.axes]

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
