"""The same learners of Thebes, each with its defaults."""

from typing import Any


def naive_bayes(given: Any, epsilon: float) -> Any:
    from thebes.learning import GaussianNB

    bounds = dict(enumerate(zip(given.low, given.high, strict=True)))
    model = GaussianNB(epsilon=epsilon, delta=1e-5, adjacency="replace-one", bounds=bounds, classes=given.classes)
    return model.fit(given.rows, given.labels).predict(given.unseen)


def logistic_regression(given: Any, epsilon: float) -> Any:
    from thebes.learning import LogisticRegression

    bounds = dict(enumerate(zip(given.low, given.high, strict=True)))
    model = LogisticRegression(
        epsilon=epsilon, delta=1e-5, adjacency="replace-one", bounds=bounds, classes=given.classes
    )
    return model.fit(given.rows, given.labels).predict(given.unseen)


def forest(given: Any, epsilon: float) -> Any:
    from thebes.learning import RandomForestClassifier

    bounds = dict(enumerate(zip(given.low, given.high, strict=True)))
    model = RandomForestClassifier(
        epsilon=epsilon, delta=1e-5, adjacency="replace-one", bounds=bounds, classes=given.classes
    )
    return model.fit(given.rows, given.labels).predict(given.unseen)
