"""Documents that people answer: statistics and models of trusted servers, and what is noised before it leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from thebes.privacy.faults import Mistake
from thebes.task.written import Bounds, Task, names_in, written

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
    return written(fields, epsilon, bounds, options)


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
    return written(fields, epsilon, bounds, options)


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
        "inputs": names_in("inputs", inputs),
        "output": output,
        "mechanism": mechanism,
    }
    if learning_rate is not None:
        fields["learning_rate"] = list(learning_rate) if isinstance(learning_rate, (list, tuple)) else learning_rate
    if crosses is not None:
        fields["crosses"] = crosses if isinstance(crosses, str) else [list(pair) for pair in crosses]
    return written(fields, epsilon, bounds, options)


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
        raise Mistake(
            "loss", "must be of the same kind as module: both torch modules, or both strings from thebes.torch.encode"
        )
    if not isinstance(module, str):
        from thebes.torch import encode

        module, loss = encode(module, loss, inputs=shape, targets=targets)  # type: ignore[arg-type]
    elif shape is not None or targets is not None:
        raise Mistake("shape", "and targets are only for encoding, and this module is encoded already; leave them out")
    fields = {
        "type": "gradient",
        "featurizer": featurizer,
        "inputs": names_in("inputs", inputs),
        "outputs": names_in("outputs", outputs),
        "model": module,
        "loss": loss,
        "clip": clip,
        "rounds": rounds,
        "rounds_per_owner": rounds_per_owner,
    }
    return written(fields, epsilon, bounds, options)


def _basic(aggregator: str, featurizer: str, epsilon: float, bounds: Bounds | None, options: Mapping[str, Any]) -> Task:
    fields = {"type": "basic", "featurizer": featurizer, "aggregator": aggregator}
    return written(fields, epsilon, bounds, {"server": "trusted", **options})


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
    return written({**fields, "inputs": names_in("inputs", inputs), "output": output}, epsilon, bounds, options)
