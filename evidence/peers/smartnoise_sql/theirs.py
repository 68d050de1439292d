"""SmartNoise SQL over a data frame: metadata, a reader with a price, and the text."""

from typing import Any


def counts(given: Any, epsilon: float) -> Any:
    import pandas as pd
    import snsql

    metadata = {"": {"census": {"people": {"row_privacy": True, "job": {"type": "string"}}}}}
    reader = snsql.from_df(
        pd.DataFrame({"job": given.given}), privacy=snsql.Privacy(epsilon=epsilon, delta=1e-6), metadata=metadata
    )
    said = dict(reader.execute("SELECT job, COUNT(*) AS n FROM census.people GROUP BY job")[1:])
    return [said.get(name, 0) for name in given.names.tolist()]


def mean_age(given: Any, epsilon: float) -> Any:
    import pandas as pd
    import snsql

    columns = {"age": {"type": "int", "lower": 17, "upper": 90}}
    reader = snsql.from_df(
        pd.DataFrame({"age": given.given}),
        privacy=snsql.Privacy(epsilon=epsilon, delta=1e-6),
        metadata={"": {"census": {"people": {"row_privacy": True, **columns}}}},
    )
    return reader.execute("SELECT AVG(age) AS a FROM census.people")[1][0]
