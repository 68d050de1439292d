"""Files of text as the world writes them: read as declared, or refused with the reason; nothing is guessed."""

from __future__ import annotations

import tempfile
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from thebes.data.connectors.connector import SourceUnavailable
from thebes.data.connectors.csv_values import form_fault
from thebes.data.connectors.registry import open_connector
from thebes.data.engines.source import table_of
from thebes.data.schema import schema_of
from thebes.data.table import Axis, Sums, Term
from thebes.privacy.faults import Mistake
from thebes.site.steward.data_check import left_out

PEOPLE = "id;Größe (cm);geboren;raucht;Einkommen\n1;180,5;03.04.1980;ja;1.234,50\n2;170;31.12.1999;Nein;900\n"
DECLARED: dict[str, Any] = {
    "kind": "csv",
    "path": "rows.csv",
    "delimiter": ";",
    "columns": {"height": "Größe (cm)", "born": "geboren", "smokes": "raucht", "income": "Einkommen"},
    "decimal_comma": ["height", "income"],
    "dates": {"born": "%d.%m.%Y"},
    "yes_no": {"smokes": ["ja", "nein"]},
}
SCHEMA = schema_of(
    {
        "unit": "person",
        "columns": {
            "id": {"type": "integer", "key": True},
            "height": {"type": "float", "low": 100, "high": 250},
            "born": {"type": "timestamp"},
            "smokes": {"type": "boolean"},
            "income": {"type": "float", "low": 0, "high": 10_000},
        },
    }
)


def rows(folder: Path, columns: list[str], **more: Any) -> list[tuple[Any, ...]]:
    """The rows as the engine holds them."""
    table = table_of(SCHEMA, {**DECLARED, **more}, folder=folder)
    found = table.engine.collected(table.engine.rows(columns, None))
    table.close()
    return [tuple(None if value != value else value for value in row) for row in found.itertuples(index=False)]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "windows-1252", "utf-16", "utf-8-sig", "macroman", "cp437"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_file_is_read_in_its_declared_encoding_with_names_of_any_script(
    tmp_path: Path, encoding: str, end: str
) -> None:
    (tmp_path / "rows.csv").write_bytes(PEOPLE.replace("\n", end).encode(encoding))
    declared = "utf-8" if encoding.startswith("utf-8") else encoding
    found = rows(tmp_path, ["id", "height", "born", "smokes", "income"], encoding=declared)
    assert [(i, h, str(b)[:10], s, m) for i, h, b, s, m in found] == [
        (1, 180.5, "1980-04-03", True, 1234.5),
        (2, 170.0, "1999-12-31", False, 900.0),
    ]


def test_a_latin_1_file_that_is_not_declared_so_loses_no_line_in_silence(tmp_path: Path) -> None:
    """A line with an umlaut is none in UTF-8: the steward is told how many, and the header is refused."""
    (tmp_path / "rows.csv").write_bytes("id,town\n1,Köln\n2,Bonn\n".encode("latin-1"))
    source = {"kind": "csv", "path": "rows.csv"}
    schema = schema_of({"unit": "event", "columns": {"town": {"type": "string", "values": ["Köln", "Bonn"]}}})
    assert [(each.reason, each.records, each.first) for each in left_out(schema, source, folder=tmp_path)[1]] == [
        ("a value that is not text in UTF-8", 1, 2)
    ]
    assert left_out(schema, {**source, "encoding": "latin-1"}, folder=tmp_path) == (2, [])
    counted = Sums((Term(),), axes=(Axis("town", values=("Köln", "Bonn")),))
    table = table_of(schema, {**source, "encoding": "latin-1"}, folder=tmp_path)
    assert table.sums(counted).tolist() == [[1], [1]]
    table.close()
    (tmp_path / "rows.csv").write_bytes("größe\n1\n".encode("latin-1"))
    with pytest.raises(SourceUnavailable, match=r'rows.csv is not text in UTF-8; say .* encoding = "windows-1252"'):
        open_connector(source, folder=tmp_path)


