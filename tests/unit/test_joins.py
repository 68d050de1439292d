"""Two data sets joined on the person: what DuckDB says of the same rows, what is refused and how, and that both pay,
whenever a process dies."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from deltalake import write_deltalake

import thebes
from tests.support.reaper import Killed, Reaper
from tests.support.site_home import ask, declare
from thebes import sql
from thebes.data.engines.source import joined_table
from thebes.data.join import join
from thebes.data.schema import Schema, read_shown, schema_of
from thebes.data.table import Sums, Term
from thebes.database import private_files
from thebes.ledger import BudgetExceeded
from thebes.privacy.faults import Mistake
from thebes.site.algorithm_process import Office
from thebes.site.dataset import DataSets
from thebes.site.home import SiteHome
from thebes.wire.link import write_envelope

DRAW = np.random.default_rng(3)
PEOPLE = 1500
PATIENTS = pd.DataFrame(
    {
        "pid": np.arange(PEOPLE),
        "age": DRAW.integers(0, 100, PEOPLE),
        "sex": DRAW.choice(["f", "m"], PEOPLE),
        "year": DRAW.integers(2000, 2010, PEOPLE),
    }
)
VISITS = pd.DataFrame(
    {
        "who": DRAW.integers(500, 2000, 2500),  # some are no patients, many patients were never there
        "cost": np.where(DRAW.random(2500) < 0.1, np.nan, np.rint(DRAW.gamma(2, 200, 2500))),
        "ward": DRAW.choice(["a", "b", "c"], 2500),
        "year": DRAW.integers(2010, 2020, 2500),
    }
)
MOST = int(VISITS.who.value_counts().max())  #: visits of one person: no row is cut
SCHEMAS: dict[str, dict[str, Any]] = {
    "patients": {
        "unit": "person",
        "people": "patients",
        "columns": {
            "pid": {"type": "integer", "key": True},
            "age": {"type": "integer", "low": 0, "high": 100},
            "sex": {"type": "string", "values": ["f", "m"]},
            "year": {"type": "integer", "low": 2000, "high": 2020},
        },
    },
    "visits": {
        "unit": "person",
        "people": "patients",
        "max_rows_per_unit": MOST,
        "columns": {
            "who": {"type": "integer", "key": True},
            "cost": {"type": "float", "low": 0, "high": 4000},
            "ward": {"type": "string", "values": ["a", "b", "c"]},
            "year": {"type": "integer", "low": 2000, "high": 2020},
            "note": {"type": "string"},
        },
    },
}
VISITS["note"] = "n" + (VISITS.who % 3).astype(str)
ROWS = {"patients": PATIENTS, "visits": VISITS}
EXACT = {"epsilon": 1e5}  #: so much that no noise is seen

FROM = "FROM patients JOIN visits USING (person)"
EQUAL = [
    f"SELECT COUNT(*) AS n {FROM}",
    f"SELECT COUNT(DISTINCT person) AS n {FROM}",
    f"SELECT ward, COUNT(*) AS n, AVG(age) AS a {FROM} GROUP BY ward ORDER BY ward",
    f"SELECT sex, ward, SUM(cost) AS s {FROM} WHERE age >= 40 AND NOT cost > 900 GROUP BY sex, ward ORDER BY sex, ward",
    "SELECT AVG(p.age) AS a, AVG(v.cost) AS c FROM patients p JOIN visits AS v USING (person) "
    "WHERE p.year < 2005 AND v.year >= 2015",
    "SELECT AVG(v.year - p.year) AS years FROM patients p INNER JOIN visits v USING (PERSON)",
    f"SELECT SUM(CASE WHEN sex = 'f' AND ward = 'a' THEN cost ELSE 0 END) / COUNT(*) x {FROM} WHERE cost IS NOT NULL",
    "SELECT sex, COUNT(DISTINCT person) n FROM visits JOIN patients USING (person) WHERE cost > 500 GROUP BY sex "
    "ORDER BY sex",
    f"SELECT COUNT(cost) AS c, 100.0 * COUNT(cost) / COUNT(*) AS share {FROM}",
    f"SELECT ward, VAR_POP(age) AS v {FROM} GROUP BY ward HAVING COUNT(*) > 10 ORDER BY v DESC LIMIT 2",
]
REFUSED = {
    "SELECT COUNT(*) FROM patients JOIN visits ON patients.pid = visits.who": "USING (person)",
    "SELECT COUNT(*) FROM patients JOIN visits USING (pid)": "USING (person)",
    "SELECT COUNT(*) FROM patients JOIN visits USING (person, year)": "USING (person)",
    "SELECT COUNT(*) FROM patients LEFT JOIN visits USING (person)": "keeps people who are in both",
    "SELECT COUNT(*) FROM patients FULL JOIN visits USING (person)": "keeps people who are in both",
    "SELECT COUNT(*) FROM patients CROSS JOIN visits": "keeps people who are in both",
    "SELECT COUNT(*) FROM patients NATURAL JOIN visits": "keeps people who are in both",
    "SELECT COUNT(*) FROM patients SEMI JOIN visits USING (person)": "keeps people who are in both",
    "SELECT COUNT(*) FROM patients, visits": "something else than the person",
    "SELECT COUNT(*) FROM patients JOIN patients USING (person)": "joined with another one",
    "SELECT COUNT(*) FROM patients a JOIN visits a USING (person)": "calls two data sets",
    "SELECT COUNT(*) FROM patients JOIN visits USING (person) JOIN more USING (person)": "more than two",
    "SELECT COUNT(*) FROM patients JOIN (SELECT * FROM visits) USING (person)": "one SELECT",
    "SELECT COUNT(*) FROM patients JOIN '/etc/passwd' USING (person)": "must name one data set",
    "SELECT COUNT(*) FROM patients JOIN read_csv('x') USING (person)": "must name one data set",
    "SELECT COUNT(*) FROM patients JOIN elsewhere USING (person)": "no schema is given",
    f"SELECT AVG(year) {FROM}": "is a column of both; write patients.year or visits.year",
    f"SELECT AVG(visits.age) {FROM}": "not a column that can be asked",
    f"SELECT AVG(z.age) {FROM}": "not of a data set in FROM",
    f"SELECT AVG(pid) {FROM}": "not a column that can be asked",
    f"SELECT AVG(visits.who) {FROM}": "not a column that can be asked",
    f"SELECT COUNT(*) {FROM} WHERE patients.year < visits.year": "with another column",
}


def both(**more: Any) -> Any:
    return thebes.open_data(ROWS, SCHEMAS, **{"epsilon": 1e6, **more})


def truth(text: str) -> list[dict[str, Any]]:
    with duckdb.connect() as opened:
        opened.register("patients", PATIENTS.rename(columns={"pid": "person"}))
        opened.register("visits", VISITS.rename(columns={"who": "person"}))
        found = opened.execute(text)
        names = [one[0] for one in found.description or ()]
        return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


@pytest.mark.parametrize("text", EQUAL)
def test_without_noise_to_speak_of_a_join_is_what_duckdb_says(text: str) -> None:
    with both() as table:
        found, exact = list(table.sql(text, **EXACT)), truth(text)
    assert len(found) == len(exact)
    for ours, theirs in zip(found, exact, strict=True):
        for name, value in theirs.items():
            if isinstance(value, str):
                assert ours[name] == value
            else:
                assert ours[name] == pytest.approx(float(value), rel=2e-3, abs=0.1), (text, name)


@pytest.mark.parametrize("text", [EQUAL[0], EQUAL[3], EQUAL[4]])
def test_a_simulated_join_over_two_sites_is_that_of_all_their_rows(text: str) -> None:
    question = sql.read(text, SCHEMAS, **EXACT)
    people = {"north": PATIENTS.pid % 2 == 0, "south": PATIENTS.pid % 2 == 1}
    rows = {
        site: {"patients": PATIENTS[own], "visits": VISITS[VISITS.who.isin(PATIENTS.pid[own])]}
        for site, own in people.items()
    }
    apart = dict.fromkeys(rows, SCHEMAS)  # said for each site, or once for all
    for schema in (SCHEMAS, apart):
        answer = question.answer(thebes.simulate(question.document, rows, schema=schema, seed=1))
        for ours, theirs in zip(answer, truth(text), strict=True):
            assert all(
                isinstance(v, str) or ours[n] == pytest.approx(float(v), rel=2e-3, abs=0.1) for n, v in theirs.items()
            )


def test_a_simulated_join_without_both_data_sets_says_so() -> None:
    document = sql.read(EQUAL[0], SCHEMAS, epsilon=1).document
    for rows, schema, argument in (
        ({"north": PATIENTS}, SCHEMAS, "rows"),
        ({"north": {"patients": PATIENTS}}, SCHEMAS, "rows"),
        ({"north": ROWS}, SCHEMAS["patients"], "schema"),
        ({"north": ROWS}, None, "schema"),
    ):
        with pytest.raises(Mistake) as refused:
            thebes.simulate(document, rows, schema=schema)
        assert refused.value.argument == argument


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_join_of_people_is_refused_with_the_clause(text: str) -> None:
    with pytest.raises(Mistake, match="(?s)" + REFUSED[text].replace("(", r"\(").replace(")", r"\)")):
        sql.read(text, SCHEMAS, epsilon=1)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"people": None}, "the steward of visits declares"),
        ({"people": "clients"}, "about the same people"),
        ({"max_rows_per_unit": 10_000}, None),
        ({"max_rows_per_unit": 5001, "first": 2}, "up to 10002 rows"),
        ({"columns": {**SCHEMAS["visits"]["columns"], "who": {"type": "string", "key": True}}}, "unlike keys"),
        ({"columns": {**SCHEMAS["visits"]["columns"], "patients_YEAR": {"type": "string"}}}, "cannot name one of them"),
    ],
)
def test_data_sets_that_cannot_be_joined_say_why(changed: dict[str, Any], why: str | None) -> None:
    more = dict(changed)
    first = {**SCHEMAS["patients"], "max_rows_per_unit": more.pop("first", 1)}
    schemas = {"patients": first, "visits": {**SCHEMAS["visits"], **more}}
    schemas["visits"] = {name: value for name, value in schemas["visits"].items() if value is not None}
    text = f"SELECT COUNT(*) {FROM}"
    if why is None:
        assert sql.read(text, schemas, epsilon=1).schema.max_rows_per_unit == 10_000
        return
    with pytest.raises(Mistake, match=why):
        sql.read(text, schemas, epsilon=1)


def test_people_are_those_of_a_unit_with_a_key() -> None:
    for odd in ({"unit": "event"}, {"columns": {"age": SCHEMAS["patients"]["columns"]["age"]}}):
        with pytest.raises(Mistake, match="people goes with"):
            schema_of({**SCHEMAS["patients"], **odd})
    shown = schema_of(SCHEMAS["patients"]).shown()
    assert (shown["people"], "pid" in shown["columns"]) == ("patients", False)
    assert read_shown(shown).people == "patients"


def test_of_each_data_set_only_its_own_number_of_a_person_s_rows_is_joined_the_latest_by_its_time() -> None:
    two = {**SCHEMAS["visits"], "max_rows_per_unit": 2, "time": "year"}
    with thebes.open_data(ROWS, {**SCHEMAS, "visits": two}, epsilon=1e6) as table:
        joined = table.sql(f"SELECT COUNT(*) AS n, AVG(visits.year) AS y {FROM}", **EXACT).rows[0]
        assert table.sql(f"SELECT ward, COUNT(*) AS n {FROM} GROUP BY ward", **EXACT).release.certificate.parameters[
            "rows_of_one_person"
        ] == {"here": 2}
    kept = VISITS[VISITS.who < PEOPLE].sort_values("year").groupby("who").tail(2)
    assert joined["n"] == pytest.approx(len(kept), abs=0.5)
    assert joined["y"] == pytest.approx(kept.year.mean(), rel=1e-4)


def test_a_file_and_a_frame_are_joined_as_two_frames_are(tmp_path: Path) -> None:
    text = f"SELECT ward, COUNT(*) AS n, SUM(age) AS a {FROM} GROUP BY ward"
    VISITS.to_csv(tmp_path / "visits.csv", index=False)
    PATIENTS.to_parquet(tmp_path / "patients.parquet")
    exact = truth(text + " ORDER BY ward")
    for rows in (
        {**ROWS, "visits": tmp_path / "visits.csv"},
        {"patients": tmp_path / "patients.parquet", "visits": tmp_path / "visits.csv"},
        {"patients": PATIENTS.to_dict("list"), "visits": VISITS},
    ):
        with thebes.open_data(rows, SCHEMAS, epsilon=1e6) as table:
            found = list(table.sql(text, **EXACT))
        assert [round(row["n"]) for row in found] == [row["n"] for row in exact]
        assert [row["a"] for row in found] == pytest.approx([float(row["a"]) for row in exact], rel=1e-3)


def test_tables_of_two_duckdb_files_and_of_one_are_each_read_from_their_own(tmp_path: Path) -> None:
    for file, tables in (("one", ["patients"]), ("two", ["visits"]), ("both", ["patients", "visits"])):
        with duckdb.connect(str(tmp_path / f"{file}.duckdb")) as opened:
            for name in tables:
                opened.register("given", ROWS[name])
                opened.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    made = join(*((name, schema_of(SCHEMAS[name])) for name in ROWS))
    for files in (("one", "two"), ("both", "both")):
        sources = [{"kind": "duckdb", "path": f"{f}.duckdb", "table": t} for f, t in zip(files, ROWS, strict=True)]
        table = joined_table(made, sources, folder=tmp_path, scratch=tmp_path / "scratch")
        assert table.sums(Sums((Term(),))).tolist() == [[truth(f"SELECT COUNT(*) AS n {FROM}")[0]["n"]]]
        table.close()
    with pytest.raises(Mistake, match="cannot reach into Spark"):
        joined_table(made, [sources[0], {"kind": "spark"}], folder=tmp_path, scratch=tmp_path / "scratch")
    assert list((tmp_path / "scratch").iterdir()) == []


def test_two_versions_of_one_delta_table_are_each_read_as_they_were(tmp_path: Path) -> None:
    sources = []
    for version, rows in enumerate(ROWS.values()):
        write_deltalake(tmp_path / "t", rows, mode="overwrite", schema_mode="overwrite")
        sources.append({"kind": "delta", "path": "t", "version": version})
    made = join(*((name, schema_of(SCHEMAS[name])) for name in ROWS))
    table = joined_table(made, sources, folder=tmp_path, scratch=tmp_path / "scratch")
    assert table.sums(Sums((Term(),))).tolist() == [[truth(f"SELECT COUNT(*) AS n {FROM}")[0]["n"]]]
    table.close()


def test_several_frames_share_one_budget_and_a_join_costs_it_once(tmp_path: Path, monkeypatch: Any) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    told = {"epsilon": 1, "ledger": tmp_path / "b.db"}
    with thebes.open_data(ROWS, SCHEMAS, **told) as table:
        answer = table.sql(f"SELECT ward, COUNT(*) AS n {FROM} GROUP BY ward", epsilon=0.5)
        assert "patients joined with visits" in sql.read(f"SELECT COUNT(*) {FROM}", SCHEMAS, epsilon=1).explanation
        assert answer.certificate.epsilon == 0.5
        assert "patients joined with those of visits of the same person" in answer.certificate.text
        assert float(table.left.epsilon) == 0.5
        table.query("mean", dataset="patients", column="age", epsilon=0.25)
        table.query("sum", dataset="patients", join="visits", column="cost", epsilon=0.125)
        assert float(table.left.epsilon) == 0.125
        with pytest.raises(Mistake, match="these rows are called 'patients' and 'visits'"):
            table.sql("SELECT COUNT(*) FROM data", epsilon=0.1)
        with pytest.raises(BudgetExceeded):
            table.sql(f"SELECT COUNT(*) AS n {FROM}", epsilon=0.5)
        assert float(table.left.epsilon) == 0.125
    assert list(scratch.iterdir()) == []
    plain = {name: {k: v for k, v in one.items() if k != "people"} for name, one in SCHEMAS.items()}
    with thebes.open_data(ROWS, plain, epsilon=1) as table:
        assert len(table.sql(f"SELECT COUNT(*) AS n {FROM}", epsilon=0.5)) == 1
    for rows, schemas in (
        ({"patients": PATIENTS}, SCHEMAS),
        (ROWS, {**SCHEMAS, "visits": {**plain["visits"], "unit": "event", "max_rows_per_unit": 1}}),
        (ROWS, {**SCHEMAS, "visits": plain["visits"]}),
    ):
        with pytest.raises(Mistake):
            thebes.open_data(rows, schemas, epsilon=1)


def test_keys_that_nobody_declared_are_found_in_joined_rows() -> None:
    text = f"SELECT note, COUNT(*) AS n {FROM} GROUP BY note ORDER BY note"
    with both(delta=1e-3, filter="basic") as table:
        answer = table.sql(text, epsilon=8, delta=1e-4, max_groups_per_person=2)
    assert [row["note"] for row in answer] == ["n0", "n1", "n2"]
    for row, exact in zip(answer, truth(text), strict=True):
        assert row["n"] == pytest.approx(exact["n"], abs=60 * MOST)


# --- at a site: both pay ----------------------------------------------------------------------------------------

ALLOW = """
[[allow]]
requestors = ["ana"]
datasets = ["patients"]
kinds = ["query"]
epsilon = 3

