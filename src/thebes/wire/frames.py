"""`application/vnd.thebes.frame`: a message whose large arrays travel as raw little-endian numbers.

Layout: magic, version, length of the header, JSON header, then every array's bytes. A frame says exactly what the
same message says as JSON: long lists of numbers and long base64 texts in its `payload` become arrays and come back
as they were. The reader trusts nothing: types, shapes, lengths and SHA-256 are checked before a number is used.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray

from thebes.wire.refusals import Malformed

MEDIA_TYPE = "application/vnd.thebes.frame"
JSON = "application/json"
MAGIC = b"THBFRAME"
VERSION = 1
WORTH_FRAMING = 10_000  #: numbers (or base64 bytes) in one field from which a message is sent as a frame
SHORTEST = 64  #: fields shorter than this stay in the header
MOST_BYTES = 2**26
MOST_HEADER = 2**20
MOST_FIELDS = 256

_HEAD = struct.Struct("<8sHHI")  # magic, version, zero, length of the header
_DTYPES: dict[str, np.dtype[Any]] = {
    "<i8": np.dtype("<i8"),
    "<f8": np.dtype("<f8"),
    "|u1": np.dtype("|u1"),
    "<f4": np.dtype("<f4"),
}
Form = Literal["list", "base64"]
Array = NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Frame:
    """`body` is the message without its arrays; `arrays` holds those, by field of the payload, with how each is
    written in JSON."""

    body: Mapping[str, Any]
    arrays: Mapping[str, tuple[Form, Array]]

    def message(self) -> dict[str, Any]:
        """The message as its JSON form would be read."""
        message = dict(self.body)
        if self.arrays:
            payload = dict(message.get("payload") or {})
            message["payload"] = payload | {name: _as_json(*kept) for name, kept in self.arrays.items()}
        return message


def encode(message: Mapping[str, Any], *, worth: int = WORTH_FRAMING) -> tuple[bytes, str]:
    """(bytes, media type): JSON for a small message, a frame where one field has at least `worth` numbers."""
    payload = message.get("payload")
    sizes = [len(v) for v in payload.values() if isinstance(v, (list, str))] if isinstance(payload, Mapping) else []
    if max(sizes, default=0) < worth:
        return json.dumps(message, allow_nan=False).encode(), JSON
    return write(split(message)), MEDIA_TYPE


def decode(content: bytes, *, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """The message in a frame, as if it had come as JSON."""
    return read(content, most_bytes=most_bytes).message()


def split(message: Mapping[str, Any]) -> Frame:
    """Take the long fields out of a message's payload."""
    payload = message.get("payload")
    if not isinstance(payload, Mapping):
        return Frame(dict(message), {})
    arrays: dict[str, tuple[Form, Array]] = {}
    for name, value in payload.items():
        found = _as_array(value)
        if found is not None and len(arrays) < MOST_FIELDS:
            arrays[name] = found
    rest = {name: value for name, value in payload.items() if name not in arrays}
    return Frame({**message, "payload": rest}, arrays)


def write(frame: Frame) -> bytes:
    """A frame as bytes; the same frame gives the same bytes."""
    blocks = [array.tobytes() for _, array in frame.arrays.values()]
    fields = [
        {
            "name": name,
            "form": form,
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "sha256": hashlib.sha256(block).hexdigest(),
        }
        for (name, (form, array)), block in zip(frame.arrays.items(), blocks, strict=True)
    ]
    header = json.dumps({"body": frame.body, "fields": fields}, allow_nan=False, separators=(",", ":")).encode()
    return b"".join([_HEAD.pack(MAGIC, VERSION, 0, len(header)), header, *blocks])


