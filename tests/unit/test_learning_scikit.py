"""Private estimators stand where scikit-learn's stand, and travel as plain data."""

import copy
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

import thebes.learning as learning
from thebes.privacy.faults import Mistake

NAMES = [name for name in learning.__all__ if name != "from_json"]
EVERYWHERE = {"*": (-15.0, 15.0), "y": (-500.0, 500.0)}

TRANSFORMERS = ("PCA", "StandardScaler")
CLASSIFIERS = [name for name in NAMES if hasattr(getattr(learning, name), "predict_proba")]
_OF_ONE_ROW = "an error over a value would tell of the row that has it; such a row counts for nothing"
#: Checks of scikit-learn that privacy forbids. Simulated noise at a huge epsilon is what lets the others hold.
EVERYWHERE_FORBIDDEN = {"check_dtype_object": "wants an error for one strange cell, which would tell of that row"}
#: where the number of rows is private
NUMBER_PRIVATE = {
    "check_estimators_empty_data_messages": "wants an error where there is no row, which would say that there was none"
}
FORBIDDEN = {
    "KMeans": {"check_clustering": "wants labels_, every training row's own cluster, which would be no private output"},
    "StandardScaler": dict.fromkeys(
        ("check_estimator_sparse_array", "check_estimator_sparse_matrix"),
        "asks whatever has this name for with_mean=False, which leaves columns where they are",
    ),
    **{name: {"check_supervised_y_no_nan": _OF_ONE_ROW} for name in ("LinearRegression", "Ridge")},
    "RandomForestRegressor": {
        "check_supervised_y_no_nan": _OF_ONE_ROW,
        "check_regressors_train": "wants half of the variance where one column in ten tells: splits look at no row",
    },
    **{
        name: {
            "check_classifiers_regression_target": "wants to be told that labels look like numbers: " + _OF_ONE_ROW,
        }
        for name in CLASSIFIERS
    },
}


def said(model):
    """Return what makes predictions of rows, or transforms them."""
    return getattr(model, "predict", None) or model.transform


def make(name, **changes):
    good = {"epsilon": 1000.0, "delta": 1e-5, "adjacency": "replace-one", "bounds": EVERYWHERE, "random_state": 0}
    good |= {"classes": "estimate"} if name in CLASSIFIERS else {}
    return getattr(learning, name)(**{**good, **changes})


def table(count=60):
    generator = np.random.default_rng(2)
    y = np.arange(count) % 3
    return generator.normal(size=(count, 2)) + 3 * y[:, None], y


@pytest.mark.few(1)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove-one"])
@pytest.mark.parametrize("name", NAMES)
def test_scikit_learn_accepts_the_estimator(name, adjacency):
    results = check_estimator(make(name, adjacency=adjacency), on_fail=None, on_skip=None)
    failed = {result["check_name"] for result in results if result["status"] == "failed"}
    private = NUMBER_PRIVATE if adjacency == "add-remove-one" and name not in CLASSIFIERS else {}
    assert failed == {*EVERYWHERE_FORBIDDEN, *FORBIDDEN.get(name, {}), *private}
    assert sum(result["status"] == "passed" for result in results) > 40


@pytest.mark.parametrize("name", NAMES)
def test_parameters_survive_clone_and_set_params(name):
    model = make(name)
    other = clone(model)
    assert other.get_params() == model.get_params()
    assert other.set_params(epsilon=2.0).epsilon == 2.0
    assert not hasattr(other, "certificate_")


@pytest.mark.parametrize("name", NAMES)
def test_pipelines_cross_validation_and_grids_work(name):
    X, y = table()
    pipeline = make_pipeline(FunctionTransformer(np.tanh), make(name))
    assert len(said(pipeline.fit(X, y))(X)) == len(X)
    if name not in ("KMeans", *TRANSFORMERS):
        assert np.isfinite(cross_val_score(make(name), X, y, cv=3)).all()
    if name == "LogisticRegression":
        search = GridSearchCV(make(name), {"l2": [1e-3, 1e-1]}, cv=3).fit(X, y)
        assert search.best_estimator_.certificate_.epsilon == 1000


