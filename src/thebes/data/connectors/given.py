"""Rows that somebody gives from Python, as a source that an engine copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from thebes.data.connectors.connector import Held
from thebes.data.filter import RowFilter
from thebes.data.schema import Schema
from thebes.privacy.faults import Mistake

if TYPE_CHECKING:
    import pandas as pd


class GivenRows:
    """A data frame. Values are read as the schema says; single ones that are not of its type are missing."""

    def __init__(self, schema: Schema, frame: pd.DataFrame) -> None:
        from thebes.data.engines.frames import could_be

        for name, column in schema.columns.items():
            if name not in frame.columns:
                raise Mistake("rows", f"have no column {name!r}, which the schema declares")
            if not could_be(frame[name], column.type):
                raise Mistake("rows", f"hold {frame[name].dtype} in column {name!r}; the schema says {column.type}")
        self._schema, self._frame = schema, frame

    def columns(self) -> Mapping[str, Held]:
        return {name: column.type for name, column in self._schema.columns.items()}

    def batches(self, columns: Sequence[str], where: RowFilter | None = None) -> Iterator[Any]:
        yield {name: self._frame[name].astype(object).tolist() for name in columns}

    def close(self) -> None:
        """There is nothing to close."""
