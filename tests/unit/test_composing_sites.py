"""A question to institutions, composed in the form: what it means, and that nothing typed is lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.forms import filled
from thebes.tasks import formulas, registry
from thebes.tasks.document import InvalidDocument
from thebes.tasks.pipeline.form import MODELS
from thebes.web.coordinator.forms.cautions import cautions
from thebes.web.coordinator.forms.draft import Draft, kinds
from thebes.web.coordinator.forms.site_data import SiteData, datasets_of
from thebes.web.coordinator.new_task import form_of, told_plainly
from thebes.web.frame import PageFrame

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


def published(sites: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "kinds": kinds(),
        "tables": {},
        "groups": [],
        "sites": sites,
        "datasets": datasets_of(sites),
        "helpers": [],
        "trusts": {},
    }


TOLD = published(SITES)


def drafted(told: dict[str, Any] = TOLD, **form: Any) -> Draft:
    """The form that stands there once it was sent and drawn again."""
    return Draft.read(form).settled(told)


def document(**more: Any) -> dict[str, Any]:
    return drafted(**{**FORM, **more}).document()


def redrawn(draft: Draft, told: dict[str, Any] = TOLD) -> Draft:
    """The same form, sent as a browser would from its page."""
    page = PageFrame("test", ()).part("coordinator/fields.html", d=draft, **told)
    return drafted(told, **filled(bytes(page.body).decode()))


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
        ({"statistic": "correlation", "columns": ["age", "bmi"]}, {"columns": ["age", "bmi"]}),
    ],
)
def test_a_form_means_a_document_that_the_kind_accepts(typed: dict[str, Any], meant: dict[str, Any]) -> None:
    made = document(**typed)
    everywhere = {"type": "query", "sites": "all", "dataset": "patients", "epsilon": 1}
    assert made == {**everywhere, "statistic": typed.get("statistic", "count"), **meant}
    checked = registry.check(made)
    again = Draft.of(checked.as_json(), TOLD)
    assert registry.check(again.document()).digest == checked.digest
    assert again.rest == {}


def test_a_question_by_accuracy_is_composed_and_asked_again_at_todays_price() -> None:
    typed = {
        "asked_by": "accuracy",
        "accuracy.alpha": "20",
        "accuracy.beta": "0.01",
        "max_epsilon": "2",
        "where": "age < 50",
    }
    made = document(**typed)
    assert made["accuracy"] == {"alpha": 20, "beta": 0.01}
    assert (made["max_epsilon"], "epsilon" in made, "asked_by" in made) == (2, False, False)
    checked = registry.check(made)
    ran = registry.check({**checked.as_json(), "epsilon": 0.3})  # as the coordinator stores it, with its price
    for each in (checked, ran):
        again = Draft.of(each.as_json(), TOLD)
        assert again.rest == {}
        assert again.get("asked_by") == "accuracy"
        assert registry.check(again.document()).digest == checked.digest
    assert document(**typed, statistic="mean", column="age")["epsilon"] == 1  # of which that is not known beforehand
    assert document(**{**typed, "asked_by": "epsilon"}) == document(where="age < 50")
    with pytest.raises(InvalidDocument) as refused:
        document(**{**typed, "accuracy.alpha": "near"})
    assert refused.value.problems == [("accuracy.alpha", "must be a number")]
    for more in ({}, {"statistic": "mean"}, {"asked_by": "epsilon"}):
        draft = drafted(**{**FORM, **typed, **more})
        again = redrawn(draft)
        assert {name: again.get(name) for name in (*typed, "epsilon")} == {
            name: draft.get(name) for name in (*typed, "epsilon")
        }


def test_a_training_is_composed_from_declared_columns() -> None:
    form = {**FORM, "kind": "train", "model": "LogisticRegression", "inputs": ["age", "bmi", "sex"], "output": "sex"}
    made = drafted(**{**form, "delta": "1e-6", "rounds": "12", "momentum": "0.5"})
    assert made.document()["inputs"] == ["age", "bmi"]
    checked = registry.check(made.document())
    assert (checked.rounds, checked.momentum, checked.output) == (12, 0.5, "sex")  # type: ignore[attr-defined]
    assert registry.check(Draft.of(checked.as_json(), TOLD).document()).digest == checked.digest


def test_what_cannot_be_read_as_a_number_is_a_problem_of_its_field() -> None:
    draft = drafted(**{**FORM, "epsilon": "much", "min_sites": "2"})
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
        "colour": {"red": 1},
        "epsilon": [1],
    }
    draft = Draft.of(given, TOLD)
    assert draft.document() == given
    assert set(draft.rest) == {"sites", "colour", "epsilon"}
    assert redrawn(draft).document() == given


def test_what_is_shown_counts_and_nothing_hidden_in_its_place() -> None:
    hidden = json.dumps(
        {"epsilon": 9, "dataset": "other", "type": "train", "noise": "coordinator", "purpose": "hidden"}
    )
    made = document(rest=hidden)
    assert made["purpose"] == "hidden"
    assert {name: made.get(name, "site") for name in ("type", "epsilon", "dataset", "noise")} == {
        "type": "query", "epsilon": 1, "dataset": "patients", "noise": "site",
    }  # fmt: skip


def test_data_sets_of_sites_that_may_not_come_are_not_offered() -> None:
    assert list(datasets_of(SITES)["patients"]) == ["north", "south"]
    settled = SiteData(asked=("north", "gone")).settled(TOLD, one_site=False)
    assert (settled.dataset, settled.asked, settled.having) == ("patients", ("north",), ("north", "south"))
    assert settled.numbers == ("age", "bmi")
    assert settled.keys == ("sex",)
    assert SiteData().settled(published([]), one_site=False).columns == {}


def test_cautions_tell_of_sites_that_are_away_and_of_exact_totals() -> None:
    draft = drafted(**{**FORM, "noise": "coordinator"})
    told = cautions(registry.check(draft.document()), draft, TOLD)
    assert [caution["anchor"] for caution in told] == ["sites", "noise"]
    assert "south" in told[0]["message"]
    draft = drafted(**{**FORM, "delta": "0.5", "site": "north"})
    assert [caution["anchor"] for caution in cautions(registry.check(draft.document()), draft, TOLD)] == ["delta"]
    draft = drafted(**{**FORM, "site": "north"})
    assert cautions(registry.check(draft.document()), draft, TOLD) == []


LEARN = {"kind": "train", "mode": "form", "dataset": "patients", "epsilon": "1", "noise": "site"}
STEEP: dict[str, Any] = {"model": "LogisticRegression", "inputs": ["age", "heavy"], "output": "sex"}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (
            {**FORM, "statistic": "mean", "column": "heavy", "features": "heavy = bmi / 2", "by": "sex"},
            {"features": {"heavy": {"divide": ["bmi", 2]}}, "statistic": "mean", "column": "heavy", "by": ["sex"]},
        ),
        (
            {**FORM, "statistic": "histogram", "column": "heavy", "features": "heavy = bmi / 2", "bins": "8"},
            {"features": {"heavy": {"divide": ["bmi", 2]}}, "statistic": "histogram", "column": "heavy", "bins": 8},
        ),
        (
            {
                **LEARN,
                **STEEP,
                "update": "newton",
                "ridge": "0.1",
                "rounds": "6",
                "delta": "1e-6",
                "features": "heavy = bmi ** 2\n\n",
                "momentum": "0.5",
                "local_steps": "3",
            },
            {
                "delta": 1e-6,
                "features": {"heavy": {"square": "bmi"}},
                "model": "LogisticRegression",
                "output": "sex",
                "inputs": ["age", "heavy"],
                "update": "newton",
                "ridge": 0.1,
                "rounds": 6,
            },
        ),
        (
            {**LEARN, **STEEP, "inputs": ["age"], "momentum": "0.5", "ridge": "0.1", "rounds": "6", "delta": "1e-6"},
            {**STEEP, "inputs": ["age"], "momentum": 0.5, "rounds": 6, "delta": 1e-6},
        ),
    ],
)
def test_new_columns_and_updates_in_the_form_mean_a_document_that_the_kind_accepts(
    typed: dict[str, Any], meant: dict[str, Any]
) -> None:
    made = drafted(**typed).document()
    everywhere = {"type": typed["kind"], "sites": "all", "dataset": "patients", "epsilon": 1}
    assert made == {**everywhere, **meant}
    checked = registry.check(made)
    again = Draft.of(checked.as_json(), TOLD)
    assert registry.check(again.document()).digest == checked.digest
    assert "features" not in again.rest


def test_new_columns_are_offered_like_those_that_are_declared() -> None:
    draft = drafted(**{**LEARN, **STEEP, "features": "heavy = bmi * 2\nbroken = ("})
    assert draft.numbers == ("age", "bmi", "heavy", "broken")
    with pytest.raises(InvalidDocument) as refused:
        draft.document()
    assert list(refused.value.problems) == [("features", "have a formula for 'broken' that cannot be read")]
    assert '"output"' in draft.as_far()


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a + b * 2", {"add": ["a", {"multiply": ["b", 2]}]}),
        ("(a - 1.5) / b", {"divide": [{"subtract": ["a", 1.5]}, "b"]}),
        ("-a * -3", {"multiply": [{"subtract": [0, "a"]}, -3]}),
        ("clamp(kilos / height ** 2, 12, 45)", {"clamp": [{"divide": ["kilos", {"square": "height"}]}, 12, 45]}),
        ('age * (sex == "fe\'male")', {"multiply": ["age", {"is": ["sex", "fe'male"]}]}),
        ("least(a, log(b), 3)", {"least": ["a", {"log": "b"}, 3]}),
        ("add(a, b, c)", {"add": ["a", "b", "c"]}),
    ],
)
def test_a_formula_and_its_expression_are_the_same(written: str, meant: Any) -> None:
    assert formulas.formulas(f"x = {written}") == {"x": meant}
    assert formulas.formulas(f"x = {formulas.formula(meant)}") == {"x": meant}


@pytest.mark.parametrize(
    "written",
    ["x", "x =", "= 3", "a b = 3", "x = a.b", "x = a ** 3", "x = [a]", "x = f(a=1)", "x = a if b else c", "x = 'a'",
     "x = a < 3", "x = f()()", "x = __import__('os').system('true')", "x = lambda: 1", "x = a\nx = b",
     "x = " + "(" * 3000 + "a" + ")" * 3000, "x = " + "-" * 3000 + "a"],
)  # fmt: skip
def test_what_is_no_formula_is_refused(written: str) -> None:
    with pytest.raises(InvalidDocument) as refused:
        formulas.formulas(written)
    assert refused.value.argument == "features"


@pytest.mark.parametrize(
    ("change", "name", "text"),
    [
        ({"statistic": "histogram", "bins": [18, 40, 98]}, "bins", "18, 40, 98"),
        (
            {"features": {"x": {"add": [{"is": ["sex", None]}, "class"]}}},
            "features",
            '{"x": {"add": [{"is": ["sex", null]}, "class"]}}',
        ),
        ({"features": {"x": {"abs": "bmi"}}}, "features", "x = abs(bmi)"),
    ],
)
def test_what_is_no_formula_and_what_is_rare_has_a_place_too(change: dict[str, Any], name: str, text: str) -> None:
    base = {"type": "query", "dataset": "patients", "epsilon": 1, "statistic": "mean", "column": "age"}
    kept = form_of({**base, **change}, TOLD)
    assert (kept.written, kept.get(name), kept.rest) == (False, text, {})
    assert kept.document() == {**base, **change, "sites": "all"}


def test_a_document_of_no_kind_stays_json() -> None:
    assert form_of({"type": "nothing"}, TOLD).written


def test_a_document_of_blocks_has_the_form_of_the_kind_that_does_the_work() -> None:
    blocks = {"type": "algorithm", "dataset": "patients", "epsilon": 1, "map": {"statistic": {"column": "age"}}}
    shown = form_of({**blocks, "reduce": "mean"}, TOLD)
    assert (shown.kind, shown.get("statistic"), shown.get("column")) == ("query", "mean", "age")
    assert form_of({**blocks, "map": {}, "reduce": "mean"}, TOLD).written


def test_trouble_with_a_part_leads_to_its_field() -> None:
    draft = drafted(**{**FORM, "asked_by": "accuracy", "features": "heavy = bmi * 2"})
    for field, anchor in (
        ("accuracy.alpha", "accuracy.alpha"),
        ("accuracy", "asked_by"),
        ("alpha", "accuracy.alpha"),
        ("sites", "sites"),
        ("type", "kind"),
        ("features.heavy", "features"),
        ("nowhere", ""),
    ):
        assert told_plainly({"field": field, "message": "is wrong"}, draft)["anchor"] == anchor


# --- pipelines ------------------------------------------------------------------------------------------------------

GROWING = [{"name": "local", "state": "connected", "datasets": HELD}, *SITES]
GROWS = published(GROWING)
TRAINED = {
    "kind": "pipeline", "mode": "form", "dataset": "patients", "epsilon": "1", "delta": "1e-6", "inputs": ["bmi"],
    "model": "LinearRegression", "output": "age", "target": "mse = 90\n", "noise": "coordinator",
}  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ({"layers": "32, 16", "rate": "0.5"}, {"target": {"mse": 90}}),
        ({"site": "north", "window": "30d", "confidence": "0.9"}, {"window": "30d", "confidence": 0.9}),
        (
            {"model": "NeuralNetwork", "layers": "32, 16", "rate": "0.5", "largest": "mse = 0.5"},
            {"layers": [32, 16], "rate": 0.5, "largest": {"mse": 0.5}},
        ),
        (
            {"model": "LogisticRegression", "output": "sex", "target": "accuracy = 0.8\nlog_loss = 0.6", "steps": "9"},
            {"target": {"accuracy": 0.8, "log_loss": 0.6}},
        ),
        (
            {"model": "Histogram", "inputs": ["age"], "target": "absolute_error = 0.1", "bins": "age = 20, 40, 60"},
            {"bins": {"age": [20, 40, 60]}},
        ),
        ({"bins": "bmi = 12"}, {"bins": {"bmi": 12}}),
    ],
)
def test_a_pipeline_is_composed_of_lines(typed: dict[str, Any], meant: dict[str, Any]) -> None:
    draft = drafted(GROWS, **{**TRAINED, **typed})
    made = draft.document()
    checked = registry.check(made)
    assert {**made, **meant} == made
    assert made["sites"] == [typed.get("site", "local")]
    assert not {"where", "noise", "min_sites"} & set(made)
    again = Draft.of(checked.as_json(), GROWS)
    assert registry.check(again.document()).digest == checked.digest
    assert again.rest == {}


def test_a_pipeline_asks_the_one_site_that_has_the_stream() -> None:
    assert drafted(**TRAINED).data.asked == ("north",)
    assert drafted(**{**TRAINED, "dataset": "none"}).document()["sites"] == "all"


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"target": "mse"}, "target"),
        ({"target": "mse = low"}, "target"),
        ({"target": "mse = 1\nmse = 2"}, "target"),
        ({"bins": "bmi = 1, b"}, "bins"),
        ({"model": "NeuralNetwork", "layers": "wide"}, "layers"),
    ],
)
def test_a_line_that_cannot_be_read_is_a_problem_of_its_field(typed: dict[str, Any], field: str) -> None:
    draft = drafted(GROWS, **{**TRAINED, **typed})
    with pytest.raises(InvalidDocument) as refused:
        draft.document()
    assert [name for name, _ in refused.value.problems] == [field]
    assert told_plainly({"field": field, "message": "no"}, draft)["anchor"] == field
    assert field not in draft.as_far()


def test_what_no_line_can_say_of_a_pipeline_is_written_as_json_or_kept() -> None:
    given = {**drafted(GROWS, **TRAINED).document(), "target": {"mse": "previous"}, "sites": ["elsewhere"]}
    draft = Draft.of(given, GROWS)
    assert (set(draft.rest), draft.get("target")) == ({"sites"}, '{"mse": "previous"}')
    assert draft.document() == given
    stream = {name: value for name, value in given.items() if name not in ("dataset", "sites", "target")}
    assert Draft.of({**stream, "stream": "patients"}, GROWS).document()["sites"] == ["local"]


def test_every_kind_has_words() -> None:
    for type_, told in kinds().items():
        assert told.title, type_
        assert told.about, type_


@pytest.mark.parametrize("model", MODELS)
def test_nothing_typed_is_lost_on_the_page_of_a_pipeline(model: str) -> None:
    names = ("output", "target", "window", "layers", "steps", "rate", "largest", "bins", "patience", "min_sites")
    shown = {name: name for name in names} | {"model": model, "strategy": "aggressive", "site": "south"}
    draft = drafted(GROWS, **{**TRAINED, **shown})
    again = redrawn(draft, GROWS)
    stands = {name: draft.get(name) for name in (*names, "model", "strategy", "noise", "epsilon")}
    assert {name: again.get(name) for name in stands} == stands
    assert (again.kind, again.data.asked, again.ticked("inputs")) == ("pipeline", ("south",), ("bmi",))
