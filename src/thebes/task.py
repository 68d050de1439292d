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
    noise       "site" (the default), or "coordinator": exact totals leave the sites, whose policy must allow that
    min_sites   how many must answer; patience  seconds that each may take for a phase
    delta, expires_at, name, purpose, contact     as above
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from thebes.privacy.faults import Mistake

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

Bound = Mapping[str, Any] | tuple[float, float]
Bounds = Mapping[str, Bound]
Sites = str | Sequence[str]
Task = dict[str, Any]

# --- bounds -----------------------------------------------------------------------------------------------


def range_(low: float, high: float, default: float | None = None) -> dict[str, Any]:
    """Numbers from `low` to `high`; a value outside counts as the nearer end, `default` replaces a missing one.

    Example: bounds={"age": range_(0, 120)}
    """
    return {"type": "range", "low": low, "high": high} | ({} if default is None else {"default": default})


def values(*allowed: bool | int | float | str, default: bool | int | float | str | None = None) -> dict[str, Any]:
    """One of the `allowed` values; anything else counts as missing, and `default` replaces a missing one.

    Example: bounds={"species": values("cat", "dog", default="dog")}
    """
    return {"type": "set", "values": list(allowed)} | ({} if default is None else {"default": default})


# --- statistics: one value from each person, a trusted server ----------------------------------------------


def count(featurizer: str, *, epsilon: float, bounds: Bounds | None = None, **options: Any) -> Task:
    """Count the people who have a value, among all who take part (so `missing` is "count").

    Example: count("SELECT steps FROM phone.day", epsilon=0.1)
    """
    return _basic("count", featurizer, epsilon, bounds, {"missing": "count", **options})


def sum(featurizer: str, *, epsilon: float, bounds: Bounds | None = None, **options: Any) -> Task:
    """The sum of everybody's value; who has none is counted too (so `missing` is "count"), or has a `default`.

    Example: sum("SELECT steps FROM phone.day", epsilon=0.5, bounds={"steps": (0, 30_000)})
    """
    return _basic("sum", featurizer, epsilon, bounds, options)


def mean(featurizer: str, *, epsilon: float, bounds: Bounds | None = None, **options: Any) -> Task:
    """The average. Without bounds, part of epsilon is spent on finding them.

    Example: mean("SELECT age FROM profile.demographics", epsilon=0.5, bounds={"age": (0, 120)})
    """
    return _basic("mean", featurizer, epsilon, bounds, options)


def median(featurizer: str, *, epsilon: float, bounds: Bounds | None = None, **options: Any) -> Task:
    """The middle value. Without bounds, part of epsilon is spent on finding them.

    Example: median("SELECT age FROM profile.demographics", epsilon=1, min_count=100)
    """
    return _basic("median", featurizer, epsilon, bounds, options)


def variance(featurizer: str, *, epsilon: float, bounds: Bounds | None = None, **options: Any) -> Task:
    """The variance.

    Example: variance("SELECT age FROM profile.demographics", epsilon=1, bounds={"age": (0, 120)})
    """
    return _basic("variance", featurizer, epsilon, bounds, options)


def quantile(featurizer: str, q: float, *, epsilon: float, bounds: Bounds | None = None, **options: Any) -> Task:
    """The value below which a share `q` (between 0 and 1) of the people lies.

    Example: quantile("SELECT age FROM profile.demographics", 0.9, epsilon=1, bounds={"age": (0, 120)})
    """
    return _basic("quantile", featurizer, epsilon, bounds, {**options, "quantile": q})


def histogram(
    featurizer: str, *, epsilon: float, bounds: Bounds | None = None, bins: int | None = None, **options: Any
) -> Task:
    """Count the people who have each value: of declared values, in `bins` equal pieces of a range, or, with a delta, of
    the values that turn out to be common.

    Example: histogram("SELECT species FROM profile.pets", epsilon=1, bounds={"species": values("cat", "dog")})
    """
    return _basic("histogram", featurizer, epsilon, bounds, {**options, "bins": bins})