def test_lines_before_the_header_are_skipped_and_lines_are_numbered_as_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('Report of May\n"printed, by me"\n' + PEOPLE + "3;1\n")
    assert [row[0] for row in rows(tmp_path, ["id"], skip=2)] == [1, 2]
    ((_, (lost,)),) = [left_out(SCHEMA, {**DECLARED, "skip": 2}, folder=tmp_path)]
    assert (lost.reason, lost.first) == ("too few fields", 6)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("1,234.5", 1234.5),
        ("1,234,567", 1234567.0),
        ("900", 900.0),
        ("-1,000", -1000.0),
        ("12,34", None),
        ("1.234,5", None),
        ("1,2345", None),
        ("about 5", None),
    ],
)
def test_commas_between_thousands_are_declared_and_no_other_comma_counts(
    tmp_path: Path, written: str, read: float | None
) -> None:
    (tmp_path / "rows.csv").write_text(f"id;income\n1;{written}\n")
    schema = schema_of({"unit": "event", "columns": {"income": {"type": "float", "low": -1e4, "high": 1e7}}})
    source = {"kind": "csv", "path": "rows.csv", "delimiter": ";", "thousands_comma": ["income"]}
    table = table_of(schema, source, folder=tmp_path)
    (found,) = table.engine.collected(table.engine.rows(["income"], None))["income"]
    assert (None if found != found else found) == read
    table.close()


@pytest.mark.parametrize(
    ("form", "written", "day"),
    [
        ("%d/%m/%Y", "03/04/1980", "1980-04-03"),
        ("%m/%d/%Y", "03/04/1980", "1980-03-04"),
        ("%d.%m.%Y", "3.4.1980", "1980-04-03"),
        ("%d/%m/%Y", " 03/04/1980 ", "1980-04-03"),
        ("%d/%m/%Y", "31/02/1980", None),
        ("%d/%m/%Y", "1980-04-03", None),
        ("%d/%m/%Y", "03/04/80", None),
        ("%d/%m/%Y", "03/04/1980 10:00", None),
        ("%d/%m/%Y %H:%M", "03/04/1980 10:30", "1980-04-03"),
        ("%d/%m/%Y", "03/13/1980", None),
    ],
)
def test_a_date_is_what_its_declared_form_says_or_missing(
    tmp_path: Path, form: str, written: str, day: str | None
) -> None:
    (tmp_path / "rows.csv").write_text(f"id;geboren\n1;{written}\n")
    schema = schema_of({"unit": "event", "columns": {"geboren": {"type": "timestamp"}}})
    source = {"kind": "csv", "path": "rows.csv", "delimiter": ";", "dates": {"geboren": form}}
    table = table_of(schema, source, folder=tmp_path)
    (found,) = table.engine.collected(table.engine.rows(["geboren"], None))["geboren"]
    assert (None if found != found else str(found)[:10]) == day
    table.close()


def test_every_day_of_the_calendar_is_read_back() -> None:
    import duckdb

    from thebes.data.connectors.csv_values import dated

    first, last = date.min.toordinal(), date.max.toordinal()
    days = [date.fromordinal(each) for each in (*range(first, last, 61), *range(last - 150 * 365, last + 1), last)]
    written = [f"{day.day:02}/{day.month:02}/{day.year:04}" for day in days]
    with duckdb.connect() as opened:
        opened.execute("SET TimeZone = 'UTC'")
        found = opened.execute(f"SELECT {dated('x', '%d/%m/%Y')} FROM (SELECT unnest(?) AS x)", [written]).fetchall()
    assert [each for (each,) in found] == [f"{day.isoformat()}T00:00:00" for day in days]


