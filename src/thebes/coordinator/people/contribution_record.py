"""A contribution at rest: its numbers packed into bytes of one fixed length, as its layout says.

What must stay true: unpacking gives exactly the arrays that were examined, so that reading a hundred thousand
back is one step and not a hundred thousand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from thebes.privacy.faults import Fault
from thebes.tasks.contributions import Contributions, Layout, Slot

_BYTES_AT_ONCE = 8 * 2**20
_MOST_AT_ONCE = 20_000


def at_once(layout: Layout) -> int:
    """So many records may be in memory together."""
    return max(1, min(_MOST_AT_ONCE, _BYTES_AT_ONCE // max(1, form_of(layout).itemsize)))


def most_bytes(layout: Layout) -> int:
    """A contribution of this layout written as JSON is never longer: what is longer need not be read."""
    return 16_384 + sum(_longest(name, slot) for name, slot in layout.items())


def _longest(name: str, slot: Slot) -> int:
    each = 12 if slot.kind == "text" else 40
    return 6 * len(name) + each * max(1, slot.length)


def form_of(layout: Layout) -> np.dtype[Any]:
    """The fixed form of every record of a layout."""
    return np.dtype([(name, *_field(slot)) for name, slot in layout.items()])


def pack(layout: Layout, contributions: Contributions) -> list[bytes]:
    """Each contribution of an examined batch as bytes."""
    table = np.zeros(contributions.count, dtype=form_of(layout))
    for name in layout:
        table[name] = contributions.fields[name]
    raw, size = table.tobytes(), table.dtype.itemsize
    return [raw[start : start + size] for start in range(0, len(raw), size)] if size else [b""] * contributions.count


def unpack(layout: Layout, part: str, records: Sequence[bytes], partition: int = 0) -> Contributions:
    """Records back into one batch."""
    form = form_of(layout)
    raw = b"".join(records)
    if len(raw) != form.itemsize * len(records):
        raise Fault("a stored contribution does not have the form of its task")
    table = np.frombuffer(raw, dtype=form) if form.itemsize else np.zeros(len(records), dtype=form)
    fields = {name: _as_examined(layout[name], table[name]) for name in layout}
    return Contributions(part, len(records), fields, partition)


def _as_examined(slot: Slot, column: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    # Packed numbers are added up as float64; where they are whole numbers, the aggregator's own check says so again.
    return column.astype(np.float64) if slot.packed else np.ascontiguousarray(column)


def _field(slot: Slot) -> tuple[Any, ...]:
    if slot.kind == "text":
        return (f"<U{slot.length}",)
    # Packed as it travelled; what may be null as a float, whose NaN means null; else whole, below 2^53 on the wire.
    whole = slot.kind == "integer" and not slot.nullable
    kind = "<f4" if slot.packed else "<i8" if whole else "<f8"
    return (kind, (slot.length,)) if slot.length else (kind,)
