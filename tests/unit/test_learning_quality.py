"""The figure that an estimator buys with rows it is not made from, and the one that a model of people carries."""

from __future__ import annotations

import json
import warnings
from collections import Counter

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

import thebes
from thebes import learning
from thebes.privacy.events import ApproximateEvent, PureEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.held_out import ENOUGH, LEAST, MOST, ContentCoins, places, share_of, tossed
from thebes.privacy.model_quality import NOT_CHECKED, Worth
from thebes.privacy.randomness import seeded_for_simulation
from thebes.tasks import registry
from thebes.tasks.release_reader import release_from_json

DRAW = np.random.default_rng(5)
X = DRAW.uniform(-1, 1, (4000, 2))
SEEN = (X[:, 0] > 0).astype(int)  #: what the columns tell
BLIND = DRAW.integers(0, 2, len(X))  #: what they do not
BOX = {"*": (-1.0, 1.0), "y": (-1.0, 1.0)}
CLASSIFIERS = ("GaussianNB", "LogisticRegression", "RandomForestClassifier", "DecisionTreeClassifier")
REGRESSIONS = ("LinearRegression", "RandomForestRegressor", "Ridge")
ADJACENCIES = ("replace-one", "add-remove-one")


def fitted(name, y, *, adjacency="replace-one", rows=4000, **more):
    classes = {} if name in REGRESSIONS else {"classes": [0, 1]}
    given = {"epsilon": 1.0, "delta": 1e-5, "bounds": BOX, "random_state": 1, "quality": True, **classes, **more}
    return getattr(learning, name)(adjacency=adjacency, **given).fit(X[:rows], y[:rows])


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_that_sees_is_better_than_guessing(name, adjacency) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fitted(name, SEEN, adjacency=adjacency, epsilon=4.0)
    found = model.quality_
    assert found.verdict is Worth.BETTER
    assert found.interval.low > 0.5 > found.guessing - 0.1
    assert (found.share, found.epsilon) == (0.1, 4.0)
    assert abs(found.people - 400) < 100
    assert model.certificate_.epsilon == 4.0
    assert "Nobody is in both parts" in model.certificate_.text


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("name", CLASSIFIERS[:3])  # a tree alone, of splits that look at no row, may see nothing
def test_a_classifier_of_two_classes_is_judged_by_the_order_of_its_scores_where_asked(name, adjacency) -> None:
    found = fitted(name, SEEN, adjacency=adjacency, epsilon=4.0, quality="auc").quality_
    assert (found.metric, found.verdict, found.guessing) == ("auc", Worth.BETTER, 0.5)
    assert 0.5 < found.interval.low < found.value <= found.interval.high <= 1
    assert "area under the curve" in found.sentence
    with pytest.warns(UserWarning, match="guessing"):
        assert fitted(name, BLIND, adjacency=adjacency, quality="auc").quality_.verdict.warns


def test_what_is_not_of_two_classes_is_not_judged_by_order() -> None:
    for wrong in (
        lambda: fitted("GaussianNB", SEEN, quality="auc", classes=[0, 1, 2]),
        lambda: fitted("LinearRegression", X[:, 0], quality="auc"),
        lambda: fitted("GaussianNB", SEEN, quality="f1"),
        lambda: fitted("GaussianNB", SEEN, quality="r2"),
        lambda: fitted("Ridge", X[:, 0]).tested(X, X[:, 0], epsilon=1, adjacency="replace-one", metric="auc"),
    ):
        with pytest.raises(Mistake) as refused:
            wrong()
        assert refused.value.argument == "quality"


@pytest.mark.parametrize("name", REGRESSIONS)
def test_a_regression_that_sees_is_better_than_one_number_for_everybody(name) -> None:
    model = fitted(name, X[:, 0], epsilon=20.0)
    assert model.quality_.verdict is Worth.BETTER
    assert model.quality_.metric == "mse"
    assert model.quality_.guessing == pytest.approx(1 / 3, abs=0.05)
    assert model.quality_.value < model.quality_.interval.high < 0.2


