"""Frames: models and contributions as little-endian numbers behind a header of JSON."""

from __future__ import annotations

from thebes.wire import frames

MOST_BYTES = 2**22


def one(data: bytes) -> None:
    frame = frames.read(data, most_bytes=MOST_BYTES)
    assert frames.glance(data) == frame.body
    message = frame.message()
    assert frames.decode(frames.write(frame)) == message
    assert frames.decode(frames.write(frame, public=True)) == message
