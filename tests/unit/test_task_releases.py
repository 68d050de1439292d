"""The releases of tasks: values with bars, models, rows and networks; missing data; and the same again from JSON."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pandas as pd
import pytest

import thebes
from thebes.data.rows import FAILURES, Rows
from thebes.privacy import randomness
from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Unit
from thebes.simulation.featurizer import featurize
from thebes.simulation.tables import people_of
from thebes.tasks import registry
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.bounded.view import sections
from thebes.tasks.protocols import Setting
from thebes.tasks.release_reader import release_from_json

DRAW = np.random.default_rng(3)
N = 400
AGE = DRAW.integers(18, 90, N).astype(float)
RANGE = {"type": "range", "low": 0.0, "high": 120.0}


def basic(aggregator: str, **more: object) -> dict:
    return {
        "type": "basic",
        "epsilon": 20.0,
        "min_count": 11,
        "featurizer": "SELECT age FROM p.t",
        "aggregator": aggregator,
        "bounds": {"age": RANGE},
        **more,
    }


def again(release):
    back = release_from_json(json.loads(json.dumps(release.as_json(), allow_nan=False)))
    assert type(back) is type(release)
    assert json.dumps(back.as_json()) == json.dumps(release.as_json())
    assert str(back) == str(release)
    return back


# --- values -------------------------------------------------------------------------------------------------


def test_a_number_has_its_bar_and_certificate() -> None:
    release = thebes.simulate(basic("mean"), {"age": AGE}, seed=1)
    bar = release.interval(0.95)
    assert bar.low <= release.value <= bar.high
    assert release.interval(0.5).high < bar.high
    body = release.as_json()
    assert body["interval"] == {"level": 0.95, "low": bar.low, "high": bar.high}
    assert set(body["certificate"]) >= {
        "unit", "adjacency", "epsilon", "delta", "guarantee", "mechanism", "parameters", "bounds", "contributors",
        "trust", "estimated", "simulated", "text",
    }  # fmt: skip
    assert body["certificate"]["contributors"] == N
    assert body["certificate"]["trust"] == "server"
    assert f"{release.value:.6g}" in str(again(release))
    for level in (0, 1, 2, -1, float("nan"), 0.999):
        with pytest.raises(Mistake, match="level"):
            release.interval(level)


def test_released_zero_is_a_value() -> None:
    release = thebes.simulate(basic("sum", epsilon=1e5), {"age": np.zeros(20)}, seed=1)
    assert release.value == pytest.approx(0.0, abs=0.1)
    assert "no answer" not in str(release)


def test_a_histogram_has_a_bar_for_every_key_also_in_json() -> None:
    release = thebes.simulate(basic("histogram", bins=4), {"age": AGE}, seed=1)
    body = again(release).as_json()
    assert list(body["value"]) == list(body["interval"]["low"]) == list(body["interval"]["high"])
    for key, count in body["value"].items():
        assert body["interval"]["low"][key] <= count <= body["interval"]["high"][key]
        assert f"{key}: {count:.6g}" in str(release)
    back = release_from_json(json.loads(json.dumps(body, sort_keys=True)))  # whatever the order of keys
    assert back.as_json()["interval"] == body["interval"]
    assert sum(body["value"].values()) == pytest.approx(N, abs=10)


def test_common_texts_are_found_and_rare_ones_stay_unsaid() -> None:
    document = basic("histogram", delta=1e-6, bounds=None, featurizer="SELECT town FROM p.t")
    towns = np.array(["Thebes"] * 300 + ["Aachen"] * 99 + ["Zwolle"])
    release = thebes.simulate(document, {"town": towns}, seed=1)
    assert set(release.value) == {"Thebes", "Aachen"}
    assert release.certificate.estimated == ("categories",)
    nothing = thebes.simulate(document, {"town": [f"town {i}" for i in range(50)]}, seed=1)
    assert nothing.value == {}
    assert "enough people" in str(again(nothing))


@pytest.mark.parametrize("aggregator", ["mean", "median", "sum", "variance", "std"])
def test_bounds_that_cannot_be_seen_end_in_an_explanation(aggregator) -> None:
    release = thebes.simulate(basic(aggregator, epsilon=0.5, bounds=None), {"age": AGE[:20]}, seed=1)
    assert release.value is None
    assert release.interval() is None
    assert "Say which range" in again(release).extra["explanation"]
    assert "Say which range" in str(release)
    assert release.certificate.epsilon == 0.5  # looking is paid for


def test_bounds_that_can_be_seen_are_named_as_estimated() -> None:
    release = thebes.simulate(basic("mean", bounds=None), {"age": AGE}, seed=1)
    assert release.certificate.estimated == ("bounds",)
    found = release.certificate.bounds["age"]
    assert found["low"] <= np.median(AGE) <= found["high"]
    assert abs(release.value - AGE.mean()) < 10


@pytest.mark.parametrize("aggregator", ["mean", "sum", "variance", "std"])
def test_over_estimated_bounds_a_bar_says_of_what_it_is_and_what_it_assumes(aggregator) -> None:
    release = again(thebes.simulate(basic(aggregator, epsilon=40.0, bounds=None), {"age": AGE}, seed=1))
    body, bar = release.as_json(), release.interval()
    alone = body["cut_values"]
    assert alone["interval_of"] == "cut values"
    assert bar.low <= alone["interval"]["low"] <= release.value <= alone["interval"]["high"] <= bar.high
    assert 0 <= body["outside"]["upto"] < 0.1
    for words in (body["interval_note"], str(release), release._repr_html_()):
        assert "of all values, also those outside: it holds if" in words
        assert "was estimated" in words
        assert "Declare bounds" in words
    declared = thebes.simulate(basic(aggregator, epsilon=40.0), {"age": AGE}, seed=1).as_json()
    assert not {"outside", "cut_values", "interval_note"} & set(declared)


def test_with_many_values_outside_there_is_no_bar_and_the_value_says_what_it_is() -> None:
    ages = np.concatenate([AGE, 2.0 ** np.linspace(30, 300, N // 4)])
    release = again(thebes.simulate(basic("mean", epsilon=40.0, bounds=None), {"age": ages}, seed=1))
    body = release.as_json()
    assert body["interval"] is None
    assert "intervals" not in body
    assert body["outside"]["upto"] > 0.1
    assert body["value_of"].startswith("mean of values cut to ")
    assert f"{release.value:.6g}, the {body['value_of']}" in str(release)
    for words in (body["interval_note"], str(release), release._repr_html_()):
        assert "No interval: the range of" in words
        assert "Declare bounds" in words


@pytest.mark.parametrize(("aggregator", "said"), [("mean", ["declared", "estimated"]), ("median", []), ("std", [])])
def test_before_anything_is_spent_it_is_said_that_declared_bounds_avoid_a_price(aggregator, said) -> None:
    told = registry.choice(registry.check(basic(aggregator, bounds=None))).as_json()
    assert (told["field"], told["taken"]) == ("bounds", "estimated")
    assert list(told["expected_error"]) == said
    if said:
        assert told["expected_error"]["estimated"] > 5 * told["expected_error"]["declared"]
    else:
        assert "declare bounds" in told["why"]
    assert registry.choice(registry.check(basic(aggregator))) is None


def test_a_median_inside_estimated_bounds_keeps_its_bar_and_says_of_what_it_is() -> None:
    release = again(thebes.simulate(basic("median", bounds=None), {"age": AGE}, seed=1))
    bar = release.interval()
    assert bar.low <= np.median(AGE) <= bar.high
    assert "About the values as they are" in str(release)


@pytest.mark.parametrize("aggregator", ["mean", "median", "sum", "variance", "std"])
def test_the_largest_numbers_there_are_end_in_a_number(aggregator) -> None:
    far = np.array([1.7e308, -1.7e308] * 200)
    release = again(thebes.simulate(basic(aggregator, bounds=None), {"age": far}, seed=1))
    assert release.value is None or np.isfinite(release.value)


def test_an_infinity_is_missing_because_no_store_holds_one() -> None:
    with pytest.warns(UserWarning, match="100 of 200 people have no value"):
        release = thebes.simulate(basic("mean", epsilon=1e4), {"age": [np.inf, -np.inf] * 50 + [60.0] * 100}, seed=1)
    assert release.value == pytest.approx(60.0, abs=1)
    assert release.certificate.contributors == 100


def test_a_release_that_is_none_is_refused() -> None:
    for body in ({}, {"value": 1}, {"value": 1, "certificate": {}}, {"value": 1, "certificate": None, "form": "x"}):
        with pytest.raises(Mistake, match="release"):
            release_from_json(body)


# --- missing values -----------------------------------------------------------------------------------------

HOLES = np.where(np.arange(N) % 4 == 0, np.nan, 50.0)


def test_who_lacks_the_value_sends_nothing_unless_missing_values_are_counted() -> None:
    with pytest.warns(UserWarning, match="100 of 400"):
        release = thebes.simulate(basic("mean"), {"age": HOLES}, seed=1)
    assert release.certificate.contributors == 300
    assert "missing" not in release.extra


def test_missing_values_are_counted_with_a_twentieth_of_epsilon() -> None:
    release = thebes.simulate(basic("mean", missing="count"), {"age": HOLES}, seed=1)
    assert release.certificate.contributors == N
    assert release.value == pytest.approx(50, abs=2)
    counted = release.as_json()["missing"]
    assert counted["interval"]["low"] <= 100 <= counted["interval"]["high"]
    # the interval's width tells the scale: Laplace with 1/(0.05 * 20)
    assert counted["interval"]["high"] - counted["value"] == pytest.approx(np.log(20), abs=0.7)
    assert "without a value: " in str(again(release))


def test_a_declared_default_replaces_a_missing_value() -> None:
    document = basic("mean", epsilon=1e4, bounds={"age": {**RANGE, "default": 10.0}})
    release = thebes.simulate(document, {"age": HOLES}, seed=1)
    assert release.certificate.contributors == N
    assert release.value == pytest.approx(40, abs=0.5)


def test_a_featurizer_that_fails_after_consent_sends_the_middle_of_the_range() -> None:
    document = registry.check(basic("mean"))
    failing = Rows(
        {"age": np.array([], dtype=object)}, np.array([], dtype=np.int64), 2, np.array([1, 5], dtype=np.uint8)
    )
    source = randomness.seeded_for_simulation(1)
    aggregator = registry.aggregator(document, Setting(unit=Unit.DEVICE, randomness=source))
    given = registry.owner(document).contribute(
        document, aggregator.ask("s"), failing, RecordedClaim(), randomness=source
    )
    assert given.fields["age"].tolist() == [60.0, 60.0]
    assert set(given.fields) == {"age"}  # no signal


def test_a_count_counts_those_who_have_a_value_and_everybody_takes_part() -> None:
    release = thebes.simulate(basic("count", missing="count"), {"age": HOLES}, seed=1)
    assert release.value == pytest.approx(300, abs=5)
    assert release.certificate.contributors == len(HOLES), "which tells nothing of who has a value"
    assert not any("how many did" in note for note in release.certificate.notes)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"aggregator": "count"}, "missing"),
        ({"aggregator": "count", "missing": "refuse"}, "missing"),
        ({"aggregator": "count", "missing": "count", "bounds": {"age": {**RANGE, "default": 3}}}, "bounds.age.default"),
        ({"aggregator": "sum", "missing": "refuse"}, "missing"),
        ({"aggregator": "sum", "missing": "refuse", "featurizer": "SELECT 1 AS age FROM p.t WHERE ill = 1"}, "missing"),
        *(
            ({"aggregator": "sum", "missing": "refuse", "featurizer": f"SELECT {one} AS age FROM p.t"}, "missing")
            for one in (
                "CASE WHEN ill THEN 1 ELSE 1 END",
                "age - age + 1",
                "age * 0 + 1",
                "age / age",
                "(age = age) + 0",
                "max(1, min(1, age))",
                "iif(ill, 1, 1)",
                "length(substr(ill, 1, 0)) + 1",
                "count(*) > 0",
                "coalesce(nullif(1, 1), 1) + 0 * ill",
            )
        ),
        ({"aggregator": "histogram", "missing": "refuse", "bins": 2}, "missing"),
        (
            {"aggregator": "histogram", "missing": "refuse", "bounds": {"age": {"type": "set", "values": ["a", "b"]}}},
            "missing",
        ),
        ({"aggregator": "histogram", "missing": "refuse", "bounds": None, "delta": 1e-6}, "missing"),
        ({"aggregator": "mean", "featurizer": "SELECT abs(-1) + 2 AS age FROM p.t"}, "missing"),
    ],
)
def test_what_the_number_of_contributors_answers_already_is_refused(change, field) -> None:
    """With `refuse` only who has a value takes part, and their number is published as it is: a count is then exact."""
    with pytest.raises(Mistake) as refused:
        registry.check({**basic("mean"), **change})
    assert refused.value.argument == field
    if field == "missing":
        assert '"count"' in refused.value.message
        registry.check({**basic("mean"), **change, "missing": "count"})
        assert registry.check({**basic("mean"), **change, "missing": "count"}).taking_part_tells is False


@pytest.mark.parametrize("aggregator", ["sum", "histogram"])
@pytest.mark.parametrize(
    ("more", "missing"),
    [
        ({}, "count"),
        ({"bounds": {"age": {**RANGE, "default": 3}}}, "refuse"),
        ({"bounds": {"age": {**RANGE, "default": 3}}, "missing": "refuse"}, "refuse"),
        ({"bounds": {"age": {**RANGE, "default": 3}}, "missing": "count"}, "count"),
    ],
)
def test_a_sum_of_people_counts_who_has_no_value_unless_everybody_has_one(aggregator, more, missing) -> None:
    document = registry.check(basic(aggregator, **({"bins": 4} if aggregator == "histogram" else {}), **more))
    assert document.missing == missing
    assert not document.taking_part_tells
    assert registry.check(document.as_json()).digest == document.digest


@pytest.mark.parametrize("one", ["1", "age / age", "CASE WHEN age > 50 THEN 1 ELSE 1 END"])
def test_no_sum_gets_the_exact_number_of_those_who_have_a_value(one) -> None:
    """However it is spelled: the only exact number on the release is of those who take part, and that is everybody."""
    document = basic("sum", featurizer=f"SELECT {one} AS age FROM p.t WHERE age IS NOT NULL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        releases = [thebes.simulate(document, {"age": HOLES}, seed=seed) for seed in range(20)]
    assert {release.certificate.contributors for release in releases} == {len(HOLES)}
    assert len({release.value for release in releases}) > 1, "and what it answers is noisy"


def test_a_document_that_was_accepted_earlier_is_read_though_a_new_one_is_refused() -> None:
    """Homes and stores of an older version hold such: they open, and their digests are what they were."""
    for told in ({"aggregator": "sum"}, {"aggregator": "count"}, {"aggregator": "histogram", "bins": 4}):
        written = {**registry.check(basic("mean")).as_json(), **told, "missing": "refuse"}
        with pytest.raises(Mistake):
            registry.check(written)
        document = registry.accepted_earlier(written)
        assert document.as_json() == written
        assert document.taking_part_tells
        with pytest.raises(Mistake):
            registry.accepted_earlier({**written, "colour": "red"})
        with pytest.raises(Mistake):  # and that is over with it
            registry.check(written)


@pytest.mark.parametrize(
    "featurizer",
    [
        "SELECT age FROM p.t",
        "SELECT 1 + age AS age FROM p.t",
        "SELECT count(*) AS age FROM p.t",
        "SELECT total(1) AS age FROM p.t",
        "SELECT EXISTS (SELECT 1 FROM p.t) AS age",
        "SELECT (SELECT max(a) FROM p.t) AS age",
        "SELECT row_number() OVER () AS age FROM p.t",
        "SELECT 1 AS age FROM p.t UNION SELECT 0",
        "SELECT 7 AS age",
    ],
)
def test_what_may_differ_between_people_is_no_count(featurizer) -> None:
    registry.check(basic("mean", featurizer=featurizer))


def test_where_taking_part_tells_something_the_certificate_and_the_person_are_told() -> None:
    told, silent = [], []
    for more, into in (
        ({}, told),
        ({"missing": "count"}, silent),
        ({"bounds": {"age": {**RANGE, "default": 3}}}, silent),
    ):
        document = basic("mean", **more)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            release = thebes.simulate(document, {"age": HOLES}, seed=1)
        into.append(release.certificate.text)
        into.append(registry.kind("basic").explain(registry.check(document)))
    assert "to which no noise was added" in told[0]
    assert "tells that you have one" in told[1]
    assert not any("to which no noise" in text or "tells that you have one" in text for text in silent)


def test_text_where_numbers_are_wanted_is_missing_never_an_error() -> None:
    rows = featurize("SELECT age FROM p.t", people_of({"age": np.array([1, "2", None, True, "3", 4.5], dtype=object)}))
    numbers, missing = rows.numbers("age")
    assert missing.tolist() == [False, True, True, False, True, False]
    assert numbers[~missing].tolist() == [1.0, 1.0, 4.5]


def test_undeclared_values_are_missing() -> None:
    rows = featurize("SELECT a FROM p.t", people_of({"a": np.array(["x", "y", None, 1, 2.0], dtype=object)}))
    index, missing = rows.categories("a", ("x", 1.0, 2))
    assert missing.tolist() == [False, True, True, False, False]
    assert index[~missing].tolist() == [0, 1, 2]


# --- models -------------------------------------------------------------------------------------------------

X = DRAW.normal(size=(N, 2))
TABLE = {"x0": X[:, 0], "x1": X[:, 1], "y": (X[:, 0] > 0).astype(int), "z": X @ [1.0, -2.0]}
BOUNDS = {c: {"type": "range", "low": -4.0, "high": 4.0} for c in ("x0", "x1")}


def integrated(model: str, **more: object) -> dict:
    output = "z" if model in REGRESSIONS else "y"
    bound = {"type": "range", "low": -12.0, "high": 12.0} if output == "z" else {"type": "set", "values": [0, 1]}
    return {
        "type": "integrated",
        "epsilon": 20.0,
        "delta": 1e-5,
        "featurizer": f"SELECT x0, x1, {output} FROM p.t",
        "model": model,
        "inputs": ["x0", "x1"],
        "output": output,
        "bounds": {**BOUNDS, output: bound},
        **more,
    }


REGRESSIONS = ("LinearRegression", "RandomForestRegressor")
LEAST = {"RandomForestRegressor": 0.5}
MODELS = ["GaussianNB", "LinearRegression", "LogisticRegression", "RandomForestClassifier", "RandomForestRegressor"]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("bounds", ["declared", "estimated"])
@pytest.mark.parametrize("missing", ["refuse", "count"])
def test_a_model_predicts_and_survives_its_json(model, bounds, missing) -> None:
    document = integrated(model, missing=missing)
    if bounds == "estimated":
        document |= {"bounds": None, "epsilon": 60.0}
    holes = np.where(np.arange(N) % 10 == 0, np.nan, TABLE["x1"])
    release = again(thebes.simulate(document, {**TABLE, "x1": holes if missing == "count" else X[:, 1]}, seed=1))
    inputs, output = X, document["output"]
    assert release.model.score(inputs, TABLE[output]) > LEAST.get(model, 0.75)
    assert release.certificate.epsilon == document["epsilon"]
    assert set(release.certificate.estimated) - {"number of rows"} == (
        set() if bounds == "declared" else {"bounds"} if model in REGRESSIONS else {"bounds", "labels"}
    )
    assert model in str(release)
    assert ("missing" in release.extra) == (missing == "count")


@pytest.mark.parametrize("model", MODELS)
def test_a_model_of_nobodys_rows_is_noise_and_not_an_error(model) -> None:
    nobody = {**TABLE, "x1": np.full(N, np.nan)}
    release = thebes.simulate({**integrated(model, missing="count"), "default_is_meant": True}, nobody, seed=1)
    assert len(release.model.predict(X)) == N


@pytest.mark.parametrize("epsilon", [50.0, 1e3, 1e6])
@pytest.mark.parametrize("model", MODELS)
def test_a_large_epsilon_leaves_a_model_its_delta(model, epsilon) -> None:
    release = thebes.simulate(integrated(model, missing="count", epsilon=epsilon), TABLE, seed=1)
    assert release.certificate.delta <= 1e-5
    assert release.model.score(X, TABLE["z" if model in REGRESSIONS else "y"]) > LEAST.get(model, 0.75)


def test_labels_may_be_text_when_they_are_declared() -> None:
    names = np.where(TABLE["y"] == 1, "high", "low")
    bounds = {**BOUNDS, "y": {"type": "set", "values": ["low", "high"]}}
    release = again(thebes.simulate(integrated("GaussianNB", bounds=bounds), {**TABLE, "y": names}, seed=1))
    assert np.mean(release.model.predict(X) == names) > 0.75


def test_labels_that_cannot_be_seen_end_in_an_explanation() -> None:
    release = thebes.simulate(integrated("GaussianNB", epsilon=0.05, bounds=BOUNDS), TABLE, seed=1)
    assert release.value is None
    assert "Declare them" in str(again(release))
    with pytest.raises(Mistake, match="labels"):
        _ = release.model


# --- rows ---------------------------------------------------------------------------------------------------

PETS = {
    "type": "bounded",
    "epsilon": 12.0,
    "featurizer": "SELECT kind, age, weight FROM p.t",
    "bounds": {
        "kind": {"type": "set", "values": ["cat", "dog", "eel"]},
        "age": {"type": "range", "low": 0.0, "high": 20.0},
        "weight": {"type": "range", "low": 0.0, "high": 40.0, "default": 5.0},
    },
}
HOUSEHOLDS = 4000
KIND = DRAW.choice(["cat", "dog", "eel"], HOUSEHOLDS, p=[0.5, 0.3, 0.2])
PET_AGE = np.clip(DRAW.normal(8, 3, HOUSEHOLDS), 0, 20)
WEIGHT = np.clip(np.where(KIND == "dog", 25.0, 6.0) + PET_AGE / 2 + DRAW.normal(0, 1, HOUSEHOLDS), 0, 40)
PET_TABLE = {"kind": KIND, "age": PET_AGE, "weight": WEIGHT}


@pytest.mark.parametrize("mechanism", ["split", "privunit", "auto"])
def test_perturbed_rows_come_in_order_with_what_is_needed_to_use_them(mechanism) -> None:
    release = again(thebes.simulate({**PETS, "mechanism": mechanism}, PET_TABLE, seed=1))
    rows = release.rows
    assert isinstance(rows, pd.DataFrame)
    assert list(rows.columns) == ["kind", "age", "age.present", "weight"]
    assert len(rows) == HOUSEHOLDS
    assert set(rows["kind"]) <= {"cat", "dog", "eel", "missing"}
    assert np.isfinite(rows[["age", "weight"]].to_numpy()).all()
    share = release.frequencies
    assert share["kind"]["cat"] == pytest.approx(np.mean(KIND == "cat"), abs=0.1)
    assert share["age.present"][True] == pytest.approx(1.0, abs=0.1)
    for column, truth in (("age", PET_AGE.mean()), ("weight", WEIGHT.mean())):
        value, bar = release.mean(column, 0.999999)
        assert bar.low <= truth <= bar.high
        assert abs(value - truth) < 2
    assert f"{HOUSEHOLDS} perturbed rows" in str(release)
    assert "kind: cat" in str(release)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["split", "privunit"])
def test_models_are_fitted_corrected_for_the_noise(mechanism) -> None:
    release = thebes.simulate({**PETS, "mechanism": mechanism}, PET_TABLE, seed=1)
    dogs = KIND == "dog"
    for model in ("logistic", "svm", "forest"):
        fitted = release.fit(model, output="kind")
        assert np.mean((fitted.predict(PET_TABLE) == "dog") == dogs) > 0.9
    for model in ("linear", "svm", "forest"):
        guess = release.fit(model, output="weight").predict(pd.DataFrame(PET_TABLE))
        assert np.corrcoef(guess, WEIGHT)[0, 1] > 0.7
    proba = release.fit("logistic", output="kind")
    assert proba.predict_proba(PET_TABLE).shape == (HOUSEHOLDS, 3)
    assert set(proba.classes_) == {"cat", "dog", "eel"}


@pytest.mark.parametrize("model", ["logistic", "svm", "forest"])
def test_a_model_is_fitted_on_one_thread_and_leaves_the_others_to_their_owner(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that share their cores with other work make a fit of seconds one of minutes."""
    from sklearn import ensemble, linear_model, svm
    from threadpoolctl import threadpool_info, threadpool_limits

    def threads() -> set[int]:
        return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

    kind = {"logistic": linear_model.LogisticRegression, "svm": svm.SVC, "forest": ensemble.RandomForestClassifier}
    seen, plainly = [], kind[model].fit
    monkeypatch.setattr(kind[model], "fit", lambda self, X, y: seen.append(threads()) or plainly(self, X, y))
    release = thebes.simulate({**PETS, "mechanism": "split"}, PET_TABLE, seed=1)
    with threadpool_limits(limits=2, user_api="blas"):
        release.fit(model, output="kind")
        assert (seen, threads()) == ([{1}], {2})