[[allow]]
requestors = ["ana"]
datasets = ["visits"]
kinds = ["query"]
epsilon = 2
"""
QUERY: dict[str, Any] = {
    "type": "query",
    "sites": "all",
    "dataset": "visits",
    "join": "patients",
    "statistic": "count",
    "epsilon": 1.0,
    "by": "ward",
}
EXACTLY = [row["n"] for row in truth(f"SELECT ward, COUNT(*) AS n {FROM} GROUP BY ward ORDER BY ward")]


def site(folder: Path, *, policy: str = ALLOW, **more: dict[str, Any]) -> SiteHome:
    home = SiteHome(folder)
    for name, rows in ROWS.items():
        declare(home, rows, name=name, **{"schema": SCHEMAS[name], "epsilon": 4.0, **more.get(name, {})})
    private_files.write(home.policy, policy)
    return home


@pytest.fixture
def offices(tmp_path: Path) -> Iterator[Any]:
    made: list[Office] = []

    def opened(folder: str = "site", **more: Any) -> Office:
        home = tmp_path / folder
        made.append(Office(SiteHome(home) if home.exists() else site(home, **more), "north"))
        return made[-1]

    yield opened
    for office in made:
        shut(office)


def shut(office: Office) -> None:
    office.ledger.close()
    office.outbox.close()
    office.audit.close()


def stands(office: Office, name: str) -> tuple[Decimal, Decimal]:
    """(spent, set aside) of a data set."""
    meters = list(office.ledger.block(name).meters.values())
    found = [Decimal(sum(getattr(meter, what) for meter in meters)).scaleb(-12) for what in ("spent", "reserved")]
    return found[0], found[1]


def test_both_data_sets_pay_the_whole_price_and_each_by_its_own_rule(offices: Any) -> None:
    office = offices()
    answer = office.answer(ask(QUERY))
    assert answer["kind"] == "contribution", answer
    assert answer["cost"]["epsilon"] == 1.0
    assert np.abs(np.array(answer["payload"]["totals"]) - EXACTLY).max() < 25 * MOST
    assert stands(office, "patients") == stands(office, "visits") == (1, 0)
    again = office.answer(ask(QUERY))
    assert again["payload"] == answer["payload"]
    assert stands(office, "patients") == stands(office, "visits") == (1, 0)
    office.answer({"kind": "closed", "id": "c", "task": "t1"})
    assert office.answer(ask({**QUERY, "epsilon": 1.5}, task="t2"))["code"] == "budget"  # the rule about visits has 1
    assert stands(office, "patients") == stands(office, "visits") == (1, 0)
    assert office.answer(ask({**QUERY, "epsilon": 1.0}, task="t3"))["kind"] == "contribution"
    assert office.answer(ask({**QUERY, "join": None, "dataset": "patients", "by": "sex"}, task="t4"))["kind"] == (
        "contribution"
    )
    assert stands(office, "patients") == (3, 0)
    assert stands(office, "visits") == (2, 0)
    office.audit.verify()
    office.ledger.verify()


@pytest.mark.parametrize("poor", ["patients", "visits"])
def test_what_one_of_the_two_cannot_pay_leaves_the_other_as_it_was(offices: Any, poor: str) -> None:
    office = offices(**{poor: {"epsilon": 0.5}})
    told = office.answer({**ask(QUERY), "kind": "quote"})
    assert (told["allowed"], told["code"]) == (False, "budget")
    assert told["left"] == [0.5, 0.0]
    assert office.answer(ask(QUERY))["code"] == "budget"
    assert stands(office, "patients") == stands(office, "visits") == (0, 0)
    told = office.answer({**ask({**QUERY, "epsilon": 0.5}), "kind": "quote"})
    assert (told["allowed"], told["cost"]) == (True, [0.5, 0.0])


@pytest.mark.parametrize(
    ("more", "code", "word"),
    [
        ({"policy": ALLOW.replace('"visits"', '"others"')}, "policy", "does not allow"),
        ({"policy": ALLOW.replace('"patients"', '"others"')}, "policy", "does not allow"),
        ({"visits": {"schema": {**SCHEMAS["visits"], "people": "clients"}}}, "schema", "the same people"),
        ({"visits": {"delta": 1e-6}}, "schema", "counted alike"),
    ],
)
def test_a_join_that_either_steward_s_word_does_not_cover_is_refused(
    offices: Any, more: dict[str, Any], code: str, word: str
) -> None:
    office = offices(**more)
    answer = office.answer(ask(QUERY))
    assert (answer["kind"], answer["code"]) == ("refusal", code)
    assert word in answer["reason"]
    assert stands(office, "patients") == stands(office, "visits") == (0, 0)
    unknown = office.answer(ask({**QUERY, "join": "elsewhere"}, task="t2"))
    assert unknown["code"] == "policy"


def test_a_data_set_that_is_declared_anew_is_joined_as_it_is_now(offices: Any) -> None:
    office = offices()
    office.answer(ask(QUERY))
    declared = office.datasets.get("visits")
    schema = Schema.model_validate({**declared.schema.model_dump(), "people": "others"})
    DataSets(SiteHome(office.policy_path.parent)).keep(
        type(declared)("visits", schema, declared.source, declared.budget)
    )
    assert office.answer(ask(QUERY, task="t2"))["code"] == "schema"


def life(office: Office, released: set[bytes]) -> None:
    answer = office.answer(ask({**QUERY, "epsilon": 0.5}))
    assert answer["kind"] == "contribution"
    released.add(write_envelope({**answer, "id": "x"}))
    office.answer({"kind": "closed", "id": "c", "task": "t1"})


@pytest.mark.slow
@pytest.mark.parametrize("filter", ["basic", "zcdp"])
def test_killed_at_every_single_moment_both_have_paid_for_what_left_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filter: str
) -> None:
    terms: dict[str, Any] = {} if filter == "basic" else {"delta": 1e-6, "filter": filter}
    both = dict.fromkeys(ROWS, terms)
    reaper = Reaper(monkeypatch)
    office = Office(site(tmp_path / "whole", **both), "north")
    reaper.moments = 0
    life(office, set())
    moments, whole = reaper.moments, stands(office, "patients")[0]
    assert stands(office, "visits") == (whole, 0)
    shut(office)
    assert moments > 12
    assert whole > 0
    for moment in range(moments):
        home, released = site(tmp_path / f"killed-{moment}", **both), set[bytes]()
        reaper.moments, reaper.at = 0, moment
        office = Office(home, "north")
        with pytest.raises(Killed):
            life(office, released)
        reaper.at = -1
        spent = {stands(office, name)[0] for name in ROWS}
        assert len(spent) == 1, moment  # never one without the other
        assert not released or spent == {whole}
        shut(office)
        office = Office(home, "north")
        request = office.outbox.request("t1")
        if request is None or request.state != "closed":
            life(office, released)
        else:
            office.answer({"kind": "closed", "id": "c", "task": "t1"})
        assert len(released) == 1, moment  # one draw
        assert {stands(office, name) for name in ROWS} == {(whole, Decimal(0))}, moment  # and one charge of each
        office.audit.verify()
        office.ledger.verify()
        shut(office)
