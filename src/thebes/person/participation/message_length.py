"""The length of a message: the same for everybody who answers the same ask, whatever they answer."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from thebes.tasks.contributions import Layout, Slot

_BLOCK_BYTES = 256
_LONGEST_NUMBER = 24  #: -1.2345678901234567e-308


def filled(body: bytes, message: Mapping[str, Any], layout: Layout) -> bytes:
    """A message's JSON with spaces at its end, as long as any answer of this layout can be."""
    without = json.dumps({**message, "payload": {}})
    longest = len(without) + sum(len(json.dumps(name)) + 4 + _longest(slot) for name, slot in layout.items())
    wanted = max(longest, len(body))
    return body + b" " * (wanted + -wanted % _BLOCK_BYTES - len(body))


def _longest(slot: Slot) -> int:
    if slot.kind == "text":
        return 2 + 12 * slot.length  # a character beyond the first 65,536 is written as two of six
    if slot.packed:
        return 2 + 4 * math.ceil(4 * max(1, slot.length) / 3)
    each = _LONGEST_NUMBER
    if slot.kind == "integer" and math.isfinite(slot.low) and math.isfinite(slot.high):
        each = max(4, len(str(math.floor(slot.low))), len(str(math.ceil(slot.high))))  # 4: null
    return 2 + (each + 2) * max(1, slot.length)
