"""The form of an aggregator while nobody runs it: one JSON object and named arrays, in one piece.

Nothing in it runs.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake

Arrays = dict[str, NDArray[np.generic]]


def packed(header: Mapping[str, Any], arrays: Mapping[str, NDArray[np.generic]]) -> bytes:
    """Header and arrays as bytes."""
    buffer = io.BytesIO()
    text = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(buffer, allow_pickle=False, header=text, **{f"a.{name}": array for name, array in arrays.items()})
    return buffer.getvalue()


def unpacked(snapshot: bytes, digest: str) -> tuple[dict[str, Any], Arrays]:
    """The inverse; a snapshot of another document is refused."""
    with np.load(io.BytesIO(snapshot), allow_pickle=False) as stored:
        header = json.loads(stored["header"].tobytes())
        arrays = {name[2:]: stored[name] for name in stored.files if name.startswith("a.")}
    if header["digest"] != digest:
        raise Mistake("snapshot", "belongs to another document")
    return header, arrays
