"""The keys of an answer as columns: what a group, a value or a bin is called in a release, taken apart again.

What must stay true: a key stands in the row of its own number, and nothing is guessed: a name that cannot be taken
apart for certain stays whole.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np

from thebes.privacy.mechanisms.histogram import names_of_bins

KEY = "key"  #: what a column of keys is called of which nothing else is known
STATISTIC = "statistic"

Columns = dict[str, list[Any]]


def key_columns(
    names: Sequence[str], *, by: Sequence[str], statistics: Sequence[str], bounds: Mapping[str, Any]
) -> Columns:
    """Return the columns that tell the numbers of an answer apart. `names` are those that the release gives them, in
    order; `by` are the columns it was grouped by, `statistics` those that were asked together, `bounds` what the
    certificate says of columns."""
    if statistics:
        return _of_statistics(names, by, statistics, bounds)
    if by:
        return _of_groups(names, by, bounds)
    declared = {name: each["values"] for name, each in bounds.items() if each.get("type") == "set"}
    for column, values in declared.items():
        if [str(value) for value in values] == list(names):
            return {column: list(values)}
    return _of_bins(names, bounds) or {KEY: list(names)}


def _of_statistics(
    names: Sequence[str], by: Sequence[str], statistics: Sequence[str], bounds: Mapping[str, Any]
) -> Columns:
    groups = len(names) // len(statistics)
    if len(names) != groups * len(statistics):
        return {KEY: list(names)}
    asked = list(statistics) * groups
    if not by:
        return {STATISTIC: asked}
    whole = [name.removesuffix(f", {last}") for name, last in zip(names, asked, strict=True)]
    keys = _of_groups(whole[:: len(statistics)], by, bounds)
    repeated = {column: [one for one in found for _ in statistics] for column, found in keys.items()}
    return {**repeated, STATISTIC: asked}


def _of_groups(names: Sequence[str], by: Sequence[str], bounds: Mapping[str, Any]) -> Columns:
    """Groups are named in the order of their keys' declared values, so that the values are told by the place."""
    values = [
        bounds[column]["values"] if bounds.get(column, {}).get("type") == "set" else (False, True) for column in by
    ]
    if math.prod(map(len, values)) == len(names):
        combined = [tuple(one) for one in product(*values)]
        written = [[str(value) for value in one] for one in combined]
        if list(names) in ([", ".join(one) for one in written], [json.dumps(one) for one in written]):
            return {column: [one[place] for one in combined] for place, column in enumerate(by)}
    return {by[0] if len(by) == 1 else KEY: list(names)}


def _of_bins(names: Sequence[str], bounds: Mapping[str, Any]) -> Columns | None:
    """Read the names of bins as the numbers between which they lie; None where they are something else."""
    ends = [_ends(name) for name in names]
    found = [end for end in ends if end is not None]
    if not found or len(found) < len(ends):
        return None
    if any(low >= high for low, high in found) or any(one[1] != next_[0] for one, next_ in pairwise(found)):
        return None
    for each in bounds.values():  # names have few digits: of equal bins the ends are known exactly
        if each.get("type") == "range":
            edges = np.linspace(each["low"], each["high"], len(names) + 1).tolist()
            if names_of_bins(edges) == list(names):
                found = list(pairwise(edges))
    return {"from": [low for low, _ in found], "to": [high for _, high in found]}


def _ends(name: str) -> tuple[float, float] | None:
    low, between, high = name.partition(" to ")
    try:
        return (float(low), float(high)) if between else None
    except ValueError:
        return None


def labels(columns: Iterable[Sequence[Any]]) -> list[str]:
    """Write the keys of each row in one line."""
    return [", ".join(str(cell) for cell in one if cell is not None) for one in zip(*columns, strict=True)]
