"""`application/vnd.thebes.frame`: a message whose large arrays travel as raw little-endian numbers.

Layout: magic, version, length of the header, JSON header, then every array's bytes. A frame says exactly what the
same message says as JSON: long lists of numbers and long base64 texts in its `payload` become arrays and come back
as they were. The reader trusts nothing: types, shapes, lengths and SHA-256 are checked before a number is used.

Version 2 has arrays that are deflated; a frame without any is one of version 1. Only what is public is compressed:
how far a contribution shrinks would say something of it to whoever sees only its length.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import NDArray
from pydantic_core import to_json

from thebes.privacy.reading import NotJSON, read_json
from thebes.wire.refusals import Malformed

MEDIA_TYPE = "application/vnd.thebes.frame"
JSON = "application/json"
MAGIC = b"THBFRAME"
VERSION = 1
DEFLATED = 2  #: the version of a frame with a deflated array
WORTH_FRAMING = 10_000  #: numbers (or base64 bytes) in one field from which a message is sent as a frame
SHORTEST = 64  #: fields shorter than this stay in the header
MOST_BYTES = 2**26
MOST_HEADER = 2**20
MOST_FIELDS = 256
_WORTH_DEFLATING = 65_536  #: bytes of an array
_PROBE_BYTES = 4096
_SHRINKS = 0.9  #: what does not become that much smaller stays as it is: noise, above all

_HEAD = struct.Struct("<8sHHI")  # magic, version, zero, length of the header
_DTYPES: dict[str, np.dtype[Any]] = {
    "<i8": np.dtype("<i8"),
    "<f8": np.dtype("<f8"),
    "|u1": np.dtype("|u1"),
    "<f4": np.dtype("<f4"),
}
Form = Literal["list", "base64"]
Array = NDArray[np.generic]
Block = bytes | memoryview


@dataclass(frozen=True, slots=True)
class Frame:
    """`body` is the message without its arrays; `arrays` holds those, by field of the payload, with how each is
    written in JSON."""

    body: Mapping[str, Any]
    arrays: Mapping[str, tuple[Form, Array]]

    def message(self, *, arrays: bool = False) -> dict[str, Any]:
        """The message as its JSON form would be read; or with its `arrays` as they are, for who counts with them."""
        message = dict(self.body)
        if self.arrays:
            found = {name: array if arrays else _as_json(form, array) for name, (form, array) in self.arrays.items()}
            message["payload"] = {**(message.get("payload") or {}), **found}
        return message


class WrittenMessage(dict[str, Any]):
    """A message together with the bytes of its frame, so that who keeps and sends it writes it once."""

    def __init__(self, message: Mapping[str, Any], content: bytes | None = None) -> None:
        super().__init__(message)
        self.content = write(split(message)) if content is None else content

    def blocks(self, **more: str) -> list[Block]:
        """Return the bytes of the message with these fields too, one after another, its arrays as they were written.

        They have no digests: whoever carries them is relied on to notice a changed byte.
        """
        magic, version, zero, length = _HEAD.unpack_from(self.content)
        start = _HEAD.size + length
        body, fields = _header(self.content[_HEAD.size : start])
        bare = [{name: value for name, value in told.items() if name != "sha256"} for told in fields]
        header = _as_header({**body, **more}, bare)
        return [_HEAD.pack(magic, version, zero, len(header)) + header, memoryview(self.content)[start:]]


def encode(message: Mapping[str, Any], *, worth: int = WORTH_FRAMING, public: bool = False) -> tuple[bytes, str]:
    """(bytes, media type): JSON for a small message, a frame where one field has at least `worth` numbers. Arrays of
    the payload are written like the lists and texts they stand for. What is `public` may be compressed."""
    payload = message.get("payload")
    values = payload.values() if isinstance(payload, Mapping) else ()
    if max((len(v) for v in values if isinstance(v, (list, str, np.ndarray))), default=0) < worth:
        return _as_text(message), JSON
    return write(split(message), public=public), MEDIA_TYPE


def decode(content: bytes, *, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """The message in a frame, as if it had come as JSON."""
    return read(content, most_bytes=most_bytes).message()


def _as_text(message: Mapping[str, Any]) -> bytes:
    """A message as JSON. Arrays are numbers and finite, or are looked at one by one: writing them is most of the work
    of a short answer, and the quick writer writes what is not a number, too."""
    payload = message.get("payload")
    arrays = [v for v in payload.values() if isinstance(v, np.ndarray)] if isinstance(payload, Mapping) else []
    if not arrays or not isinstance(payload, Mapping):
        return json.dumps(message, allow_nan=False).encode()
    body = {**message, "payload": plain(payload)}
    if all(array.dtype.kind != "f" or np.isfinite(array).all() for array in arrays):
        return to_json(body)
    return json.dumps(body, allow_nan=False).encode()


def plain(payload: Mapping[str, Any]) -> dict[str, Any]:
    """A payload with every array as JSON writes it."""
    return {name: _written(value) if isinstance(value, np.ndarray) else value for name, value in payload.items()}


def arrayed(payload: Mapping[str, Any]) -> dict[str, Any]:
    """A payload with its long fields as arrays, whichever way it came: read once, and counted with from then on."""
    found: dict[str, Any] = split({"payload": payload}).message(arrays=True)["payload"]
    return found


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
    rest = plain({name: value for name, value in payload.items() if name not in arrays})
    return Frame({**message, "payload": rest}, arrays)


def write(frame: Frame, *, public: bool = False) -> bytes:
    """A frame as bytes; the same frame gives the same bytes. What is `public` is compressed where that is worth it."""
    return b"".join(write_blocks(frame, public=public))


def write_blocks(frame: Frame, *, public: bool = False, digests: bool = True) -> list[Block]:
    """The same without a copy of its arrays: the bytes one after another. Without `digests` whoever carries them is
    relied on to notice a changed byte."""
    blocks: list[Block] = []
    fields, version = [], VERSION
    for name, (form, array) in frame.arrays.items():
        block: Block = np.ascontiguousarray(array).data.cast("B") if array.size else b""
        told: dict[str, Any] = {"name": name, "form": form, "dtype": array.dtype.str, "shape": list(array.shape)}
        if digests:
            told["sha256"] = hashlib.sha256(block).hexdigest()
        if public and _shrinks(block):
            block = _deflated(block)
            told["deflated"], version = len(block), DEFLATED
        blocks.append(block)
        fields.append(told)
    header = _as_header(frame.body, fields)
    return [_HEAD.pack(MAGIC, version, 0, len(header)) + header, *blocks]


def _as_header(body: Mapping[str, Any], fields: list[dict[str, Any]]) -> bytes:
    return json.dumps({"body": body, "fields": fields}, allow_nan=False, separators=(",", ":")).encode()


def read(
    content: bytes, *, most_bytes: int = MOST_BYTES, most_header: int = MOST_HEADER, digests: bool = True
) -> Frame:
    """Read a frame from anybody; whatever is not exactly one raises `Malformed`. `digests`: whether its arrays must
    come with their SHA-256."""
    if len(content) > most_bytes:
        _refuse(f"is larger than {most_bytes} bytes")
    if len(content) < _HEAD.size:
        _refuse("is too short")
    magic, version, zero, length = _HEAD.unpack_from(content)
    if magic != MAGIC or zero != 0:
        _refuse("does not start like a frame")
    if version not in (VERSION, DEFLATED):
        _refuse(f"has another version than {VERSION} and {DEFLATED}")
    start = _HEAD.size + length
    if length > most_header or start > len(content):
        _refuse("has a header that is too long")
    body, fields = _header(content[_HEAD.size : start])
    payload = body.get("payload")
    arrays: dict[str, tuple[Form, Array]] = {}
    opened, view = 0, memoryview(content)
    for told in fields:
        name, form, dtype, shape, deflated = _field(told, version, digests)
        if name in arrays or (isinstance(payload, dict) and name in payload):
            _refuse("names a field twice")
        size = math.prod(shape) * dtype.itemsize
        opened += size
        end = start + (size if deflated is None else deflated)
        if end > len(content):
            _refuse("is cut off")
        if opened > most_bytes:
            _refuse(f"is larger than {most_bytes} bytes once it is opened")
        block: Block = view[start:end] if deflated is None else _inflated(view[start:end], size)
        if "sha256" in told and hashlib.sha256(block).hexdigest() != told["sha256"]:
            _refuse("has an array that does not match its SHA-256")
        array = np.require(np.frombuffer(block, dtype=dtype).reshape(shape), requirements="A")
        if form == "list" and dtype.kind == "f" and not np.isfinite(array).all():
            _refuse("has an infinite or missing number")
        arrays[name] = (form, array)
        start = end
    if start != len(content):
        _refuse("has bytes after its end")
    if arrays and not isinstance(payload, (dict, type(None))):
        _refuse("has a payload that is not an object")
    return Frame(body, arrays)


def read_object(raw: bytes) -> dict[str, Any]:
    """A JSON object from anybody, read as strictly as a frame's header: no name twice, every number finite."""
    message = _parsed(raw)
    if not isinstance(message, dict):
        _refuse("is not an object")
    return message


