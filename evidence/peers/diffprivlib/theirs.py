"""diffprivlib, as its documentation has it: bounds and norms are given, so that nothing is taken from the rows."""

from typing import Any


def naive_bayes(given: Any, epsilon: float) -> Any:
    from diffprivlib.models import GaussianNB

    model = GaussianNB(epsilon=epsilon, bounds=(given.low, given.high))
    return model.fit(given.rows, given.labels).predict(given.unseen)


def wine_logistic(given: Any, epsilon: float) -> Any:
    from diffprivlib.models import LogisticRegression

    middle, half = (given.high + given.low) / 2, (given.high - given.low) / 2
    norm = 0.5 * len(half) ** 0.5
    model = LogisticRegression(epsilon=epsilon, data_norm=norm, C=0.1, max_iter=1000)
    return model.fit((given.rows - middle) / half, given.labels).predict((given.unseen - middle) / half)


def logistic_regression(given: Any, epsilon: float) -> Any:
    from diffprivlib.models import LogisticRegression

    middle, half = (given.high + given.low) / 2, (given.high - given.low) / 2
    norm = 0.7 * len(half) ** 0.5
    model = LogisticRegression(epsilon=epsilon, data_norm=norm, C=0.1, max_iter=1000)
    return model.fit((given.rows - middle) / half, given.labels).predict((given.unseen - middle) / half)


def census_logistic(given: Any, epsilon: float) -> Any:
    from diffprivlib.models import LogisticRegression

    middle, half = (given.high + given.low) / 2, (given.high - given.low) / 2
    norm = len(half) ** 0.5
    model = LogisticRegression(epsilon=epsilon, data_norm=norm, C=0.1, max_iter=1000)
    return model.fit((given.rows - middle) / half, given.labels).predict((given.unseen - middle) / half)


def forest(given: Any, epsilon: float) -> Any:
    from diffprivlib.models import RandomForestClassifier

    classes = sorted(set(given.labels))
    model = RandomForestClassifier(epsilon=epsilon, bounds=(given.low, given.high), classes=classes, shuffle=True)
    return model.fit(given.rows, given.labels).predict(given.unseen)