def function(
    name: str,
    featurizer: str,
    *,
    epsilon: float,
    bounds: Bounds | None = None,
    subsets: int | None = None,
    **options: Any,
) -> Task:
    """A named function: std and iqr of everybody; or of many disjoint groups of people, brought together privately,
    trimmed_mean, mad, skewness, kurtosis, and of two columns correlation, rank_correlation, slope. With `subsets` std
    and iqr are computed in groups, too, which errs more.

    Example: function("iqr", "SELECT age FROM profile.demographics", epsilon=1, bounds={"age": (0, 120)})
    """
    return _basic(name, featurizer, epsilon, bounds, {**options, "subsets": subsets})


# --- models: a row from each person, a trusted server --------------------------------------------------------


def gaussian_nb(
    featurizer: str, *, inputs: Sequence[str], output: str, epsilon: float, bounds: Bounds | None = None, **options: Any
) -> Task:
    """A Gaussian naive Bayes classifier of `output` from `inputs`.

    Example: gaussian_nb("SELECT x0, y FROM profile.example", inputs=["x0"], output="y", epsilon=4,
        bounds={"x0": (-4, 4), "y": values(0, 1)})
    """
    return _integrated("GaussianNB", featurizer, inputs, output, epsilon, bounds, options)


def linear_regression(
    featurizer: str, *, inputs: Sequence[str], output: str, epsilon: float, bounds: Bounds | None = None, **options: Any
) -> Task:
    """A linear regression of the number `output` from `inputs`. Needs a delta.

    Example: linear_regression("SELECT x0, x1 FROM profile.example", inputs=["x0"], output="x1", epsilon=2,
        delta=1e-6, bounds={"x0": (-4, 4), "x1": (-4, 4)})
    """
    return _integrated("LinearRegression", featurizer, inputs, output, epsilon, bounds, options)


def logistic_regression(
    featurizer: str, *, inputs: Sequence[str], output: str, epsilon: float, bounds: Bounds | None = None, **options: Any
) -> Task:
    """A logistic regression of the label `output` from `inputs`. Needs a delta.

    Example: logistic_regression("SELECT x0, y FROM profile.example", inputs=["x0"], output="y", epsilon=2,
        delta=1e-6, bounds={"x0": (-4, 4), "y": values(0, 1)})
    """
    return _integrated("LogisticRegression", featurizer, inputs, output, epsilon, bounds, options)


def random_forest(
    featurizer: str, *, inputs: Sequence[str], output: str, epsilon: float, bounds: Bounds | None = None, **options: Any
) -> Task:
    """A forest of random trees that classify `output` from `inputs`, or predict it where its bounds are a range.

    Example: random_forest("SELECT x0, y FROM profile.example", inputs=["x0"], output="y", epsilon=4,
        bounds={"x0": (-4, 4), "y": values(0, 1)})
    """
    bound = (bounds or {}).get(output)
    numbers = isinstance(bound, tuple) or (isinstance(bound, Mapping) and bound.get("type") == "range")
    model = "RandomForestRegressor" if numbers else "RandomForestClassifier"
    return _integrated(model, featurizer, inputs, output, epsilon, bounds, options)


# --- without trust in the server: noise is added before anything leaves ----------------------------------------


def bounded(featurizer: str, *, epsilon: float | None = None, bounds: Bounds, **options: Any) -> Task:
    """One perturbed row from each person. Options besides: mechanism, "split" (each column by itself), "privunit" (the
    whole row as one report) or "privunit-short" (that with long rows shortened, for fits only); left out, whichever of
    the first two fits a model better.

    Example: bounded("SELECT species, age FROM profile.pets", epsilon=2, min_count=1000,
        bounds={"species": values("cat", "dog", default="dog"), "age": range_(0, 30, default=5)})
    """
    fields = {"type": "bounded", "server": "untrusted", "featurizer": featurizer}
    return _written(fields, epsilon, bounds, options)


