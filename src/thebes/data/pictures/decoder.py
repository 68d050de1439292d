"""The owner's side of the process that decodes pictures: hands it one, takes back pixels of the expected size.

Whatever goes wrong there (too slow, too big, crashed, nothing decoded) is one picture that counts as zeros, told apart
for the steward alone.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from thebes.confinement.parent import Child, ChildLost
from thebes.data.pictures.folder import UnreadablePicture
from thebes.data.pictures.limits import BROKEN, HUGE
from thebes.data.pictures.pipe import CONFINED, DONE, LENGTH, START
from thebes.data.pictures.pipe import HUGE as TOO_HUGE
from thebes.privacy.faults import Fault, Refusal

_CHILD = "thebes.data.pictures.child"
_START_SECONDS, _WALL_SECONDS, _CPU_SECONDS = 120.0, 120.0, 20
_MEMORY_BYTES = 2**30  #: for one picture: four bytes for each of 50 million pixels, four times


class PictureDecoder:
    """Pictures as tensors [channels, height, width] of whole numbers from 0 to 255, each decoded by a confined process
    of its own."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        import PIL  # noqa: F401 (its absence is said here, not by a child that ends)

        self._shape = shape
        self._child: Child | None = None
        self._start()

    def decoded(self, content: bytes) -> NDArray[np.uint8]:
        """Return one picture, or raise UnreadablePicture."""
        if not content:
            raise UnreadablePicture(BROKEN)
        channels, height, width = self._shape
        try:
            answer = self._said(LENGTH.pack(len(content)) + content, _WALL_SECONDS)
        except ChildLost:
            self.close()
            raise UnreadablePicture(BROKEN) from None
        if answer[:1] != DONE:
            raise UnreadablePicture(HUGE if answer == TOO_HUGE else BROKEN)
        pixels = np.frombuffer(answer, dtype=np.uint8, offset=1).reshape(height, width, channels)
        return np.ascontiguousarray(pixels.transpose(2, 0, 1))

    def close(self) -> None:
        """End the process; the next picture starts another."""
        child, self._child = self._child, None
        if child is not None:
            child.close()

    def _start(self) -> None:
        channels, height, width = self._shape
        self._child = Child(_CHILD)
        try:
            begun = START.pack(height, width, channels, _MEMORY_BYTES, _CPU_SECONDS) + LENGTH.pack(0)
            answer = self._said(begun, _START_SECONDS)
        except ChildLost as lost:
            self.close()
            raise Fault(f"the process that decodes pictures does not start: {lost}") from lost
        if answer != CONFINED:
            self.close()
            raise Refusal("this machine cannot confine the process that decodes pictures; nothing was read")

    def _said(self, question: bytes, seconds: float) -> bytes:
        if self._child is None:
            self._start()
        assert self._child is not None  # noqa: S101
        channels, height, width = self._shape

        def wanted(heard: bytearray) -> int:
            return 1 + channels * height * width if heard[:1] == DONE else 1

        return self._child.talk(question, time.monotonic() + seconds, wanted)
