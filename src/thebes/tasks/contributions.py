"""The contributions that owners send: a batch of contributions as arrays, and each one as the JSON that travels.

A layout says which numbers a contribution holds and within which limits. Whatever does not fit is refused
before an aggregator sees it, naming the field and never the value.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake


@dataclass(frozen=True, slots=True)
class Slot:
    """One field of a contribution: numbers within limits, `length` of them (0 = a single one).

    For `text`, `length` is the most characters, and the empty text stands for a missing one.
    """

    kind: Literal["number", "integer", "text"]
    low: float = -math.inf
    high: float = math.inf
    length: int = 0
    nullable: bool = False
    packed: bool = False  #: travels as base64 of little-endian float32 instead of a list

    def array(self, name: str, values: Sequence[Any]) -> NDArray[np.generic]:
        """Check many contributions' values of this field at once."""
        if self.kind == "text":
            return self._texts(name, values)
        if self.kind == "integer" and not self.length and not self.packed:
            quick = self._whole(values)
            if quick is not None:
                return quick
        shape = (len(values), self.length) if self.length else (len(values),)
        array = np.empty(shape, dtype=np.float64)
        for row, value in enumerate(values):
            array[row] = self._one(name, value)
        return self.checked(name, array)

    def _whole(self, values: Sequence[Any]) -> NDArray[np.int64] | None:
        """Single whole numbers that lie within the limits; None where each is to be looked at."""
        if set(map(type, values)) != {int}:
            return None
        least, largest = min(values), max(values)
        fits = self.low <= least and largest <= self.high and least > -(2**53) and largest < 2**53
        return np.array(values, dtype=np.int64) if fits and not self.nullable else None

    def _texts(self, name: str, values: Sequence[Any]) -> NDArray[np.str_]:
        texts = [as_text(value) for value in values]
        if not all(isinstance(text, str) and len(text) <= self.length for text in texts):
            raise Mistake(name, f"must be text of at most {self.length} characters")
        return np.array(texts, dtype=f"<U{self.length}")

    def _one(self, name: str, value: Any) -> Any:
        if self.packed:
            return _unpack(name, value, self.length)
        quick = self._at_once(value) if self.length else None
        if quick is not None:
            return quick
        if isinstance(value, np.ndarray) and value.dtype != np.uint8:  # those stand for a text
            value = value.tolist()
        items = value if self.length else [value]
        if not isinstance(items, list) or len(items) != (self.length or 1):
            raise Mistake(name, f"must be a list of {self.length} numbers")
        for item in items:
            if item is None and self.nullable:
                continue
            if isinstance(item, bool) or not isinstance(item, (int, float)):
                raise Mistake(name, "must be a number")
            if self.kind == "integer" and not (isinstance(item, int) and abs(item) < 2**53):
                raise Mistake(name, "must be a whole number")
            if isinstance(item, int) and abs(item) >= 2**1000:
                raise Mistake(name, "is out of range")
        numbers = [math.nan if item is None else float(item) for item in items]
        if any(math.isnan(n) for n, item in zip(numbers, items, strict=True) if item is not None):
            raise Mistake(name, "must be a number")
        return numbers if self.length else numbers[0]

    def _at_once(self, value: Any) -> NDArray[np.float64] | None:
        """Numbers of the right length without a look at each; None where each is to be looked at."""
        if not isinstance(value, (list, np.ndarray)) or len(value) != self.length:
            return None
        if isinstance(value, list):
            kinds = set(map(type, value))
            if not (kinds == {int} if self.kind == "integer" else kinds <= {float, int}):
                return None
            try:
                value = np.array(value, dtype=np.int64 if self.kind == "integer" else np.float64)
            except OverflowError:
                return None
        if value.ndim != 1 or value.dtype.kind not in ("i" if self.kind == "integer" else "if"):
            return None
        array = value.astype(np.float64)
        largest = 2**53 if self.kind == "integer" else 2.0**1000
        return array if (np.abs(array) < largest).all() else None

    def _within(self, least: np.float64, largest: np.float64) -> bool:
        """Return whether numbers that lie between these are all well.

        None is missing, none infinite, none beyond the limits.
        """
        return bool(self.low <= least and largest <= self.high and -math.inf < least and largest < math.inf)

    def checked(self, name: str, array: NDArray[np.generic]) -> NDArray[np.generic]:
        """Refuse values outside the limits; give integers back as integers."""
        if self.kind == "text":
            return self._texts(name, array.tolist()) if array.dtype.kind != "U" else array
        numbers = array.astype(np.float64, copy=False)
        if self.kind == "number" and numbers.size and self._within(numbers.min(), numbers.max()):
            return array
        absent = np.isnan(numbers)
        if absent.any() and not self.nullable:
            raise Mistake(name, "must be a number")
        present = numbers[~absent]
        if np.isinf(present).any() or (present < self.low).any() or (present > self.high).any():
            raise Mistake(name, "is out of range")
        if self.kind == "integer":
            if (present != np.rint(present)).any():
                raise Mistake(name, "must be a whole number")
            return array if array.dtype.kind in "iu" else numbers if self.nullable else numbers.astype(np.int64)
        return array


