"""Tensors that were read once and are needed again: in a file without a name, which is gone with the process."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from thebes.data.connectors.connector import SourceUnavailable


class KeptTensors:
    """Tensors of one shape by a key, below `scratch` (or where the system keeps what is temporary)."""

    def __init__(self, shape: tuple[int, ...], dtype: type[np.generic], scratch: Path | None) -> None:
        self._shape, self._dtype = shape, np.dtype(dtype)
        self._size = int(np.prod(shape)) * self._dtype.itemsize
        self._places: dict[str, int] = {}
        try:
            self._file = tempfile.TemporaryFile(dir=scratch, buffering=0)  # noqa: SIM115
        except OSError as error:
            raise _full(error) from None

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def put(self, key: str, tensor: NDArray[np.generic]) -> None:
        place = len(self._places)
        content, written = np.ascontiguousarray(tensor, dtype=self._dtype).tobytes(), 0
        try:
            while written < len(content):
                written += os.pwrite(self._file.fileno(), content[written:], place * self._size + written)
        except OSError as error:
            raise _full(error) from None
        self._places[key] = place

    def rows(self, keys: Sequence[str]) -> NDArray[np.generic]:
        """Return one line for each key, zeros where nothing is kept by it."""
        found = np.zeros((len(keys), self._size), dtype=np.uint8)
        for line, key in enumerate(keys):
            place = self._places.get(key)
            if place is not None:
                found[line] = np.frombuffer(os.pread(self._file.fileno(), self._size, place * self._size), np.uint8)
        return found.view(self._dtype)

    def close(self) -> None:
        self._file.close()


def _full(error: OSError) -> SourceUnavailable:
    return SourceUnavailable(f"there is no room for what was read of the pictures: {type(error).__name__}")