def ensemble(
    featurizer: str,
    *,
    label: str,
    epsilon: float | None = None,
    bounds: Bounds,
    method: str = "auto",
    bins: str | int | Mapping[str, Sequence[float]] = "median",
    **options: Any,
) -> Task:
    """A classifier of `label` from packets that each hold a few features, changed at random by their owners.

    `method`: "vote" (AnonML's ensemble), "odds" (log-odds that add up), or "auto": "odds", but "vote" where
    partitions, subset_size, subsets, feature_subsets, scoring_share, votes, classifier, score or training is given.
    Options besides: groups, perturbation, binning_share, binning_steps, scouting_share.

    Example: ensemble("SELECT age, sex, income FROM census.person", label="income", epsilon=2, min_count=1000,
        bounds={"age": range_(17, 90, default=40), "sex": values("Female", "Male", default="Male"),
                "income": values("<=50K", ">50K", default="<=50K")})
    """
    fields = {
        "type": "ensemble",
        "server": "untrusted",
        "featurizer": featurizer,
        "label": label,
        "method": method,
        "bins": bins,
    }
    return _written(fields, epsilon, bounds, options)


def draw_discard(
    featurizer: str,
    *,
    inputs: Sequence[str],
    output: str,
    bounds: Bounds,
    epsilon: float | None = None,
    family: str = "logistic",
    crosses: str | Sequence[Sequence[str]] | None = None,
    mechanism: str = "privunit",
    learning_rate: float | Sequence[float] | None = None,
    **options: Any,
) -> Task:
    """A model of `output` that is trained without end, by one owner after another: "linear", "logistic", "poisson" or
    "multinomial" `family`, with products of inputs as further features where `crosses` says so.

    With mechanism "laplace" give `epsilon_per_weight` instead of epsilon. Without a `learning_rate` a falling one that
    suits the noise is taken. Options besides: instances, decay, keep, reduce, clip, max_participations, start,
    outliers, false_positives, stale_after, average, target.

    Example: draw_discard("SELECT age, sex, income FROM census.person", inputs=["age", "sex"], output="income",
        epsilon=8, crosses="pairwise", min_count=1000, learning_rate=0.01,
        bounds={"age": range_(17, 90), "sex": values("Female", "Male"), "income": values("<=50K", ">50K")})
    """
    fields: dict[str, Any] = {
        "type": "draw-discard",
        "server": "untrusted",
        "featurizer": featurizer,
        "family": family,
        "inputs": _names("inputs", inputs),
        "output": output,
        "mechanism": mechanism,
    }
    if learning_rate is not None:
        fields["learning_rate"] = list(learning_rate) if isinstance(learning_rate, (list, tuple)) else learning_rate
    if crosses is not None:
        fields["crosses"] = crosses if isinstance(crosses, str) else [list(pair) for pair in crosses]
    return _written(fields, epsilon, bounds, options)


def gradient(
    module: Any,
    loss: Any,
    featurizer: str,
    *,
    inputs: Sequence[str],
    outputs: Sequence[str],
    epsilon: float | None = None,
    clip: float = 1.0,
    rounds: int = 1,
    rounds_per_owner: int = 1,
    shape: int | Sequence[int] | None = None,
    targets: str | None = None,
    bounds: Bounds | None = None,
    **options: Any,
) -> Task:
    """Train a torch `module` to make `loss` small, from perturbed gradients of at most length `clip`.

    `module` and `loss` may also be the two strings that `thebes.torch.encode` gives. `shape` and `targets` are told
    to `encode` (there `inputs` and `targets`). Options besides: learning_rate, momentum, average, mechanism, backbone,
    server.

    Example: gradient(torch.nn.Linear(2, 1), torch.nn.MSELoss(), "SELECT x0, x1, y FROM profile.example",
        inputs=["x0", "x1"], outputs=["y"], epsilon=8, delta=1e-5, rounds=10, min_count=1000)
    """
    if isinstance(module, str) != isinstance(loss, str):
        raise Mistake("loss", "and module are either both torch modules or both strings from thebes.torch.encode")
    if not isinstance(module, str):
        from thebes.torch import encode

        module, loss = encode(module, loss, inputs=shape, targets=targets)  # type: ignore[arg-type]
    elif shape is not None or targets is not None:
        raise Mistake("shape", "and targets belong to encoding, and this module is encoded already")
    fields = {
        "type": "gradient",
        "featurizer": featurizer,
        "inputs": _names("inputs", inputs),
        "outputs": _names("outputs", outputs),
        "model": module,
        "loss": loss,
        "clip": clip,
        "rounds": rounds,
        "rounds_per_owner": rounds_per_owner,
    }
    return _written(fields, epsilon, bounds, options)


