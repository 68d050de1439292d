"""The same learners of Thebes."""

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


def linear_regression(given: Any, epsilon: float) -> Any:
    from thebes.learning import LinearRegression

    bounds: dict[Any, Any] = {**dict(enumerate(zip(given.low, given.high, strict=True))), "y": tuple(given.target)}
    model = LinearRegression(epsilon=epsilon, delta=1e-5, adjacency="replace-one", bounds=bounds)
    return model.fit(given.rows, given.labels).predict(given.unseen)
