"""Fitted estimators as plain data: kind, version, parameters, released numbers, certificate. Nothing in it is code.

A document is checked like any stranger's input before a model is built from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

import thebes.learning as room
from thebes.privacy.certificate import Certificate
from thebes.privacy.faults import Mistake
from thebes.privacy.model_quality import Quality
from thebes.privacy.promise import adjacency_of, unit_of

if TYPE_CHECKING:
    from thebes.learning.estimator import PrivateEstimator

VERSION = 1
_LARGEST = 10_000_000  #: numbers in one array
E = TypeVar("E", bound="PrivateEstimator")


def document_of(model: PrivateEstimator) -> dict[str, Any]:
    """The fitted model as data that `json` can write."""
    names = getattr(model, "feature_names_in_", None)
    document: dict[str, Any] = {
        "kind": type(model).__name__,
        "version": VERSION,
        "columns": model.n_features_in_ if names is None else [str(name) for name in names],
        "numbers": {name: np.asarray(getattr(model, name)).tolist() for name in ("low_", "high_", *model._numbers)},
        "certificate": model.certificate_.as_json(),
    }
    if hasattr(model, "classes_"):
        document["classes"] = model.classes_.tolist()
    found: Quality | None = getattr(model, "quality_", None)
    if found is not None:
        document["quality"] = found.as_json()
    return document


def from_json(document: Mapping[str, Any]) -> Any:
    """The fitted model that a document describes, whichever kind it is."""
    from thebes.learning.estimator import PrivateEstimator

    return read(document, PrivateEstimator)


def read(document: Mapping[str, Any], expected: type[E]) -> E:
    """The fitted model that a document describes, if it is an `expected` one."""
    if not isinstance(document, Mapping):
        raise Mistake("model", "must be the mapping that to_json gave")
    kind = document.get("kind")
    if not isinstance(kind, str) or kind not in room._HOME or kind == "from_json":
        raise Mistake("model", "names a kind that this version does not know")
    found: type[E] = getattr(room, kind)
    if not issubclass(found, expected):
        raise Mistake("model", f"is a {kind}, not a {expected.__name__}")
    if document.get("version") != VERSION:
        raise Mistake("model", f"must have version {VERSION}")
    certificate = _certificate(document.get("certificate"))
    model = found(epsilon=certificate.epsilon, delta=certificate.delta, adjacency=str(certificate.adjacency))
    model.certificate_, model.events_ = certificate, ()
    model.quality_ = Quality.of_json(document["quality"]) if "quality" in document else None
    _columns(model, document.get("columns"))
    if "classes" in document:
        model.classes_ = _array("classes", document["classes"])
        if model.classes_.ndim != 1 or len(model.classes_) < 2:
            raise Mistake("model", "classes must be a list of at least two labels")
        model.classes = model.classes_.tolist()
    numbers = document.get("numbers")
    if isinstance(numbers, Mapping):
        numbers = {**model._of_earlier(), **numbers}
    if not isinstance(numbers, Mapping) or set(numbers) != {"low_", "high_", *found._numbers}:
        raise Mistake("model", f"numbers must be exactly those of a {kind}")
    for name, value in numbers.items():
        array = _array(name, value)
        if array.dtype.kind not in "if" or not np.isfinite(array).all():
            raise Mistake("model", f"{name} must hold finite numbers")
        setattr(model, name, float(array) if array.ndim == 0 else array)
    model._check_numbers()
    model.bounds = {j: (float(a), float(b)) for j, (a, b) in enumerate(zip(model.low_, model.high_, strict=True))}
    return model


def _columns(model: PrivateEstimator, columns: Any) -> None:
    if isinstance(columns, list) and columns and all(isinstance(name, str) for name in columns):
        model.feature_names_in_ = np.array(columns, dtype=object)
        model.n_features_in_ = len(columns)
    elif isinstance(columns, int) and not isinstance(columns, bool) and columns > 0:
        model.n_features_in_ = columns
    else:
        raise Mistake("model", "columns must be a number of columns or their names")


def _array(name: str, value: Any) -> np.ndarray[Any, Any]:
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError):
        raise Mistake("model", f"{name} must be a rectangular array") from None
    if array.dtype.kind not in "ifUb" or array.size > _LARGEST:
        raise Mistake("model", f"{name} must be a rectangular array of plain values")
    return array


def _certificate(data: Any) -> Certificate:
    if not isinstance(data, Mapping):
        raise Mistake("model", "needs its certificate")
    readers: dict[str, Callable[[Any], Any]] = {
        "unit": unit_of, "adjacency": adjacency_of, "epsilon": float, "delta": float, "estimated": tuple, "notes": tuple
    }  # fmt: skip
    told = [f.name for f in fields(Certificate) if f.name != "beside_earlier" or f.name in data]  # only where it is so
    try:
        return Certificate(**{name: readers.get(name, lambda v: v)(data[name]) for name in told})
    except (KeyError, TypeError, ValueError) as problem:
        if isinstance(problem, Mistake):
            raise
        raise Mistake("model", "has a certificate with missing or malformed entries") from None
