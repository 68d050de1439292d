"""Documents in one line: `thebes.task.median("SELECT age FROM profile.demographics", epsilon=1)`.

One function for each statistic, model and kind. Each returns a plain dictionary with every field explicit, checked
at once: what cannot work raises a `Mistake` that names the field. Nothing is sent and nothing is spent.

Every function takes `epsilon` (one contributor's total). Those that people answer take, besides their own arguments:

    bounds      {column: range_(low, high) or values(...)}; (low, high) is short for a range
    delta       0 (the default): pure mechanisms only; else at most this much
    min_count   how many must take part before anything is released (default 11)
    max_count   keeps the task open until that many, or until expires_at
    expires_at  a moment such as "2027-01-31T12:00:00+00:00"
    name, purpose, contact     what people read about the task
    diagnostics a share of epsilon for counting which featurizers failed
    group, anonymity  whose members may answer, and whether with tokens
    mixed       bounded, ensemble, gradient with tokens: {"epsilon": 1} is what whoever sees the answers may learn who
                cannot tell whose is whose; leave epsilon out, and the largest that keeps it is found
    missing     trusted kinds: "refuse" (default) or "count" (default of a sum or histogram without a default value)

Those that institutions answer (`query`, `train`, and `algorithm`, which makes one of these two) take what follows, a
`pipeline` its last two lines:

    sites       "all" (the default: every site that has the data set), one name, or several
    where       a condition in SQL that says which rows count
    features    new columns by name, made of declared ones by operations that are data
    noise       "site" (the default), or "coordinator": exact totals leave the sites, whose policy must allow that; but
                for a pipeline also "split": in shares to the coordinator and a `helper`, neither of which sees a total
    min_sites   how many must answer; patience  seconds that each may take for a phase
    delta, expires_at, name, purpose, contact     as above
"""

from __future__ import annotations

from thebes.task.institutions import algorithm, pipeline, query, train
from thebes.task.people import (
    bounded,
    count,
    draw_discard,
    ensemble,
    function,
    gaussian_nb,
    gradient,
    histogram,
    linear_regression,
    logistic_regression,
    mean,
    median,
    quantile,
    random_forest,
    sum,
    variance,
)
from thebes.task.written import range_, values

__all__ = [
    "algorithm",
    "bounded",
    "count",
    "draw_discard",
    "ensemble",
    "function",
    "gaussian_nb",
    "gradient",
    "histogram",
    "linear_regression",
    "logistic_regression",
    "mean",
    "median",
    "pipeline",
    "quantile",
    "query",
    "random_forest",
    "range_",
    "sum",
    "train",
    "values",
    "variance",
]
