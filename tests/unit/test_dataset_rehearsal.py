"""A hospital's file as it is exported (Latin-1, semicolons, decimal commas, German dates, ja and nein, several rows of
one person), declared by a steward who knows nothing but what is said at each step."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.command import exit_status

Run = Callable[..., tuple[int, str, str]]
ROWS = """Patientennummer;Größe;Gewicht;Aufnahme;Raucht
P-1;181;80,5;03.04.2026;ja
P-1;181;81,5;05.04.2026;ja
P-1;181;79;13.04.2026;nein
P-2;168;61,25;14.04.2026;nein
P-3;175;70,0;15.04.2026;ja
"""
SOURCE = 'kind = "csv"\npath = "klinik.csv"\ndelimiter = ";"\nencoding = "windows-1252"\n'
WAYS = 'decimal_comma = ["gewicht"]\n'
COLUMNS = '[columns]\npatient = "Patientennummer"\ngroesse = "Größe"\ngewicht = "Gewicht"\naufnahme = "Aufnahme"\n'
TABLES = COLUMNS + 'raucht = "Raucht"\n'
WRITTEN = '[dates]\naufnahme = "%d.%m.%Y"\n[yes_no]\nraucht = ["ja", "nein"]\n'
SCHEMA = """
unit = "person"
max_rows_per_unit = {most}
[columns.patient]
type = "string"
{key}
[columns.gewicht]
type = "float"
low = 20
high = 300
[columns.aufnahme]
type = "timestamp"
[columns.raucht]
type = "boolean"
"""


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs a command line; its exit status, standard output and standard error with their lines joined."""

    def go(*arguments: object) -> tuple[int, str, str]:
        status = exit_status(*arguments)
        out, err = capsys.readouterr()
        return status, out, " ".join(err.split())

    monkeypatch.delenv("THEBES_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "klinik.csv").write_bytes(ROWS.encode("windows-1252"))
    (tmp_path / "klinik.toml").write_text(SOURCE + WAYS + TABLES + WRITTEN)
    (tmp_path / "schema.toml").write_text(SCHEMA.format(most=2, key="key = true"))
    return go


def create(run: Run, *more: str, epsilon: str = "10") -> tuple[int, str, str]:
    place = ("--home", "site", "--schema", "schema.toml", "--source", "klinik.toml", "--epsilon", epsilon)
    return run("dataset", "create", "klinik", *place, *more)


@pytest.mark.parametrize("more", [(), ("--check",)])
def test_rows_of_persons_without_a_key_are_warned_of(run: Run, tmp_path: Path, more: tuple[str, ...]) -> None:
    (tmp_path / "schema.toml").write_text(SCHEMA.format(most=1, key=""))
    status, _, err = create(run, *more)
    assert status == 0
    assert "warning: no column is the key, so each row counts as a person of its own" in err
    assert "declare it with key = true (perhaps patient)" in err
    assert "each row counts as a person of its own" in run("dataset", "show", "klinik", "--home", "site")[1]


def test_a_key_and_rows_that_are_nobodys_are_not_warned_of(run: Run, tmp_path: Path) -> None:
    assert create(run)[2] == ""
    assert "of its own" not in run("dataset", "show", "klinik", "--home", "site")[1]
    (tmp_path / "schema.toml").write_text(SCHEMA.format(most=1, key="").replace("person", "event"))
    assert create(run)[2].count("warning") == 0


@pytest.mark.parametrize(
    ("most", "told"),
    [
        (1, "3 people, of whom 1 has more than 1 row: of their rows no more count"),
        (2, "3 people, of whom 1 has more than 2 rows"),
        (3, "3 people, none with more than 3 rows"),
    ],
)
def test_people_with_more_rows_than_count_are_told_by_a_check_alone(
    run: Run, tmp_path: Path, most: int, told: str
) -> None:
    (tmp_path / "schema.toml").write_text(SCHEMA.format(most=most, key="key = true"))
    _, out, _ = create(run, "--check")
    assert told in out
    run("dataset", "remove", "klinik", "--home", "site")
    assert "people, " not in create(run)[1]


def test_a_check_names_how_values_are_written_that_do_not_fit(run: Run, tmp_path: Path) -> None:
    (tmp_path / "klinik.toml").write_text(SOURCE + TABLES)
    status, out, err = create(run, "--check")
    assert status == 2
    assert "gewicht: 4 missing" in out, "one weight is written without a comma"
    assert 'decimal_comma = ["gewicht"]' in out
    assert '[dates] aufnahme = "%d.%m.%Y"' in out
    assert '[yes_no] raucht = ["WORD FOR YES", "WORD FOR NO"]' in out
    assert "fits no value of aufnahme, raucht" in err
    assert "declare in the source how they are written, as said above" in err
    assert "nein" not in out + err
    assert "80,5" not in err
    (tmp_path / "klinik.toml").write_text(SOURCE + WAYS + TABLES + WRITTEN)
    status, out, err = create(run, "--check")
    assert (status, err) == (0, "")
    assert "gewicht: everything fits" in out
    assert "decimal_comma" not in out


def test_values_that_are_no_such_thing_get_no_hint_of_how_they_are_written(run: Run, tmp_path: Path) -> None:
    rows = "Patientennummer;Größe;Gewicht;Aufnahme;Raucht\nP-1;1;heavy;soon;\nP-2;1;;;\n"
    (tmp_path / "klinik.csv").write_bytes(rows.encode("windows-1252"))
    (tmp_path / "klinik.toml").write_text(SOURCE + TABLES)
    status, out, err = create(run, "--check")
    assert status == 2
    assert "decimal_comma" not in out + err
    assert "[dates]" not in out + err
    assert "correct it, or leave --check out" in err


def test_a_file_in_another_encoding_is_said_to_be_and_a_source_of_ones_own_proposes(run: Run, tmp_path: Path) -> None:
    status, _, err = run("dataset", "propose", "klinik.csv")
    assert status == 1
    assert "klinik.csv is not text in UTF-8" in err
    assert 'encoding = "windows-1252"' in err
    assert "Error" not in err
    (tmp_path / "own.toml").write_text(SOURCE)
    assert run("dataset", "propose", "own.toml", "--name", "p")[0] == 0
    schema = (tmp_path / "p.schema.toml").read_text()
    assert "groesse" in tomllib.loads(schema)["columns"]
    assert schema.count("\n# key = true") == 1, "the patient's number looks like one"
    assert "without a key each row counts as a person of its own" in schema


def test_lines_in_another_encoding_are_said_to_need_one_declared(run: Run, tmp_path: Path) -> None:
    (tmp_path / "klinik.csv").write_bytes("nummer\nK\xf6ln\nBonn\n".encode("latin-1"))
    (tmp_path / "schema.toml").write_text('unit = "event"\n[columns.nummer]\ntype = "string"\n')
    (tmp_path / "klinik.toml").write_text('kind = "csv"\npath = "klinik.csv"\n')
    status, _, err = create(run)
    assert status == 2
    assert 'encoding = "windows-1252"' in err


def test_a_proposed_source_shows_above_its_tables_how_values_may_be_written(run: Run, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(SOURCE)
    run("dataset", "propose", "own.toml", "--name", "p")
    source = (tmp_path / "p.source.toml").read_text()
    above, _, below = source.partition("[columns]")
    assert "# decimal_comma = [" in above
    assert "# missing = [" in above
    assert "# encoding" not in above, "it is declared"
    assert "# [dates]" in below
    assert "# [yes_no]" in below
    assert tomllib.loads(source)["columns"]["groesse"] == "Größe"
    bare = source.replace('# decimal_comma = ["COLUMN"]', 'decimal_comma = ["Gewicht"]')
    bare = bare.replace('# COLUMN = "%d', 'Aufnahme = "%d')
    bare = bare.replace('# COLUMN = ["yes", "no"]', 'Raucht = ["ja", "nein"]')
    bare = bare.replace("# [dates]", "[dates]").replace("# [yes_no]", "[yes_no]")
    (tmp_path / "klinik.toml").write_text(bare)
    schema = SCHEMA.format(most=2, key="key = true").replace("columns.patient", "columns.Patientennummer")
    schema = schema.replace("gewicht", "Gewicht").replace("aufnahme", "Aufnahme").replace("raucht", "Raucht")
    (tmp_path / "schema.toml").write_text(schema)
    status, out, err = create(run, "--check")
    assert (status, err) == (0, "")
    assert out.count("everything fits") == 4


@pytest.mark.parametrize(("line", "field"), [('decimal_comma = ["a"]', "decimal_comma"), ("skip = 2", "skip")])
def test_a_line_that_landed_below_the_columns_is_said_to_belong_above_them(
    run: Run, tmp_path: Path, line: str, field: str
) -> None:
    (tmp_path / "klinik.toml").write_text(SOURCE + TABLES + line + "\n")
    status, _, err = create(run)
    assert status == 2
    assert f"{field} stands below [columns]" in err
    assert "move that line above [columns]" in err


def test_other_terms_are_refused_with_the_earlier_ones_and_what_to_do(run: Run) -> None:
    assert create(run)[0] == 0
    assert run("dataset", "remove", "klinik", "--home", "site")[0] == 0
    status, _, err = create(run, epsilon="20")
    assert status == 2
    assert err.startswith("thebes: --epsilon: ")
    assert "the data set 'klinik' was declared before with epsilon 10 and delta 0 (filter basic, unit person)" in err
    assert "what was spent of that stays spent" in err
    assert "block" not in err
    status, _, err = create(run, "--delta", "1e-6")
    assert status == 2
    assert err.startswith("thebes: --delta: ")
    status, _, err = create(run, "--filter", "basic", "--cache", "none")
    assert (status, err) == (0, "")


def test_blocks_on_other_terms_are_refused_with_the_earlier_ones(run: Run, tmp_path: Path) -> None:
    (tmp_path / "days.toml").write_text('unit = "event"\ntime = "day"\n[columns.day]\ntype = "timestamp"\n')
    (tmp_path / "days.csv").write_text("day\n2026-01-01\n")
    line = ("dataset", "create", "days", "--home", "site", "--schema", "days.toml", "--block-by", "time:1d")
    assert run(*line, "--since", "2026-01-01", "--epsilon", "1")[0] == 0
    assert run("dataset", "ingest", "days", "days.csv", "--home", "site")[0] == 0
    assert run("dataset", "remove", "days", "--home", "site")[0] == 0
    status, _, err = run(*line, "--since", "2026-01-01", "--epsilon", "2")
    assert status == 1
    assert "which have epsilon 1" in err
    assert "declares it again on the earlier ones" in err
