"""Columns as a data frame of the library that its reader uses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from thebes.privacy.faults import Mistake

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

Library = Literal["pandas", "polars", "arrow"]


class FrameSource(ABC):
    """Something that can be read as a table."""

    @abstractmethod
    def as_columns(self) -> dict[str, list[Any]]:
        """Return the table as columns of one length, by name."""

    @overload
    def to_frame(self, library: Literal["pandas"] = ...) -> pd.DataFrame: ...

    @overload
    def to_frame(self, library: Literal["polars"]) -> pl.DataFrame: ...

    @overload
    def to_frame(self, library: Literal["arrow"]) -> pa.Table: ...

    def to_frame(self, library: Library = "pandas") -> Any:
        """The table as a data frame of pandas, polars or Arrow.

        Example: release.to_frame("polars").sort("value")
        """
        return frame_of(self.as_columns(), library)

    def to_arrow(self) -> pa.Table:
        """The table as an Arrow table, which most data tools read without copying."""
        return self.to_frame("arrow")


def frame_of(columns: Mapping[str, Sequence[Any]], library: Library) -> Any:
    """Make a data frame; a Mistake where its library is not installed."""
    if library == "pandas":
        import pandas as pd

        return pd.DataFrame(dict(columns))
    if library not in ("polars", "arrow"):
        raise Mistake("library", 'must be "pandas", "polars" or "arrow"')
    try:
        if library == "polars":
            import polars as pl

            return pl.DataFrame(dict(columns), strict=False)
        import pyarrow as pa

        return pa.table(dict(columns))
    except ImportError:
        package = "polars" if library == "polars" else "pyarrow"
        raise Mistake("library", f"needs the package {package}: pip install {package}") from None
