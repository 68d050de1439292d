"""Labels that there are: somebody declared them, or a part of the budget bought them; and which of them a row has.

Must stay true: what a row's label becomes depends on that row and the classes alone. A label that is none of the
classes is no error, as an error would tell of that row: such a row counts for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.histogram import histogram_of_unknown_keys
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Randomness

Floats = NDArray[np.float64]
_EXACT = 2**53  #: larger whole numbers are not all told apart once a missing cell made floats of a column


def declared_classes(classes: Any) -> NDArray[Any]:
    """Declared labels in order, judged without looking at a row."""
    if isinstance(classes, (str, bytes)) or not isinstance(classes, (Sequence, np.ndarray, Iterable)):
        raise Mistake("classes", 'must list the labels, or be "estimate"')
    given = list(classes)
    if any(_named(label) is None for label in given):
        raise Mistake("classes", "must be numbers, texts or truth values, none of them missing")
    if any(isinstance(label, int | float | np.number) and abs(float(label)) >= _EXACT for label in given):
        raise Mistake(
            "classes", "must be whole numbers below 2^53, which a column of numbers can tell apart; use texts"
        )
    found = np.unique(np.asarray(given))
    if len(found) != len(given):
        raise Mistake("classes", "must not name a label twice")
    if len(found) < 2:
        raise Mistake("classes", "needs at least 2 classes, got 1 class" if given else "needs at least 2 classes")
    return found


def bought_classes(
    labels: Iterable[Any], *, epsilon: Decimal, delta: Decimal, adjacency: Adjacency, randomness: Randomness
) -> NDArray[Any]:
    """The labels that enough rows have, by a thresholded histogram: (epsilon, delta), see
    `histogram_of_unknown_keys`. A row without a label is in none of its cells, which is as close as any other row.

    What they are (whole numbers, numbers, truth values or texts) is read off those that are shown, all of them
    together, never off the rows.
    """
    told = [name for name in map(_named, labels) if name is not None]
    shown = histogram_of_unknown_keys(
        told, epsilon=epsilon, delta=delta, adjacency=adjacency, randomness=randomness
    ).parameters["keys"]
    if len(shown) < 2:
        raise Mistake(
            "classes",
            "needs at least 2 classes, but 1 class or none could be seen through the noise, and looking was paid for. "
            "Declare them: classes=[label, ...]",
        )
    return np.unique(_read(shown))


def places_of(classes: NDArray[Any], labels: NDArray[Any]) -> Floats:
    """The place of each label among the classes, NaN for one that is none of them; 1, 1.0 and "1" are the same."""
    place = {_named(label): float(number) for number, label in enumerate(classes.tolist())}
    if labels.dtype == object:
        return np.array([_place(place, label) for label in labels.tolist()], dtype=np.float64)
    different, which = np.unique(labels, return_inverse=True)
    return np.array([_place(place, label) for label in different.tolist()], dtype=np.float64)[which]


def _place(place: Mapping[str | None, float], label: Any) -> float:
    name = _named(label)
    return np.nan if name is None else place.get(name, np.nan)


def _named(label: Any) -> str | None:
    """Return what a label is called; None for what is no label."""
    plain = label.item() if isinstance(label, np.generic) else label
    if isinstance(plain, str):
        return plain
    if isinstance(plain, float):
        return None if not math.isfinite(plain) else str(int(plain)) if plain.is_integer() else repr(plain)
    try:
        return str(plain) if isinstance(plain, (bool, int)) else None
    except ValueError:  # thousands of digits
        return None


def _read(names: Sequence[str]) -> NDArray[Any]:
    """Names as the labels that all of them are names of."""
    if set(names) <= {"True", "False"}:
        return np.array([name == "True" for name in names])
    for kind in (int, float):
        try:
            found = np.array([kind(name) for name in names])
        except (ValueError, OverflowError):
            continue
        if [_named(each) for each in found.tolist()] == list(names):
            return found
    return np.array(names)
