"""A question to institutions, composed in the form: what it means, and that nothing typed is lost."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.forms import filled
from thebes.tasks import registry
from thebes.tasks.document import InvalidDocument
from thebes.web.coordinator.forms import blocks, pipeline, site_draft
from thebes.web.coordinator.forms.site_draft import Inquiry, cautions, datasets_of
from thebes.web.coordinator.new_task import form_of, told_plainly
from thebes.web.frame import Frame

KINDS = {type_: registry.words(type_) for type_ in registry.types()}
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


def test_a_question_by_accuracy_is_composed_and_asked_again_at_todays_price() -> None:
    typed = {"asked_by": "accuracy", "alpha": "20", "beta": "0.01", "max_epsilon": "2", "where": "age < 50"}
    made = document(**typed)
    assert made["accuracy"] == {"alpha": 20, "beta": 0.01}
    assert (made["max_epsilon"], "epsilon" in made, "asked_by" in made) == (2, False, False)
    checked = registry.check(made)
    ran = registry.check({**checked.as_json(), "epsilon": 0.3})  # as the coordinator stores it, with its price
    for each in (checked, ran):
        again = Inquiry.of(each.as_json(), SITES)
        assert again.rest == {}
        assert again.by_exactness
        assert registry.check(again.document()).digest == checked.digest
    assert document(**typed, statistic="mean", column="age")["epsilon"] == 1  # of which that is not known beforehand
    assert document(**{**typed, "asked_by": "epsilon"}) == document(where="age < 50")
    with pytest.raises(InvalidDocument) as refused:
        document(asked_by="accuracy", alpha="near")
    assert refused.value.problems == [("alpha", "must be a number")]
    for more in ({}, {"statistic": "mean"}, {"asked_by": "epsilon"}):
        draft = Inquiry.read({**FORM, **typed, **more}).settled(SITES)
        told = {"kinds": KINDS, "inquiry": site_draft, "sites": SITES, "tables": {}, "published": {}}
        page = bytes(Frame("test", ()).part("coordinator/fields.html", d=draft, **told).body).decode()
        again = Inquiry.read(filled(page)).settled(SITES)
        assert {name: again.get(name) for name in (*typed, "epsilon")} == {
            name: draft.get(name) for name in (*typed, "epsilon")
        }


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


BLOCKS = {"kind": "algorithm", "mode": "form", "dataset": "patients", "epsilon": "1", "noise": "site"}
STEEP = {"mapping": "gradient", "model": "LogisticRegression", "inputs": ["age", "heavy"], "output": "sex"}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (
            {"mapping": "statistic", "reduce": "mean", "column": "heavy", "features": "heavy = bmi / 2", "by": "sex"},
            {
                "features": {"heavy": {"divide": ["bmi", 2]}},
                "map": {"statistic": {"column": "heavy", "by": ["sex"]}},
                "reduce": "mean",
            },
        ),
        (
            {"mapping": "statistic", "reduce": "histogram", "column": "age", "bins": "8", "by": "sex", "rounds": "9"},
            {"map": {"statistic": {"column": "age", "bins": 8}}, "reduce": "histogram"},
        ),
        (
            {
                **STEEP,
                "rule": "newton",
                "rounds": "6",
                "delta": "1e-6",
                "features": "heavy = bmi ** 2\n\n",
                "bins": "8",
            },
            {
                "delta": 1e-6,
                "features": {"heavy": {"square": "bmi"}},
                "map": {"gradient": {"model": "LogisticRegression", "output": "sex", "inputs": ["age", "heavy"]}},
                "reduce": "mean",
                "update": {"rule": "newton"},
                "stop": {"rounds": 6},
            },
        ),
    ],
)
def test_blocks_in_the_form_mean_a_document_that_the_kind_accepts(typed: dict[str, Any], meant: dict[str, Any]) -> None:
    made = Inquiry.read({**BLOCKS, **typed}).settled(SITES).document()
    everywhere = {"type": "algorithm", "sites": "all", "dataset": "patients", "epsilon": 1, "noise": "site"}
    assert {**made, **meant} == made
    assert set(made) == {*everywhere, *meant}
    checked = registry.check(made)
    again = Inquiry.of(checked.as_json(), SITES)
    assert registry.check(again.document()).digest == checked.digest


def test_new_columns_are_offered_like_those_that_are_declared() -> None:
    draft = Inquiry.read({**BLOCKS, **STEEP, "features": "heavy = bmi * 2\nbroken = ("}).settled(SITES)
    assert draft.made == ("heavy", "broken")
    assert draft.numbers == ["age", "bmi", "heavy", "broken"]
    with pytest.raises(InvalidDocument) as refused:
        draft.document()
    assert list(refused.value.problems) == [("features", "have a formula for 'broken' that cannot be read")]
    assert '"map"' in draft.as_far()


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
    assert blocks.formulas(f"x = {written}") == {"x": meant}
    assert blocks.formulas(f"x = {blocks.formula(meant)}") == {"x": meant}


@pytest.mark.parametrize(
    "written",
    ["x", "x =", "= 3", "a b = 3", "x = a.b", "x = a ** 3", "x = [a]", "x = f(a=1)", "x = a if b else c", "x = 'a'",
     "x = a < 3", "x = f()()", "x = __import__('os').system('true')", "x = lambda: 1", "x = a\nx = b",
     "x = " + "(" * 3000 + "a" + ")" * 3000, "x = " + "-" * 3000 + "a"],
)  # fmt: skip
def test_what_is_no_formula_is_refused(written: str) -> None:
    with pytest.raises(InvalidDocument) as refused:
        blocks.formulas(written)
    assert refused.value.argument == "features"


@pytest.mark.parametrize(
    "change",
    [
        {"map": {"gradient": {"model": "graph", "loss": "x", "inputs": ["age"], "output": "sex"}}},
        {"map": {"statistic": {"column": "age", "bins": [18, 40, 98]}}, "reduce": "histogram"},
        {"map": {}},
        {"features": {"x": {"add": [{"is": ["sex", None]}, "class"]}}},
    ],
)
def test_a_document_without_a_form_stays_json(change: dict[str, Any]) -> None:
    base = {"type": "algorithm", "dataset": "patients", "epsilon": 1, "map": {"statistic": {"column": "age"}}}
    told = {"sites": SITES, "schemas": {}}
    kept = form_of({**base, "reduce": "mean", **change}, told)
    assert kept.written
    assert isinstance(form_of({**base, "reduce": "mean"}, told), Inquiry)


def test_trouble_with_a_block_leads_to_its_field() -> None:
    draft = Inquiry.read({**BLOCKS, **STEEP})
    for field, anchor in (
        ("map.gradient.inputs", "inputs"),
        ("map.statistic.bins", "bins"),
        ("update.rule", "rule"),
        ("stop.rounds", "rounds"),
        ("map", "mapping"),
        ("features.heavy", "features"),
        ("epsilon", "epsilon"),
    ):
        assert told_plainly({"field": field, "message": "is wrong"}, draft)["anchor"] == anchor


# --- pipelines ------------------------------------------------------------------------------------------------------

GROWING = [{"name": "local", "state": "connected", "datasets": HELD}, *SITES]
TRAINED = {
    "kind": "pipeline", "mode": "form", "dataset": "patients", "epsilon": "1", "delta": "1e-6", "inputs": ["bmi"],
    "model": "LinearRegression", "output": "age", "target": "mse = 90\n", "where": "age > 3", "noise": "coordinator",
}  # fmt: skip


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ({"layers": "32, 16", "rate": "0.5"}, {"strategy": "conserve"}),
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
    draft = Inquiry.read({**TRAINED, **typed}).settled(GROWING)
    made = draft.document()
    checked = registry.check(made)
    assert {**made, **meant} == made
    assert made["sites"] == [typed.get("site", "local")]
    assert not {"where", "noise", "min_sites"} & set(made)
    again = Inquiry.of(checked.as_json(), GROWING)
    assert registry.check(again.document()).digest == checked.digest
    assert again.rest == {}


def test_a_pipeline_asks_the_one_site_that_has_the_stream() -> None:
    assert Inquiry.read(TRAINED).settled(SITES).asked == ("north",)
    assert Inquiry.read({**TRAINED, "dataset": "none"}).settled(SITES).document()["sites"] == "all"


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
    draft = Inquiry.read({**TRAINED, **typed}).settled(GROWING)
    with pytest.raises(InvalidDocument) as refused:
        draft.document()
    assert [name for name, _ in refused.value.problems] == [field]
    assert told_plainly({"field": field, "message": "no"}, draft)["anchor"] == field
    assert field not in draft.as_far()


def test_what_no_line_can_say_of_a_pipeline_stays_json() -> None:
    given = {**Inquiry.read(TRAINED).settled(GROWING).document(), "target": {"mse": "previous"}, "sites": ["elsewhere"]}
    draft = Inquiry.of(given, GROWING)
    assert set(draft.rest) == {"target", "sites"}
    assert draft.document() == given
    stream = {name: value for name, value in given.items() if name not in ("dataset", "sites", "target")}
    assert Inquiry.of({**stream, "stream": "patients"}, GROWING).document()["sites"] == ["local"]


def test_every_kind_of_sites_has_a_form_and_words() -> None:
    assert set(site_draft.KINDS) == set(registry.site_types())
    for type_, told in KINDS.items():
        assert told.title, type_
        assert told.about, type_


@pytest.mark.parametrize("model", pipeline.MODELS)
def test_nothing_typed_is_lost_on_the_page_of_a_pipeline(model: str) -> None:
    shown = {name: name for name in pipeline.FIELDS} | {"model": model, "strategy": "aggressive"}
    elsewhere = {"where": "age > 3", "noise": "coordinator", "min_sites": "2", "patience": "9", "site": "south"}
    draft = Inquiry.read({**TRAINED, **shown, **elsewhere}).settled(GROWING)
    told = {"kinds": KINDS, "inquiry": site_draft, "sites": GROWING, "tables": {}, "published": {}}
    page = Frame("test", ()).part("coordinator/fields.html", d=draft, **told)
    again = Inquiry.read(filled(bytes(page.body).decode())).settled(GROWING)
    assert dict(again.fields) == {**draft.fields, "name": "", "purpose": ""}
    assert (again.kind, again.asked, again.ticked("inputs")) == ("pipeline", ("south",), ("bmi",))