# --- institutions: over rows that sites keep ----------------------------------------------------------------------


def query(
    dataset: str,
    statistic: str | Mapping[str, Mapping[str, Any]],
    *,
    epsilon: float | None = None,
    accuracy: tuple[float, float] | Mapping[str, float] | None = None,
    max_epsilon: float | None = None,
    column: str | None = None,
    columns: Sequence[str] | None = None,
    by: str | Sequence[str] | None = None,
    sites: Sites = "all",
    **options: Any,
) -> Task:
    """One `statistic` over the rows of sites: count, sum, mean, variance, histogram, quantile, or of two `columns`
    their correlation; `by` gives one for each value of up to four columns. Options besides: bins, quantile, privacy.

    Of a count, histogram or sum `accuracy` (alpha, beta) may be said instead of epsilon: all of the answer lies within
    alpha of the exact one, but for the odds beta. What that costs the sites are asked first; at most `max_epsilon`.

    Several statistics of the same rows and groups, each by its name, share one epsilon and one noise:
    query("patients", {"n": {"statistic": "count"}, "age": {"statistic": "mean", "column": "age"}}, epsilon=1).

    Example: query("patients", "mean", column="age", where="sex = 'female'", by="ward", epsilon=0.5)
    """
    asked = {"statistic": statistic} if isinstance(statistic, str) else {"statistics": dict(statistic)}
    fields = {"type": "query", "dataset": dataset, **asked, "sites": _sites(sites)}
    told: dict[str, Any] = {"column": column, "columns": columns and _names("columns", columns), "by": by}
    told |= {"accuracy": accuracy, "max_epsilon": max_epsilon}
    return _written(fields, epsilon, None, {**told, **options})


def train(
    dataset: str,
    *,
    inputs: Sequence[str],
    output: str,
    epsilon: float,
    delta: float,
    model: Any = "LogisticRegression",
    loss: Any = None,
    shape: int | Sequence[int] | None = None,
    targets: str | None = None,
    rounds: int = 20,
    sites: Sites = "all",
    **options: Any,
) -> Task:
    """A model of `output` over the rows of all sites together: "LogisticRegression", "LinearRegression", or a torch
    module with its `loss`.

    A network and its loss may also be the two strings that `thebes.torch.encode` gives; `shape` and `targets` are told
    to it. Options besides: local_steps, learning_rate, momentum, clip, reduce, batch, average, tolerance, size_share,
    loss_share, loss_bound.

    Example: train("patients", inputs=["age", "bmi"], output="diabetes", rounds=30, learning_rate=3.0, epsilon=2,
        delta=1e-6)
    """
    model, loss = _network(model, loss, shape, targets)
    fields = {
        "type": "train",
        "dataset": dataset,
        "model": model,
        "inputs": _names("inputs", inputs),
        "output": output,
        "rounds": rounds,
        "sites": _sites(sites),
    }
    return _written(fields, epsilon, None, {"loss": loss, "delta": delta, **options})


def algorithm(
    dataset: str,
    *,
    map: Mapping[str, Any],
    reduce: str,
    epsilon: float,
    update: Mapping[str, Any] | None = None,
    stop: Mapping[str, Any] | None = None,
    features: Mapping[str, Any] | None = None,
    sites: Sites = "all",
    **options: Any,
) -> Task:
    """Blocks instead of a program: what each site makes of its rows (`map`: a gradient or a statistic), what becomes
    of everybody's (`reduce`: sum, mean, histogram), and of gradients how their mean moves the model (`update`) and
    when it is enough (`stop`). `features` makes new columns of declared ones, by operations that are data.

    Example: algorithm("clinics", features={"bmi": {"clamp": [{"divide": ["kilos", {"square": "height"}]}, 12, 45]}},
        map={"gradient": {"model": "LogisticRegression", "inputs": ["bmi"], "output": "ill"}}, reduce="mean",
        update={"rule": "newton"}, stop={"rounds": 6}, epsilon=2, delta=1e-6)
    """
    fields = {"type": "algorithm", "dataset": dataset, "map": map, "reduce": reduce, "sites": _sites(sites)}
    return _written(fields, epsilon, None, {"update": update, "stop": stop, "features": features, **options})


