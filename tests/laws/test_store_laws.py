"""Whatever may be declared can be filled, and what was put in comes out, by every way there is."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from thebes.data.store import Store
from thebes.data.store.declaration import TYPES, read_declaration
from thebes.data.store.migration import steps
from thebes.privacy.faults import Mistake

NAMES = st.from_regex(r"\A[A-Za-z][A-Za-z0-9_]{0,12}\Z").filter(
    lambda n: not n.lower().startswith(("sqlite_", "thebes_")) and n.lower() not in ("main", "temp", "rowid", "oid")
)
SQL_WORDS = st.sampled_from(["select", "order", "table", "index", "from", "values", "NULL", "group", "abs", "default"])
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
OFFSETS = st.builds(timezone, st.integers(-14 * 60, 14 * 60).map(lambda minutes: timedelta(minutes=minutes)))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "float": st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53),
    "integer": st.integers(-(2**63), 2**63 - 1),
    "string": TEXT,
    "boolean": st.booleans(),
    "timestamp": st.datetimes(
        min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1), timezones=st.none() | OFFSETS
    ).map(lambda moment: moment.isoformat()),
}


def by_case(names: list[str]) -> list[str]:
    return list({name.lower(): name for name in names}.values())


@st.composite
def tables(draw: st.DrawFn) -> dict[str, Any]:
    declared: dict[str, Any] = {}
    for table in by_case(draw(st.lists(NAMES | SQL_WORDS, min_size=1, max_size=3))):
        columns = by_case(draw(st.lists(NAMES | SQL_WORDS, min_size=1, max_size=5)))
        declared[table] = {
            "description": draw(TEXT),
            "columns": {c: {"type": draw(st.sampled_from(TYPES)), "description": draw(TEXT)} for c in columns},
        }
    return declared


@st.composite
def filled(draw: st.DrawFn) -> tuple[str, dict[str, Any], dict[str, list[dict[str, Any]]]]:
    declared = draw(tables())
    rows = {
        table: draw(
            st.lists(
                st.fixed_dictionaries(
                    {}, optional={c: st.none() | VALUES[d["type"]] for c, d in fields["columns"].items()}
                ),
                max_size=5,
            )
        )
        for table, fields in declared.items()
    }
    return draw(NAMES), declared, rows


def expected(kind: str, value: Any) -> Any:
    if value is None or kind != "timestamp":
        # SQLite keeps no sign of a zero.
        return float(value) + 0.0 if kind == "float" and value is not None else value
    moment = datetime.fromisoformat(value)
    moment = moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    return str(moment)


@pytest.mark.slow
@examples(15)
@given(filled())
def test_rows_of_any_declared_schema_come_back(
    case: tuple[str, dict[str, Any], dict[str, list[dict[str, Any]]]],
) -> None:
    app, declared, rows = case
    with tempfile.TemporaryDirectory() as home, Store.open(home, key=bytes(32)) as store:
        store.register(app, {"tables": declared})
        right = {}
        for table, sent in rows.items():
            assert store.insert(app, table, sent) == len(sent)
            kinds = {c: d["type"] for c, d in declared[table]["columns"].items()}
            right[table] = [{c: expected(kind, row.get(c)) for c, kind in kinds.items()} for row in sent]
        exported = store.export()["collectors"][app]["tables"]
        assert {t: d["rows"] for t, d in exported.items()} == right
        assert {t: {k: v for k, v in d.items() if k != "rows"} for t, d in exported.items()} == declared
        assert store.schemas() == {app: declared}
        with store.view() as view:
            for table, same in right.items():
                assert store.newest(app, table, 100) == same[::-1]
                names = ", ".join(f'"{c}"' for c in declared[table]["columns"])
                read = view.preview(f'SELECT {names} FROM "{app}"."{table}"')
                # Truth values are numbers to SQL; nothing else differs, not even in a last digit.
                assert [list(map(repr, row.values())) for row in read] == [
                    [repr(int(v) if isinstance(v, bool) else v) for v in row.values()] for row in same
                ]


@pytest.mark.slow
@given(tables(), tables(), st.booleans(), st.booleans())
def test_a_migration_is_refused_or_forgets_nothing(
    old: dict[str, Any], new: dict[str, Any], full: bool, grown: bool
) -> None:
    """If every table and column holds something, only what keeps them all may pass, and that does pass."""
    if grown:
        lowered = {table.lower() for table in old}
        new = {**old, **{table: fields for table, fields in new.items() if table.lower() not in lowered}}
    before, after = read_declaration(old), read_declaration(new)
    try:
        statements = steps(before, after, lambda table, column: full)
    except Mistake:
        assert full
        assert not grown
        return
    if full:
        assert not [s for s in statements if "DROP" in s.split('"')[0] or " DROP COLUMN " in s]
        for table in before.tables:
            kept = after.table(table.name)
            assert kept is not None
            assert {(c.name, c.type) for c in table.columns} <= {(c.name, c.type) for c in kept.columns}


@given(tables())
def test_a_declaration_is_what_it_says(declared: dict[str, Any]) -> None:
    read = read_declaration(declared)
    assert read.plain() == declared
    assert read_declaration({"tables": read.plain()}) == read
    assert steps(read, read, lambda table, column: True) == []