@pytest.mark.parametrize("name", NAMES)
def test_a_seed_repeats_a_fit(name):
    X, y = table()
    declared = {"classes": [0, 1, 2]} if name in CLASSIFIERS else {}
    first, second = (make(name, epsilon=2.0, **declared).fit(X, y) for _ in range(2))
    assert json.dumps(first.to_json()) == json.dumps(second.to_json())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("frame", [False, True])
def test_a_model_travels_as_plain_data(name, frame):
    X, y = table()
    X = pd.DataFrame(X, columns=["age", "height"]) if frame else X
    model = make(name).fit(X, y)
    document = json.loads(json.dumps(model.to_json(), allow_nan=False))
    for loaded in (learning.from_json(document), type(model).from_json(document)):
        assert type(loaded) is type(model)
        assert np.array_equal(said(loaded)(X), said(model)(X))
        assert loaded.certificate_ == model.certificate_
        assert loaded.to_json() == model.to_json()
        if hasattr(model, "predict_proba"):
            assert np.array_equal(loaded.predict_proba(X), model.predict_proba(X))


def test_string_labels_travel_too():
    X, y = table()
    labels = np.array(["ant", "bee", "cat"])[y]
    model = make("GaussianNB").fit(X, labels)
    assert (learning.from_json(json.loads(json.dumps(model.to_json()))).predict(X) == model.predict(X)).all()


def _without(document, *path):
    changed = copy.deepcopy(document)
    place = changed
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]
    return changed


def _with(document, value, *path):
    changed = copy.deepcopy(document)
    place = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed


@pytest.mark.parametrize("name", NAMES)
def test_malformed_documents_are_refused(name):
    X, y = table()
    document = make(name).fit(X, y).to_json()
    first = sorted(document["numbers"])[0]
    broken = [
        None,
        [],
        {},
        _with(document, "os.system", "kind"),
        _with(document, "from_json", "kind"),
        _with(document, 2, "version"),
        _with(document, 0, "columns"),
        _with(document, ["only one"], "columns"),
        _with(document, [1, 2], "columns"),
        _without(document, "certificate"),
        _without(document, "certificate", "adjacency"),
        _with(document, "anybody", "certificate", "trust"),
        _without(document, "numbers"),
        _without(document, "numbers", first),
        _with(document, [0.0], "numbers", "extra_"),
        _with(document, [[1.0], [2.0, 3.0]], "numbers", first),
        _with(document, "text", "numbers", first),
        _with(document, {"a": 1}, "numbers", first),
        _with(document, float("nan"), "numbers", first),
        _with(document, [[[[0.5]]]], "numbers", first),
        _with(document, document["numbers"]["low_"], "numbers", "high_"),
    ]
    for wrong in broken:
        with pytest.raises(Mistake) as refusal:
            learning.from_json(wrong)
        assert refusal.value.argument in ("model", "adjacency", "trust", "unit")


def test_a_forest_document_cannot_point_outside_its_columns():
    X, y = table()
    document = make("RandomForestClassifier", n_estimators=1, max_depth=1).fit(X, y).to_json()
    for column in (2, -1, 0.5):
        with pytest.raises(Mistake):
            learning.from_json(_with(document, [[column]], "numbers", "features_"))


def test_a_model_of_another_kind_is_refused():
    X, y = table()
    with pytest.raises(Mistake, match="not a"):
        learning.KMeans.from_json(make("GaussianNB").fit(X, y).to_json())


def test_weights_in_own_units_predict_what_predict_predicts():
    generator = np.random.default_rng(3)
    X = generator.uniform(-1, 1, size=(400, 2))
    y = 2 + X @ [1.0, -0.5]
    model = make("LinearRegression", bounds={"*": (-1, 1), "y": (0, 4)}).fit(X, y)
    inside = np.array([[0.1, -0.2], [0.3, 0.3]])
    assert np.allclose(inside @ model.coef_ + model.intercept_, model.predict(inside))
    assert np.allclose(model.coef_, [1.0, -0.5], atol=0.1)
    labels = (X[:, 0] + 0.2 * X[:, 1] > 0.1).astype(int)
    logistic = make("LogisticRegression", bounds={"*": (-1, 1)}).fit(X, labels)
    assert np.allclose(inside @ logistic.coef_[0] + logistic.intercept_, logistic.decision_function(inside))
    many = make("LogisticRegression", bounds={"*": (-1, 1)}).fit(X, labels + (X[:, 1] > 0.5))
    assert np.allclose(inside @ many.coef_.T + many.intercept_, many.decision_function(inside))


