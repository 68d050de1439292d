"""OpenSpecimen as a source: sessions, pages by record number, what it hides and rounds, and what it is asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.openspecimen import Bank, OpenSpecimenServer, User
from tests.support.web import Call, Reply
from thebes.data.connectors import web
from thebes.data.connectors.connector import SourceUnavailable
from thebes.data.connectors.registry import open_connector
from thebes.data.engines.source import table_of
from thebes.data.filter import read_filter
from thebes.data.schema import schema_of
from thebes.data.table import Axis, Factor, Sums, Term
from thebes.privacy.faults import Mistake

FIELDS = {
    "Specimen.id": "INTEGER",
    "Specimen.label": "STRING",
    "Specimen.type": "STRING",
    "Specimen.quantity": "FLOAT",
    "Specimen.aliquots": "INTEGER",
    "Specimen.frozen": "BOOLEAN",
    "Specimen.createdOn": "DATE",
    "Participant.ppid": "STRING",
    "Participant.ssn": "STRING",
    "CollectionProtocol.id": "INTEGER",
}
COLUMNS = {
    "who": "Participant.ppid",
    "type": "Specimen.type",
    "quantity": "Specimen.quantity",
    "aliquots": "Specimen.aliquots",
    "frozen": "Specimen.frozen",
    "created": "Specimen.createdOn",
}
KINDS, AWKWARD = ["Blood", "Tissue"], ["Whole Blood (EDTA)", 'a" or Specimen.id > 0', "a\\"]
TYPES = schema_of(
    {
        "unit": "person",
        "max_rows_per_unit": 3,
        "time": "created",
        "columns": {
            "who": {"type": "string", "key": True},
            "type": {"type": "string", "values": [*KINDS, *AWKWARD]},
            "quantity": {"type": "float", "low": 0.0, "high": 8.0},
            "aliquots": {"type": "integer", "low": 0, "high": 8},
            "frozen": {"type": "boolean"},
            "created": {"type": "timestamp"},
        },
    }
)


def specimen(number: int, **more: Any) -> dict[str, Any]:
    row = {
        "Specimen.id": number,
        "Specimen.type": ("Blood", "Tissue")[number % 2],
        "Specimen.quantity": number % 8 + 0.25,
        "Specimen.aliquots": number % 5,
        "Specimen.frozen": number % 3 == 0,
        "Specimen.createdOn": f"2024-01-{number % 28 + 1:02}T09:30:00",
        "Participant.ppid": f"P{number // 3}",
        "Participant.ssn": f"000-{number}",
        "CollectionProtocol.id": 1 + number % 2,
    }
    return row | {f"Specimen.{name}": value for name, value in more.items()}


@dataclass
class Biobank:
    """One server, and its source."""

    server: OpenSpecimenServer
    folder: Path

    def source(self, **more: Any) -> dict[str, Any]:
        made = {
            "kind": "openspecimen",
            "url": self.server.url,
            "user": "reader",
            "password_file": "password",
            "row": "Specimen.id",
            "columns": COLUMNS,
            **more,
        }
        return {name: value for name, value in made.items() if value is not None}

    def rows(self, *columns: str, where: str | None = None, **more: Any) -> list[tuple[object, ...]]:
        connector = open_connector(self.source(**more), folder=self.folder)
        try:
            condition = None if where is None else read_filter(where, TYPES)
            batches = list(connector.batches(columns, condition))
        finally:
            connector.close()
        return [row for batch in batches for row in zip(*(batch[name] for name in columns), strict=True)]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(web, "LONGEST_PAUSE_SECONDS", 0.002)


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Biobank]:
    rows = [specimen(number) for number in range(1, 31)]
    with OpenSpecimenServer(Bank(FIELDS, rows, frozenset({"Participant.ssn"}))) as server:
        path = tmp_path / "password"
        path.write_text(server.password)
        path.chmod(0o600)
        yield Biobank(server, tmp_path)


# --- what is read ----------------------------------------------------------------------------------------------


def test_values_come_as_it_writes_them(bank: Biobank) -> None:
    bank.server.bank.rows[:] = [
        specimen(3, quantity=1.005, type="łódź 🫀"),
        specimen(4, quantity=2.0, aliquots=None, type=None),
    ]
    assert bank.rows(*COLUMNS) == [
        ("P1", "łódź 🫀", "1.01", "3", "true", "2024-01-04T09:30:00"),
        ("P1", None, "2", None, "false", "2024-01-05T09:30:00"),
    ]


def test_rows_are_counted_through_a_table_by_person(bank: Biobank) -> None:
    table = table_of(TYPES, bank.source(page=7), folder=bank.folder)
    wanted = Sums((Term(),), axes=(Axis("type", values=("Blood", "Tissue")),))
    assert table.sums(wanted).tolist() == [[15], [15]]
    condition = read_filter("frozen AND created >= '2024-01-10'", TYPES)
    frozen = [row for row in bank.server.bank.rows if row["Specimen.frozen"]]
    late = [row for row in frozen if str(row["Specimen.createdOn"]) >= "2024-01-10"]
    [[count, quantity]] = table.sums(Sums((Term(), Term((Factor("quantity", 1, 1),))), bits=8, where=condition))
    assert count == len(late)
    assert quantity == sum(32 * float(str(row["Specimen.quantity"])) for row in late)
    table.close()


def test_only_one_protocol_and_what_the_steward_means_is_read(bank: Biobank) -> None:
    assert len(bank.rows("who", protocol=2)) == 15
    assert len(bank.rows("who", condition="Specimen.aliquots > 3 or Specimen.aliquots = 0")) == 12
    assert len(bank.rows("who", condition="Specimen.aliquots > 3", protocol=2)) == 3
    assert len(bank.rows("who", condition='Specimen.type = "blood"', form="Specimen")) == 15
    assert bank.server.queries[-1]["drivingForm"] == "Specimen"
    assert {query.get("cpId") for query in bank.server.queries} == {None, 2}


def test_a_record_of_many_rows_comes_whole(bank: Biobank) -> None:
    rows = [specimen(1, label="a"), *(specimen(2, type=f"T{n}") for n in range(9)), specimen(3), specimen(4)]
    bank.server.bank.rows[:] = rows
    for page in (1, 2, 3, 4, 10, 12, 13, 50):
        assert [row[0] for row in bank.rows("type", page=page)] == [row["Specimen.type"] for row in rows], page


def test_the_same_row_of_a_record_counts_once(bank: Biobank) -> None:
    bank.server.bank.rows += [specimen(number) for number in range(10, 20)]
    assert len(bank.rows("who", "type", page=4)) == 30
    same = {"rows": [["1", "P0"], ["1", "P0"], ["2", "P0"]], "columnTypes": ["INTEGER", "STRING"], "dbRowsCount": 3}
    bank.server.odd += [None, None, Reply.of(200, same)]
    assert bank.rows("who") == [("P0",), ("P0",)]


def test_rows_that_come_and_go_between_pages_shift_no_other(bank: Biobank) -> None:
    def change(before: int) -> None:
        held = bank.server.bank.rows
        held[:] = [row for row in held if row["Specimen.id"] != 100 + before - 1]
        held.append(specimen(100 + before))
        if before == 5:
            held.remove(next(row for row in held if row["Specimen.id"] == 1))  # read already
            held.remove(next(row for row in held if row["Specimen.id"] == 30))  # not read yet

    bank.server.between = change
    bank.server.bank.fields = FIELDS
    found = bank.rows("who", "quantity", page=6)
    kept = [(row["Participant.ppid"], f"{row['Specimen.quantity']}") for row in map(specimen, range(1, 30))]
    assert found[:29] == kept
    assert len(found) in (29, 30)


def test_rows_in_an_order_of_their_own_are_refused(bank: Biobank) -> None:
    class Disordered(OpenSpecimenServer):
        def answer(self, call: Call) -> Reply:
            told = call.body.replace(b"order by Specimen.id asc", b"order by Specimen.quantity asc")
            return super().answer(Call(call.method, call.path, call.headers, told))

    with Disordered(bank.server.bank) as server:
        (bank.folder / "password").write_text(server.password)
        with pytest.raises(SourceUnavailable, match=r"source\.row"):
            Biobank(server, bank.folder).rows("who")


def test_a_row_that_is_no_number_is_refused(bank: Biobank) -> None:
    for wrong in ("Specimen.label", "Specimen.type", "Specimen.frozen", "Specimen.createdOn"):
        with pytest.raises(Mistake, match=r"source\.row"):
            bank.rows("who", row=wrong)


# --- who reads -------------------------------------------------------------------------------------------------


def test_a_session_is_opened_once_and_closed(bank: Biobank) -> None:
    assert len(bank.rows("who", page=3)) == 30
    assert [call.path for call in bank.server.calls].count("/openspecimen/rest/ng/sessions") == 2
    assert bank.server.sessions == {}


def test_a_session_that_runs_out_is_opened_again(bank: Biobank) -> None:
    bank.server.lasts = 4
    assert len(bank.rows("who", page=3)) == 30
    assert sum(call.method == "POST" and call.path.endswith("/sessions") for call in bank.server.calls) > 2


def test_the_token_of_a_session_that_somebody_opened_will_do(bank: Biobank) -> None:
    token = bank.server.sign_in()
    (bank.folder / "password").write_text(token)
    told = {"user": None, "password_file": None, "token_file": "password"}
    assert len(bank.rows("who", **told)) == 30
    assert token in bank.server.sessions
    del bank.server.sessions[token]
    with pytest.raises(SourceUnavailable, match="does not accept its user any more"):
        bank.rows("who", **told)


@pytest.mark.parametrize(
    "told",
    [
        {"password_file": None},
        {"user": None},
        {"token_file": "password"},
        {"user": None, "password_file": None},
        {"user": None, "token_file": "password"},
    ],
)
def test_a_name_without_a_password_is_refused(bank: Biobank, told: dict[str, Any]) -> None:
    with pytest.raises(Mistake, match=r"source\.user"):
        bank.rows("who", **told)


def test_what_identifies_people_is_not_taken_for_a_value(bank: Biobank) -> None:
    columns = {**COLUMNS, "who": "Participant.ssn"}
    assert len(bank.rows("who", columns=columns)) == 30
    bank.server.users["reader"] = User(bank.server.password, phi=False)
    assert len(bank.rows("type", columns=columns)) == 30
    with pytest.raises(SourceUnavailable, match="hides 'who'"):
        bank.rows("type", "who", columns=columns)


def test_a_server_with_too_many_queries_is_asked_again(bank: Biobank) -> None:
    bank.server.busy = 3
    assert len(bank.rows("who")) == 30
    bank.server.busy = 99
    with pytest.raises(SourceUnavailable, match="too much to do"):
        bank.rows("who")


# --- what is asked -----------------------------------------------------------------------------------------------


def test_a_field_that_there_is_not_is_named(bank: Biobank) -> None:
    for wrong in ("Specimen.weight", "Participant.ssn.x"):
        with pytest.raises(Mistake, match=r"source\.columns\.type: "):
            bank.rows("who", "type", columns={**COLUMNS, "type": wrong})
    for wrong in ("Specimen", "Specimen.id, Participant.ssn", 'a.b where "', "x.y z", ""):
        with pytest.raises(Mistake, match=r"source\.(columns\.type|row)"):
            bank.rows("who", columns={**COLUMNS, "type": wrong})
        with pytest.raises(Mistake, match=r"source\.row"):
            bank.rows("who", row=wrong)


def test_a_condition_that_cannot_be_read_is_said(bank: Biobank) -> None:
    for wrong in ("Specimen.id >", "Specimen.id > 1)", '") or ("'):
        with pytest.raises(Mistake, match=r"source\.condition"):
            bank.rows("who", condition=wrong)


@pytest.mark.parametrize(
    ("condition", "aql"),
    [
        ("aliquots >= 2", "Specimen.aliquots >= 2"),
        ("NOT (aliquots = 2 OR aliquots < -1)", "(Specimen.aliquots != 2 and Specimen.aliquots >= -1)"),
        ("aliquots IN (1, 2) AND type = 'Blood'", '((@ = 1 or @ = 2) and Specimen.type = "Blood")'),
        ("aliquots NOT IN (1, 2)", "(@ != 1 and @ != 2)"),
        (
            "type IN ('Blood', 'Whole Blood (EDTA)')",
            '(Specimen.type = "Blood" or Specimen.type = "Whole Blood (EDTA)")',
        ),
        ("type IS NOT NULL", "Specimen.type exists"),
        ("aliquots > 1 AND quantity > 1", "@ > 1"),
        ("quantity > 1", None),
        ("aliquots > 1 OR quantity > 1", None),
        ("type <> 'Blood'", None),
        ("type = 'a\" or Specimen.id > 0'", None),
        ("type = 'a\\'", None),
        ("type IS NULL", None),
        ("frozen", None),
        ("created > '2024-01-01'", None),
    ],
)
def test_only_what_its_database_sees_alike_is_asked(bank: Biobank, condition: str, aql: str | None) -> None:
    bank.rows("who", where=condition)
    asked = bank.server.queries[-1]["aql"]
    body = asked.partition(" where Specimen.id > 0")[2].partition(" order by ")[0]
    assert body == ("" if aql is None else f" and {aql.replace('@', 'Specimen.aliquots')}")


def test_a_column_of_whole_numbers_that_holds_fractions_is_not_asked(bank: Biobank) -> None:
    bank.rows("who", where="aliquots > 1", columns={**COLUMNS, "aliquots": "Specimen.quantity"})
    assert "quantity >" not in bank.server.queries[-1]["aql"]


def test_a_condition_spares_most_of_the_way(bank: Biobank) -> None:
    assert bank.rows("type", where="aliquots = 4 AND type = 'Blood'") == [("Blood",)] * 3


# --- the server for tests ------------------------------------------------------------------------------------------


def test_the_server_refuses_what_openspecimen_refuses(bank: Biobank) -> None:
    base = f"{bank.server.url}/rest/ng"
    signed = {"X-OS-API-TOKEN": bank.server.sign_in()}
    assert httpx.post(f"{base}/query", json={"aql": "x"}).status_code == 401
    assert httpx.post(f"{base}/sessions", json={"loginName": "reader", "password": "x"}).status_code == 401
    assert httpx.get(f"{base}/specimens", headers=signed).status_code == 404
    for aql in (
        "select Specimen.id",
        "select Specimen.nothing where Specimen.id > 0",
        "select Specimen.id where Specimen.id > 0 order by",
        "select Specimen.id where Specimen.type > 3",
        'select Specimen.id where Specimen.type = "x',
        "select Specimen.id where Specimen.id > 0 limit 0, 1; delete",
    ):
        answer = httpx.post(f"{base}/query", json={"aql": aql}, headers=signed)
        assert (answer.status_code, answer.json()[0]["code"]) == (400, "QUERY_MALFORMED"), aql


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("Specimen.aliquots in (1, 2)", 11),
        ("Specimen.aliquots not in (1, 2)", 18),
        ("not Specimen.aliquots = 1", 24),
        ("Specimen.aliquots not exists", 1),
        ('Specimen.type = "BLOOD" and (Specimen.id < 5 or Specimen.id > 28)', 3),
        ('Specimen.type != "x"', 30),
    ],
)
def test_the_server_decides_as_sql_does(bank: Biobank, condition: str, count: int) -> None:
    bank.server.bank.rows[0]["Specimen.aliquots"] = None
    assert len(bank.rows("who", condition=condition)) == count
