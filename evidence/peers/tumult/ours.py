"""The same questions as SQL: a schema, a budget, and a text for each."""

from typing import Any


def counts(given: Any, epsilon: float) -> Any:
    import thebes

    schema = {"unit": "person", "columns": {"job": {"type": "string", "values": given.names.tolist()}}}
    with thebes.open_data({"job": given.given}, schema, epsilon=epsilon, name="people") as people:
        answer = people.sql("SELECT job, COUNT(*) AS n FROM people GROUP BY job", epsilon)
    return [row["n"] for row in answer]


def found(given: Any, epsilon: float) -> Any:
    import thebes

    schema = {"unit": "person", "columns": {"job": {"type": "string"}}}
    jobs = {"job": given.given}
    with thebes.open_data(jobs, schema, epsilon=epsilon, delta=1e-6, name="people", filter="basic") as people:
        answer = people.sql("SELECT job, COUNT(*) AS n FROM people GROUP BY job", epsilon, 1e-6)
    said = {row["job"]: row["n"] for row in answer}
    return [said.get(name, 0) for name in given.names.tolist()]


def mean_age(given: Any, epsilon: float) -> Any:
    import thebes

    schema = {"unit": "person", "columns": {"age": {"type": "integer", "low": 17, "high": 90}}}
    with thebes.open_data({"age": given.given}, schema, epsilon=epsilon, name="people") as people:
        return people.sql("SELECT AVG(age) AS a FROM people", epsilon).rows[0]["a"]
