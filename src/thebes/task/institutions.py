"""Documents that institutions answer, over rows that they keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from thebes.privacy.faults import Mistake
from thebes.task.written import Sites, Task, names_in, written


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
    told: dict[str, Any] = {"column": column, "columns": columns and names_in("columns", columns), "by": by}
    told |= {"accuracy": accuracy, "max_epsilon": max_epsilon}
    return written(fields, epsilon, None, {**told, **options})


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
        "inputs": names_in("inputs", inputs),
        "output": output,
        "rounds": rounds,
        "sites": _sites(sites),
    }
    return written(fields, epsilon, None, {"loss": loss, "delta": delta, **options})


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
    return written(fields, epsilon, None, {"update": update, "stop": stop, "features": features, **options})


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
    fields = {"type": "pipeline", "dataset": stream, "model": model, "inputs": names_in("inputs", inputs)}
    told = {"output": output, "target": target, **options}
    return written({**fields, "sites": [site]}, epsilon, None, told)


def _sites(sites: Sites) -> str | list[str]:
    if isinstance(sites, str):
        return sites if sites == "all" else [sites]
    return names_in("sites", sites)


def _network(model: Any, loss: Any, shape: int | Sequence[int] | None, targets: str | None) -> tuple[str, str | None]:
    """A model as documents have it: the names of families and what is encoded already stay as they are."""
    if isinstance(model, str):
        if loss is not None and not isinstance(loss, str):
            raise Mistake(
                "loss",
                "must be of the same kind as model: both torch modules, or both strings from thebes.torch.encode",
            )
        if shape is not None or targets is not None:
            raise Mistake("shape", "and targets are only for encoding a torch module; leave them out")
        return model, loss
    if loss is None or isinstance(loss, str):
        raise Mistake("loss", "must be a torch module or a function, as model is a torch module")
    from thebes.torch import encode

    return encode(model, loss, inputs=shape, targets=targets)  # type: ignore[arg-type]
