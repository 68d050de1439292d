"""Plain scikit-learn. Epsilon is given and means nothing."""

from typing import Any


def naive_bayes(given: Any, epsilon: float) -> Any:
    from sklearn.naive_bayes import GaussianNB

    model = GaussianNB()
    return model.fit(given.rows, given.labels).predict(given.unseen)


def logistic_regression(given: Any, epsilon: float) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return model.fit(given.rows, given.labels).predict(given.unseen)


def linear_regression(given: Any, epsilon: float) -> Any:
    from sklearn.linear_model import LinearRegression

    model = LinearRegression()
    return model.fit(given.rows, given.labels).predict(given.unseen)
