"""Sample documents of questions to sites."""

from __future__ import annotations

from typing import Any

from thebes.tasks.samples import FEATURES, PATIENTS, SiteSample, of_hospitals

QUESTIONS: dict[str, dict[str, Any]] = {
    "count": {"where": "age >= 40 AND sex = 'female'"},
    "sum": {"column": "visits"},
    "mean": {"column": "age", "by": ["sex", "ill"]},
    "variance": {"column": "weight", "by": "sex"},
    "histogram": {"column": "age", "bins": [30, 45.5, 60]},
    "quantile": {"column": "age", "quantile": 0.25, "bins": 32},
    "correlation": {"columns": ["age", "weight"]},
}
OF_FEATURES: dict[str, dict[str, Any]] = {
    "sum": {"column": "burden"},
    "mean": {"column": "burden", "by": ["sex"]},
    "variance": {"column": "burden"},
    "histogram": {"column": "burden", "bins": 5},
    "quantile": {"column": "burden", "quantile": 0.5, "bins": 32},
    "correlation": {"columns": ["man", "burden"]},
}


SEVERAL: dict[str, dict[str, Any]] = {
    "patients": {"statistic": "count"},
    "people": {"statistic": "people", "weight": 2},
    "weighed": {"statistic": "count", "column": "weight"},
    "mean_age": {"statistic": "mean", "column": "age"},
    "years": {"statistic": "sum", "column": "age"},
    "spread": {"statistic": "variance", "column": "weight"},
    "old": {"statistic": "quantile", "column": "age", "quantile": 0.9, "bins": 32},
}


def samples() -> list[SiteSample]:
    """One of every statistic, with the noise at each site, once, and at two servers; of columns that are made of
    others; with a delta, by accuracy, and of public rows."""
    within: dict[str, Any] = {"accuracy": {"alpha": 200.0, "beta": 0.05}, "max_epsilon": 2.0}
    public: dict[str, Any] = {"privacy": "none", "epsilon": None}
    return [
        *(_sample(statistic, **fields) for statistic, fields in QUESTIONS.items()),
        *(_sample(statistic, **fields, noise="coordinator") for statistic, fields in QUESTIONS.items()),
        *(_sample(statistic, **QUESTIONS[statistic], noise="split") for statistic in ("count", "quantile")),
        *(_derived(statistic, **fields) for statistic, fields in OF_FEATURES.items()),
        *(_derived(statistic, **fields, noise="coordinator") for statistic, fields in OF_FEATURES.items()),
        _sample("count", by="sex", delta=0.1),
        _sample("quantile", column="weight", quantile=0.5, delta=1e-5, bins=64),
        _sample("quantile", column="age", quantile=0.5, bins=16, by="sex"),
        _sample("sum", column="visits", by="sex", **within),
        *(_several(**more) for more in ({}, {"by": ["sex", "ill"]}, {"by": "sex", "noise": "coordinator"})),
        _several(delta=0.1, where="age >= 40"),
        _found("count"),
        _found("mean", column="age", max_groups_per_person=1),
        _sample("mean", {"public": True}, column="age", **public),
        _sample("correlation", {"public": True}, columns=["age", "visits"], **public),
    ]


def _sample(statistic: str, schema: dict[str, Any] | None = None, **more: Any) -> SiteSample:
    name = "-".join(str(part) for part in ("query", statistic, *more.values()) if part is not None)
    return of_hospitals(name, {"type": "query", "statistic": statistic, **more}, **(schema or {}))


def _several(**more: Any) -> SiteSample:
    name = "-".join(["query-several", *map(str, more.values())])
    return of_hospitals(name, {"type": "query", "statistics": SEVERAL, **more})


def _found(statistic: str, **more: Any) -> SiteSample:
    """Groups that nobody declared."""
    columns = {**PATIENTS["columns"], "sex": {"type": "string"}}
    fields = {"by": ["sex", "ill"], "delta": 0.1, "max_groups_per_person": 2, **more}
    document = {"type": "query", "statistic": statistic, **fields}
    return of_hospitals(f"query-found-{statistic}", document, columns=columns)


def _derived(statistic: str, **more: Any) -> SiteSample:
    name = "-".join(["query-features", statistic, *([str(more["noise"])] if "noise" in more else [])])
    return of_hospitals(name, {"type": "query", "statistic": statistic, "features": FEATURES, **more})