@pytest.mark.parametrize("name", REGRESSIONS)
def test_a_regression_is_judged_by_what_it_explains_where_asked(name) -> None:
    found = fitted(name, X[:, 0], epsilon=20.0, quality="r2").quality_
    assert (found.metric, found.verdict, found.guessing) == ("r2", Worth.BETTER, 0.0)
    assert 0 < found.interval.low < found.value <= found.interval.high <= 1
    assert "R2" in found.sentence
    blind = fitted(name, BLIND).tested(X, BLIND, epsilon=1, adjacency="replace-one", metric="r2")
    assert -1 <= blind.interval.low <= blind.value <= blind.interval.high <= 1
    assert blind.verdict.warns


@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSIONS])
def test_a_model_of_labels_that_have_nothing_to_do_with_its_columns_warns(name) -> None:
    with pytest.warns(UserWarning, match="guessing"):
        model = fitted(name, BLIND)
    assert model.quality_.warns


def test_without_being_asked_an_estimator_learns_from_every_row() -> None:
    model = fitted("GaussianNB", SEEN, quality=False)
    assert model.quality_ is None
    assert "aside" not in model.certificate_.text


def test_what_is_neither_true_nor_false_is_refused() -> None:
    with pytest.raises(Mistake, match="quality"):
        fitted("GaussianNB", SEEN, quality="yes")


def test_one_event_covers_both_parts() -> None:
    assert fitted("LogisticRegression", SEEN).events_ == (ApproximateEvent(1.0, 1e-5),)
    assert fitted("GaussianNB", SEEN, delta=0).events_ == (PureEvent(1.0),)


def test_a_model_keeps_its_figure_in_its_json() -> None:
    model = fitted("GaussianNB", SEEN)
    again = learning.from_json(json.loads(json.dumps(model.to_json())))
    assert again.quality_ == model.quality_
    assert learning.from_json(fitted("GaussianNB", SEEN, quality=False).to_json()).quality_ is None


def test_a_model_is_tested_on_later_rows_for_their_own_epsilon() -> None:
    model = fitted("GaussianNB", SEEN, rows=2000, quality=False)
    found = model.tested(X[2000:], SEEN[2000:], epsilon=2.0, adjacency="replace-one")
    assert found.verdict is Worth.BETTER
    assert (found.epsilon, found.share) == (2.0, None)
    assert abs(found.people - 2000) < 50
    model = fitted("LinearRegression", X[:, 0], rows=2000, quality=False)
    assert model.tested(X[2000:], X[2000:, 0], epsilon=20.0, adjacency="add-remove-one").metric == "mse"


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_rows_without_a_label_or_a_target_are_tested_by_nothing(adjacency) -> None:
    labels = np.where(np.arange(len(X)) % 2, SEEN, 7)
    found = fitted("GaussianNB", labels, adjacency=adjacency, epsilon=4.0).quality_
    assert abs(found.people - 200) < 80
    assert found.value > 0.8
    targets = np.where(np.arange(len(X)) % 2, X[:, 0], np.nan)
    assert abs(fitted("LinearRegression", targets, adjacency=adjacency, epsilon=20.0).quality_.people - 200) < 80


def test_other_tools_split_rows_as_they_like() -> None:
    model = learning.GaussianNB(
        epsilon=4.0, adjacency="replace-one", bounds=BOX, classes=[0, 1], random_state=1, quality=True
    )
    assert cross_val_score(model, X, SEEN, cv=3).min() > 0.8


# --- the coin -----------------------------------------------------------------------------------------------


def test_more_is_set_aside_where_rows_are_few() -> None:
    assert share_of(10) == share_of(1000) == MOST
    assert share_of(2000) == ENOUGH / 2000
    assert share_of(10**6) == LEAST
    assert share_of(10, numbers=True) == LEAST
    sizes = (0, 1, 4, 1000, 5000)
    found = [int(places(n, share_of(n), seeded_for_simulation(1)).sum()) for n in sizes]
    assert found == [0, 0, 1, 300, 500]


def test_a_coin_of_a_row_is_its_own() -> None:
    share = tossed(100_000, seeded_for_simulation(1)).mean()
    assert 0.09 < share < 0.11


def test_a_coin_of_what_a_unit_holds_is_the_same_whenever_it_is_asked() -> None:
    held = [b"%d" % (i % 300) for i in range(20_000)]

    def heads(key, contents):
        coins = ContentCoins(key)
        return Counter(content for content in contents if coins.toss(content))

    found = heads("key", held)
    assert 0.08 < found.total() / len(held) < 0.12
    assert len(found) > 250  # equal units are not set aside together
    assert heads("key", held[::-1]) == found
    assert heads("another key", held) != found
    fewer = heads("key", held[:-1])
    assert 0 <= (found - fewer).total() <= 1
    assert not fewer - found


