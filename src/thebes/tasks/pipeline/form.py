"""The form of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from thebes.tasks.form import Form, FormState, Hint
from thebes.tasks.train.form import inputs, predicted

MODELS = {
    "LinearRegression": "LinearRegression: a number from the inputs",
    "LogisticRegression": "LogisticRegression: which of two values",
    "NeuralNetwork": "NeuralNetwork: either, with layers in between",
    "GroupMeans": "GroupMeans: the mean for each value of one input",
    "Histogram": "Histogram: the share of each value of one input",
}


def _of(*models: str) -> Callable[[FormState], bool]:
    return lambda composed: composed.get("model") in models


def _never(composed: FormState) -> bool:
    """One site answers, with its own noise, from whole blocks."""
    return False


_NETWORK = _of("NeuralNetwork")

_MEANINGS: Mapping[str, str] = {
    "epsilon": "the most that any block pays, over all attempts",
    "delta": "likewise",
    "dataset": "the data set that grows; stream is another spelling",
    "sites": "the one site that keeps it",
    "model": "LinearRegression, LogisticRegression, NeuralNetwork, GroupMeans, Histogram",
    "inputs": "columns with declared bounds or values",
    "output": "likewise; a histogram has none",
    "target": "what the model must reach: mse, mae, log_loss, accuracy, or absolute_error of a statistic",
    "confidence": "with which it is shown, over all attempts together",
    "strategy": "how attempts grow",
    "start_epsilon": "of the first attempt; an eighth of epsilon where it is left out",
    "least_blocks": "of the first attempt; 1 where it is left out",
    "window": "only blocks of this time, such as 30d; all where it is left out",
    "timeout": "after this time no further attempt is made; 7d where it is left out",
    "largest": "by metric: the largest loss that one row counts for, from the output's bounds where it is left out. "
    "The promise is about losses cut there",
    "bins": "by input: into how many bins its range is cut, or where",
    "layers": "units of each layer of a network; 32, 16 where they are left out",
    "steps": "of gradient descent; the model's own number where it is left out",
    "rate": "the share of rows in a step; 0.01 where it is left out",
    "clip": "L2 length to which one row's gradient is shortened; 1 where it is left out",
    "learning_rate": "of every step; 0.02 where it is left out",
}

FORM = Form(
    rank=13,
    one_site=True,
    fields={
        "model": Hint(first="LinearRegression", told=MODELS, choices=lambda form: MODELS, wide=True),
        "output": Hint(when=lambda form: form.get("model") != "Histogram").over(predicted("model")),
        "target": Hint(
            label="Must reach",
            help="one in each line: mse = 0.02 or mae of a number, in the units of the column; accuracy = 0.8 or "
            "log_loss of one of two values; absolute_error = 0.5 of means, 0.01 of shares",
            wide=True,
        ),
        "confidence": Hint(help="with which that is promised"),
        "strategy": Hint(
            label="How attempts grow",
            wide=True,
            told={
                "conserve": "conserve: little data and budget first, then twice as much, of all blocks if need be",
                "double": "double: little data and budget first, then twice the blocks, else twice the epsilon",
                "aggressive": "aggressive: at once all that it may have",
            },
        ),
        "start_epsilon": Hint(label="Epsilon of the first attempt", help="an eighth of all of it if empty"),
        "least_blocks": Hint(label="Blocks of the first attempt", help="1 if empty"),
        "window": Hint(label="Only the last", help="such as 30d; everything if empty"),
        "timeout": Hint(label="Give up after", help="such as 2h; 7d if empty"),
        "layers": Hint(label="Units of each layer", help="32, 16 if empty", when=_NETWORK),
        "steps": Hint(help="the usual number if empty", when=_of("NeuralNetwork", "LogisticRegression")),
        "rate": Hint(label="Share of rows in a step", help="0.01 if empty", when=_NETWORK),
        "clip": Hint(help="the longest gradient of one row; 1 if empty", when=_NETWORK),
        "learning_rate": Hint(help="0.02 if empty", when=_NETWORK),
        "largest": Hint(
            label="Largest loss of one row",
            help="such as mse = 0.5; as much as the range allows if empty",
            wide=True,
            when=lambda form: form.get("model") not in ("GroupMeans", "Histogram"),
        ),
        "inputs": inputs("output"),
        "bins": Hint(
            help="how an input's range is cut: hour = 24 into so many, km = 1, 5, 20 at these places; one in each line",
            place="data",
            wide=True,
        ),
        "epsilon": Hint(help="the most that any block pays, over all attempts"),
        "patience": Hint(label="Seconds the site may take", help="3600 if empty; then the task ends without it"),
        "noise": Hint(when=_never),
        "min_sites": Hint(when=_never),
    },
    meanings=_MEANINGS,
)
