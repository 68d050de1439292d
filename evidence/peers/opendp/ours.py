"""The same questions to a data set of one site, with everything that a site does: the document, the schema, the
certificate."""

from typing import Any


def counts(given: Any, epsilon: float) -> Any:
    import thebes

    schema = {"unit": "person", "columns": {"job": {"type": "string", "values": given.names.tolist()}}}
    question = {"type": "query", "dataset": "census", "statistic": "count", "by": "job", "epsilon": epsilon}
    release = thebes.simulate(question, {"office": {"job": given.given}}, schema=schema)
    return list(release.value.values())


def ages(given: Any, epsilon: float) -> Any:
    import thebes

    schema = {"unit": "person", "columns": {"age": {"type": "integer", "values": given.names.tolist()}}}
    question = {"type": "query", "dataset": "census", "statistic": "count", "by": "age", "epsilon": epsilon}
    release = thebes.simulate(question, {"office": {"age": given.given}}, schema=schema)
    return list(release.value.values())


def mean_age(given: Any, epsilon: float) -> Any:
    import thebes

    schema = {"unit": "person", "columns": {"age": {"type": "integer", "low": 17, "high": 90}}}
    question = {"type": "query", "dataset": "census", "statistic": "mean", "column": "age", "epsilon": epsilon}
    return thebes.simulate(question, {"office": {"age": given.given}}, schema=schema).value


def median_age(given: Any, epsilon: float) -> Any:
    import thebes

    schema = {"unit": "person", "columns": {"age": {"type": "integer", "low": 17, "high": 90}}}
    question = {"type": "query", "dataset": "census", "statistic": "quantile", "quantile": 0.5, "column": "age"}
    return thebes.simulate({**question, "epsilon": epsilon}, {"office": {"age": given.given}}, schema=schema).value


def counts_by_accuracy(given: Any, alpha: float, beta: float) -> Any:
    import thebes

    schema = {"unit": "person", "columns": {"job": {"type": "string", "values": given.names.tolist()}}}
    question = {"type": "query", "dataset": "census", "statistic": "count", "by": "job"}
    asked = {**question, "accuracy": {"alpha": alpha, "beta": beta}}
    release = thebes.simulate(asked, {"office": {"job": given.given}}, schema=schema)
    return release.certificate.epsilon
