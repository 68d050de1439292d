"""The pictures and arrays of the rows that one question keeps, read while its batches are given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from thebes.data.engines.engine import KeptRows
from thebes.data.pictures.column import TensorColumn
from thebes.data.pictures.folder import PictureFolder
from thebes.data.schema import Schema
from thebes.privacy.faults import Mistake

if TYPE_CHECKING:
    import pandas as pd

_AT_ONCE = 2**24  #: numbers of tensors in one batch


@runtime_checkable
class TensorEngine(Protocol):
    """An engine that reaches what lies in rows besides single values. Its columns of pictures and arrays are keys: a
    path, an array as text, or a digest."""

    def holds(self, name: str) -> bool:
        """Return whether rows hold the pictures or arrays of a column as bytes or lists, for which keys are digests."""
        ...

    def raw(self, name: str, kept: KeptRows, key: str) -> Iterator[tuple[str, Any]]:
        """Give what rows hold of such a column, for the keys that stand in a column of kept rows."""
        ...


class TensorRows:
    """Tensors by column, for the kept rows in which column `at[name]` holds the keys of each."""

    def __init__(
        self,
        schema: Schema,
        engine: object,
        kept: KeptRows,
        at: Mapping[str, str],
        *,
        files: Path | None,
        scratch: Path | None,
    ) -> None:
        self._at = at
        self._columns: dict[str, TensorColumn] = {}
        if not at:
            return
        assert isinstance(engine, TensorEngine)  # noqa: S101
        try:
            for name, key in at.items():
                held = engine.holds(name)
                column = TensorColumn(schema.offered(name), held=held, files=files, scratch=scratch)
                self._columns[name] = column
                if held:
                    column.take(engine.raw(name, kept, key))
        except BaseException:
            self.close()
            raise

    def fitting(self, rows: int) -> int:
        """Return how many rows at a time do not hold too many numbers, at most so many."""
        return min([rows, *(max(1, _AT_ONCE // column.elements) for column in self._columns.values())])

    def of(self, chunk: pd.DataFrame) -> dict[str, NDArray[np.generic]]:
        """Return one line of numbers for each row of a piece of the kept rows, by column."""
        return {name: column.rows(_keys(chunk, self._at[name])) for name, column in self._columns.items()}

    def misread(self, chunk: pd.DataFrame) -> dict[str, Counter[str]]:
        """Count the rows of a piece whose tensors are zeros because they could not be read, by column and reason.
        Private: for whoever keeps the rows and for nobody else."""
        self.of(chunk)
        return {name: column.misread(_keys(chunk, self._at[name])) for name, column in self._columns.items()}

    def unread(self) -> dict[str, dict[str, int]]:
        """Count the pictures and arrays that could not be read so far, by column and reason. Private."""
        return {name: counted for name, column in self._columns.items() if (counted := column.unread)}

    def close(self) -> None:
        for column in self._columns.values():
            column.close()


def _keys(chunk: pd.DataFrame, at: str) -> Sequence[str]:
    return [str(key) for key in chunk[at].tolist()]


def check_reachable(schema: Schema, engine: object, files: Path | None) -> None:
    """Refuse columns of pictures or arrays that this engine cannot reach, or whose files lie nobody knows where."""
    for name in schema.tensors:
        kind = schema.columns[name].type
        if kind == "image":
            import PIL  # noqa: F401 (its absence is told whoever declares the column, not whoever asks)
        if not isinstance(engine, TensorEngine):
            raise Mistake(
                f"columns.{name}.type",
                f"is {kind}, which is read from files, Parquet and databases of one machine only; leave the column out "
                "here, or declare its rows as another data set",
            )
        if files is None and kind == "image" and not engine.holds(name):
            raise Mistake(
                "source.files",
                f"is missing: rows name the pictures of {name!r} by paths, and this says in which folder those begin; "
                'describe the source in a .toml with files = "FOLDER"',
            )
        if files is not None and kind == "image" and not engine.holds(name):
            PictureFolder(files).close()
