"""A pipeline that is being composed: the form's fields, and where each stands in the document.

What must stay true: what a line says is what the document holds; what the form has no place for stays JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from thebes.tasks.document import InvalidDocument
from thebes.web.coordinator.forms.bound import number, typed

MODELS = {
    "LinearRegression": "LinearRegression: a number from the inputs",
    "LogisticRegression": "LogisticRegression: which of two values",
    "NeuralNetwork": "NeuralNetwork: either, with layers in between",
    "GroupMeans": "GroupMeans: the mean for each value of one input",
    "Histogram": "Histogram: the share of each value of one input",
}


@dataclass(frozen=True, slots=True)
class Reached:
    """A demand that may be made of a model, and how it is written."""

    example: str
    told: str


REACHED = {
    "LinearRegression": Reached("mse = 0.02", "or mae; in the units of the column, mse in their squares"),
    "LogisticRegression": Reached("accuracy = 0.8", "or log_loss"),
    "NeuralNetwork": Reached("mse = 0.02", "or mae of a number; accuracy or log_loss of one of two values"),
    "GroupMeans": Reached("absolute_error = 0.5", "in the units of the column"),
    "Histogram": Reached("absolute_error = 0.01", "as a share of all rows"),
}
STRATEGIES = {
    "conserve": "conserve: little data and budget first, then double",
    "aggressive": "aggressive: at once all that it may have",
}
FIELDS = (
    "model", "output", "target", "confidence", "strategy", "start_epsilon", "least_blocks", "window", "timeout", "bins",
    "largest", "layers", "steps", "rate", "clip", "learning_rate",
)  # fmt: skip
WORDS = frozenset(["model", "output", "target", "strategy", "window", "timeout", "bins", "largest", "layers"])
#: fields of documents for sites that mean nothing where one site answers, with its own noise, from whole blocks
_ELSEWHERE = frozenset(["where", "noise", "min_sites"])
_NETWORK = frozenset(["layers", "rate", "clip", "learning_rate"])
_STATISTICS = ("GroupMeans", "Histogram")


def idle(name: str, model: str) -> bool:
    """Return whether a field means nothing for this model."""
    if name in _ELSEWHERE:
        return True
    if model == "NeuralNetwork":
        return False
    if name in _NETWORK or (name == "steps" and model != "LogisticRegression"):
        return True
    return (name == "output" and model == "Histogram") or (name == "largest" and model in _STATISTICS)


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """A document of these fields; InvalidDocument where a line cannot be read."""
    made = dict(flat)
    for name, read in _LINES.items():
        if name in made:
            made[name] = read(str(made[name]))
    return made


def flat(document: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that mean a document. What no line can say stays as it is."""
    made = dict(document)
    if "stream" in made:
        made.setdefault("dataset", made.pop("stream"))
    for name, read in _LINES.items():
        line = _said(made[name]) if name in made else ""
        if line and _reads_back(read, line, made[name]):
            made[name] = line
    return made


def troubles(name: str, written: str) -> list[tuple[str, str]]:
    """List what keeps a line from being read."""
    try:
        nested({name: written})
    except InvalidDocument as refused:
        return list(refused.problems)
    return []


# --- lines ------------------------------------------------------------------------------------------------------


def _numbers(field: str, example: str) -> Callable[[str], dict[str, Any]]:
    """Reads a line for each name, with one number."""

    def read(text: str) -> dict[str, Any]:
        found = {name: number(value) for name, value in _pairs(field, example, text)}
        if None in found.values():
            raise InvalidDocument([(field, f"must be lines such as {example}")])
        return found

    return read


def _cuts(text: str) -> dict[str, Any]:
    """Into how many bins, or where to cut."""
    example = "hour = 24, or km = 1, 5, 20"
    found: dict[str, Any] = {}
    for name, written in _pairs("bins", example, text):
        cuts = [number(part.strip()) for part in written.split(",")]
        if None in cuts:
            raise InvalidDocument([("bins", f"must be lines such as {example}")])
        found[name] = cuts if len(cuts) > 1 else cuts[0]
    return found


def _layers(text: str) -> list[Any]:
    found = [number(part.strip()) for part in text.split(",")]
    if not all(isinstance(units, int) for units in found):
        raise InvalidDocument([("layers", "must be whole numbers with commas between them, such as 32, 16")])
    return found


def _pairs(field: str, example: str, text: str) -> list[tuple[str, str]]:
    found = [line.partition("=") for line in text.splitlines() if line.strip()]
    pairs = [(name.strip(), value.strip()) for name, equal, value in found if equal and name.strip()]
    if len(pairs) != len(found):
        raise InvalidDocument([(field, f"must be lines such as {example}")])
    if len({name for name, _ in pairs}) != len(pairs):
        raise InvalidDocument([(field, "says something twice")])
    return pairs


def _said(value: Any) -> str:
    """A part of a document as lines, or nothing where there are none for it."""
    if isinstance(value, Mapping):
        return "\n".join(f"{name} = {_listed(told)}" for name, told in value.items())
    return _listed(value)


def _listed(value: Any) -> str:
    parts = value if isinstance(value, (list, tuple)) else [value]
    return ", ".join(typed(part) for part in parts if isinstance(part, (int, float)))


def _reads_back(read: Callable[[str], Any], line: str, value: Any) -> bool:
    try:
        return bool(json.dumps(read(line), sort_keys=True) == json.dumps(value, sort_keys=True))
    except InvalidDocument:
        return False


_LINES: dict[str, Callable[[str], Any]] = {
    "target": _numbers("target", "mse = 0.02"),
    "largest": _numbers("largest", "mse = 0.5"),
    "bins": _cuts,
    "layers": _layers,
}
