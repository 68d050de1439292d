"""The requirements on every engine, as one suite: give it a way to open rows and call each check.

The right answers come from plain Python over plain lists, one row and one whole number at a time.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from thebes.data.engines.table import EngineTable
from thebes.data.filter import read_filter
from thebes.data.schema import Schema, schema_of
from thebes.data.table import Axis, Factor, Sums, Term
from thebes.testing.engine_oracle import Row, _fine, _numbers, counted, place, sign, sums

Open = Callable[[Schema, list[Row]], EngineTable]

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
    "NOT (smoker OR floor IN (7, -2.0) OR age IN (7, 30.0, 3.5))",
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


def check_cells(opened: Open) -> None:
    """Each row that counts is in the cells that single questions count it in, and in none where it has no value."""
    edges = (-3.7, 0.0, 50.0, 70.25, 100.0, 250.1)
    seen = Axis("seen", tuple(BODY["columns"]["seen"]["values"]), missing=True)
    ward, floor, smoker = Axis("ward", WARDS[:2], missing=True), Axis("floor", (7, -2)), Axis("smoker", (True, False))
    axes = (Axis("weight", edges=edges), ward, floor, smoker, seen)
    many = Axis("note", (*NAMES, "L", *map(str, range(50))))  # too many to be packed
    rows = [{**row, "who": NAMES[n % 3]} if n % 2 else row for n, row in enumerate(rows_of(160, seed=17))]
    for schema in (SCHEMA, LATEST, ROWS_ARE_UNITS):

        def places(row: Row, schema: Schema = schema) -> tuple[int, ...]:
            return tuple(place(row, axis, schema) for axis in (*axes, many))

        def signature(row: Row, schema: Schema = schema) -> list[int]:
            packed, times = 0, 1
            for axis in axes:
                packed += times * (place(row, replace(axis, missing=False), schema) + 1)
                times *= len(axis.values or axis.edges[1:]) + 1  # type: ignore[index]
            return [packed, sign(row, many, schema)]

        right = sorted(map(places, counted(rows, schema, (), None, signature)))
        table = opened(schema, rows)
        for size in (7, 10_000):
            found = [tuple(row) for part in table.cells((*axes, many), rows=size) for row in part.tolist()]
            assert sorted(found) == right, "rows are in other cells, or other rows count"
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


CHECKS = (check_sums, check_conditions, check_clipping, check_batches, check_cells, check_few_rows)


def _same(table: EngineTable, rows: list[Row], wanted: Sums) -> None:
    assert table.sums(wanted).tolist() == sums(rows, table.schema, wanted), f"another answer to {wanted}"


# --- the slow and obvious way ---------------------------------------------------------------------------
