"""One column of pictures or arrays, as a question reads it: from what rows hold to one tensor for each row.

Rows come with keys: a path, an array as text, or the SHA-256 of what lies in the row itself. What cannot be read is
zeros and keeps its row, so nobody's picture decides who counts, and only `misread`, which stays here, says how many
there are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.pictures.decoder import PictureDecoder
from thebes.data.pictures.folder import PictureFolder, UnreadablePicture
from thebes.data.pictures.kept import KeptTensors
from thebes.data.pictures.limits import LARGE, MOST_BYTES, NONE, UNLIKE
from thebes.data.schema import Column
from thebes.privacy.reading import NotJSON, read_json


class TensorColumn:
    """Tensors of one column: pictures as whole numbers from 0 to 255, arrays as shares of their range from 0 to 1.
    `held` says that rows hold them, as bytes or lists, which `take` is given; otherwise a row holds a picture's path
    below `files`, or an array as text."""

    def __init__(self, column: Column, *, held: bool, files: Path | None, scratch: Path | None) -> None:
        assert column.tensor is not None  # noqa: S101
        self._column, self._shape = column, column.tensor
        self.elements = math.prod(self._shape)
        self._misread: dict[str, str] = {"": NONE}
        self._held = held
        self._folder = PictureFolder(files) if files is not None and column.type == "image" and not held else None
        kind = np.uint8 if column.type == "image" else np.float32
        self._kept = KeptTensors(self._shape, kind, scratch)
        #: begun before anything is known of the rows, so that its time does not tell whether there is a picture
        self._decoder: PictureDecoder | None = None
        if column.type == "image":
            try:
                self._decoder = PictureDecoder(self._shape)  # type: ignore[arg-type]
            except BaseException:
                self.close()
                raise

    def take(self, held: Iterable[tuple[str, Any]]) -> None:
        """Read what rows hold themselves, each by its key."""
        for key, raw in held:
            self._read(key, raw)

    def rows(self, keys: Sequence[str]) -> NDArray[np.generic]:
        """Return one line of numbers for each row, by what the rows hold."""
        if not self._held:
            for key in keys:
                self._read(key, key)
        return self._kept.rows(keys)

    def misread(self, keys: Iterable[str]) -> Counter[str]:
        """Count these rows' tensors that are zeros because they could not be read, by reason. Private: for whoever
        keeps the rows and for nobody else."""
        return Counter(self._misread[key] for key in keys if key in self._misread)

    @property
    def unread(self) -> dict[str, int]:
        """Count what of all that was read so far could not be, by reason: each picture once, also one that several rows
        name, and none of rows without one. Private, as `misread` is."""
        return dict(Counter(why for why in list(self._misread.values()) if why != NONE))

    def close(self) -> None:
        for each in (self._folder, self._decoder, self._kept):
            if each is not None:
                each.close()

    def _read(self, key: str, raw: Any) -> None:
        if key in self._kept or key in self._misread:
            return
        try:
            self._kept.put(key, self._array(raw) if self._column.type == "array" else self._picture(key, raw))
        except UnreadablePicture as why:
            self._misread[key] = str(why)

    def _picture(self, key: str, raw: Any) -> NDArray[np.generic]:
        if raw is None:
            raise UnreadablePicture(LARGE)  # an engine leaves it where it is
        content = self._folder.content(key) if self._folder is not None else bytes(raw)
        if len(content) > MOST_BYTES:
            raise UnreadablePicture(LARGE)
        assert self._decoder is not None  # noqa: S101
        return self._decoder.decoded(content)

    def _array(self, raw: Any) -> NDArray[np.generic]:
        """Return an array's numbers as shares of their range: nested as declared, or in one line."""
        try:
            numbers = np.array(_plain(read_json(raw) if isinstance(raw, str) else raw), dtype=np.float64)
        except (NotJSON, TypeError, ValueError, OverflowError, RecursionError):
            raise UnreadablePicture(UNLIKE) from None
        if numbers.shape not in (self._shape, (self.elements,)) or np.isnan(numbers).any():
            raise UnreadablePicture(UNLIKE)
        assert self._column.low is not None  # noqa: S101
        assert self._column.high is not None  # noqa: S101
        low, high = self._column.low, self._column.high
        return np.asarray((np.clip(numbers, low, high) - low) / (high - low))


def _plain(raw: Any) -> Any:
    """Lists all the way down, of whatever a library had."""
    if isinstance(raw, np.ndarray):
        raw = raw.tolist()
    return [_plain(each) for each in raw] if isinstance(raw, (list, tuple)) else raw
