"""Made-up people: repeatable, plausible, and sent as a collector sends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import thebes
from thebes.data.store import Store
from thebes.privacy.faults import Mistake
from thebes.simulation import example, population
from thebes.simulation.population import APPLICATIONS, DECLARATIONS, PLACES, SITES, People

MANY = 4000


@pytest.fixture(scope="module")
def people() -> People:
    return population(MANY, 11)


@pytest.fixture(scope="module")
def who(people: People) -> dict[str, np.ndarray]:
    return people.columns["profile.demographics"]


def hours(people: People, type_: str) -> np.ndarray:
    """Of each person in the week, with one type of application."""
    events = people.columns["screen.events"]
    mine = np.isin(events["application"], APPLICATIONS[type_])
    at = events["at"][mine].astype("datetime64[s]").astype(np.int64)
    signed = np.where(events["event"][mine] == "closed", at, -at)
    return np.bincount(events["person_id"][mine], signed, len(people)) / 3600


def visits(people: People, *domains: str) -> np.ndarray:
    """Each person's share of visits that went to these sites."""
    table = people.columns["browser.visits"]
    there = np.isin(table["domain"], domains)
    return np.bincount(table["person_id"], there, len(people)) / np.bincount(table["person_id"], minlength=len(people))


def test_the_same_seed_gives_the_same_people_and_another_gives_others() -> None:
    assert list(population(7, 3)) == list(population(7, 3))
    assert list(population(7, 3)) != list(population(7, 4))


def test_a_seed_gives_the_same_people_in_another_process() -> None:
    code = "import json; from thebes.simulation import population; print(json.dumps(population(2, 5)[1]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == population(2, 5)[1]


def test_one_person_and_everybody_at_once_are_the_same_people(people: People) -> None:
    for table, columns in people.columns.items():
        app, name = table.split(".")
        for place in (0, 17, MANY - 1):
            mine = columns["person_id"] == place
            rows = people[place][app]["rows"][name]
            assert [list(row.values()) for row in rows] == [
                list(row)
                for row in zip(*(c[mine].tolist() for n, c in columns.items() if n != "person_id"), strict=True)
            ]
    assert people[-1] == people[MANY - 1]
    assert people[:2] == [people[0], people[1]]
    with pytest.raises(IndexError):
        people[MANY]


def test_a_store_takes_every_declaration_and_row(tmp_path: Path) -> None:
    somebody = population(3, 1)[2]
    with Store.open(tmp_path, key=bytes(32)) as store:
        example.give(store, somebody)
        assert set(store.schemas()) == set(DECLARATIONS)
        for app, sent in somebody.items():
            for table, rows in sent["rows"].items():
                assert store.newest(app, table, len(rows))[::-1] == rows
        for table in DECLARATIONS["profile"]:
            assert len(somebody["profile"]["rows"][table]) == 1


def test_a_featurizer_gives_the_same_in_a_store_and_over_everybody(tmp_path: Path) -> None:
    from thebes.simulation.featurizer import featurize
    from thebes.simulation.tables import people_of

    made = population(3, 8)
    sql = (
        "SELECT count(*) AS sessions, max(unixepoch(e.at)) AS last, (SELECT age FROM profile.demographics) AS age "
        "FROM screen.events e JOIN screen.types t ON t.application = e.application WHERE t.type = 'video'"
    )
    together = featurize(sql, people_of(made.columns))
    for place, somebody in enumerate(made):
        with Store.open(tmp_path / str(place), key=bytes(32)) as store:
            example.give(store, somebody)
            alone = store.featurize(sql)
        assert {n: float(c[0]) for n, c in alone.columns.items()} == {
            n: float(c[place]) for n, c in together.columns.items()
        }


def test_an_example_fills_a_store_once(tmp_path: Path) -> None:
    with Store.open(tmp_path, key=bytes(32)) as store:
        store.store = store.describe  # type: ignore[attr-defined]
        example.fill(store, seed=1)  # type: ignore[arg-type]
        before = store.export()
        example.fill(store, seed=2)  # type: ignore[arg-type]
        assert store.export() == before
    assert {"x0", "x1", "y", "z"} == set(example.TABLES["example"]["columns"])
    assert {"species", "age"} == set(example.TABLES["pets"]["columns"])
    assert "age" in example.TABLES["demographics"]["columns"]


def test_who_lives_where_earns_and_learned_what(who: dict[str, np.ndarray]) -> None:
    homes = {(p[0], p[1], code) for p in PLACES for code in p[2]}
    assert set(zip(who["city"], who["state"], who["zip"], strict=True)) <= homes
    age, income, school = who["age"], who["income"], who["education"]
    assert age.min() >= 18
    assert age.max() <= 95
    assert (school <= age - 6).all()
    assert (income > 0).all()
    assert 0.45 < (who["gender"] == "Male").mean() < 0.53
    students = age[who["city"] == "Cambridge"].mean()
    assert students < age[who["city"] == "Portland"].mean() - 5
    assert np.corrcoef(school, np.log(income))[0, 1] > 0.2
    assert np.corrcoef(age, school)[0, 1] < -0.15
    cheap, dear = ([p[2][i] for p in PLACES] for i in (0, -1))
    assert np.median(income[np.isin(who["zip"], dear)]) > 1.4 * np.median(income[np.isin(who["zip"], cheap)])


def test_what_people_use_and_visit_goes_with_who_they_are(people: People, who: dict[str, np.ndarray]) -> None:
    age, man = who["age"], who["gender"] == "Male"
    assert np.corrcoef(age, hours(people, "social"))[0, 1] < -0.5
    assert np.corrcoef(age, hours(people, "news"))[0, 1] > 0.3
    assert hours(people, "games")[man].mean() > 1.3 * hours(people, "games")[~man].mean()
    assert hours(people, "work")[age < 67].mean() > 2 * hours(people, "work")[age >= 67].mean()
    assert np.corrcoef(age, visits(people, "social.example"))[0, 1] < -0.5
    assert np.corrcoef(age, visits(people, "news.example"))[0, 1] > 0.5
    assert visits(people, "motors.example")[man].mean() > 2 * visits(people, "motors.example")[~man].mean()
    assert np.corrcoef(who["education"], visits(people, "papers.example"))[0, 1] > 0.2
    assert set(people.columns["browser.visits"]["domain"]) == set(SITES)


def test_every_session_ends_after_it_began_and_rows_are_in_time(people: People) -> None:
    for type_ in APPLICATIONS:
        week = hours(people, type_)
        assert (week >= 0).all()
        assert week.max() < 7 * 24
    for table in ("screen.events", "browser.visits"):
        columns = people.columns[table]
        same = np.diff(columns["person_id"]) == 0
        assert (columns["at"][1:][same] >= columns["at"][:-1][same]).all()


def test_a_simulation_takes_the_population(people: People, who: dict[str, np.ndarray]) -> None:
    document = thebes.task.mean("SELECT age FROM profile.demographics", epsilon=5, bounds={"age": (0, 120)})
    release = thebes.simulate(document, people.columns, seed=1)
    assert abs(release.value - who["age"].mean()) < 0.5


@pytest.mark.parametrize(
    ("n", "seed", "named"),
    [(0, 1, "n"), (2**40, 1, "n"), (1.5, 1, "n"), (True, 1, "n"), (3, -1, "seed"), (3, "1", "seed")],
)
def test_what_cannot_be_drawn_is_named(n: object, seed: object, named: str) -> None:
    with pytest.raises(Mistake) as refused:
        population(n, seed)  # type: ignore[arg-type]
    assert refused.value.argument == named