def test_naive_bayes_tends_to_plain_moments_as_the_noise_vanishes():
    X, y = table(600)
    bounds = {"*": (-6.0, 12.0)}
    for delta in (0.0, 1e-5):
        model = make("GaussianNB", epsilon=1e4, delta=delta, bounds=bounds, mechanism="auto", classes=[0, 1, 2]).fit(
            X, y
        )
        plain = np.array([X[y == c].mean(axis=0) for c in range(3)])
        assert np.allclose(model.theta_, plain, atol=0.05)
        assert np.allclose(model.var_, 1.0, atol=0.3)
        assert np.allclose(model.class_prior_, 1 / 3, atol=0.01)


def test_a_forest_with_shared_rows_is_chosen_for_its_smaller_error():
    X, y = table()
    assert (
        make("RandomForestClassifier", epsilon=4.0, classes=[0, 1, 2]).fit(X, y).certificate_.parameters["rows"]
        == "shared"
    )
    apart = make("RandomForestClassifier", epsilon=4.0, rows="disjoint", delta=0, classes=[0, 1, 2]).fit(X, y)
    assert apart.certificate_.parameters["rows"] == "disjoint"
    assert apart.predict(X).shape == (60,)


def test_clusters_are_found_when_noise_is_small():
    generator = np.random.default_rng(5)
    centres = np.array([[-0.7, -0.7], [0.7, 0.7]])
    X = np.vstack([centre + 0.05 * generator.normal(size=(500, 2)) for centre in centres])
    model = make("KMeans", epsilon=5.0, bounds={"*": (-1, 1)}, n_clusters=2).fit(X)
    assert np.allclose(model.cluster_centers_[np.argsort(model.cluster_centers_[:, 0])], centres, atol=0.1)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_logarithms_of_probabilities_are_theirs_and_finite_far_out(name):
    X, y = table()
    model = make(name).fit(X, y)
    likely, logs = model.predict_proba(X), model.predict_log_proba(X)
    assert np.allclose(np.exp(logs), likely, atol=1e-12)
    assert np.array_equal(logs.argmax(axis=1), likely.argmax(axis=1))
    assert np.isfinite(model.predict_log_proba(np.full((1, 2), 15.0))).all()
    loaded = learning.from_json(json.loads(json.dumps(model.to_json())))
    assert np.array_equal(loaded.predict_log_proba(X), logs)


def test_distances_to_centres_are_those_that_decide_the_cluster():
    X, _ = table()
    model = make("KMeans", n_clusters=3).fit(X)
    away = model.transform(X)
    assert away.shape == (60, 3)
    assert np.array_equal(away.argmin(axis=1), model.predict(X))
    assert np.allclose(
        model.transform(model.cluster_centers_),
        np.sqrt(((model.centres_[:, None] - model.centres_[None]) ** 2).sum(axis=2)),
        atol=1e-9,
    )
    assert model.get_feature_names_out().tolist() == ["kmeans0", "kmeans1", "kmeans2"]
    assert np.array_equal(learning.from_json(json.loads(json.dumps(model.to_json()))).transform(X), away)
    assert not hasattr(model, "inertia_")
    assert not hasattr(model, "labels_")


def test_a_table_without_places_that_stand_out_still_gives_centres():
    for rows in (np.zeros((3, 2)), np.full((50, 2), 15.0)):
        model = make("KMeans", epsilon=0.1, delta=0.0, n_clusters=5).fit(rows)
        assert model.centres_.shape == (5, 2)
        told = model.certificate_
        assert (told.mechanism, told.parameters["steps"]) == ("a noisy middle of all rows, laplace", 1)
        assert (np.abs(model.centres_) <= 1).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("loaded", [False, True])