def _parsed(raw: bytes) -> object:
    try:
        return read_json(raw, finite=True)
    except NotJSON:
        _refuse("holds what is not JSON")


def glance(content: bytes, *, most_header: int = MOST_HEADER) -> dict[str, Any]:
    """The message in a frame without its arrays, which are not looked at: for who passes it on."""
    if len(content) < _HEAD.size:
        _refuse("is too short")
    magic, _, _, length = _HEAD.unpack_from(content)
    if magic != MAGIC:
        _refuse("does not start like a frame")
    if length > most_header:
        _refuse("has a header that is too long")
    return _header(content[_HEAD.size : _HEAD.size + length])[0]


def _header(raw: bytes) -> tuple[dict[str, Any], list[Any]]:
    header = _parsed(raw)
    if not isinstance(header, dict) or set(header) != {"body", "fields"}:
        _refuse("has a header without body and fields")
    body, fields = header["body"], header["fields"]
    if not isinstance(body, dict) or not isinstance(fields, list) or len(fields) > MOST_FIELDS:
        _refuse("has a header without body and fields")
    return body, fields


def _field(told: Any, version: int, digests: bool) -> tuple[str, Form, np.dtype[Any], tuple[int, ...], int | None]:
    allowed = {"deflated"} if version == DEFLATED else set()
    needed = {"name", "form", "dtype", "shape"} | ({"sha256"} if digests else set())
    if not isinstance(told, dict) or set(told) - allowed - (set() if digests else {"sha256"}) != needed:
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
    deflated = told.get("deflated")
    if "deflated" in told and (type(deflated) is not int or not 0 <= deflated <= 2**40):
        _refuse("has a field of an unknown length")
    return name, form, _DTYPES[dtype], tuple(shape), deflated


