"""The process that decodes pictures of strangers: `python -m thebes.data.pictures.child`.

It decodes none itself. For each picture it forks a process that hears the picture, gives up what it does not need,
decodes, says the pixels and ends. What must stay true: no process that has met one picture ever meets another, nor what
is left of one in memory, so whatever a picture does to its decoder changes that picture and nothing else.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import warnings
from typing import Any

from thebes import machine
from thebes.confinement.calls import die_with_parent, filter_calls, leave_network
from thebes.confinement.inside import hear, live, say
from thebes.confinement.measures import limit, mapped
from thebes.data.pictures.limits import MOST_PIXELS
from thebes.data.pictures.pipe import CONFINED, DONE, FAILED, HEARD, HUGE, LENGTH, START

_TRIAL = 0  #: a picture of no bytes asks whether its process could be confined
_ORIENTATION = 0x0112  #: the field of EXIF


def serve(source: int, sink: int) -> None:
    """Answers pictures from the file descriptor `source` on `sink`."""
    height, width, channels, memory_bytes, cpu_seconds = START.unpack(hear(source, START.size))
    _warm(height, width, channels)
    gc.freeze()  # what is not looked at again is not copied for each
    leave_network()  # once, for all that are forked
    answer = bytearray(len(HEARD) + len(DONE) + height * width * channels)
    while True:
        ours, theirs = os.pipe()
        one = machine.fork()
        if not one:
            os.close(ours)
            _decode(source, sink, theirs, (height, width, channels), memory_bytes, cpu_seconds)
        os.close(theirs)
        length = _filled(ours, answer)
        os.close(ours)
        os.kill(one, signal.SIGKILL)  # it has said all that it may
        os.waitpid(one, 0)
        if not length:
            raise SystemExit(0)  # it heard no whole picture: there is none any more, or the next would be out of step
        if length == len(answer) and answer[1:2] == DONE:
            say(sink, memoryview(answer)[1:])
        else:
            say(sink, bytes(answer[1:2]) if length == 2 and answer[1:2] in (HUGE, CONFINED) else FAILED)
        answer[:] = bytes(len(answer))  # the next process begins as a copy of this one


def _filled(source: int, answer: bytearray) -> int:
    """Read until the end, or until more comes than fits, without leaving a copy anywhere; give how much it was."""
    view, length = memoryview(answer), 0
    while length < len(answer):
        got = os.readv(source, [view[length:]])
        if not got:
            return length
        length += got
    return length + len(os.read(source, 1))


def _decode(source: int, sink: int, own: int, shape: tuple[int, int, int], memory_bytes: int, cpu_seconds: int) -> None:
    """Be the process of one picture; this returns to nobody."""
    try:
        die_with_parent()
        (length,) = LENGTH.unpack(hear(source, LENGTH.size))
        content = hear(source, length)
        for place in (source, sink):  # what was not for this picture is out of reach before a byte of it is read
            os.close(place)
        say(own, HEARD)
        cut = filter_calls()
        # No file at all: what it could read of other people's would otherwise end up in this picture's points.
        held = limit(memory=mapped() + memory_bytes, cpu=cpu_seconds, files=0, processes=0, writing=0, core=0)
        if length == _TRIAL:
            say(own, CONFINED if cut and {"memory", "cpu", "files"} <= held else FAILED)
        elif cut and "files" in held:
            pixels = decoded(content, shape)
            say(own, HUGE if pixels is None else DONE + pixels)
    finally:
        os._exit(0)


def decoded(content: bytes, shape: tuple[int, int, int]) -> bytes | None:
    """The pixels of a PNG or a JPEG, turned upright, in this size, row by row; None where it has too many. Whatever
    cannot be decoded raises."""
    from PIL import Image

    height, width, channels = shape
    Image.MAX_IMAGE_PIXELS = None  # the limit is ours, and there is nobody to warn
    with Image.open(io.BytesIO(content), formats=("PNG", "JPEG")) as opened:
        if opened.width * opened.height > MOST_PIXELS:
            return None
        deep = opened.mode.startswith("I")  # 16 bits, of which the upper 8 say how bright it is
        plain = opened.convert("I").point(lambda value: value * (1 / 256)) if deep else opened
        plain = plain.convert("L" if channels == 1 else "RGB")
        turn = _turn(opened)
    if turn is not None:
        plain = plain.transpose(turn)
    pixels: bytes = plain.resize((width, height), Image.Resampling.BILINEAR).tobytes()
    return pixels


def _turn(opened: Any) -> Any:
    """Return what turns a picture upright, by what its camera noted; None where nothing does."""
    from PIL import Image

    turns = Image.Transpose
    try:
        noted = opened.getexif().get(_ORIENTATION, 1)
    except Exception:  # what was noted is broken; the picture is not
        return None
    return {
        2: turns.FLIP_LEFT_RIGHT,
        3: turns.ROTATE_180,
        4: turns.FLIP_TOP_BOTTOM,
        5: turns.TRANSPOSE,
        6: turns.ROTATE_270,
        7: turns.TRANSVERSE,
        8: turns.ROTATE_90,
    }.get(noted if isinstance(noted, int) else 1)


def _warm(height: int, width: int, channels: int) -> None:
    """Decode pictures of our own, so that whatever is loaded on first use is loaded before the limits."""
    from PIL import Image, MpoImagePlugin  # noqa: F401 (a telephone's JPEG with another one behind it)

    warnings.simplefilter("ignore")
    for form in ("PNG", "JPEG"):
        made = io.BytesIO()
        exif = Image.Exif()
        exif[_ORIENTATION] = 6
        Image.new("RGB", (9, 7)).save(made, form, exif=exif)
        decoded(made.getvalue(), (height, width, channels))


if __name__ == "__main__":
    die_with_parent()
    live(serve)
