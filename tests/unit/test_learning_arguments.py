"""Private estimators refuse bad arguments and bad rows, name what was wrong, and repeat no value."""

import numpy as np
import pandas as pd
import pytest

import thebes.learning as learning
from thebes.learning.budget import FitBudget
from thebes.learning.labels import declared_classes
from thebes.privacy.events import ApproximateEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import seeded_for_simulation

NAMES = [name for name in learning.__all__ if name != "from_json"]
CLASSIFIERS = ["DecisionTreeClassifier", "GaussianNB", "LogisticRegression", "RandomForestClassifier"]
REGRESSORS = ["LinearRegression", "RandomForestRegressor", "Ridge"]
BOUNDS = {0: (-3.0, 3.0), 1: (-3.0, 3.0), "y": (-3.0, 3.0)}
GOOD = {"epsilon": 1.0, "delta": 1e-5, "adjacency": "replace-one", "bounds": BOUNDS, "random_state": 1}


def rows(count=30):
    generator = np.random.default_rng(1)
    return generator.normal(size=(count, 2)), np.arange(count) % 2


def fit(name, X=None, y=None, **changes):
    good_X, good_y = rows()
    declared = {"classes": [0, 1]} if name in CLASSIFIERS else {}
    model = getattr(learning, name)(**{**GOOD, **declared, **changes})
    return model.fit(good_X if X is None else X, good_y if y is None else y)


def said(model):
    """Return what makes predictions of rows, or transforms them."""
    return getattr(model, "predict", None) or model.transform


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
    [np.empty((0, 2)), np.empty((30, 0)), np.ones(30), np.ones((30, 2, 2))],
    ids=["no rows", "no columns", "flat", "cube"],
)
def test_tables_of_a_wrong_shape_are_refused(name, X):
    with pytest.raises(Mistake) as refusal:
        fit(name, X=X, y=np.arange(len(X)) % 2)
    assert refusal.value.argument == "X"


#: cells that are no number within the bounds, and what they count as: the middle of (-3, 3), or the nearest bound
STRANGE = [(np.nan, 0.0), (None, 0.0), ("secret", 0.0), ({"a": 1}, 0.0), (10**400, 0.0), (np.inf, 3.0), (-1e300, -3.0)]


@pytest.mark.few(18)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("adjacency", ["replace-one", "add-remove-one"])
@pytest.mark.parametrize(("cell", "counts_as"), STRANGE, ids=[str(cell)[:8] for cell, _ in STRANGE])
@pytest.mark.parametrize("frame", [False, True])
def test_no_cell_of_a_row_is_a_refusal(name, adjacency, cell, counts_as, frame):
    X, _ = rows()
    strange, plain = X.astype(object), X.copy()
    strange[7, 1], plain[7, 1] = cell, counts_as
    if frame:
        strange, plain = (pd.DataFrame(each, columns=["a", "b"]) for each in (strange, plain))
    bounds = {"*": (-3.0, 3.0), "y": (-3.0, 3.0)}
    found, expected = (fit(name, X=each, adjacency=adjacency, bounds=bounds) for each in (strange, plain))
    assert found.to_json() == expected.to_json()
    assert np.array_equal(said(found)(strange), said(expected)(plain))
    assert "secret" not in str(found.to_json())


@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSORS])
@pytest.mark.parametrize("y", [np.arange(7), np.ones((30, 2)), None])
def test_targets_of_a_wrong_shape_are_refused(name, y):
    good_X, _ = rows()
    model = getattr(learning, name)(**{**GOOD, **({"classes": [0, 1]} if name in CLASSIFIERS else {})})
    with pytest.raises(Mistake) as refusal:
        model.fit(good_X, y)
    assert refusal.value.argument == "y"


@pytest.mark.few(11)
@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSORS])
@pytest.mark.parametrize("label", [np.nan, None, "secret", [1, 2], 7])
def test_a_row_whose_target_does_not_fit_counts_for_nothing_and_is_no_refusal(name, label):
    """With rows that come and go, as if it were not there; with a public number of rows, that is what it was."""
    X, y = rows()
    if name in REGRESSORS and label == 7:
        label = "seven"  # a number, however large, is one within the bounds
    strange = y.astype(object)
    strange[7] = label
    found = fit(name, X=X, y=strange, adjacency="add-remove-one")
    without = fit(name, X=np.delete(X, 7, axis=0), y=np.delete(y, 7), adjacency="add-remove-one")
    assert found.to_json() == without.to_json()
    public = fit(name, X=X, y=list(strange))
    assert public.certificate_.contributors == 30
    assert "secret" not in str(public.to_json())
    # Also where nobody has one.
    for adjacency in ("replace-one", "add-remove-one"):
        assert len(fit(name, X=X, y=np.full(30, None), adjacency=adjacency).predict(X)) == 30


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_one_odd_label_is_no_class_unless_it_was_declared(name):
    """Whoever has it would be seen in what is published."""
    X, y = rows()
    with pytest.raises(Mistake, match="classes=") as refusal:
        fit(name, classes=None)
    assert refusal.value.argument == "classes"
    odd = y.astype(object)
    odd[7] = "secret"
    for labels in (odd, np.array([str(label) for label in odd])):
        told = fit(name, X=X, y=labels)
        assert told.classes_.tolist() == [0, 1]
        assert told.to_json() == fit(name, X=X, y=odd).to_json()


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classes_that_are_bought_are_those_of_many_rows(name):
    X, y = np.repeat(rows()[0], 20, axis=0), np.repeat(rows()[1], 20).astype(object)
    y[7], y[8], y[9] = "secret", None, np.nan
    for labels, kind in ((y, "i"), (np.array([str(each) for each in y]), "i"), (np.where(y == 1, "b", "a"), "U")):
        model = fit(name, X=X, y=labels, classes="estimate", epsilon=8.0)
        assert model.classes_.dtype.kind == kind
        assert len(model.classes_) == 2
        assert model.certificate_.estimated[-1] == "classes"
        assert model.certificate_.guarantee == "approximate"
        paid = [event for event in model.events_ if isinstance(event, ApproximateEvent)]
        assert [(float(event.epsilon), float(event.delta)) for event in paid] == [(0.8, pytest.approx(1e-6))]
    with pytest.raises(Mistake, match="1 class or none could be seen") as refusal:
        fit(name, X=X, y=np.zeros(600), classes="estimate", epsilon=8.0)
    assert refusal.value.argument == "classes"