def test_columns_are_found_by_their_names_and_arrays_go_by_position(name, loaded):
    X, y = table()
    X = np.column_stack([X[:, 0], 3 - X[:, 1] / 2, X[:, 1] * 4])
    frame = pd.DataFrame(X, columns=["height", "age", "size"])
    model = make(name).fit(frame, y)
    model = learning.from_json(json.loads(json.dumps(model.to_json()))) if loaded else model
    assert model.feature_names_in_.tolist() == ["height", "age", "size"]
    assert model.n_features_in_ == 3
    expected = said(model)(frame)
    turned = frame[["size", "height", "age"]].assign(another="x")
    by_column = {column: turned[column].tolist() for column in turned.columns}
    for rows in (turned, by_column, X, X.tolist()):
        assert np.array_equal(said(model)(rows), expected)
    assert make(name).fit(by_column, y).feature_names_in_.tolist() == ["size", "height", "age", "another"]
    for lacking in (frame[["size", "height"]], {"size": [1.0], "height": [2.0]}):
        with pytest.raises(Mistake, match="have no column 'age'") as refused:
            said(model)(lacking)
        assert refused.value.argument == "X"
    with pytest.raises(Mistake, match="more than one column 'age'"):
        said(model)(frame[["size", "height", "age", "age"]])
    with pytest.raises(Mistake, match="as many values"):
        said(model)({"size": [1.0], "height": [2.0, 3.0], "age": [1.0]})


@pytest.mark.parametrize("name", NAMES)
def test_a_model_of_columns_without_names_takes_none_by_name_but_their_numbers(name):
    X, y = table()
    model = make(name).fit(X, y)
    assert not hasattr(model, "feature_names_in_")
    assert np.array_equal(said(model)(pd.DataFrame(X)[[1, 0]]), said(model)(X))
    with pytest.raises(Mistake, match="without names"):
        said(model)({"a": X[:, 0], "b": X[:, 1]})


def test_a_regression_that_an_earlier_version_wrote_says_what_it_said():
    """Earlier ones had no length of their own: it was always the root of the number of columns."""
    X, y = table()
    model = make("LogisticRegression", classes=[0, 1, 2]).fit(X, y)
    model.length_ = np.sqrt(2.0)
    document = json.loads(json.dumps(model.to_json()))
    del document["numbers"]["length_"]
    assert np.array_equal(learning.from_json(document).predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize("name", ["RandomForestClassifier", "DecisionTreeClassifier"])
def test_importances_of_a_forest_are_of_its_released_counts_and_travel(name):
    generator = np.random.default_rng(3)
    X = generator.uniform(-1, 1, (3000, 3))
    model = make(name, epsilon=20.0, delta=0.0, bounds={"*": (-1, 1)}, classes=[0, 1], max_depth=3)
    model.fit(X, (X[:, 1] > 0).astype(int))
    found = model.feature_importances_
    assert found.sum() == pytest.approx(1)
    if name == "RandomForestClassifier":
        assert found[1] > 0.8
    document = json.loads(json.dumps(model.to_json()))
    assert np.array_equal(learning.from_json(document).feature_importances_, found)
    del document["numbers"]["importances_"]  # as models before had none
    with pytest.raises(Mistake, match="tells no importances"):
        learning.from_json(document).feature_importances_  # noqa: B018


def test_a_scaler_and_components_find_what_scikit_learn_finds_without_noise():
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    generator = np.random.default_rng(4)
    X = generator.normal(size=(4000, 3)) @ np.array([[1.0, 0.8, 0.0], [0.0, 0.5, 0.2], [0.0, 0.0, 0.3]])
    told = {"epsilon": 500.0, "delta": 1e-5, "bounds": {"*": (-6, 6)}, "random_state": 0}
    ours, theirs = make("StandardScaler", **told).fit(X), StandardScaler().fit(X)
    assert np.allclose(ours.mean_, theirs.mean_, atol=0.05)
    assert np.allclose(ours.scale_, theirs.scale_, rtol=0.1)
    assert np.allclose(ours.inverse_transform(ours.transform(X)), X, atol=1e-6)
    found, expected = make("PCA", **told).fit(X), PCA().fit(X)
    assert (np.abs((found.components_ * expected.components_).sum(axis=1)) > 0.98).all()
    assert np.allclose(found.explained_variance_ratio_, expected.explained_variance_ratio_, atol=0.05)
    one = make("PCA", n_components=1, **told).fit(X)
    assert one.transform(X).shape == (4000, 1)
    assert one.inverse_transform(one.transform(X)).shape == X.shape
    with pytest.raises(Mistake, match="at most the number of columns"):
        make("PCA", n_components=4, **told).fit(X)
    with pytest.raises(Mistake, match="delta"):
        make("PCA", **{**told, "delta": 0.0}).fit(X)
