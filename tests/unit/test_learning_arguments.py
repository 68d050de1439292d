"""Private estimators refuse bad arguments and bad rows, name what was wrong, and repeat no value."""

import numpy as np
import pandas as pd
import pytest

import thebes.learning as learning
from thebes.learning.budget import Budget
from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import seeded_for_simulation

NAMES = [name for name in learning.__all__ if name != "from_json"]
CLASSIFIERS = ["DecisionTreeClassifier", "GaussianNB", "LogisticRegression", "RandomForestClassifier"]
REGRESSORS = ["LinearRegression", "Ridge"]
BOUNDS = {0: (-3.0, 3.0), 1: (-3.0, 3.0), "y": (-3.0, 3.0)}
GOOD = {"epsilon": 1.0, "delta": 1e-5, "adjacency": "replace-one", "bounds": BOUNDS, "random_state": 1}


def rows(count=30):
    generator = np.random.default_rng(1)
    return generator.normal(size=(count, 2)), np.arange(count) % 2


def fit(name, X=None, y=None, **changes):
    good_X, good_y = rows()
    model = getattr(learning, name)(**{**GOOD, **changes})
    return model.fit(good_X if X is None else X, good_y if y is None else y)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("epsilon", 0),
        ("epsilon", -1.0),
        ("epsilon", float("nan")),
        ("epsilon", float("inf")),
        ("epsilon", "much"),
        ("epsilon", True),
        ("epsilon", 10**30),
        ("delta", -1e-9),
        ("delta", 1.0),
        ("delta", float("nan")),
        ("adjacency", "neighbours"),
        ("adjacency", None),
        ("bounds", None),
        ("bounds", [(0, 1), (0, 1)]),
        ("bounds", "from the data"),
        ("bounds", {0: (0, 1), "y": (0, 1)}),
        ("bounds", {0: (0, 1), 1: (1, 0), "y": (0, 1)}),
        ("bounds", {0: (0, 1), 1: (1, 1), "y": (0, 1)}),
        ("bounds", {0: (0, 1), 1: (0, float("inf")), "y": (0, 1)}),
        ("bounds", {0: (0, 1), 1: (float("nan"), 1), "y": (0, 1)}),
        ("bounds", {0: (0, 1), 1: (-1e308, 1e308), "y": (0, 1)}),
        ("bounds", {0: (0, 1), 1: 5, "y": (0, 1)}),
        ("bounds", {0: (0, 1), 1: (0, 1), 7: (0, 1), "y": (0, 1)}),
        ("bounds", {0: (0, 1), 1: (0, 1), "age": (0, 1), "y": (0, 1)}),
        ("random_state", -1),
        ("random_state", 0.5),
        ("random_state", np.random.RandomState(1)),
    ],
)
def test_bad_arguments_are_refused_by_name(name, argument, value):
    with pytest.raises(Mistake) as refusal:
        fit(name, **{argument: value})
    assert refusal.value.argument in (argument, "seed")


@pytest.mark.parametrize("name", NAMES)
def test_adjacency_and_epsilon_have_no_default(name):
    with pytest.raises(TypeError, match="adjacency"):
        getattr(learning, name)(epsilon=1.0)
    with pytest.raises(TypeError, match="epsilon"):
        getattr(learning, name)(adjacency="replace-one")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "X",
    [
        np.array([[1.0, np.nan]] * 30),
        np.array([[1.0, np.inf]] * 30),
        np.empty((0, 2)),
        np.empty((30, 0)),
        np.ones(30),
        np.ones((30, 2, 2)),
        np.array([["secret", "1"]] * 30),
    ],
    ids=["nan", "infinity", "no rows", "no columns", "flat", "cube", "text"],
)
def test_bad_rows_are_refused_without_repeating_them(name, X):
    with pytest.raises(Mistake) as refusal:
        fit(name, X=X, y=np.arange(len(X)) % 2)
    assert refusal.value.argument == "X"
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSORS])
@pytest.mark.parametrize("y", [np.arange(7), np.ones((30, 2)), np.array([np.nan] * 30)])
def test_bad_targets_are_refused(name, y):
    with pytest.raises(Mistake) as refusal:
        fit(name, y=y)
    assert refusal.value.argument == "y"


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_one_class_or_an_undeclared_label_is_refused(name):
    X, y = rows()
    for argument, changes, labels in (
        ("y", {}, np.zeros(30, dtype=int)),
        ("y", {"classes": [0, 5]}, y),
        ("classes", {"classes": [0]}, y),
        ("classes", {"classes": [0, 0, 1]}, y),
    ):
        with pytest.raises(Mistake) as refusal:
            fit(name, X=X, y=labels, **changes)
        assert refusal.value.argument == argument


@pytest.mark.parametrize("name", ["LogisticRegression", *REGRESSORS])
def test_what_has_no_pure_form_asks_for_delta(name):
    with pytest.raises(Mistake, match="greater than 0") as refusal:
        fit(name, delta=0)
    assert refusal.value.argument == "delta"


