"""Messages between parent and child: frames of JSON over the child's standard input and output.

The child says READY. It is then told the key and the databases once (ATTACH) and answers what they declare and which
additional walls stand (confinement). After that every question (sql, tables, functions, rows, width) is answered by
rows or by a class of failure with a reason.
"""

from __future__ import annotations

import json
import struct
from typing import Any

HEAD = struct.Struct("<I")
LARGEST_FRAME = 16 * 2**20  #: bytes; the cap on rows (walls.MOST_BYTES) keeps honest answers below it
READY: dict[str, Any] = {"ready": True}


def frame(message: dict[str, Any]) -> bytes:
    """One message with its length before it."""
    content = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    return HEAD.pack(len(content)) + content
