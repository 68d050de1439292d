"""A requestor's library against a real coordinator and real sites: what it is told, gets, and is refused."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from institutions import Institutions
from processes import PATIENCE

import thebes
from tests.support.site_home import declare
from thebes.database import private_files
from thebes.ledger import Ledger
from thebes.privacy.faults import Mistake
from thebes.requestor.institutions import Round
from thebes.requestor.refusals import NotFinished, SitesRefused
from thebes.site.budget.policy_text import appended
from thebes.site.home import SiteHome
from thebes.tasks.document import InvalidDocument
from thebes.tasks.release_reader import release_from_json

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Institutions]:
    made = Institutions(tmp_path_factory.mktemp("institutions"))
    yield made
    assert set(made.close()) == {0}


def test_sites_are_listed_with_what_they_have_and_no_count_of_rows(there: Institutions) -> None:
    listed = there.server.sites()
    assert [site["name"] for site in listed] == ["north", "south"]
    assert {site["state"] for site in listed} == {"connected"}
    columns = listed[0]["datasets"]["patients"]["schema"]["columns"]
    assert "patient" not in columns
    assert columns["age"]["low"] == 18
    assert "rows" not in listed[0]["datasets"]["patients"]
    assert "patients" in repr(listed)
    known = {row["type"]: row for row in there.server.algorithms()}
    assert known["query"]["answered_by"] == known["train"]["answered_by"] == "sites"
    assert known["basic"]["answered_by"] == "people"
    assert "quantile" in known["query"]["choices"]["statistic"]
    assert known["train"]["choices"]["noise"] == ["site", "coordinator", "split"]


def test_a_question_is_answered_by_all_by_some_and_by_groups(there: Institutions) -> None:
    everybody, north = there.hospitals.patients(("north", "south")), there.hospitals.patients(("north",))
    count = there.server.query("patients", "count", where="diabetes = 1", epsilon=1, timeout=PATIENCE)
    low, high = count.interval(0.99).low, count.interval(0.99).high
    assert low - 20 <= np.sum(everybody["diabetes"] == 1) <= high + 20
    assert count.extra["coverage"] == {"answered": ["north", "south"], "missing": {}}
    one = there.server.query("patients", "mean", column="age", sites="north", epsilon=1, timeout=PATIENCE)
    assert abs(one.value - np.mean(north["age"])) < 4
    assert one.extra["coverage"]["answered"] == ["north"]
    wards = there.server.query("patients", "mean", column="age", by="ward", epsilon=1, timeout=PATIENCE)
    for ward, value in wards.value.items():
        ends = wards.as_json()["interval"]
        half = (ends["high"][ward] - ends["low"][ward]) / 2  # of its 95 %: six times that is out of reach
        assert abs(value - np.mean(everybody["age"][everybody["ward"] == ward])) < 6 * half < 24


def test_sql_is_answered_by_real_sites_and_explained_before(there: Institutions) -> None:
    text = (
        "SELECT ward, COUNT(*) AS n, AVG(age), QUANTILE_CONT(bmi, 0.9) AS high FROM patients GROUP BY ward ORDER BY n"
    )
    question = there.server.explain_sql(text, epsilon=3)
    assert "for each ward" in question.explanation
    answer = there.server.sql(text, epsilon=3, timeout=PATIENCE)
    everybody = there.hospitals.patients(("north", "south"))
    assert {row["ward"] for row in answer} == set(everybody["ward"])
    for row in answer:
        own = everybody["ward"] == row["ward"]
        assert abs(row["n"] - own.sum()) < 200
        assert abs(row["avg(age)"] - everybody["age"][own].mean()) < 15
    assert answer.certificate.epsilon == 3
    with pytest.raises(Mistake, match=r"data sets there are: .*patients"):
        there.server.sql("SELECT COUNT(*) FROM nowhere", epsilon=1)


def test_two_data_sets_of_a_real_site_are_joined_on_the_person_and_both_pay(there: Institutions) -> None:
    home, people = SiteHome(there.folder / "site-north"), np.arange(600)
    key = {"type": "integer", "key": True}
    told = {"unit": "person", "people": "insured"}
    stays = {"who": key, "ward": {"type": "string", "values": ["a", "b"]}}
    bills = {"of": key, "cost": {"type": "float", "low": 0, "high": 100}}
    declare(
        home,
        pd.DataFrame({"who": people, "ward": np.where(people % 3, "a", "b")}),
        name="stays",
        schema={**told, "columns": stays},
    )
    declare(
        home,
        pd.DataFrame({"of": np.repeat(people[::2], 2), "cost": 50.0}),
        name="bills",
        schema={**told, "max_rows_per_unit": 2, "columns": bills},
    )
    rule = {"requestors": ["*"], "datasets": ["stays", "bills"], "kinds": ["query"], "epsilon": 9}
    private_files.write(home.policy, appended(home.policy.read_text(encoding="utf-8"), rule))
    end = time.monotonic() + PATIENCE
    while "bills" not in there.server.sites()[0]["datasets"] and time.monotonic() < end:
        time.sleep(0.2)
    text = "SELECT s.ward, COUNT(*) AS n, AVG(cost) AS c FROM stays s JOIN bills USING (person) GROUP BY s.ward"
    question = there.server.explain_sql(text, epsilon=4)
    assert "stays joined with those of bills of the same person" in question.explanation
    assert there.server.quote(question.document).allowed
    answer = there.server.sql(text, epsilon=4, timeout=PATIENCE)
    found = {row["ward"]: row["n"] for row in answer}
    assert abs(found["a"] - 400) < 60
    assert abs(found["b"] - 200) < 60
    assert answer.release.certificate.parameters["rows_of_one_person"] == {"north": 2}
    with Ledger(home.ledger) as ledger:
        assert [float(ledger.remaining(name).epsilon) for name in ("stays", "bills")] == [6, 6]
    with pytest.raises(Mistake, match="the steward of patients declares"):
        there.server.sql("SELECT COUNT(*) FROM patients JOIN bills USING (person)", epsilon=1)


def test_a_question_by_accuracy_is_quoted_and_uses_what_a_site_has_answered_before(there: Institutions) -> None:
    where = "bmi >= 25"
    before = there.server.query("patients", "count", where=where, sites="north", epsilon=1, timeout=PATIENCE)
    asked = thebes.task.query("patients", "count", where=where, accuracy=(12, 0.05))
    quote = there.server.quote(asked)
    assert quote.sites["north"] == {"epsilon": 0.0, "delta": 0.0, "source": "cache"}
    assert quote.sites["south"]["source"] == "mechanism"
    assert quote.missing == {}
    with pytest.raises(Mistake) as refused:
        there.server.submit({**asked, "max_epsilon": 0.01})
    assert refused.value.argument == "max_epsilon"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the digest is that of the document with its price, as it is read here
        release = there.server.submit({**asked, "max_epsilon": float(quote.price.epsilon)}).wait(timeout=PATIENCE)
    assert release.certificate.epsilon == float(quote.price.epsilon) == release.sites["south"]["cost"]["epsilon"]
    assert (release.source, release.sites["north"]) == (
        "mixed",
        {"cost": {"epsilon": 0.0, "delta": 0.0}, "source": "cache"},
    )
    assert release.extra["accuracy"]["reached"] <= 12
    south = release.value - before.value
    exact = np.sum(there.hospitals.patients(("south",))["bmi"] >= 25)
    assert abs(south - exact) <= 20 / release.certificate.epsilon  # its own noise alone: missed with odds of e^-20


def test_who_refuses_is_named_and_too_few_is_an_error_that_says_why(there: Institutions) -> None:
    some = there.server.query("patients", "count", epsilon=1, noise="coordinator", timeout=PATIENCE)
    assert some.extra["coverage"]["answered"] == ["north"]
    assert "noise added by the site" in some.extra["coverage"]["missing"]["south"]
    assert some.certificate.trust == "server"
    asked = thebes.task.query("patients", "count", epsilon=1, noise="coordinator")
    beforehand = there.server.quote(asked)
    assert {site: (one.allowed, one.reason) for site, one in beforehand.verdicts.items()} == {
        "north": (True, ""),
        "south": (False, "policy"),
    }
    assert beforehand.allowed is True
    assert there.server.quote({**asked, "min_sites": 2}).allowed is False
    told = "nothing was released. south: its policy does not allow it .policy.; refused: the site's policy allows this"
    with pytest.raises(SitesRefused, match=told) as refused:
        there.server.query("patients", "count", epsilon=1, noise="coordinator", min_sites=2, timeout=PATIENCE)
    assert {site: (one.reason, one.charged) for site, one in refused.value.sites.items()} == {
        "south": ("policy", False)
    }
    assert "noise added by the site" in refused.value.sites["south"].message
    detail = there.server.client.task(refused.value.task_id)
    assert (detail["status"], detail["refusals"]["south"]["reason"]) == ("expired", "policy")
    with pytest.raises(SitesRefused, match="no site charged anything"):
        there.server.query("patients", "count", epsilon=1, noise="coordinator", sites=["south"], timeout=PATIENCE)


def test_what_cannot_be_answered_is_refused_naming_the_field(there: Institutions) -> None:
    with pytest.raises(InvalidDocument, match="statistic"):
        there.server.query("patients", "modus", epsilon=1)
    for field, asked in (
        ("column", {"column": "shoe_size"}),
        ("column", {"column": "patient"}),
        ("sites", {"column": "age", "sites": "nowhere"}),
    ):
        with pytest.raises(Mistake) as refused:
            there.server.query("patients", "mean", epsilon=1, timeout=PATIENCE, **asked)  # type: ignore[arg-type]
        assert refused.value.argument == field
    with pytest.raises(Mistake) as refused:
        there.server.query("nothing", "count", epsilon=1, timeout=PATIENCE)
    assert refused.value.argument == "dataset"


def test_a_model_is_trained_and_every_round_is_told(there: Institutions) -> None:
    told: list[Round] = []
    release = there.server.train(
        "patients",
        model="LogisticRegression",
        inputs=["age", "bmi", "glucose"],
        output="diabetes",
        rounds=40,
        learning_rate=4,
        momentum=0.7,
        loss_share=0.1,
        epsilon=6,
        delta=1e-6,
        progress=told.append,
        timeout=3 * PATIENCE,
    )
    patients = there.hospitals.patients(("north", "south"))
    right = np.mean(release.model.predict(patients) == patients["diabetes"])  # type: ignore[attr-defined]
    assert right > 0.72
    assert told[-1].number == told[-1].rounds == 40
    assert told[-1].loss is not None
    assert 0 <= told[-1].loss <= 4
    assert set(told[-1].seconds) == {"compute", "transfer", "aggregation"}
    assert told[-1].answered == ("north", "south")
    numbers = [each.number for each in told]
    assert numbers == sorted(numbers)
    assert {each.rounds for each in told} == {40}
    assert release_from_json(release.as_json()).as_json() == release.as_json()


def test_a_wait_that_ends_leaves_the_task_going(there: Institutions) -> None:
    with pytest.raises(NotFinished) as waited:
        there.server.train(
            "patients",
            model="LinearRegression",
            inputs=["age"],
            output="glucose",
            rounds=200,
            epsilon=1,
            delta=1e-6,
            timeout=0,
        )
    handle = there.server.task(waited.value.task_id)
    assert handle.status in ("open", "done")
    assert handle.wait(timeout=3 * PATIENCE).value["model"] == "LinearRegression"


def test_a_site_that_stops_is_away_and_missing_with_the_reason(there: Institutions) -> None:
    assert there.stop("south") == 0
    end = time.monotonic() + PATIENCE
    while there.state("south") != "away":
        assert time.monotonic() < end
        time.sleep(0.05)
    release = there.server.query("patients", "count", epsilon=1, patience=15, timeout=PATIENCE)
    assert release.extra["coverage"]["answered"] == ["north"]
    assert "not linked" in release.extra["coverage"]["missing"]["south"]
