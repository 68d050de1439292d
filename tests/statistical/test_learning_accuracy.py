"""Accuracy that the private estimators must keep on real data: replace-one, delta 1e-5, one setting for all.

Mean of 3 seeds x 5 folds with public bounds (`papers.datasets`). `evidence/bench/learning.py` prints it with goals.
"""

import tracemalloc
import warnings

import numpy as np
import pytest
import sklearn.datasets
from sklearn.model_selection import KFold, StratifiedKFold

import thebes.learning as learning
from evidence.peers import tables
from papers import datasets

FLOORS = [
    ("GaussianNB", "wine", 8, 0.80),
    ("GaussianNB", "wine", 32, 0.917),
    ("GaussianNB", "cancer", 4, 0.80),
    ("GaussianNB", "cancer", 32, 0.90),
    ("LogisticRegression", "wine", 8, 0.85),
    ("LogisticRegression", "wine", 32, 0.94),
    ("LogisticRegression", "cancer", 1, 0.88),
    ("LogisticRegression", "cancer", 4, 0.93),
    ("LogisticRegression", "cancer", 32, 0.95),
    ("LinearRegression", "diabetes", 1, 0.0),
    ("LinearRegression", "diabetes", 2, 0.0),
    ("LinearRegression", "diabetes", 4, 0.25),
    ("LinearRegression", "diabetes", 8, 0.42),
    ("LinearRegression", "diabetes", 32, 0.45),
    ("LinearRegression", "housing", 1, 0.60),
    ("LinearRegression", "housing", 8, 0.64),
    ("RandomForestClassifier", "wine", 8, 0.90),
    ("RandomForestClassifier", "cancer", 1, 0.87),
    ("RandomForestClassifier", "cancer", 4, 0.90),
    ("RandomForestRegressor", "diabetes", 1, 0.05),
    ("RandomForestRegressor", "diabetes", 8, 0.22),
    ("RandomForestRegressor", "housing", 1, 0.42),
    ("RandomForestRegressor", "housing", 8, 0.53),
]


def score(name, data, epsilon, seeds=3, **options):
    means = []
    regression = data.name in ("diabetes", "housing")
    for seed in range(seeds):
        folds = (KFold if regression else StratifiedKFold)(5, shuffle=True, random_state=seed)
        for fold, (train, test) in enumerate(folds.split(data.X, data.y)):
            settings = {"delta": 1e-5, "adjacency": "replace-one", "random_state": 10 * seed + fold, **options}
            settings = settings if regression else {"classes": data.classes, **settings}
            model = getattr(learning, name)(epsilon=epsilon, bounds=data.bounds, **settings)
            means.append(model.fit(data.X[train], data.y[train]).score(data.X[test], data.y[test]))
    return means


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "dataset", "epsilon", "floor"), FLOORS)
def test_accuracy_stays_above_its_floor(name, dataset, epsilon, floor):
    data = getattr(datasets, dataset)()
    if data is None:
        pytest.skip("California housing is read from THEBES_DATA, which is absent here")
    scores = score(name, data, epsilon)
    assert np.mean(scores) >= floor
    if dataset == "diabetes":
        assert np.reshape(scores, (3, 5)).mean(axis=1).min() > 0


@pytest.mark.slow
def test_logistic_regression_goes_the_whole_way_where_rows_are_many():
    """As far as diffprivlib, whose .8431 on these rows is that of the best of 20 settings."""
    try:
        table = tables.census_numbers(0)[0]
    except tables.Absent:
        pytest.skip("Adult is read from THEBES_DATA, which is absent here")
    bounds = dict(enumerate(zip(table["low"], table["high"], strict=True)))
    told = {"delta": 1e-5, "adjacency": "replace-one", "bounds": bounds, "classes": [0, 1]}
    floors = {0.1: 0.833, 1.0: 0.8431, 8.0: 0.8431}
    for epsilon, floor in floors.items():
        models = [learning.LogisticRegression(epsilon=epsilon, random_state=seed, **told) for seed in range(4)]
        scores = [each.fit(table["rows"], table["labels"]).score(table["unseen"], table["answer"]) for each in models]
        assert np.mean(scores) >= floor


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "epsilon", "floor"), [("digits", 8, 0.92), ("breast_cancer", 8, 0.96)])
def test_logistic_regression_does_not_stop_early_where_rows_are_few(name, epsilon, floor):
    X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    low, high = X.min(axis=0), X.max(axis=0)  # published rows: their ends are no secret here
    bounds = dict(enumerate(zip(low, np.where(high > low, high, low + 1), strict=True)))
    data = datasets.Dataset(name, X, y, (), bounds)
    assert np.mean(score("LogisticRegression", data, epsilon, classes=np.unique(y).tolist())) >= floor


def test_real_noise_keeps_the_floor_too():
    """Of ten fits .964, give or take .0036: below the floor less than once in 10^10."""
    assert np.mean(score("LogisticRegression", datasets.cancer(), 4, seeds=2, random_state=None)) >= 0.93


def test_add_remove_one_and_pure_models_are_useful():
    assert np.mean(score("GaussianNB", datasets.wine(), 8, adjacency="add-remove-one")) >= 0.80
    assert np.mean(score("GaussianNB", datasets.wine(), 8, delta=0)) >= 0.80
    assert np.mean(score("RandomForestClassifier", datasets.cancer(), 8, delta=0)) >= 0.85


