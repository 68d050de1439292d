"""Proposals of schemas: from the header alone, and of no use to anybody before their open places are filled."""

from __future__ import annotations

import re
import tomllib
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import pytest
from fastapi.testclient import TestClient

from tests.support.command import exit_status
from tests.support.site_home import AGES
from thebes.data.schema import schema_of
from thebes.privacy.faults import Mistake
from thebes.site.steward.proposal import proposal
from thebes.site.steward.rest import guarded, one_time
from thebes.web.site.pages import put_on
from thebes.wire.access import Access

PORT = 8765
HEADER = "Patient-ID;Alter;Geschlecht;Größe (cm);Total Volume;2nd visit;名前;age\n"
ROWS = "1;40;m;180;5;x;y;3\n2;50;f;170;6;x;y;4\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.toml").write_text('kind = "csv"\npath = "rows.csv"\ndelimiter = ";"\n')
    return tmp_path


def proposed(folder: Path, name: str = "a", source: str = "rows.toml") -> tuple[str, str]:
    assert exit_status("dataset", "propose", source, "--name", name) == 0
    return (folder / f"{name}.schema.toml").read_text(), (folder / f"{name}.source.toml").read_text()


def test_the_same_header_gives_the_same_bytes_whatever_stands_below_it(folder: Path) -> None:
    (folder / "rows.csv").write_text(HEADER + ROWS)
    first = proposed(folder)
    (folder / "rows.csv").write_text(HEADER + "9;1000;other;1,5;;;;\n")
    assert proposed(folder, "b") == first
    (folder / "rows.csv").write_text(HEADER)
    assert proposed(folder, "c") == first


def test_names_of_any_script_get_plain_ones_and_everything_else_is_left_open(folder: Path) -> None:
    (folder / "rows.csv").write_text(HEADER + ROWS)
    schema, source = proposed(folder)
    told = tomllib.loads(schema)
    assert list(told["columns"]) == [
        "patient_id", "Alter", "Geschlecht", "groesse_cm", "total_volume", "c_2nd_visit", "column", "age"
    ]  # fmt: skip
    assert told["unit"] == "?"
    assert told["columns"]["Alter"] == {"type": "?", "low": "?", "high": "?"}
    assert "usually 120" in schema
    assert told["columns"]["Geschlecht"] == {"type": "?", "values": "?"}
    assert "key" not in told["columns"]["patient_id"]
    read = tomllib.loads(source)
    assert read["columns"]["groesse_cm"] == "Größe (cm)"
    assert read["columns"]["column"] == "名前"


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        ("patient;age\n1;40\n", 'delimiter = ";"'),
        ("patient\tage\n1\t40\n", 'delimiter = "\\t"'),
        ("\x01PNG\n\n", "not text"),
    ],
)
def test_a_file_that_is_written_otherwise_is_not_taken_for_one_column(
    folder: Path, capsys: pytest.CaptureFixture[str], content: str, hint: str
) -> None:
    (folder / "other.csv").write_text(content)
    assert exit_status("dataset", "propose", "other.csv", "--name", "a") != 0
    assert hint in " ".join(capsys.readouterr().err.split())
    assert not (folder / "a.schema.toml").exists()


def test_what_is_left_open_is_refused_by_its_place_until_it_is_filled_in(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "rows.csv").write_text("id;age\n1;40\n2;50\n")
    schema, _ = proposed(folder)
    assert exit_status("site", "init", "--home", "site") == 0
    create = ("dataset", "create", "people", "--home", "site", "--schema", "a.schema.toml", "--source", "a.source.toml")
    capsys.readouterr()
    assert exit_status(*create, "--epsilon", "1") == 2
    assert 'unit: is still "?"' in capsys.readouterr().err
    filled = schema.replace('unit = "?"', 'unit = "person"').replace("# key = true", "key = true")
    filled = filled.replace('type = "?"', 'type = "integer"').replace('low = "?"', "low = 0")
    (folder / "a.schema.toml").write_text(filled)
    assert exit_status(*create, "--epsilon", "1") == 2
    assert 'columns.age.high: is still "?"' in capsys.readouterr().err
    (folder / "a.schema.toml").write_text(filled.replace('high = "?"', "high = 120"))
    assert exit_status(*create, "--epsilon", "1") == 0


def test_types_come_from_a_file_that_says_them_and_bounds_never_do(folder: Path) -> None:
    with duckdb.connect() as opened:
        made = "SELECT 1::INTEGER AS id, 40::INTEGER AS age, 1.5::DOUBLE AS dose, 'f' AS sex, DATE '2026-01-01' AS seen"
        opened.execute(f"COPY ({made}) TO '{folder}/rows.parquet'")
    schema, _ = proposed(folder, source="rows.parquet")
    told: dict[str, Any] = tomllib.loads(schema)["columns"]
    assert {name: column["type"] for name, column in told.items()} == {
        "id": "integer", "age": "integer", "dose": "float", "sex": "string", "seen": "timestamp"
    }  # fmt: skip
    assert told["dose"] == {"type": "float", "low": "?", "high": "?"}
    assert told["seen"] == {"type": "timestamp"}


