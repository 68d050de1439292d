"""Every budget that documents may name, and what else of a document decides its price: fixed, least to most."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel

from thebes.tasks.document import LEAST_DELTA, LEAST_EPSILON

EPSILONS = (LEAST_EPSILON, 3e-5, 0.5, 300.0, 1e6)
DELTAS = (0.0, LEAST_DELTA, 1e-6, 0.5)
_SHARE = 1e-6  #: as near to nothing as anybody asks for
_NOT_OF_A_PRICE = ("epsilon", "delta", "version", "patience", "min_count", "max_count", "min_sites")


def budgets(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The document with every pair of `EPSILONS` and `DELTAS`."""
    for epsilon in EPSILONS:
        for delta in DELTAS:
            yield _with(document, epsilon, delta)


def extremes(document: Mapping[str, Any], model: type[BaseModel]) -> Iterator[dict[str, Any]]:
    """The document with one number at a time as small and as large as its field allows, at the least and the greatest
    budgets."""
    for name, field in model.model_fields.items():
        if name in _NOT_OF_A_PRICE or name == "epsilon_per_weight":
            continue
        whole = "float" not in str(field.annotation)
        marks = [*field.metadata, *(mark for arm in get_args(field.annotation) for mark in _marks(arm))]
        for value in _ends(marks, whole):
            for epsilon, delta in ((LEAST_EPSILON, LEAST_DELTA), (LEAST_EPSILON, 0.0), (1.0, 1e-6), (1e6, 0.5)):
                yield {**_with(document, epsilon, delta), name: value}


def _with(document: Mapping[str, Any], epsilon: float, delta: float) -> dict[str, Any]:
    field = "epsilon_per_weight" if "epsilon_per_weight" in document else "epsilon"
    return {**document, field: epsilon, "delta": delta}


def _marks(arm: Any) -> tuple[Any, ...]:
    return tuple(getattr(arm, "__metadata__", ()))


def _ends(marks: list[Any], whole: bool) -> Iterator[float]:
    for mark in marks:
        if isinstance(mark, Ge):
            yield mark.ge  # type: ignore[misc]
        elif isinstance(mark, Gt):
            yield mark.gt + 1 if whole else _SHARE  # type: ignore[operator]
        elif isinstance(mark, Le):
            yield mark.le  # type: ignore[misc]
        elif isinstance(mark, Lt) and not whole:
            yield math.nextafter(float(mark.lt), -math.inf)  # type: ignore[arg-type]