@pytest.mark.parametrize(("epsilon", "floor"), [(1, 0.3), (8, 0.68)])
def test_linear_regression_of_many_columns_is_useful_in_little_memory(epsilon, floor):
    """Least squares explain .78 and .75; by moments .04 and .32 were explained, in 7 GB. Of either kind of columns."""
    draw = np.random.default_rng(1)
    alone, common = draw.uniform(-1, 1, (7000, 300)), draw.normal(size=(7000, 30)) @ draw.normal(size=(30, 300))
    together = np.clip(common / 16 + draw.normal(0, 0.17, (7000, 300)), -1, 1)
    for X in (alone, together):
        said = X @ draw.normal(size=300)
        y = np.clip(said / said.std() + draw.normal(0, 0.5, 7000), -4, 4)
        told = {"delta": 1e-6, "adjacency": "replace-one", "bounds": {"*": (-1, 1), "y": (-4, 4)}, "random_state": 1}
        tracemalloc.start()
        model = learning.LinearRegression(epsilon=epsilon, **told).fit(X[:5000], y[:5000])
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert model.certificate_.mechanism.startswith("noisy gradient descent")
        assert model.score(X[5000:], y[5000:]) >= floor
        assert most < 400e6


def test_moments_of_many_columns_take_little_memory():
    X = np.random.default_rng(1).uniform(-1, 1, (5000, 300))
    tracemalloc.start()
    learning.LinearRegression(
        epsilon=500, delta=1e-6, adjacency="replace-one", bounds={"*": (-1, 1), "y": (-4, 4)}, method="moments"
    ).fit(X, X[:, 0])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 400e6


def test_more_budget_never_makes_the_ridge_weaker_on_average():
    data = datasets.diabetes()
    low, high = (np.mean(score("Ridge", data, epsilon)) for epsilon in (1, 32))
    assert high > low


def test_declared_bounds_hold_the_data_they_are_for():
    for data in (datasets.wine(), datasets.cancer(), datasets.diabetes()):
        low, high = (np.array([data.bounds[j][side] for j in range(data.X.shape[1])]) for side in (0, 1))
        assert np.array_equal(np.clip(data.X, low, high), data.X)
        assert set(data.bounds_by_name) >= set(data.columns)


def _clustered(X, clusters, epsilon, **options):
    """The mean squared distance to the nearest centre, rows being in [-1, 1]."""
    told = {"adjacency": "replace-one", "bounds": {"*": (-1.0, 1.0)}, "n_clusters": clusters, **options}
    return [
        (learning.KMeans(epsilon=epsilon, random_state=seed, **told).fit(X).transform(X).min(axis=1) ** 2).mean()
        for seed in range(10)
    ]


@pytest.mark.few(1)
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_clusters_are_found_nearly_as_without_noise(delta):
    """Without noise .029 and .061; by starts that saw no row it was .041 and .113 at epsilon 1."""
    made = sklearn.datasets.make_blobs
    few, _ = made(5000, centers=5, n_features=2, cluster_std=0.6, center_box=(1, 7), random_state=0)
    many, _ = made(20_000, centers=8, n_features=4, cluster_std=0.5, center_box=(1, 7), random_state=1)
    few, many = np.clip(few, 0, 8) / 4 - 1, np.clip(many, 0, 8) / 4 - 1
    for epsilon, near, far in ((1, 0.036, 0.075), (4, 0.032, 0.067)):
        assert np.mean(_clustered(few, 5, epsilon, delta=delta)) <= near
        assert np.mean(_clustered(many, 8, epsilon, delta=delta)) <= far
    assert np.mean(_clustered(few, 5, 1, delta=delta, adjacency="add-remove-one")) <= 0.036


@pytest.mark.few(1)
@pytest.mark.parametrize("delta", [0.0, 1e-5])
def test_clusters_that_noise_hides_are_about_as_near_as_a_single_centre(delta):
    """With half of the budget for empty boxes and ten noisy centres they were 1.4 times as far at epsilon 1."""
    X = sklearn.datasets.load_digits().data / 8 - 1
    alone = ((X - X.mean(axis=0)) ** 2).sum(axis=1).mean()
    assert np.mean(_clustered(X, 10, 1, delta=delta)) <= 1.05 * alone
    assert np.mean(_clustered(X, 10, 0.5, delta=delta)) <= 1.25 * alone


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("name", ["iris", "wine", "digits"])
def test_clusters_that_are_worse_than_a_single_centre_come_with_a_warning(name, delta):
    """Also where the number of rows is private; and centres that are much nearer than one come without."""
    X = getattr(sklearn.datasets, f"load_{name}")().data
    low, high = X.min(axis=0), X.max(axis=0)
    X = (X - low) / np.where(high > low, high - low, 1) * 2 - 1
    alone = ((X - X.mean(axis=0)) ** 2).sum(axis=1).mean()
    for adjacency, epsilon in (("replace-one", 1), ("replace-one", 4), ("add-remove-one", 4), ("replace-one", 32)):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            clusters = 10 if name == "digits" else 3
            away = np.mean(_clustered(X, clusters, epsilon, delta=delta, adjacency=adjacency))
        warned = {str(each.message)[:12] for each in told} == {"the clusters"}
        assert warned or away < alone
        assert not warned or epsilon < 32