def test_nothing_is_written_over_and_a_name_that_cannot_be_changed_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "rows.csv").write_text(HEADER)
    proposed(folder)
    assert exit_status("dataset", "propose", "rows.toml", "--name", "a") == 2
    assert "is there already" in capsys.readouterr().err
    with duckdb.connect() as opened:
        opened.execute(f"""COPY (SELECT 1 AS "Total Volume") TO '{folder}/odd.parquet'""")
    assert exit_status("dataset", "propose", "odd.parquet") == 2
    assert "'Total Volume'" in capsys.readouterr().err


def test_names_never_collide_and_a_value_that_is_a_question_mark_is_none() -> None:
    held = dict.fromkeys(["a b", "a-b", "A_B", "x" * 200, "x" * 201, "1", "!!"], "text")
    names = list(tomllib.loads(proposal(held).schema)["columns"])  # type: ignore[arg-type]
    assert len({name.lower() for name in names}) == 7
    body = {**AGES, "columns": {"mark": {"type": "string", "values": ["?", "!"]}}}
    assert schema_of(body).columns["mark"].values == ("?", "!")
    with pytest.raises(Mistake, match=r"columns\.mark\.values: is still"):
        schema_of({**AGES, "columns": {"mark": {"type": "string", "values": "?"}}})


# --- in the browser ---------------------------------------------------------------------------------------------


FILLED = {
    "delimiter": ";", "unit": "person", "max_rows_per_unit": "2",
    "column": ["Patient-ID", "Größe (cm)", "Geschlecht", "note", "Foto", "trace"],
    "name": ["patient_id", "groesse_cm", "Geschlecht", "note", "Foto", "trace"],
    "kind": ["key", "float", "string", "absent", "image", "array"],
    "low": ["", "30", "", "", "", "0"], "high": ["", "250.5", "", "", "", "1"],
    "values": ["", "", 'm, "f,x"', "", "", ""], "size": ["", "", "", "", "32 x 24", "2, 3"],
    "encoding": "utf-8", "written": ["", "", "", "", "", ""],
}  # fmt: skip


@pytest.fixture
def pages(folder: Path) -> TestClient:
    access = Access(lambda: "the-token")
    nobody: Any = SimpleNamespace(name="north")  # the form asks nobody
    api: Any = guarded(nobody, access, port=PORT, confined=True, pages=put_on)
    client = TestClient(api, base_url=f"http://127.0.0.1:{PORT}", follow_redirects=False)
    client.get(one_time(PORT, access).removeprefix(f"http://127.0.0.1:{PORT}"))
    client.headers["hx-request-type"] = "partial"
    return client


def test_the_form_shows_every_column_of_a_header_and_leaves_everything_open(pages: TestClient) -> None:
    shown = pages.post("/propose/columns", json={"header": HEADER, "delimiter": ";", "encoding": "utf-8"}).text
    assert shown.count("<fieldset>") == 8
    assert 'value="groesse_cm"' in shown
    assert "usually 250" in shown
    assert " selected" not in shown
    assert 'name="low" value' not in shown