def test_yes_and_no_are_the_two_declared_words_and_anything_else_is_missing(tmp_path: Path) -> None:
    lines = ["ja", "JA ", "nein", "yes", "j", "1", ""]
    (tmp_path / "rows.csv").write_text("id;raucht\n" + "".join(f"{n};{word}\n" for n, word in enumerate(lines)))
    schema = schema_of({"unit": "event", "columns": {"raucht": {"type": "boolean"}}})
    source = {"kind": "csv", "path": "rows.csv", "delimiter": ";", "yes_no": {"raucht": ["ja", "nein"]}}
    table = table_of(schema, source, folder=tmp_path)
    counted = Sums((Term(),), axes=(Axis("raucht", values=(True, False)),))
    assert table.sums(counted).tolist() == [[2], [1]]
    table.close()


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"encoding": "no-such"}, "encoding is not an encoding that Python knows"),
        ({"encoding": "base64"}, "encoding is not an encoding of text"),
        ({"dates": {"born": "%d/%m/%y"}}, "has %y; a date is written with"),
        ({"dates": {"born": "%d/%m"}}, "must have %d, %m and %Y"),
        ({"dates": {"born": "%d/%m/%Y/%Y"}}, "has a part twice"),
        ({"yes_no": {"smokes": ["ja"]}}, "needs two words"),
        ({"yes_no": {"smokes": ["ja", "JA "]}}, "needs two words"),
        ({"thousands_comma": ["height"]}, "says twice how 'height' is written"),
        ({"columns": {"height": "Grösse"}}, "names 'Grösse', which is not a column of rows.csv"),
        ({"columns": {"id": "geboren"}}, "gives two columns of rows.csv the same name"),
        ({"dates": {"geboren": "%d.%m.%Y"}}, "source.dates: names 'geboren', which is not a column"),
        ({"skip": -1}, "source.skip"),
    ],
)
def test_a_declaration_that_cannot_be_is_named(tmp_path: Path, more: dict[str, Any], field: str) -> None:
    (tmp_path / "rows.csv").write_text(PEOPLE)
    with pytest.raises(Mistake) as refused:
        open_connector({**DECLARED, **more}, folder=tmp_path)
    assert field in str(refused.value)


def test_the_copy_of_a_file_in_another_encoding_has_no_name_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "rows.csv").write_bytes(PEOPLE.encode("windows-1252"))
    table = table_of(SCHEMA, {**DECLARED, "encoding": "windows-1252"}, folder=tmp_path)
    assert list((tmp_path / "temporary").iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.csv", "scratch", "temporary"]
    table.close()


def test_forms_of_dates_are_checked_part_by_part() -> None:
    assert [form_fault(form) for form in ("%Y-%m-%d", "%d.%m.%Y %H:%M:%S")] == ["", ""]
    assert form_fault("%Y%%%m%d") == "has %%; a date is written with %d, %m, %Y, %H, %M, %S"


@pytest.mark.parametrize(
    ("encoding", "torn"),
    [("utf-16-le", b"\x00\xd8"), ("cp932", b"\x81\xff"), ("gb18030", b"\xff"), ("big5", b"\xfe\x20")],
)
def test_a_line_that_is_no_text_in_the_declared_encoding_is_none_and_changes_no_other(
    tmp_path: Path, encoding: str, torn: bytes
) -> None:
    lines = [line.encode(encoding) for line in ("id;raucht", "1;ja", "2;ja", "3;nein")]
    lines[2] += torn
    (tmp_path / "rows.csv").write_bytes("\n".encode(encoding).join([*lines, b""]))
    schema = schema_of({"unit": "event", "columns": {"raucht": {"type": "boolean"}}})
    written = {"delimiter": ";", "encoding": encoding, "yes_no": {"raucht": ["ja", "nein"]}}
    table = table_of(schema, {"kind": "csv", "path": "rows.csv", **written}, folder=tmp_path)
    counted = Sums((Term(),), axes=(Axis("raucht", values=(True, False)),))
    assert table.sums(counted).tolist() == [[1], [1]]
    table.close()


@pytest.mark.parametrize("encoding", ["utf-7", "hz", "iso2022_jp", "raw_unicode_escape", "unicode_escape", "punycode"])
def test_an_encoding_in_which_a_line_means_what_others_say_is_refused(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "rows.csv").write_text("id\n1\n")
    with pytest.raises(Mistake, match=r"cannot be read line by line|is not an encoding"):
        open_connector({"kind": "csv", "path": "rows.csv", "encoding": encoding}, folder=tmp_path)