def _shrinks(block: Block) -> bool:
    """Return whether compressing is worth it, by a look at a piece from the middle."""
    if len(block) < _WORTH_DEFLATING:
        return False
    middle = len(block) // 2
    return len(_deflated(block[middle : middle + _PROBE_BYTES])) < _SHRINKS * _PROBE_BYTES


def _deflated(block: Block) -> bytes:
    return zlib.compress(block, 1, -zlib.MAX_WBITS)


def _inflated(block: Block, size: int) -> bytes:
    """Exactly `size` bytes, whatever the block claims to hold: no more than one beyond it is ever made."""
    opening = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        opened = opening.decompress(block, size + 1)
    except zlib.error:
        _refuse("has an array that cannot be opened")
    if len(opened) != size or not opening.eof or opening.unused_data:
        _refuse("has an array of another length than it says")
    return opened


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
    if isinstance(value, np.ndarray):
        form: Form = "base64" if value.dtype == np.uint8 else "list"
        known = value.ndim == 1 and value.dtype.str in _DTYPES and (value.dtype.kind != "f" or np.isfinite(value).all())
        long = (len(value) + 2) // 3 * 4 if form == "base64" else len(value)
        return (form, value) if known and long >= SHORTEST else None
    if isinstance(value, list) and len(value) >= SHORTEST:
        kinds = set(map(type, value))
        if kinds == {int} and min(value) >= -(2**63) and max(value) < 2**63:
            return "list", np.array(value, dtype="<i8")
        if kinds == {float}:
            array = np.array(value, dtype="<f8")
            return ("list", array) if np.isfinite(array).all() else None
    return None


def _as_json(form: Form, array: Array) -> Any:
    return base64.b64encode(array.tobytes()).decode("ascii") if form == "base64" else array.tolist()


def _written(array: Array) -> Any:
    return _as_json("base64" if array.dtype == np.uint8 else "list", array)


def _refuse(what: str) -> NoReturn:
    raise Malformed("frame", what)