def test_what_the_form_makes_declares_the_data_set(pages: TestClient, folder: Path) -> None:
    told = pages.post("/propose/schema", json=FILLED)
    assert told.status_code == 200, told.text
    schema, source = (
        unescape(text) for text in re.findall(r"<pre [^>]*lines of [^>]*>(.*?)</pre>", told.text, re.DOTALL)
    )
    assert tomllib.loads(schema) == {
        "unit": "person",
        "max_rows_per_unit": 2,
        "columns": {
            "patient_id": {"type": "string", "key": True},
            "groesse_cm": {"type": "float", "low": 30, "high": 250.5},
            "Geschlecht": {"type": "string", "values": ["m", "f,x"]},
            "Foto": {"type": "image", "width": 32, "height": 24, "channels": 3},
            "trace": {"type": "array", "shape": [2, 3], "low": 0, "high": 1},
        },
    }
    (folder / "schema.toml").write_text(schema)
    (folder / "source.toml").write_text(source)
    (folder / "rows.csv").write_text(
        "Patient-ID;Größe (cm);Geschlecht;note;Foto;trace\n1;180;m;x;a.png;[0]\n2;170;f;y;b.png;[]\n"
    )
    (folder / "files").mkdir()
    line = ("--home", "site", "--schema", "schema.toml", "--source", "source.toml", "--epsilon", "1")
    assert exit_status("dataset", "create", "patients", *line, "--check") == 2, "there is no picture"
    assert exit_status("dataset", "create", "patients", *line) == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"unit": ""}, "unit"),
        ({"kind": ["key", "", *["absent"] * 4]}, "groesse_cm"),
        ({"low": [""] * 6}, "groesse_cm"),
        ({"low": ["", "x", "", "", "", "0"]}, "groesse_cm.low"),
        ({"low": ["", "300", "", "", "", "0"]}, "groesse_cm"),
        ({"low": ["", "nan", "", "", "", "0"]}, "groesse_cm"),
        ({"low": ["", "30", "", "", "", ""]}, "trace"),
        ({"size": ["", "", "", "", "32", "2, 3"]}, "Foto.size"),
        ({"size": ["", "", "", "", "32 x 24", ""]}, "trace.size"),
        ({"size": ["", "", "", "", "32 x 0", "2, 3"]}, "Foto.height"),
        ({"name": ["a", "a", "b", "c", "d", "e"]}, "two columns"),
        ({"kind": ["absent"] * 6}, "left out"),
        ({"kind": ["key"]}, "reload the page"),
        ({"kind": [7, "float", "string", "absent", "image", "array"]}, "reload the page"),
        ({"delimiter": "x"}, "delimiter"),
        ({"encoding": "x"}, "encoding"),
        ({"written": ["", "1,2", "", "", "", ""]}, "groesse_cm.written"),
        ({"written": ["", "", "ja, nein", "", "", ""]}, "Geschlecht.written"),
        ({"max_rows_per_unit": "0.5"}, "max_rows_per_unit"),
    ],
)
def test_what_the_form_leaves_open_is_refused_by_its_place(
    pages: TestClient, change: dict[str, Any], said: str
) -> None:
    told = pages.post("/propose/schema", json={**FILLED, **change})
    assert (told.status_code, said in told.text) == (422, True), told.text


@pytest.mark.parametrize("header", ["", "a,,b", "a,a", "x" * 70_000, ",".join(f"c{n}" for n in range(1_001))])
def test_a_line_that_names_no_columns_is_refused(pages: TestClient, header: str) -> None:
    assert (
        pages.post("/propose/columns", json={"header": header, "delimiter": ",", "encoding": "utf-8"}).status_code
        == 422
    )


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("Patient;Größe;Aufnahme", "choose it above as what stands between two names"),
        ("Patient,Gr\ufffd\ufffde", "choose the encoding in which it was written"),
    ],
)
def test_a_line_that_was_read_otherwise_than_it_is_written_is_refused_with_what_to_choose(
    pages: TestClient, header: str, told: str
) -> None:
    answer = pages.post("/propose/columns", json={"header": header, "delimiter": ",", "encoding": "utf-8"})
    assert (answer.status_code, told in answer.text) == (422, True), answer.text


EXPORTED = {
    "delimiter": ";", "encoding": "windows-1252", "unit": "person", "max_rows_per_unit": "1",
    "column": ["Größe", "Aufnahme", "Raucht"], "name": ["groesse", "aufnahme", "raucht"],
    "kind": ["float", "timestamp", "boolean"], "low": ["30", "", ""], "high": ["250", "", ""],
    "values": ["", "", ""], "size": ["", "", ""], "written": ["1.234,5", "%d.%m.%Y", "ja, nein"],
}  # fmt: skip


def test_the_form_declares_a_file_as_it_is_written_and_says_that_nothing_is_the_key(
    pages: TestClient, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = pages.post("/propose/schema", json=EXPORTED)
    assert told.status_code == 200, told.text
    assert "each row counts as a person of its own" in told.text
    assert "Files as they are written" in told.text
    schema, source = (
        unescape(text) for text in re.findall(r"<pre [^>]*lines of [^>]*>(.*?)</pre>", told.text, re.DOTALL)
    )
    assert "# missing = [" in source
    (folder / "schema.toml").write_text(schema)
    (folder / "source.toml").write_text(source)
    (folder / "rows.csv").write_bytes("Größe;Aufnahme;Raucht\n181,5;31.01.2026;ja\n".encode("windows-1252"))
    line = ("--home", "site", "--schema", "schema.toml", "--source", "source.toml", "--epsilon", "1")
    assert exit_status("dataset", "create", "patients", *line, "--check") == 0
    assert capsys.readouterr().out.count("everything fits") == 3


@pytest.mark.parametrize(("way", "told"), [("%y", "dates"), ("%d.%m", "dates")])
def test_a_form_of_dates_that_is_none_is_refused(pages: TestClient, way: str, told: str) -> None:
    answer = pages.post("/propose/schema", json={**EXPORTED, "written": ["", way, ""]})
    assert (answer.status_code, told in answer.text) == (422, True), answer.text