# --- models of people ---------------------------------------------------------------------------------------

TABLE = {"x0": X[:, 0], "x1": X[:, 1], "y": SEEN}
DOCUMENT = {
    "type": "integrated", "epsilon": 4.0, "featurizer": "SELECT x0, x1, y FROM p.t", "model": "GaussianNB",
    "inputs": ["x0", "x1"], "output": "y",
    "bounds": {
        "x0": {"type": "range", "low": -1, "high": 1}, "x1": {"type": "range", "low": -1, "high": 1},
        "y": {"type": "set", "values": [0, 1]},
    },
}  # fmt: skip


def test_a_model_of_people_carries_its_figure() -> None:
    release = thebes.simulate(DOCUMENT, TABLE, seed=1)
    assert release.quality.verdict is Worth.BETTER
    assert release.quality.of == "people that it was not made from"
    assert "better than guessing" in str(release)
    assert release.certificate.epsilon == 4.0
    assert "A coin set 10 % of the people aside" in release.certificate.text
    again = release_from_json(json.loads(json.dumps(release.as_json())))
    assert again.quality == release.quality


@pytest.mark.parametrize("more", [{"missing": "count"}, {"bounds": None}, {"epsilon": 0.01}])
def test_whatever_is_bought_beside_it_a_model_of_people_is_tested(more) -> None:
    found = thebes.simulate({**DOCUMENT, "epsilon": 8.0, **more}, TABLE, seed=1).quality
    assert found.verdict is (Worth.UNTOLD if more.get("epsilon") == 0.01 else Worth.BETTER)


def test_a_model_of_numbers_of_people_is_tested_beside_one_number() -> None:
    bounds = {**DOCUMENT["bounds"], "y": {"type": "range", "low": -1, "high": 1}}
    document = {**DOCUMENT, "model": "LinearRegression", "epsilon": 20.0, "delta": 1e-5, "bounds": bounds}
    assert thebes.simulate(document, {**TABLE, "y": X[:, 0]}, seed=1).quality.verdict is Worth.BETTER


def test_a_document_may_turn_the_test_off() -> None:
    release = thebes.simulate({**DOCUMENT, "quality": False}, TABLE, seed=1)
    assert release.quality is None
    assert NOT_CHECKED in str(release)
    assert "aside" not in release.certificate.text
    assert "worth" not in registry.kind("integrated").explain(registry.check({**DOCUMENT, "quality": False}))
    assert "what it is worth" in registry.kind("integrated").explain(registry.check(DOCUMENT))


def test_a_document_from_before_there_was_the_test_keeps_digest_and_meaning() -> None:
    written = {**DOCUMENT, "version": 1}
    for read in (registry.posted, registry.accepted_earlier):
        document = read(written)
        assert "quality" not in document.as_json()
        assert not document.quality
    assert registry.check(written).as_json()["quality"] is True
    assert registry.accepted_earlier(registry.check(written).as_json()).quality
    assert registry.check(registry.posted(written)).digest == registry.posted(written).digest


def test_a_model_that_says_no_number_is_tested_as_the_worst_one_and_tells_nothing_more():
    X, y = np.array([[0.5, 0.5], [-0.5, 0.1]] * 30), np.array([0.2, -0.1] * 30)
    bounds = {"*": (-1.0, 1.0), "y": (-1.0, 1.0)}
    model = learning.Ridge(
        epsilon=5.0, delta=1e-6, adjacency="add-remove-one", bounds=bounds, method="moments", random_state=1
    ).fit(X, y)
    model.weights_ = np.array([5e307, 5e307, 0.0])
    found = {
        model.tested(
            X[:rows], y[:rows], epsilon=0.5, adjacency="add-remove-one", randomness=seeded_for_simulation(7)
        ).interval.high
        for rows in (40, 41, 42, 43)
    }
    assert len(found) == 1  # by parity, before: what is no number was the smallest integer
    broken = model.to_json()
    broken["numbers"]["spread_"] = [0.5, 0.5, 0.0]
    with pytest.raises(Mistake, match="spread_"):
        learning.from_json(broken)
