"""The place of an owner's own row in what perturbed rows say together, as their own machine tells it.

What must stay true: nothing here is sent; a column that has no error bar is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from thebes.privacy.figures import figure
from thebes.tasks.bounded.kind import BoundedDocument
from thebes.tasks.document import Range
from thebes.tasks.own_place import beside, is_number
from thebes.tasks.release import Release

MOST_TOLD = 5  #: columns


def place(document: BoundedDocument, release: Release, rows: Sequence[Mapping[str, Any]]) -> str:
    """Say of each column where one's own value lies; empty where there is no value."""
    said = [_of(column, document, release, rows[0].get(column)) for column in document.gives] if rows else []
    return " ".join([sentence for sentence in said if sentence][:MOST_TOLD])


def _of(column: str, document: BoundedDocument, release: Release, value: Any) -> str:
    told: Any = release
    bound, called = document.bounds[column], "value" if len(document.gives) == 1 else column
    if value is None:
        return ""
    if isinstance(bound, Range):
        mean, bar = told.mean(column)
        if not is_number(value) or bar is None:
            return ""
        return beside(min(max(float(value), bound.low), bound.high), mean, bar, called=called, centre="mean")
    shares, bar = told.frequencies[column], told.frequency_interval(column)
    if value not in shares or bar is None:
        return ""
    at = list(shares).index(value)
    low, high = (100 * float(np.asarray(end)[at]) for end in (bar.low, bar.high))
    between = f"between {figure(max(0.0, low), 3)} and {figure(min(100.0, high), 3)} %"
    return f"Your {called}, {value}, is that of {between} of those who took part."
