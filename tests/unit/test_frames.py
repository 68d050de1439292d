"""A frame says exactly what the same message says as JSON, and nothing but a frame is read as one."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from typing import Any

import numpy as np
import pytest

from thebes.privacy.faults import Mistake
from thebes.tasks.contributions import Slot, read_payloads
from thebes.wire import frames
from thebes.wire.refusals import Malformed

WEIGHTS = np.linspace(-1, 1, 12_000, dtype="<f4")
PACKED = base64.b64encode(WEIGHTS.tobytes()).decode()


def message(**payload: Any) -> dict[str, Any]:
    return {"ask_id": "a", "part": "phase-0", "contributor": "c" * 32, "payload": payload}


def test_a_message_comes_back_as_it_was() -> None:
    sent = message(
        report=list(range(-5000, 5000)), gradient=[i / 7 for i in range(500)], weights=PACKED, failure=3, name="x"
    )
    content, media_type = frames.encode(sent)
    assert media_type == frames.MEDIA_TYPE
    back = frames.decode(content)
    assert back == sent
    assert all(type(item) is int for item in back["payload"]["report"])
    assert all(type(item) is float for item in back["payload"]["gradient"])
    assert frames.encode(back) == (content, media_type)


def test_a_small_message_travels_as_json() -> None:
    content, media_type = frames.encode(message(age=40, report=[1] * 100))
    assert media_type == "application/json"
    assert json.loads(content) == message(age=40, report=[1] * 100)


def test_a_frame_is_smaller_than_its_json_and_holds_raw_numbers() -> None:
    sent = message(weights=PACKED)
    content, _ = frames.encode(sent)
    assert len(content) < 0.8 * len(json.dumps(sent))
    assert content.endswith(WEIGHTS.tobytes())


@pytest.mark.parametrize(
    "value",
    [
        [1, 2.0] * 100,
        [None] * 100,
        [True] * 100,
        [2**63] * 100,
        [[1.0]] * 100,
        ["a"] * 100,
        "not base64 at all, but long enough to be thought of as an array ................",
        "QUJD" * 20 + "QQ=",
        "QR==".rjust(80, "A"),  # decodes, but another text is what its bytes are written as
    ],
)
def test_what_would_not_come_back_exactly_stays_json(value: Any) -> None:
    frame = frames.split(message(x=value))
    assert not frame.arrays
    assert frames.read(frames.write(frame)).message() == message(x=value)


def test_a_message_without_payload_or_with_another_kind_of_it_can_be_framed() -> None:
    for sent in ({"wait": 3.0}, {"payload": None}, {"payload": [1.0] * 100}, {"payload": "x"}):
        assert frames.decode(frames.write(frames.split(sent))) == sent


def test_a_layout_reads_a_frame_like_json() -> None:
    layout = {"weights": Slot("number", length=len(WEIGHTS), packed=True), "report": Slot("integer", -9, 9, length=100)}
    sent = message(weights=PACKED, report=[3] * 100)
    framed = frames.decode(frames.write(frames.split(sent)))
    one, other = (read_payloads(layout, "phase-0", [m["payload"]]) for m in (sent, framed))
    for name in layout:
        assert np.array_equal(one.fields[name], other.fields[name])


def build(header: Any, blocks: bytes = b"", **head: Any) -> bytes:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    start = struct.pack(
        "<8sHHI",
        head.get("magic", b"THBFRAME"),
        head.get("version", 1),
        head.get("zero", 0),
        head.get("length", len(raw)),
    )
    return start + raw + blocks


def field(block: bytes = b"", **changed: Any) -> dict[str, Any]:
    told = {"name": "x", "form": "list", "dtype": "<f8", "shape": [len(block) // 8]}
    return {**told, "sha256": hashlib.sha256(block).hexdigest(), **changed}


TWO = np.array([1.0, 2.0]).tobytes()
BAD: dict[str, bytes] = {
    "empty": b"",
    "too short": b"THBFRAME\x01",
    "json": b'{"ask_id": "a", "part": "phase-0"}',
    "pickle": b"\x80\x04\x95" + b"\x00" * 40,
    "npy": b"\x93NUMPY\x01\x00" + b"\x00" * 40,
    "another magic": build({"body": {}, "fields": []}, magic=b"THBFRAMF"),
    "another version": build({"body": {}, "fields": []}, version=2),
    "set reserved bits": build({"body": {}, "fields": []}, zero=1),
    "header longer than the frame": build({"body": {}, "fields": []}, length=1000),
    "header of four gigabytes": build({"body": {}, "fields": []}, length=2**32 - 1),
    "header that is not JSON": build(b"{"),
    "header that is not text": build(b"\xff\xfe"),
    "header nested too deeply": build(b"[" * 200_000),
    "header that is a list": build([]),
    "header without fields": build({"body": {}}),
    "header with more": build({"body": {}, "fields": [], "more": 1}),
    "body that is a list": build({"body": [], "fields": []}),
    "fields that are an object": build({"body": {}, "fields": {}}),
    "a name twice in the header": build(b'{"body": {}, "body": {}, "fields": []}'),
    "NaN in the header": build(b'{"body": {"a": NaN}, "fields": []}'),
    "infinity in the header": build(b'{"body": {"a": 1e999}, "fields": []}'),
    "a huge whole number": build(b'{"body": {"a": ' + b"9" * 5000 + b'}, "fields": []}'),
    "too many fields": build({"body": {}, "fields": [field(name=str(i)) for i in range(257)]}),
    "a field that is a number": build({"body": {}, "fields": [3]}),
    "a field with more": build({"body": {}, "fields": [field(TWO, more=1)]}, TWO),
    "a field without a name": build({"body": {}, "fields": [field(TWO, name="")]}, TWO),
    "an object dtype": build({"body": {}, "fields": [field(TWO, dtype="|O")]}, TWO),
    "a big-endian dtype": build({"body": {}, "fields": [field(TWO, dtype=">f8")]}, TWO),
    "a dtype that is a list": build({"body": {}, "fields": [field(TWO, dtype=[["a", "<f8"]])]}, TWO),
    "raw bytes as a list": build({"body": {}, "fields": [field(TWO, dtype="|u1", shape=[16])]}, TWO),
    "an unknown form": build({"body": {}, "fields": [field(TWO, form="pickle")]}, TWO),
    "a form that is an object": build({"body": {}, "fields": [field(TWO, form={})]}, TWO),
    "a negative shape": build({"body": {}, "fields": [field(TWO, shape=[-1])]}, TWO),
    "a true shape": build({"body": {}, "fields": [field(TWO[:8], shape=[True])]}, TWO[:8]),
    "a shape beyond all bytes": build({"body": {}, "fields": [field(TWO, shape=[2**62])]}, TWO),
    "two dimensions": build({"body": {}, "fields": [field(TWO, shape=[1, 2])]}, TWO),
    "no dimension": build({"body": {}, "fields": [field(TWO, shape=[])]}, TWO),
    "an array cut off": build({"body": {}, "fields": [field(TWO)]}, TWO[:-1]),
    "bytes after the end": build({"body": {}, "fields": [field(TWO)]}, TWO + b"\0"),
    "another array": build({"body": {}, "fields": [field(TWO)]}, TWO[::-1]),
    "a checksum that is a number": build({"body": {}, "fields": [field(TWO, sha256=3)]}, TWO),
    "a field twice": build({"body": {}, "fields": [field(TWO), field(TWO)]}, TWO + TWO),
    "a field beside itself": build({"body": {"payload": {"x": 1}}, "fields": [field(TWO)]}, TWO),
    "a payload that is a list": build({"body": {"payload": []}, "fields": [field(TWO)]}, TWO),
    "a number that is none": build(
        {"body": {}, "fields": [field(np.array([np.nan]).tobytes())]}, np.array([np.nan]).tobytes()
    ),
}


@pytest.mark.parametrize("fault", BAD)
def test_anything_else_is_refused(fault: str) -> None:
    with pytest.raises(Malformed) as refused:
        frames.read(BAD[fault])
    assert refused.value.argument == "frame"


def test_a_frame_larger_than_the_reader_takes_is_refused_before_it_is_read() -> None:
    with pytest.raises(Mistake, match="larger than 10 bytes"):
        frames.read(build({"body": {}, "fields": []}), most_bytes=10)


def test_the_builder_of_bad_frames_makes_good_ones_too() -> None:
    good = build({"body": {"payload": {"y": 1}}, "fields": [field(TWO)]}, TWO)
    assert frames.decode(good) == {"payload": {"y": 1, "x": [1.0, 2.0]}}
