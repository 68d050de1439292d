"""Tumult Analytics over a data frame of Spark: a session with a budget, and queries that are built."""

from typing import Any


def counts(given: Any, epsilon: float) -> Any:
    import pandas as pd
    from pyspark.sql import SparkSession
    from tmlt.analytics import AddOneRow, KeySet, PureDPBudget, QueryBuilder, Session

    rows = SparkSession.builder.getOrCreate().createDataFrame(pd.DataFrame({"job": given.given}))
    session = Session.from_dataframe(PureDPBudget(epsilon), "people", rows, protected_change=AddOneRow())
    jobs = KeySet.from_dict({"job": given.names.tolist()})
    answer = session.evaluate(QueryBuilder("people").groupby(jobs).count(name="n"), PureDPBudget(epsilon))
    said = {row["job"]: row["n"] for row in answer.collect()}
    return [said[name] for name in given.names.tolist()]


def found(given: Any, epsilon: float) -> Any:
    import pandas as pd
    from pyspark.sql import SparkSession
    from tmlt.analytics import AddOneRow, ApproxDPBudget, KeySet, QueryBuilder, Session

    rows = SparkSession.builder.getOrCreate().createDataFrame(pd.DataFrame({"job": given.given}))
    session = Session.from_dataframe(ApproxDPBudget(epsilon, 1e-6), "people", rows, protected_change=AddOneRow())
    jobs = session.evaluate(QueryBuilder("people").get_groups(["job"]), ApproxDPBudget(epsilon / 2, 1e-6))
    query = QueryBuilder("people").groupby(KeySet.from_dataframe(jobs)).count(name="n")
    answer = session.evaluate(query, ApproxDPBudget(epsilon / 2, 0))
    said = {row["job"]: row["n"] for row in answer.collect()}
    return [said.get(name, 0) for name in given.names.tolist()]


def mean_age(given: Any, epsilon: float) -> Any:
    import pandas as pd
    from pyspark.sql import SparkSession
    from tmlt.analytics import AddOneRow, PureDPBudget, QueryBuilder, Session

    rows = SparkSession.builder.getOrCreate().createDataFrame(pd.DataFrame({"age": given.given}))
    session = Session.from_dataframe(PureDPBudget(epsilon), "people", rows, protected_change=AddOneRow())
    query = QueryBuilder("people").average("age", low=17, high=90, name="a")
    return session.evaluate(query, PureDPBudget(epsilon)).collect()[0]["a"]
