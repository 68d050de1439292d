"""Which rows count: a condition over declared columns, read from SQL and nothing else of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition that was read and found allowed. `text` is what the document says."""

    text: str