def test_gaussian_mechanism_without_delta_asks_for_delta():
    with pytest.raises(Mistake) as refusal:
        fit("GaussianNB", delta=0, mechanism="gaussian")
    assert refusal.value.argument == "delta"


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("LogisticRegression", {"steps": 0}),
        ("LogisticRegression", {"steps": 2.5}),
        ("LogisticRegression", {"clip": 0}),
        ("LogisticRegression", {"l2": -1}),
        ("LogisticRegression", {"learning_rate": float("nan")}),
        ("LinearRegression", {"method": "magic"}),
        ("Ridge", {"alpha": -1.0}),
        ("RandomForestClassifier", {"n_estimators": 0}),
        ("RandomForestClassifier", {"n_estimators": 10**9}),
        ("RandomForestClassifier", {"rows": "some"}),
        ("DecisionTreeClassifier", {"max_depth": 0}),
        ("DecisionTreeClassifier", {"max_depth": 99}),
        ("GaussianNB", {"mechanism": "none"}),
        ("KMeans", {"n_clusters": 0}),
        ("KMeans", {"steps": True}),
    ],
)
def test_bad_hyperparameters_are_refused_by_name(name, changes):
    with pytest.raises(Mistake) as refusal:
        fit(name, **changes)
    assert refusal.value.argument == next(iter(changes))


@pytest.mark.parametrize("name", NAMES)
def test_arguments_are_judged_before_the_rows(name):
    with pytest.raises(Mistake) as refusal:
        fit(name, X="no table at all", epsilon=0)
    assert refusal.value.argument == "epsilon"


def test_missing_bounds_say_what_to_add():
    with pytest.raises(Mistake, match=r"add 1: \(low, high\)"):
        fit("GaussianNB", bounds={0: (0, 1)})
    with pytest.raises(Mistake, match=r"add 'y': \(low, high\)"):
        fit("LinearRegression", bounds={0: (0, 1), 1: (0, 1)})


def test_bounds_may_be_named_numbered_or_said_once_for_all():
    X, y = rows()
    frame = pd.DataFrame(X, columns=["age", "height"])
    named = fit("GaussianNB", X=frame, y=y, bounds={"age": (-3, 3), 1: (-3, 3)})
    numbered = fit("GaussianNB", X=X, y=y)
    starred = fit("GaussianNB", X=X, y=y, bounds={"*": (-3, 3)})
    assert np.array_equal(named.means_, numbered.means_)
    assert np.array_equal(starred.means_, numbered.means_)
    assert named.certificate_.bounds == {"age": [-3.0, 3.0], "height": [-3.0, 3.0]}
    with pytest.raises(Mistake, match="twice"):
        fit("GaussianNB", X=frame, y=y, bounds={"age": (-3, 3), 0: (-3, 3), 1: (-3, 3)})


@pytest.mark.parametrize("name", NAMES)
def test_bounds_can_be_bought_inside_the_budget(name):
    X, y = rows(3000)
    model = fit(name, X=X, y=y, epsilon=60.0, bounds="estimate")
    assert "bounds" in model.certificate_.estimated
    assert model.certificate_.epsilon == 60
    assert (np.quantile(X, 0.9, axis=0) <= model.high_).all()
    assert (model.low_ <= np.quantile(X, 0.1, axis=0)).all()


def test_bounds_that_noise_hides_are_refused_and_never_guessed():
    with pytest.raises(Mistake, match="could not be estimated") as refusal:
        fit("GaussianNB", bounds="estimate")
    assert refusal.value.argument == "bounds"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove-one"])
def test_certificate_says_what_was_promised(name, adjacency):
    model = fit(name, adjacency=adjacency)
    certificate = model.certificate_
    assert (str(certificate.unit), str(certificate.adjacency)) == ("event", adjacency)
    assert certificate.epsilon == 1.0
    assert certificate.delta in (0.0, 1e-5)
    assert certificate.simulated
    assert certificate.contributors == (30 if adjacency == "replace-one" else None)
    if name in CLASSIFIERS:
        assert "labels was taken from the data" in certificate.text
        assert "labels" not in fit(name, adjacency=adjacency, classes=[0, 1]).certificate_.text


@pytest.mark.parametrize("name", ["GaussianNB", "RandomForestClassifier", "DecisionTreeClassifier", "KMeans"])
def test_without_delta_the_guarantee_is_pure(name):
    certificate = fit(name, delta=0).certificate_
    assert (certificate.guarantee, certificate.delta) == ("pure", 0)


def test_real_releases_are_not_marked_simulated_and_differ():
    first, second = fit("GaussianNB", random_state=None), fit("GaussianNB", random_state=None)
    assert not first.certificate_.simulated
    assert first.certificate_.parameters["noise_drawn_by"] == "opendp"
    assert not np.array_equal(first.means_, second.means_)


def test_a_tiny_delta_is_refused_where_its_noise_does_not_fit():
    with pytest.raises(Mistake) as refusal:
        fit("LogisticRegression", delta=1e-30)
    assert refusal.value.argument == "delta"


def test_a_budget_never_pays_for_more_than_it_has():
    from fractions import Fraction

    from thebes.learning.budget import Reach
    from thebes.privacy.faults import Fault

    budget = Budget(epsilon=1, delta=0, adjacency="replace-one", randomness=seeded_for_simulation(1))
    counts, reach = np.zeros(2, dtype=np.int64), Reach(1, 2)
    budget.laplace_counts(counts, reach=reach, share=Fraction(2, 3))
    with pytest.raises(Fault):
        budget.laplace_counts(counts, reach=reach, share=Fraction(1, 3) + Fraction(1, 10**12))
    with pytest.raises(Fault):
        budget.gaussian_counts(counts, reach=reach, share=Fraction(1, 3))