def test_the_delta_of_bought_classes_stands_on_the_certificate_of_a_pure_mechanism():
    X, y = np.repeat(rows()[0], 20, axis=0), np.repeat(rows()[1], 20)
    told = fit("GaussianNB", X=X, y=y, classes="estimate", mechanism="laplace").certificate_
    assert (told.guarantee, told.delta) == ("approximate", pytest.approx(1e-6))
    assert fit("GaussianNB", X=X, y=y, mechanism="laplace").certificate_.guarantee == "pure"


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize(
    "classes", [[0], [0, 0, 1], [0, None], [0, np.nan], [], 3, "ask", [1, True]], ids=lambda each: str(each)
)
def test_classes_that_cannot_be_are_refused_before_the_rows_are_seen(name, classes):
    with pytest.raises(Mistake) as refusal:
        fit(name, X="no rows", classes=classes)
    assert refusal.value.argument == "classes"


@pytest.mark.parametrize("name", ["GaussianNB", "RandomForestClassifier", "DecisionTreeClassifier"])
def test_nothing_pure_finds_classes(name):
    with pytest.raises(Mistake, match="greater than 0") as refusal:
        fit(name, classes="estimate", delta=0)
    assert refusal.value.argument == "classes"


@pytest.mark.parametrize("name", ["LinearRegression", "LogisticRegression", "Ridge"])
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
        assert "label is none of the classes counts for nothing" in certificate.text
        assert "labels" not in fit(name, adjacency=adjacency, classes=[0, 1]).certificate_.text


@pytest.mark.parametrize("name", ["GaussianNB", "RandomForestClassifier", "DecisionTreeClassifier", "KMeans"])
def test_without_delta_the_guarantee_is_pure(name):
    certificate = fit(name, delta=0).certificate_
    assert (certificate.guarantee, certificate.delta) == ("pure", 0)


def test_real_releases_are_not_marked_simulated_and_differ():
    first, second = fit("GaussianNB", random_state=None), fit("GaussianNB", random_state=None)
    assert not first.certificate_.simulated
    assert first.certificate_.parameters["noise_drawn_by"] == "thebes"
    assert not np.array_equal(first.means_, second.means_)


def test_a_tiny_delta_is_refused_where_its_noise_does_not_fit():
    with pytest.raises(Mistake) as refusal:
        fit("LogisticRegression", delta=1e-30)
    assert refusal.value.argument == "delta"


def test_a_budget_never_pays_for_more_than_it_has():
    from fractions import Fraction

    from thebes.learning.budget import Reach
    from thebes.privacy.faults import Fault

    budget = FitBudget(epsilon=1, delta=0, adjacency="replace-one", randomness=seeded_for_simulation(1))
    counts, reach = np.zeros(2, dtype=np.int64), Reach(1, 2)
    budget.laplace_counts(counts, reach=reach, share=Fraction(2, 3))
    with pytest.raises(Fault):
        budget.laplace_counts(counts, reach=reach, share=Fraction(1, 3) + Fraction(1, 10**12))
    with pytest.raises(Fault):
        budget.gaussian_counts(counts, reach=reach, share=Fraction(1, 3))


def test_a_refused_table_is_not_repeated_in_the_words_of_the_refusal() -> None:
    odd = np.array([[0.636961 + 1j, 0.269786]] * 3)
    for table in (odd, np.array([0.636961, 0.269786])):
        with pytest.raises(Mistake) as refused:
            learning.GaussianNB(epsilon=1, adjacency="add-remove-one", bounds=(0, 1), classes=[0, 1]).fit(
                table, [0, 1, 0]
            )
        assert "0.63" not in str(refused.value)


def test_labels_that_a_missing_cell_would_blur_cannot_be_declared() -> None:
    with pytest.raises(Mistake, match="classes"):
        declared_classes([2**53 + 1, 5])
