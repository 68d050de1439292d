"""REDCap as a source: its kinds of fields, events, repeating instruments, missing data, and what it leaves out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.redcap import MOST_INPUTS, Entry, Project, RedcapServer, Variable, php
from tests.support.web import Call, Reply
from thebes.data.connectors import web
from thebes.data.connectors.connector import SourceUnavailable
from thebes.data.connectors.registry import open_connector
from thebes.data.engines.source import table_of
from thebes.data.filter import read_filter
from thebes.data.schema import schema_of
from thebes.data.table import Axis, Factor, Sums, Term
from thebes.privacy.faults import Mistake

VARIABLES = (
    Variable("record_id"),
    Variable("age", validation="integer"),
    Variable("sex", kind="radio", choices=("1", "2")),
    Variable("drugs", kind="checkbox", choices=("1", "A-2", "-3")),
    Variable("born", validation="date_mdy"),
    Variable("bmi", kind="calc"),
    Variable("note", kind="notes"),
    Variable("scan", kind="file"),
    Variable("intro", kind="descriptive"),
    Variable("pressure", form="visit", validation="number"),
    Variable("height", form="visit", validation="number_comma_decimal"),
)


@dataclass
class Study:
    """One project behind a server, and its source."""

    server: RedcapServer
    folder: Path

    @property
    def project(self) -> Project:
        return self.server.project

    def source(self, **more: Any) -> dict[str, Any]:
        return {"kind": "redcap", "url": self.server.url, "token_file": "token", **more}

    def rows(self, *columns: str, where: str | None = None, **more: Any) -> list[tuple[object, ...]]:
        connector = open_connector(self.source(**more), folder=self.folder)
        try:
            condition = None if where is None else read_filter(where, TYPES)
            batches = list(connector.batches(columns, condition))
        finally:
            connector.close()
        return [row for batch in batches for row in zip(*(batch[name] for name in columns), strict=True)]

    def logic(self) -> list[str]:
        return [asked["filterLogic"] for asked in self.server.asked if "filterLogic" in asked]


TYPES = schema_of(
    {
        "unit": "person",
        "columns": {
            "record_id": {"type": "string", "key": True},
            "age": {"type": "integer"},
            "sex": {"type": "string"},
            "drugs___1": {"type": "boolean"},
            "drugs___a_2": {"type": "boolean"},
            "born": {"type": "timestamp"},
            "bmi": {"type": "float"},
            "note": {"type": "string"},
            "pressure": {"type": "float"},
            "height": {"type": "float"},
            "redcap_event_name": {"type": "string"},
        },
    }
)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "PAUSE_SECONDS", 0.001)
    monkeypatch.setattr(web, "LONGEST_PAUSE_SECONDS", 0.002)


@pytest.fixture
def study(tmp_path: Path) -> Iterator[Study]:
    """A study with nobody in it yet."""
    with RedcapServer(Project(VARIABLES, [])) as server:
        (tmp_path / "token").write_text(server.token)
        (tmp_path / "token").chmod(0o600)
        yield Study(server, tmp_path)


def people(study: Study, *values: dict[str, Any]) -> None:
    study.project.entries[:] = [Entry(str(n), dict(v)) for n, v in enumerate(values, start=1)]


# --- kinds of fields -----------------------------------------------------------------------------------------


def test_every_field_that_has_values_is_a_column_and_no_other(study: Study) -> None:
    connector = open_connector(study.source(), folder=study.folder)
    assert set(connector.columns()) == {
        *("record_id", "age", "sex", "drugs___1", "drugs___a_2", "drugs____3", "born", "bmi", "note"),
        *("pressure", "height", "demographics_complete", "visit_complete"),
    }
    connector.close()


def test_an_option_of_a_checkbox_is_a_column_of_its_own(study: Study) -> None:
    people(study, {"drugs": frozenset({"1", "-3"})}, {"drugs": frozenset({"A-2"})}, {})
    columns = ("drugs___1", "drugs___a_2", "drugs____3")
    assert study.rows(*columns) == [("1", "0", "1"), ("0", "1", "0"), ("0", "0", "0")]
    assert study.rows("drugs___a_2", where="drugs___a_2") == [("1",)]
    assert study.logic() == ['([drugs(A-2)] <> "" and [drugs(A-2)] = "1")']


def test_codes_for_missing_data_are_no_values(study: Study) -> None:
    study.project.missing = ("UNK", "-99")
    people(
        study, {"age": "UNK", "drugs": "UNK"}, {"age": "-99", "drugs": frozenset({"1"})}, {"age": "7"}, {"age": "-8"}
    )
    assert study.rows("age", "drugs___1") == [(None, None), (None, "1"), ("7", "0"), ("-8", "0")]
    assert study.rows("age", missing=["-8"]) == [(None,), (None,), ("7",), (None,)]


def test_values_come_as_they_were_written(study: Study) -> None:
    people(study, {"note": 'Zürich, "łódź"\n東京 🫀 & <b>', "born": "2020-02-29", "bmi": "24.7"})
    assert study.rows("note", "born", "bmi") == [('Zürich, "łódź"\n東京 🫀 & <b>', "2020-02-29", "24.7")]


def test_a_field_may_have_another_name_in_the_data_set(study: Study) -> None:
    people(study, {"age": "30"})
    named = {"years": "age", "patient": "record_id"}
    assert study.rows("patient", "years", columns=named) == [("1", "30")]


def test_rows_are_counted_through_a_table_by_person(study: Study) -> None:
    people(
        study, {"age": "30", "sex": "1"}, {"age": "50", "sex": "2"}, {"age": "", "sex": "2"}, {"age": "x", "sex": "1"}
    )
    schema = schema_of(
        {
            "unit": "person",
            "columns": {
                "record_id": {"type": "string", "key": True},
                "age": {"type": "integer", "low": 0, "high": 100},
                "sex": {"type": "string", "values": ["1", "2"]},
            },
        }
    )
    table = table_of(schema, study.source(), folder=study.folder)
    counted = Sums((Term(),), axes=(Axis("sex", values=("1", "2")),))
    assert table.sums(counted).tolist() == [[2], [2]]
    assert table.sums(Sums((Term(), Term((Factor("age", 1, 1),))), bits=10)).tolist() == [[2, 307 + 512]]
    table.close()


# --- events and instruments ------------------------------------------------------------------------------------


@pytest.fixture
def visits(study: Study) -> Study:
    """Two people with a baseline and two visits each, the third of them with a baseline only."""
    study.project.events = ("baseline_arm_1", "visit_arm_1", "end_arm_1")
    entries = study.project.entries
    for n in (1, 2, 3):
        entries.append(Entry(f"{n}", {"age": str(30 + n), "sex": str(n % 2)}, "baseline_arm_1"))
    for n in (1, 2):
        entries.append(Entry(f"{n}", {"pressure": str(100 + n)}, "visit_arm_1"))
        entries.append(Entry(f"{n}", {"pressure": str(120 + n)}, "end_arm_1"))
    return study


def test_each_event_of_a_record_is_a_row(visits: Study) -> None:
    found = visits.rows("record_id", "redcap_event_name", "age", "pressure", page=2)
    assert sorted(found) == sorted(
        [
            ("1", "baseline_arm_1", "31", None),
            ("2", "baseline_arm_1", "32", None),
            ("3", "baseline_arm_1", "33", None),
            ("1", "visit_arm_1", None, "101"),
            ("1", "end_arm_1", None, "121"),
            ("2", "visit_arm_1", None, "102"),
            ("2", "end_arm_1", None, "122"),
        ]
    )


def test_only_the_events_that_are_meant_are_read(visits: Study) -> None:
    assert visits.rows("record_id", "pressure", events=["visit_arm_1"]) == [("1", "101"), ("2", "102")]


def test_what_stands_at_the_baseline_is_carried_to_every_row(visits: Study) -> None:
    found = visits.rows("record_id", "age", "pressure", events=["visit_arm_1", "end_arm_1"], carried=["age", "sex"])
    assert sorted(found) == [("1", "31", "101"), ("1", "31", "121"), ("2", "32", "102"), ("2", "32", "122")]


@pytest.mark.parametrize(
    ("unit", "key", "fits"),
    [("person", "record_id", True), ("event", "record_id", False), ("event", None, False), ("person", "sex", False)],
)
def test_what_is_carried_stays_with_the_person_whose_record_it_is(
    visits: Study, unit: str, key: str | None, fits: bool
) -> None:
    columns: dict[str, dict[str, Any]] = {"age": {"type": "integer", "low": 0, "high": 100}}
    schema = schema_of({"unit": unit, "columns": columns | ({key: {"type": "string", "key": True}} if key else {})})

    def opened(**more: Any) -> None:
        table_of(schema, visits.source(**more), folder=visits.folder).close()

    opened()
    if fits:
        opened(carried=["age"])
        return
    with pytest.raises(Mistake, match=r"source\.carried: .*'record_id'"):
        opened(carried=["age"])


def test_a_condition_on_what_is_carried_keeps_no_row_back(visits: Study) -> None:
    found = visits.rows("age", "pressure", where="age = 31 AND pressure > 110", events=["end_arm_1"], carried=["age"])
    assert ("31", "121") in found
    assert visits.logic() == ['([pressure] <> "" and [pressure] > 110.0)']


def test_events_of_a_project_without_any_are_refused(study: Study) -> None:
    with pytest.raises(Mistake, match=r"source\.events"):
        study.rows("age", events=["baseline_arm_1"])


@pytest.fixture
def repeated(study: Study) -> Study:
    """The instrument `visit` repeats: three times for the first, once for the second, never for the third."""
    study.project.repeating = ("visit",)
    for n in (1, 2, 3):
        study.project.entries.append(Entry(f"{n}", {"age": str(30 + n)}))
    for n, times in ((1, 3), (2, 1)):
        for instance in range(1, times + 1):
            values: dict[str, Any] = {"pressure": str(100 * n + instance)}
            study.project.entries.append(Entry(f"{n}", values, "", "visit", instance))
    return study


def test_a_project_that_repeats_must_say_whose_rows_are_meant(repeated: Study) -> None:
    with pytest.raises(Mistake, match=r"source\.instrument"):
        repeated.rows("age")
    for wrong in ("demographic", "nothing"):
        with pytest.raises(Mistake, match=r"source\.instrument"):
            repeated.rows("age", instrument=wrong)


@pytest.mark.parametrize("others", [True, False])
def test_each_instance_of_an_instrument_is_a_row(repeated: Study, others: bool) -> None:
    repeated.server.others = others
    columns = ("record_id", "redcap_repeat_instance", "pressure")
    found = repeated.rows(*columns, instrument="visit", page=1)
    assert found == [("1", "1", "101"), ("1", "2", "102"), ("1", "3", "103"), ("2", "1", "201")]


def test_instances_are_rows_whichever_columns_are_asked_for(repeated: Study) -> None:
    assert repeated.rows("record_id", instrument="visit") == [("1",), ("1",), ("1",), ("2",)]
    found = repeated.rows("record_id", "age", instrument="visit", carried=["age"])
    assert found == [("1", "31"), ("1", "31"), ("1", "31"), ("2", "32")]


def test_the_rows_outside_of_what_repeats_are_rows_of_their_own(repeated: Study) -> None:
    assert repeated.rows("record_id", "age", instrument="") == [("1", "31"), ("2", "32"), ("3", "33")]


def test_a_project_that_repeats_is_asked_for_all_records(repeated: Study) -> None:
    found = repeated.rows("pressure", where="pressure > 200", instrument="visit")
    assert ("201",) in found
    assert repeated.logic() == []


# --- what changes meanwhile, and what REDCap leaves out ----------------------------------------------------------


def test_a_record_that_appears_twice_counts_once(study: Study) -> None:
    people(study, {"age": "30"}, {"age": "40"})
    study.project.entries.append(study.project.entries[0])
    assert study.rows("record_id", "age") == [("1", "30"), ("2", "40")]


def test_a_record_that_is_deleted_between_pages_is_no_row(study: Study) -> None:
    people(study, *({"age": str(n)} for n in range(10)))

    def delete(before: int) -> None:
        if before == 5:
            study.project.entries[:] = [e for e in study.project.entries if e.record not in ("6", "10")]

    study.server.between = delete
    assert [row[0] for row in study.rows("record_id", page=3)] == ["1", "2", "3", "4", "5", "7", "8", "9"]


def test_records_that_come_between_pages_shift_no_other(study: Study) -> None:
    people(study, *({"age": str(n)} for n in range(10)))

    def add(before: int) -> None:
        study.project.entries.insert(0, Entry(f"0{before}", {"age": "99"}))

    study.server.between = add
    found = [str(row[0]) for row in study.rows("record_id", page=3)]
    assert [record for record in found if not record.startswith("0")] == [str(n) for n in range(1, 11)]
    assert len(found) == len(set(found))


def test_a_record_that_changes_between_pages_has_one_of_its_values(study: Study) -> None:
    people(study, *({"age": "1"} for _ in range(6)))

    def change(before: int) -> None:
        for entry in study.project.entries:
            entry.values["age"] = str(before)

    study.server.between = change
    assert study.rows("age", page=3) == [("4",)] * 3 + [("5",)] * 3


def test_records_that_are_left_out_without_a_word_are_asked_for_again(study: Study) -> None:
    people(study, *({"age": str(n)} for n in range(10)))

    def quietly(before: int) -> None:
        study.server.quietly = 3 if before >= 4 else None

    study.server.between = quietly
    assert len(study.rows("age", page=7)) == 10


def test_records_that_are_always_left_out_are_no_answer(study: Study) -> None:
    people(study, *({"age": str(n)} for n in range(10)))

    class Forgetful(RedcapServer):
        def answer(self, call: Call) -> Reply:
            self.quietly = 0 if b"age" in call.body else None
            return super().answer(call)

    with Forgetful(study.project) as server:
        (study.folder / "token").write_text(server.token)
        forgetful = Study(server, study.folder)
        with pytest.raises(SourceUnavailable, match="leaves out records"):
            forgetful.rows("age")


def test_a_server_out_of_memory_says_what_to_do(study: Study) -> None:
    people(study, *({"age": str(n)} for n in range(50)))
    study.server.memory = 60
    with pytest.raises(SourceUnavailable, match=r"source\.page"):
        study.rows("age", "sex", page=50)
    assert len(study.rows("age", "sex", page=20)) == 50


def test_no_question_is_longer_than_php_reads(study: Study) -> None:
    people(study, *({"age": str(n % 90)} for n in range(1900)))
    assert len(study.rows("age", page=900)) == 1900
    assert max(len(asked) for asked in study.server.asked) <= MOST_INPUTS
    with pytest.raises(Mistake, match=r"source\.page"):
        study.rows("age", page=901)


def test_a_field_that_the_user_may_not_export_is_named(study: Study) -> None:
    people(study, {"age": "30", "note": "VALUE"})
    study.server.hidden.add("note")
    with pytest.raises(Mistake, match="note"):
        study.rows("age", "note")

    def late(before: int) -> None:
        study.server.hidden = {"note"} if before % 5 == 4 else set()

    study.server.hidden, study.server.between = set(), late
    study.server.calls.clear()
    with pytest.raises(SourceUnavailable, match="'note'; its user may not have the right"):
        study.rows("age", "note")


def test_logic_that_this_version_does_not_know_is_done_without(study: Study) -> None:
    people(study, {"age": "30"}, {"age": "40"})
    study.server.logic = False
    assert study.rows("age", where="age > 35") == [("30",), ("40",)]
    assert len(study.logic()) == 1


def test_a_token_that_is_not_of_one_project_is_not_sent(study: Study) -> None:
    for wrong in ("F" * 64, "no token", ""):
        (study.folder / "token").write_text(wrong)
        with pytest.raises(Mistake, match="32 hexadecimal digits"):
            study.rows("age")
    assert study.server.calls == []


# --- what REDCap is asked -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "logic"),
    [
        ("age >= 18 AND sex = '1'", '(([age] <> "" and [age] >= 18) and ([sex] <> "" and [sex] = "1"))'),
        ("NOT (age < 18 OR sex IN ('1'))", '([age] <> "" and [age] >= 18)'),
        ("bmi <= 24.5", '([bmi] <> "" and [bmi] <= 24.5)'),
        ("age IN (1, 2)", '([age] <> "" and ([age] = 1 or [age] = 2))'),
        ("age NOT IN (1, 2)", '([age] <> "" and ([age] <> 1 and [age] <> 2))'),
        ("age IS NOT NULL", '[age] <> ""'),
        ("born < '1990-06-30'", '([born] <> "" and [born] <= "1990-06-30 23:59:59")'),
        ("drugs___1 <> TRUE", '([drugs(1)] <> "" and [drugs(1)] = "0")'),
        ("age > 3 AND note = '] or [age'", '([age] <> "" and [age] > 3)'),
        ('note = \'x" or "1" = "1\'', None),
        ("note = 'this or that'", None),
        ("note = 'a // b'", None),
        ("note = '#'", None),
        ("note <> 'x'", None),
        ("note IS NULL", None),
        ("age > 3 OR note <> 'x'", None),
        ("height > 1.5", None),
        ("age < 9007199254740993", None),
        ("bmi > 1e-7", None),
        (f"age IN ({', '.join(str(n) for n in range(100, 800))})", None),
    ],
)
def test_only_what_redcap_sees_alike_is_asked(study: Study, condition: str, logic: str | None) -> None:
    people(study, {"age": "30"})
    study.rows("age", where=condition)
    assert study.logic() == ([] if logic is None else [logic])


def test_a_condition_chooses_records_before_their_pages_are_read(study: Study) -> None:
    people(study, *({"age": str(n)} for n in range(100)))
    assert study.rows("age", where="age BETWEEN 40 AND 42") == [("40",), ("41",), ("42",)]
    assert [sum(name.startswith("records") for name in asked) for asked in study.server.asked[-1:]] == [3]


# --- the server for tests -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "sign", "right", "true"),
    [
        ("18", "=", "18.0", True),
        ("018", "=", "18", True),
        ("1e1", "=", "10", True),
        ("abc", "=", "ABC", False),
        ("", "<", 18, True),
        ("", "=", 0, False),
        ("UNK", ">", 30, True),
        ("10", "<", "9", False),
        ("10", "<", "9a", True),
        (" 5", "=", 5, True),
        ("2020-01-31", "<", "2020-02-01", True),
    ],
)
def test_the_server_compares_as_php_8_does(left: str, sign: str, right: Any, true: bool) -> None:
    assert php(left, sign, right) is true


def test_the_server_refuses_what_redcap_refuses(study: Study) -> None:
    people(study, {"age": "30"})
    right = {"token": study.server.token, "content": "record", "format": "json"}
    for changed, status in (
        ({"token": "0" * 32}, 403),
        ({"token": ""}, 403),
        ({"content": "records"}, 400),
        ({"fields": "nothing"}, 400),
        ({"filterLogic": "[age] >"}, 400),
        ({"filterLogic": "[nothing] > 1"}, 400),
        ({"data": "[]", "action": "import"}, 403),
        ({}, 200),
    ):
        answer = httpx.post(study.server.url, data={**right, **changed})
        assert answer.status_code == status, changed
        assert isinstance(answer.json(), list) if status == 200 else answer.json().keys() == {"error"}
    assert httpx.get(study.server.url).status_code == 501
    assert httpx.post(study.server.url, data={"format": "csv"}).text.startswith("ERROR: ")
    assert "<error>" in httpx.post(study.server.url, data={}).text
