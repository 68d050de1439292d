"""Pictures for tests: good ones in every form, and those that somebody sends who means harm."""

from __future__ import annotations

import functools
import io
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

PHOTO = {"type": "image", "height": 8, "width": 8, "channels": 3}
SCHEMA: dict[str, Any] = {
    "unit": "person",
    "columns": {
        "who": {"type": "string", "key": True},
        "photo": PHOTO,
        "label": {"type": "integer", "values": [0, 1]},
    },
}
SOURCE = {"kind": "csv", "path": "rows.csv", "files": "files"}


def encoded(picture: Image.Image, form: str = "PNG", **more: Any) -> bytes:
    """Return a picture as a file of it."""
    made = io.BytesIO()
    picture.save(made, form, **more)
    return made.getvalue()


def noise(number: int, size: int = 8) -> bytes:
    """A small PNG that is like no other."""
    points = np.random.default_rng(number).integers(0, 256, (size, size, 3), dtype=np.uint8)
    return encoded(Image.fromarray(points))


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width: int, height: int, content: bytes, *, before: bytes = b"") -> bytes:
    """A PNG whose header says whatever it likes."""
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    packed = chunk(b"IDAT", zlib.compress(content, 1))
    return b"\x89PNG\r\n\x1a\n" + head + before + packed + chunk(b"IEND", b"")


@functools.cache
def hostile() -> dict[str, bytes]:
    """Contents that are no picture, or not one that anybody decodes."""
    good = noise(7)
    jpeg = encoded(Image.new("RGB", (64, 64), (200, 10, 10)), "JPEG")
    return {
        "empty": b"",
        "text": b"no picture at all",
        "cut": good[: len(good) // 2],
        "cut jpeg": jpeg[: len(jpeg) // 2],
        "only a header": good[:33],
        "gif": encoded(Image.new("P", (8, 8)), "GIF"),
        "bmp": encoded(Image.new("RGB", (8, 8)), "BMP"),
        "tiff": encoded(Image.new("RGB", (8, 8)), "TIFF"),
        "postscript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(/etc/passwd) run\n",
        "svg": b'<svg xmlns="http://www.w3.org/2000/svg"><image href="file:///etc/passwd"/></svg>',
        "bomb": png(50_000, 50_000, bytes(2**20)),
        "bomb that says it is small": png(8, 8, bytes(2**26)),
        "words that unpack to much": png(
            8, 8, bytes(72), before=chunk(b"zTXt", b"a\0\0" + zlib.compress(bytes(2**27), 1)) * 3
        ),
        "no points": png(0, 0, b""),
        "a wide one": png(2**31 - 1, 1, b"\0"),
        "larger than any": good + bytes(20 * 10**6),
        "zeros": bytes(10_000),
    }


def polyglot() -> bytes:
    """A whole PNG that is an archive as well."""
    import zipfile

    made = io.BytesIO(noise(3))
    made.seek(0, os.SEEK_END)
    with zipfile.ZipFile(made, "a") as archive:
        archive.writestr("evil.sh", "rm -rf /")
    return made.getvalue()


def put(folder: Path, people: int) -> Path:
    """Rows of so many people with a picture each, as files below a folder and a CSV file beside it."""
    (folder / "files" / "deep").mkdir(parents=True, exist_ok=True)
    lines = ["who,photo,label"]
    for number in range(people):
        (folder / "files" / "deep" / f"{number}.png").write_bytes(noise(number))
        lines.append(f"p{number},deep/{number}.png,{number % 2}")
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    return folder / "files" / "deep"