def test_whole_row_reports_exist_only_where_rows_were_reported_whole() -> None:
    whole = thebes.simulate({**PETS, "mechanism": "privunit"}, PET_TABLE, seed=1)
    assert whole.reports.shape[0] == HOUSEHOLDS
    split = thebes.simulate({**PETS, "mechanism": "split"}, PET_TABLE, seed=1)
    with pytest.raises(Mistake, match="whole-row"):
        _ = split.reports


@pytest.mark.parametrize(
    ("model", "output", "word"),
    [("linear", "kind", "set"), ("logistic", "age", "range"), ("tree", "kind", "model"), ("svm", "x", "output")],
)
def test_a_model_that_does_not_fit_its_output_is_refused(model, output, word) -> None:
    release = thebes.simulate(PETS, PET_TABLE, seed=1)
    with pytest.raises(Mistake, match=word):
        release.fit(model, output=output)
    with pytest.raises(Mistake, match="column"):
        release.mean("kind")
    with pytest.raises(Mistake, match="no classes"):
        _ = release.fit("linear", output="age").classes_


def test_a_set_without_a_default_has_the_category_missing() -> None:
    holes = {**PET_TABLE, "kind": np.array([None, "hamster"] * (HOUSEHOLDS // 2), dtype=object)}
    release = thebes.simulate({**PETS, "epsilon": 30.0, "default_is_meant": True}, holes, seed=1)
    assert release.frequencies["kind"]["missing"] == pytest.approx(1.0, abs=0.05)
    assert "reported at random" in release.certificate.text
    assert "default (weight)" in release.certificate.text


def test_many_categories_need_no_large_matrix_and_mean_the_same_everywhere() -> None:
    from thebes.tasks.bounded.encoder import simplex

    for size in (2, 3, 50, 400):
        points = simplex(size)
        gram = points @ points.T
        assert np.allclose(np.diag(gram), 1)
        assert np.allclose(gram[~np.eye(size, dtype=bool)], -1 / (size - 1))
        assert np.allclose(points.sum(axis=0), 0)
    expected = [[np.sqrt(3) / 2, 0.5], [-np.sqrt(3) / 2, 0.5], [0, -1]]
    assert np.allclose(simplex(3), expected)  # pinned: two machines must agree on the axes


def test_the_reports_of_failing_featurizers_are_not_columns_of_the_rows() -> None:
    release = again(thebes.simulate({**PETS, "diagnostics": 0.2}, PET_TABLE, seed=1))
    assert "failure" not in release.rows
    assert set(release.extra["diagnostics"]) == {"worked", *FAILURES}


def test_frequencies_of_perturbed_rows_have_error_bars_in_their_own_order() -> None:
    n = 4000
    rng = np.random.default_rng(5)
    given = {"species": np.where(rng.random(n) < 0.3, "cat", "dog"), "age": rng.uniform(0, 30, n)}
    given["age"][rng.random(n) < 0.2] = np.nan
    release = thebes.simulate(
        {
            "type": "bounded",
            "epsilon": 4.0,
            "featurizer": "SELECT species, age FROM profile.pets",
            "bounds": {
                "species": {"type": "set", "values": ["cat", "dog"], "default": "dog"},
                "age": {"type": "range", "low": 0, "high": 30},
            },
        },
        given,
        seed=3,
    )
    for column, truth in (("species", [0.3, 0.7]), ("age.present", [0.8, 0.2])):
        bar = release.frequency_interval(column, 0.99)
        values = np.array(list(release.frequencies[column].values()))
        assert np.all((bar.low < values) & (values < bar.high))
        assert np.all((bar.low - 0.05 < truth) & (truth < bar.high + 0.05))
    assert release.frequency_interval("age") is None
    assert release.value is release.rows
    assert release_from_json(json.loads(json.dumps(release.as_json()))).value.equals(release.rows)


# A whole row's bar holds the people's own differences too, so it is a little wide and never too narrow.
@pytest.mark.few(1)
@pytest.mark.parametrize(("mechanism", "most"), [("split", 0.98), ("privunit", 0.995)])
def test_error_bars_of_frequencies_hold_as_often_as_they_say_and_are_hardly_wider(mechanism, most) -> None:
    kinds = np.repeat(["cat", "dog", "eel"], [120, 60, 20])
    table = {"kind": kinds, "age": np.linspace(0, 10, 200)}
    document = {
        "type": "bounded",
        "epsilon": 4.0,
        "featurizer": "SELECT kind, age FROM p.t",
        "mechanism": mechanism,
        "bounds": {
            "kind": {"type": "set", "values": ["cat", "dog", "eel"], "default": "cat"},
            "age": {"type": "range", "low": 0, "high": 10, "default": 5},
        },
    }
    errors, widths, inside = [], [], []
    for seed in range(150):
        release = thebes.simulate(document, table, seed=seed)
        told = release.as_json()["frequencies"]["kind"]
        assert (told["level"], [of["value"] for of in told["shares"]]) == (0.95, ["cat", "dog", "eel"])
        for of, truth in zip(told["shares"], (0.6, 0.3, 0.1), strict=True):
            errors.append(of["share"] - truth)
            widths.append(of["high"] - of["low"])
            inside.append(of["low"] <= truth <= of["high"])
    assert 0.92 < np.mean(inside) < most
    assert np.mean(widths) == pytest.approx(2 * 1.96 * np.std(errors), rel=0.3)
    again = release_from_json(json.loads(json.dumps(release.as_json())))
    assert again.as_json()["frequencies"] == json.loads(json.dumps(release.as_json()["frequencies"]))
    assert "(95% intervals)" in str(again)


def test_what_shortened_rows_tell_of_a_column_has_no_error_bar() -> None:
    release = again(thebes.simulate({**PETS, "mechanism": "privunit-short"}, PET_TABLE, seed=1))
    value, bar = release.mean("weight")
    assert bar is None
    assert 0 < value < 40
    assert release.frequency_interval("kind") is None
    assert release.as_json()["frequencies"]["kind"]["level"] is None
    assert "have no error bars" in release.certificate.text
    assert release.certificate.parameters["mechanism"] == "privunit-short"
    assert "interval" not in next(line for line in str(release).splitlines() if line.startswith("weight: mean"))
    drawn = {section.title: section for section in sections(release, release.document)}
    assert drawn["weight"].picture is None
    assert "no error bar" in drawn["weight"].words
    assert np.mean(release.fit("logistic", output="kind").predict(PET_TABLE) == KIND) > 0.7


@pytest.mark.filterwarnings("ignore:1 people")
def test_a_single_row_that_was_perturbed_as_a_whole_has_no_error_bar() -> None:
    release = thebes.simulate({**PETS, "mechanism": "privunit"}, {k: v[:1] for k, v in PET_TABLE.items()}, seed=1)
    assert release.frequency_interval("kind") is None
    assert release.as_json()["frequencies"]["kind"]["level"] is None