def read(content: bytes, *, most_bytes: int = MOST_BYTES) -> Frame:
    """Read a frame from anybody; whatever is not exactly one raises `Malformed`."""
    if len(content) > most_bytes:
        _refuse(f"is larger than {most_bytes} bytes")
    if len(content) < _HEAD.size:
        _refuse("is too short")
    magic, version, zero, length = _HEAD.unpack_from(content)
    if magic != MAGIC or zero != 0:
        _refuse("does not start like a frame")
    if version != VERSION:
        _refuse(f"has another version than {VERSION}")
    start = _HEAD.size + length
    if length > MOST_HEADER or start > len(content):
        _refuse("has a header that is too long")
    body, fields = _header(content[_HEAD.size : start])
    payload = body.get("payload")
    arrays: dict[str, tuple[Form, Array]] = {}
    for told in fields:
        name, form, dtype, shape = _field(told)
        if name in arrays or (isinstance(payload, dict) and name in payload):
            _refuse("names a field twice")
        end = start + math.prod(shape) * dtype.itemsize
        if end > len(content):
            _refuse("is cut off")
        block = content[start:end]
        if hashlib.sha256(block).hexdigest() != told["sha256"]:
            _refuse("has an array that does not match its SHA-256")
        array = np.frombuffer(block, dtype=dtype).reshape(shape)
        if form == "list" and dtype.kind == "f" and not np.isfinite(array).all():
            _refuse("has an infinite or missing number")
        arrays[name] = (form, array)
        start = end
    if start != len(content):
        _refuse("has bytes after its end")
    if arrays and not isinstance(payload, (dict, type(None))):
        _refuse("has a payload that is not an object")
    return Frame(body, arrays)


def _header(raw: bytes) -> tuple[dict[str, Any], list[Any]]:
    try:
        header = json.loads(
            raw.decode("utf-8"), object_pairs_hook=_once_each, parse_constant=_no_number, parse_float=_finite
        )
    except (ValueError, RecursionError):
        _refuse("has a header that is not JSON")
    if not isinstance(header, dict) or set(header) != {"body", "fields"}:
        _refuse("has a header without body and fields")
    body, fields = header["body"], header["fields"]
    if not isinstance(body, dict) or not isinstance(fields, list) or len(fields) > MOST_FIELDS:
        _refuse("has a header without body and fields")
    return body, fields


def _field(told: Any) -> tuple[str, Form, np.dtype[Any], tuple[int, ...]]:
    if not isinstance(told, dict) or set(told) != {"name", "form", "dtype", "shape", "sha256"}:
        _refuse("has a field without name, form, dtype, shape and sha256")
    name, form, dtype, shape = told["name"], told["form"], told["dtype"], told["shape"]
    if not isinstance(name, str) or not 0 < len(name) <= 200:
        _refuse("has a field without a name")
    if form not in ("list", "base64") or not isinstance(dtype, str) or dtype not in _DTYPES:
        _refuse("has a field of an unknown type")
    if (dtype == "|u1") != (form == "base64"):
        _refuse("has a field whose type does not fit its form")
    if not isinstance(shape, list) or len(shape) != 1 or type(shape[0]) is not int or not 0 <= shape[0] <= 2**40:
        _refuse("has a field of an unknown shape")
    return name, form, _DTYPES[dtype], tuple(shape)


def _as_array(value: object) -> tuple[Form, Array] | None:
    """An array that comes back as exactly this value, or None where there is none."""
    if isinstance(value, str) and len(value) >= SHORTEST:
        try:
            raw = base64.b64decode(value, validate=True)
        except ValueError:
            return None
        if base64.b64encode(raw).decode("ascii") != value:
            return None
        return "base64", np.frombuffer(raw, dtype="|u1")
    if isinstance(value, list) and len(value) >= SHORTEST:
        if all(type(item) is int and -(2**63) <= item < 2**63 for item in value):
            return "list", np.array(value, dtype="<i8")
        if all(type(item) is float and math.isfinite(item) for item in value):
            return "list", np.array(value, dtype="<f8")
    return None


def _as_json(form: Form, array: Array) -> Any:
    return base64.b64encode(array.tobytes()).decode("ascii") if form == "base64" else array.tolist()


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_number(text)


def _no_number(text: str) -> NoReturn:
    raise ValueError("not a finite number")


def _refuse(what: str) -> NoReturn:
    raise Malformed("frame", what)