Layout = Mapping[str, Slot]


@dataclass(frozen=True, slots=True)
class Contributions:
    """`count` contributions of one peer partition to one part; row i of every array is contributor i's. `read_as` is
    the layout by which they were read and checked, where they came as JSON."""

    part: str
    count: int
    fields: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)
    partition: int = 0
    read_as: Layout | None = None

    def payloads(self, layout: Layout) -> Iterable[dict[str, Any]]:
        """Each contribution as the JSON object that travels."""
        for row in range(self.count):
            yield {name: _plain(slot, self.fields[name][row]) for name, slot in layout.items()}


def read_payloads(layout: Layout, part: str, payloads: Sequence[object], partition: int = 0) -> Contributions:
    """JSON objects back into one batch, each checked against the layout."""
    for payload in payloads:
        if not isinstance(payload, Mapping):
            raise Mistake("payload", "must be a JSON object")
        for name in payload:
            if name not in layout:
                raise Mistake(f"payload.{name}"[:80], "is not a field of this contribution")
        for name in layout:
            if name not in payload:
                raise Mistake(f"payload.{name}", "is missing")
    objects = [p for p in payloads if isinstance(p, Mapping)]
    fields = {name: slot.array(f"payload.{name}", [p[name] for p in objects]) for name, slot in layout.items()}
    return Contributions(part, len(objects), fields, partition, layout)


def checked(layout: Layout, batch: Contributions) -> Contributions:
    """A batch that never was JSON (simulation) passes the same limits."""
    if batch.read_as is layout or batch.read_as == layout:
        return batch
    if set(batch.fields) != set(layout):
        raise Mistake("payload", "does not have the fields of this contribution")
    for name, slot in layout.items():
        array = np.asarray(batch.fields[name])
        expected = (batch.count, slot.length) if slot.length and slot.kind != "text" else (batch.count,)
        if array.shape != expected:
            raise Mistake(f"payload.{name}", "has the wrong length")
        slot.checked(f"payload.{name}", array)
    return batch


def _plain(slot: Slot, value: Any) -> Any:
    if slot.kind == "text":
        return str(value)
    if slot.packed:
        return base64.b64encode(np.asarray(value, dtype="<f4").tobytes()).decode("ascii")
    if slot.length:
        several = np.asarray(value)
        if several.dtype.kind in "iu" or not np.isnan(several).any():
            return several.astype(np.int64 if slot.kind == "integer" else np.float64).tolist()
        return [_scalar(slot, v) for v in several.tolist()]
    return _scalar(slot, value.item() if hasattr(value, "item") else value)


def as_text(value: Any) -> Any:
    """Return the text that bytes from a frame stand for: what looks like base64 travels, and is read, as bytes."""
    if isinstance(value, np.ndarray) and value.dtype == np.uint8:
        return base64.b64encode(value.tobytes()).decode("ascii")
    return value


def _scalar(slot: Slot, value: float) -> float | int | None:
    if value != value:
        return None
    return int(value) if slot.kind == "integer" else float(value)


def _unpack(name: str, value: object, length: int) -> NDArray[np.float64]:
    if isinstance(value, np.ndarray) and value.dtype == np.uint8:  # from a frame: the bytes themselves
        raw = value.tobytes()
    elif not isinstance(value, str):
        raise Mistake(name, "must be base64 text")
    else:
        try:
            raw = base64.b64decode(value, validate=True)
        except ValueError:
            raise Mistake(name, "must be base64 text") from None
    if len(raw) != 4 * length:
        raise Mistake(name, f"must hold {length} float32 numbers")
    return np.frombuffer(raw, dtype="<f4").astype(np.float64)
