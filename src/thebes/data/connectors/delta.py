"""A table of Delta Lake in a folder, read by DuckDB at one version."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from thebes.data.connectors.connector import Held, Source, SourceUnavailable, path_of, read_source
from thebes.data.connectors.scanned_source import ScannedSource


class DeltaSource(Source):
    """`path` is the table's folder. Without a `version` it is read at the newest that there is when it is opened."""

    kind: Literal["delta"]
    path: str = Field(min_length=1, max_length=4096)
    version: int | None = Field(default=None, ge=0, lt=2**63)


class Delta(ScannedSource):
    """One table. What is read stays as it was when it was first looked at, whatever is written meanwhile."""

    def __init__(self, source: DeltaSource, folder: Path) -> None:
        self._path, self._version = path_of(source.path, folder), source.version
        told = f"{self._version} of {self._path}"  # a join may read one table at two versions
        self._name = f"thebes_{hashlib.sha256(told.encode()).hexdigest()[:24]}"
        self.what = f"the Delta table {self._path.name}"
        if not (self._path / "_delta_log").is_dir():
            raise SourceUnavailable(f"source.path: there is no Delta table {self._path.name} where the data set says")

    def columns(self) -> Mapping[str, Held]:
        # Pictures and arrays in rows are read by a second connection, to which what is registered is not known.
        kept: tuple[Held, ...] = ("array", "bytes")
        return {name: "other" if held in kept else held for name, held in super().columns().items()}

    def attach(self, opened: Any) -> str:
        opened.register(self._name, self._rows)
        return self._name

    @cached_property
    def _rows(self) -> Any:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, DeltaProtocolError

        try:
            return DeltaTable(self._path, version=self._version).to_pyarrow_dataset()
        except DeltaProtocolError:
            why = f"{self.what} uses features of its format that are not read here, such as deletion vectors"
            raise SourceUnavailable(f"source.path: {why}") from None
        except (DeltaError, OSError):
            if self._version is not None:
                why = f"cannot be read at version {self._version}; leave it out for the newest"
                raise SourceUnavailable(f"source.version: {self.what} {why}") from None
            raise self.unavailable() from None


def open_delta(source: Mapping[str, Any], *, folder: Path) -> Delta:
    """The connector of `{"kind": "delta", "path": ...}`."""
    return Delta(read_source(DeltaSource, source), folder)
