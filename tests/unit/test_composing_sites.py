"""A question to institutions, composed in the form: what it means, and that nothing typed is lost."""

from __future__ import annotations

from typing import Any

import pytest

from thebes.apps.pages.asking.inquiry import Inquiry, cautions, datasets_of
from thebes.tasks import registry
from thebes.tasks.document import InvalidDocument

COLUMNS = {
    "age": {"type": "integer", "low": 18, "high": 98},
    "bmi": {"type": "float", "low": 14, "high": 54},
    "sex": {"type": "string", "values": ["female", "male"]},
    "town": {"type": "string"},
}
HELD = {"patients": {"public": False, "schema": {"unit": "person", "max_rows_per_unit": 1, "columns": COLUMNS}}}
SITES = [
    {"name": "north", "state": "connected", "datasets": HELD},
    {"name": "south", "state": "away", "datasets": HELD},
    {"name": "gone", "state": "revoked", "datasets": HELD},
    {"name": "new", "state": "never", "datasets": {}},
]
FORM = {"kind": "query", "mode": "form", "dataset": "patients", "statistic": "count", "epsilon": "1", "noise": "site"}


def document(**more: Any) -> dict[str, Any]:
    return Inquiry.read({**FORM, **more}).settled(SITES).document()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ({}, {"statistic": "count"}),
        ({"column": "age", "bins": "9"}, {"statistic": "count"}),
        ({"site": "north", "by": ["sex"]}, {"statistic": "count", "sites": ["north"], "by": ["sex"]}),
        (
            {"statistic": "mean", "column": "age", "where": "sex = 'female'"},
            {"column": "age", "where": "sex = 'female'"},
        ),
        ({"statistic": "histogram", "column": "age", "bins": "8", "by": "sex"}, {"column": "age", "bins": 8}),
        ({"statistic": "histogram", "column": "sex", "bins": "8"}, {"column": "sex"}),
        ({"statistic": "quantile", "column": "bmi", "quantile": "0.5"}, {"column": "bmi", "quantile": 0.5}),
        ({"statistic": "correlation", "column": "age", "other": "bmi"}, {"columns": ["age", "bmi"]}),
    ],
)
def test_a_form_means_a_document_that_the_kind_accepts(typed: dict[str, Any], meant: dict[str, Any]) -> None:
    made = document(**typed)
    everywhere = {"type": "query", "sites": "all", "dataset": "patients", "epsilon": 1, "noise": "site"}
    assert made == {**everywhere, "statistic": typed.get("statistic", "count"), **meant}
    checked = registry.check(made)
    again = Inquiry.of(checked.as_json(), SITES)
    assert registry.check(again.document()).digest == checked.digest
    assert again.rest == {}


def test_a_training_is_composed_from_declared_columns() -> None:
    form = {**FORM, "kind": "train", "model": "LogisticRegression", "inputs": ["age", "bmi", "sex"], "output": "sex"}
    made = Inquiry.read({**form, "delta": "1e-6", "rounds": "12", "momentum": "0.5"}).settled(SITES)
    assert made.document()["inputs"] == ["age", "bmi"]
    checked = registry.check(made.document())
    assert (checked.rounds, checked.momentum, checked.output) == (12, 0.5, "sex")  # type: ignore[attr-defined]
    assert registry.check(Inquiry.of(checked.as_json(), SITES).document()).digest == checked.digest


def test_what_cannot_be_read_as_a_number_is_a_problem_of_its_field() -> None:
    draft = Inquiry.read({**FORM, "epsilon": "much", "min_sites": "2"}).settled(SITES)
    with pytest.raises(InvalidDocument) as refused:
        draft.document()
    assert list(refused.value.problems) == [("epsilon", "must be a number")]
    assert '"min_sites": 2' in draft.as_far()
    assert "much" not in draft.as_far()


def test_what_the_form_has_no_place_for_is_kept() -> None:
    given = {
        "type": "query",
        "sites": ["elsewhere"],
        "dataset": "patients",
        "statistic": "histogram",
        "column": "age",
        "bins": [20, 40, 60],
        "privacy": "none",
    }
    draft = Inquiry.of(given, SITES)
    assert draft.document() == given
    assert set(draft.rest) == {"bins", "privacy", "sites"}


def test_data_sets_of_sites_that_may_not_come_are_not_offered() -> None:
    assert list(datasets_of(SITES)["patients"]) == ["north", "south"]
    settled = Inquiry(asked=("north", "gone")).settled(SITES)
    assert (settled.dataset, settled.asked, settled.having) == ("patients", ("north",), ("north", "south"))
    assert settled.numbers == ["age", "bmi"]
    assert settled.keys == ["sex"]
    assert Inquiry().settled([]).columns == {}


def test_cautions_tell_of_sites_that_are_away_and_of_exact_totals() -> None:
    checked = registry.check(document(noise="coordinator"))
    told = cautions(checked, SITES, written=False)
    assert [caution["anchor"] for caution in told] == ["sites", "noise"]
    assert "south" in told[0]["message"]
    assert cautions(registry.check(document(site="north")), SITES, written=False) == []
