"""Composing what has more to say than one statistic: ensembles and who may answer, in the form and back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.coordinator import AGES, PETS, Front
from tests.support.forms import composing, filled, put_up, write
from tests.support.peers import group_of
from thebes.tasks import registry
from thebes.tasks.rehearsal import ERROR, RIGHT
from thebes.web.coordinator import rehearsal
from thebes.web.coordinator.forms.draft import Draft

COLUMNS = {
    "age": {"type": "float", "description": "years"},
    "sex": {"type": "string", "description": ""},
    "employed": {"type": "boolean", "description": "whether in work"},
    "income": {"type": "string", "description": "in two classes"},
}
SQL = "SELECT age, sex, employed, income FROM census.person"
INCOME = {"type": "set", "values": ["<=50K", ">50K"]}
ENSEMBLE: dict[str, Any] = {
    "type": "ensemble",
    "epsilon": 2.0,
    "min_count": 20,
    "featurizer": SQL,
    "label": "income",
    "bounds": {
        "age": {"type": "range", "low": 17, "high": 90},
        "sex": {"type": "set", "values": ["Female", "Male"]},
        "employed": {"type": "set", "values": [False, True]},
        "income": INCOME,
    },
}
FORM = {
    "mode": "form",
    "was": "form",
    "kind": "ensemble",
    "table": "census.person",
    "column": list(COLUMNS),
    "featurizer": SQL,
    "made": SQL,
    "label": "income",
    "epsilon": "2",
    "min_count": "20",
    "bound-0-column": "age",
    "bound-0-kind": "range",
    "bound-0-low": "17",
    "bound-0-high": "90",
    "bound-1-column": "sex",
    "bound-1-kind": "set",
    "bound-1-values": "Female, Male",
    "bound-2-column": "employed",
    "bound-2-kind": "set",
    "bound-2-values": "false, true",
    "bound-3-column": "income",
    "bound-3-kind": "set",
    "bound-3-values": "<=50K, >50K",
}


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    with composing(tmp_path / "home", "census", "person", COLUMNS) as made:
        yield made


def test_a_published_table_becomes_an_ensemble_once_it_is_said_which_column_it_predicts(front: Front) -> None:
    ticked = {"mode": "form", "was": "form", "kind": "ensemble", "table": "census.person", "column": list(COLUMNS)}
    body = filled(write(front, "/ask/fields", ticked))
    assert body["label"] == ""  # which of them is not guessed at
    assert 'href="#label">Predicted column</a> is missing' in write(front, "/ask/check", body)
    body["label"] = "income"
    assert [body[f"bound-{place}-kind"] for place in range(4)] == ["range", "set", "set", "set"]
    assert body["bound-2-values"] == "true, false"
    assert (body["bins"], body["method"], body["perturbation"]) == ("", "auto", "auto")
    typed = {
        "bound-0-low": "17",
        "bound-0-high": "90",
        "bound-1-values": "Female, Male",
        "bound-3-values": "<=50K, >50K",
    }
    assert "Bounds: age.low" in write(front, "/ask/check", body)
    verdict = write(front, "/ask/check", {**body, **typed})
    assert "This can be put up" in verdict
    assert "one packet" in verdict  # what people are told
    assert 'id="rehearse"' in verdict
    document = put_up(front, {**body, **typed})
    assert (document["label"], document["bins"], document["method"]) == ("income", "median", "odds")
    assert document["bounds"]["employed"]["values"] == [True, False]


def test_the_page_of_a_rehearsal_says_what_guessing_gives_and_warns(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = {"what": RIGHT, "least": 0.48, "exact": 0.75, "guessed": 0.5, "poor": True}
    error = {"what": ERROR, "most": 12.5, "exact": 9.0, "guessed": 16.0, "poor": False}
    share = {"what": "each value's share of income", "within": 0.031}
    none = {"what": "the mean of age", "within": None}
    told = {"people": 20, "repeats": 100, "unanswered": 2, "quantities": [right, error, share, none]}
    told |= {"lent": ["age"], "finds": []}
    monkeypatch.setattr(rehearsal, "rehearse", lambda document: told)
    text = " ".join(re.sub("<[^>]+>", "", write(front, "/ask/rehearse", FORM)).split())
    assert "got at least 48 % of the labels right. Without noise it was 75 %; guessing gets 50 %." in text
    assert text.count("the model may be no better than guessing") == 1
    assert (
        "a mean squared error of at most 12.5. Without noise it was 9; guessing the mean for everybody gives 16."
        in text
    )
    assert "came within ± 3.1 percentage points of the truth" in text
    assert "No statement about the mean of age: too many of the 100 rehearsals gave no answer." in text
    assert "Without bounds, age has the values of the example that comes with this kind" in text
    assert "Everybody here has a value that fits." in text


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("typed", "means"),
    [
        ({"bins": "5"}, {"bins": 5}),
        ({"bins": "age = 30, 50.5"}, {"bins": {"age": [30.0, 50.5]}}),
        ({"bins": "median"}, {"bins": "median"}),
        ({"feature_subsets": "age, sex\n\n employed \n"}, {"feature_subsets": [["age", "sex"], ["employed"]]}),
        ({"subsets": "3", "partitions": "2"}, {"subsets": 3, "partitions": 8, "method": "vote"}),
        (
            {"method": "vote", "subsets": "3", "partitions": "2"},
            {"method": "vote", "subsets": 3, "partitions": 2, "subset_size": 1},
        ),
        ({"subsets": "1"}, {"method": "odds"}),
        ({"perturbation": "subset", "method": "odds"}, {"perturbation": "subset", "method": "odds"}),
        (
            {"method": "vote", "votes": "probability", "classifier": "tree", "score": "auc", "scoring_share": "0.1"},
            {"votes": "probability", "classifier": "tree", "score": "auc", "scoring_share": 0.1},
        ),
    ],
)
def test_what_is_typed_of_an_ensemble_is_put_up(front: Front, typed: dict[str, str], means: dict[str, Any]) -> None:
    document = put_up(front, {**FORM, **typed})
    assert {name: document.get(name) for name in means} == means


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("typed", "words", "anchor"),
    [
        ({"bins": "some"}, "Numbers are cut</a> must be median, or a number, or lines of a name, = and", "bins"),
        ({"bins": "40"}, "must be from 2 to 32", "bins"),
        ({"bins": "sex = 1"}, "has no thresholds for &#39;age&#39;", "bins"),
        ({"bins": "age = 30, old"}, "Numbers are cut</a> must be median", "bins"),
        ({"bins": "age = 50, 30"}, "must rise from above its low", "bins"),
        ({"label": "age"}, "must be a set of values in bounds", "label"),
        ({"subsets": "many"}, "Packets of one person</a> must be a number", "subsets"),
        ({"subset_size": "4"}, "must not exceed the 3 features", "subset_size"),
        ({"feature_subsets": "age, heigth"}, "must be lists of different features", "feature_subsets"),
        ({"method": "odds", "subsets": "2"}, "must be 1 with", "subsets"),
        ({"group": "nobody"}, "is not a group of this coordinator", "group"),
    ],
)
def test_a_problem_leads_to_where_it_is_mended(front: Front, typed: dict[str, str], words: str, anchor: str) -> None:
    verdict = write(front, "/ask/check", {**FORM, **typed})
    assert words in verdict
    assert f'href="#{anchor}"' in verdict
    assert f'id="{anchor}"' in write(front, "/ask/fields", {**FORM, **typed})


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("more", "kept"),
    [
        ({}, set()),
        ({"bins": 5, "subsets": 3, "feature_subsets": [["age"], ["sex"], ["employed"]]}, set()),
        ({"bins": {"age": [30, 50.5]}, "votes": "probability", "classifier": "tree", "score": "auc"}, set()),
        ({"method": "odds", "partitions": 3, "classifier": "tree"}, {"partitions", "classifier"}),
        ({"scoring_share": 0.25}, set()),
        ({"binning_share": 0.2, "training": "sampled"}, set()),
        ({"groups": {"sex": [["Female"], ["Male"]]}}, set()),
    ],
)
def test_a_form_like_an_ensemble_means_that_ensemble(front: Front, more: dict[str, Any], kept: set[str]) -> None:
    task_id = front.post({**ENSEMBLE, **more})
    body = filled(front.client.get(f"/ask?like={task_id}").text)
    assert set(json.loads(body.get("rest", "{}"))) == kept
    assert put_up(front, body) == front.task(task_id)["document"]


def test_a_column_with_a_comma_in_its_name_is_written_as_json(front: Front) -> None:
    asked = 'SELECT age AS "a,b", sex, income FROM census.person'
    bounds = {"a,b": ENSEMBLE["bounds"]["age"], "sex": ENSEMBLE["bounds"]["sex"], "income": INCOME}
    document = {**ENSEMBLE, "featurizer": asked, "bounds": bounds, "feature_subsets": [["a,b", "sex"]]}
    task_id = front.post(document)
    body = filled(front.client.get(f"/ask?like={task_id}").text)
    assert json.loads(body["feature_subsets"]) == [["a,b", "sex"]]
    assert put_up(front, body) == front.task(task_id)["document"]


def test_what_only_another_choice_needs_outlasts_a_change_of_mind(front: Front) -> None:
    chosen = {**FORM, "method": "vote", "classifier": "tree", "partitions": "4"}
    body = filled(write(front, "/ask/fields", {**chosen, "method": "odds"}))
    assert put_up(front, body)["partitions"] == 8  # left aside
    body = filled(write(front, "/ask/fields", {**body, "method": "vote"}))
    assert (body["classifier"], body["partitions"]) == ("tree", "4")


def test_what_cannot_be_read_is_left_out_of_the_json_and_nothing_else(front: Front) -> None:
    for wrong in ({"bins": "x"}, {"bins": "age = x"}, {"partitions": "x"}):
        body = filled(write(front, "/ask/fields", {**FORM, **wrong, "mode": "json"}))
        document = json.loads(body["raw"])
        assert not {"bins", "partitions"} & set(document)
        assert document["bounds"]["age"]["high"] == 90
        assert document["label"] == "income"


# --- who may answer -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("document", [AGES, PETS, ENSEMBLE], ids=lambda d: d["type"])
def test_every_kind_may_ask_the_members_of_a_published_group(front: Front, document: dict[str, Any]) -> None:
    assert 'id="group"' not in front.client.get("/ask").text  # as long as there is none
    register = front.service.register
    for epoch in ("one", "two"):
        group_of(register, front.client, 30, epoch=epoch)
    register.create("later", minimum=2)
    page = front.client.get("/ask").text
    assert "city, epoch one: 30 members" in page
    assert "city, epoch two: 30 members" in page
    assert 'value="later' not in page  # not published
    body = filled(front.client.get(f"/ask?like={front.post(document)}").text)
    assert body["group"] == ""
    asked = put_up(front, {**body, "group": "city/one"})
    assert (asked["anonymity"], asked["group"], asked["epoch"]) == ("token", "city", "one")
    assert "token of the group city" in write(front, "/ask/check", {**body, "group": "city/one"})
    again = filled(front.client.get(f"/ask?like={front.post(asked)}").text)
    assert again["group"] == "city/one"
    assert put_up(front, again) == asked
    assert put_up(front, {**again, "group": ""})["anonymity"] == "none"


@pytest.mark.slow
def test_a_group_without_its_epoch_is_the_newest_and_stays_so(front: Front) -> None:
    group_of(front.service.register, front.client, 30)
    written = {"mode": "json", "was": "json", "raw": json.dumps({**AGES, "group": "city", "anonymity": "token"})}
    body = filled(write(front, "/ask/fields", {**written, "mode": "form"}))
    assert body["group"] == "city"
    assert put_up(front, body)["epoch"] == "one"


@pytest.mark.parametrize("odd", [{"group": "city"}, {"anonymity": "token"}, {"group": 7, "anonymity": "token"}])
def test_half_of_a_group_in_json_is_no_group_and_is_told_in_the_form_too(front: Front, odd: dict[str, Any]) -> None:
    written = {"mode": "json", "was": "json", "raw": json.dumps({**AGES, **odd})}
    body = filled(write(front, "/ask/fields", {**written, "mode": "form"}))
    assert json.loads(body["rest"]) == odd
    assert "to mend" in write(front, "/ask/check", body)


def test_a_group_that_hardly_suffices_is_said(front: Front) -> None:
    group_of(front.service.register, front.client, 14)
    form = {**filled(front.client.get(f"/ask?like={front.post(AGES)}").text), "group": "city/one"}
    near = write(front, "/ask/check", {**form, "min_count": "12"})
    assert "12 of the group&#39;s 14 members must answer" in near
    assert 'href="#group"' in near
    assert "members must answer" not in write(front, "/ask/check", {**form, "min_count": "11"})
    assert "makes this need 20 different members" in write(front, "/ask/check", {**form, "min_count": "20"})


@pytest.mark.parametrize(
    ("aggregator", "default", "missing"),
    [
        ("sum", "", "count"),
        ("histogram", "", "count"),
        ("count", "", "count"),
        ("sum", "30", "refuse"),
        ("mean", "", "refuse"),
    ],
)
def test_what_adds_people_up_counts_who_has_no_value_and_the_form_shows_it(aggregator, default, missing) -> None:
    document = {
        "type": "basic",
        "epsilon": 1.0,
        "featurizer": "SELECT age FROM profile.demographics",
        "aggregator": aggregator,
        "bounds": {"age": {"type": "range", "low": 0.0, "high": 120.0}},
        **({"bins": 4} if aggregator == "histogram" else {}),
    }
    draft = Draft.of(document, {"tables": {}})
    bounds = tuple(replace(bound, default=default) for bound in draft.data.bounds)
    draft = replace(draft, data=replace(draft.data, bounds=bounds))
    for shown in (draft, replace(draft, fields={**draft.fields, "missing": "refuse"})):
        assert registry.check(shown.document()).missing == missing
        assert shown.get("missing") == missing
    meaning = replace(draft, fields={**draft.fields, "aggregator": "mean"})
    assert meaning.get("missing") == (draft.fields.get("missing") or "refuse")