def pipeline(
    stream: str,
    *,
    model: str,
    inputs: Sequence[str],
    target: Mapping[str, float],
    epsilon: float,
    output: str | None = None,
    site: str = "local",
    **options: Any,
) -> Task:
    """A ready `model` (LinearRegression, LogisticRegression, NeuralNetwork, GroupMeans, Histogram) that is trained on a
    growing data set of one `site` until it is shown to reach every `target`; epsilon is the most that any block pays.

    `sites` is written here as `site`: one keeps the stream. Options besides: confidence, strategy, start_epsilon,
    least_blocks, window, timeout, bins, largest, and of a network layers, steps, rate, clip, learning_rate.

    Example: pipeline("taxi", model="LinearRegression", inputs=["distance"], output="duration",
        target={"mse": 0.005}, epsilon=1, delta=1e-6, window="30d")
    """
    if not isinstance(site, str):
        raise Mistake("site", "must be the name of the one site that keeps the stream")
    fields = {"type": "pipeline", "dataset": stream, "model": model, "inputs": _names("inputs", inputs)}
    told = {"output": output, "target": target, **options}
    return _written({**fields, "sites": [site]}, epsilon, None, told)


def _sites(sites: Sites) -> str | list[str]:
    if isinstance(sites, str):
        return sites if sites == "all" else [sites]
    return _names("sites", sites)


def _network(model: Any, loss: Any, shape: int | Sequence[int] | None, targets: str | None) -> tuple[str, str | None]:
    """A model as documents have it: the names of families and what is encoded already stay as they are."""
    if isinstance(model, str):
        if loss is not None and not isinstance(loss, str):
            raise Mistake("loss", "and model are either both torch modules or both strings from thebes.torch.encode")
        if shape is not None or targets is not None:
            raise Mistake("shape", "and targets belong to encoding, and this model is no torch module")
        return model, loss
    if loss is None or isinstance(loss, str):
        raise Mistake("loss", "of a torch module must be a torch module or function, too")
    from thebes.torch import encode

    return encode(model, loss, inputs=shape, targets=targets)  # type: ignore[arg-type]


def _basic(aggregator: str, featurizer: str, epsilon: float, bounds: Bounds | None, options: Mapping[str, Any]) -> Task:
    fields = {"type": "basic", "featurizer": featurizer, "aggregator": aggregator}
    return _written(fields, epsilon, bounds, {"server": "trusted", **options})


def _integrated(
    model: str,
    featurizer: str,
    inputs: Sequence[str],
    output: str,
    epsilon: float,
    bounds: Bounds | None,
    options: Mapping[str, Any],
) -> Task:
    fields = {"type": "integrated", "server": "trusted", "featurizer": featurizer, "model": model}
    return _written({**fields, "inputs": _names("inputs", inputs), "output": output}, epsilon, bounds, options)


def _written(
    fields: Mapping[str, Any], epsilon: float | None, bounds: Bounds | None, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Everything given, checked, with every default spelled out."""
    from thebes.tasks import registry

    for name in options:
        if name in fields:
            raise Mistake(name, "is what this function stands for and cannot be given")
    told = {"epsilon": epsilon, **options}
    given = {**fields, **{name: value for name, value in told.items() if value is not None}}
    if bounds is not None:
        given["bounds"] = _bounds(bounds)
    return registry.check(given).as_json()


def _bounds(bounds: Bounds) -> dict[str, Any]:
    if not isinstance(bounds, Mapping) or not all(isinstance(bound, (Mapping, tuple)) for bound in bounds.values()):
        raise Mistake("bounds", 'must say what each column may hold, for example {"age": range_(0, 120)}')
    return {column: dict(b) if isinstance(b, Mapping) else _range(column, b) for column, b in bounds.items()}


def _range(column: object, ends: tuple[Any, ...]) -> dict[str, Any]:
    if len(ends) != 2:
        raise Mistake(f"bounds.{column}"[:80], "must be (low, high), or range_(...), or values(...)")
    return range_(*ends)


def _names(argument: str, columns: Sequence[str]) -> list[str]:
    if isinstance(columns, str):
        raise Mistake(argument, f'must be a list of column names, such as ["{columns[:40]}"]')
    return list(columns)
