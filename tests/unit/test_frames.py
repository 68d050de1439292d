"""A frame says exactly what the same message says as JSON, and nothing but a frame is read as one."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import zlib
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
    "another version": build({"body": {}, "fields": []}, version=3),
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


# --- compressed arrays ----------------------------------------------------------------------------------


def deflated(block: bytes, **changed: Any) -> tuple[dict[str, Any], bytes]:
    packed = zlib.compress(block, 9, -15)
    return {**field(block), "deflated": len(packed), **changed}, packed


def test_what_is_public_and_shrinks_is_compressed_and_comes_back() -> None:
    even, noise = [0.25] * 20_000, np.random.default_rng(1).normal(size=20_000).tolist()
    for values, shrinks in ((even, True), (noise, False)):
        sent = message(weights=values)
        content, _ = frames.encode(sent, public=True)
        assert (len(content) < 20_000) == shrinks
        assert content[8] == (frames.DEFLATED if shrinks else frames.VERSION)
        assert frames.decode(content) == sent
        assert frames.encode(sent, public=True)[0] == content


def test_a_contribution_is_never_compressed_so_that_its_length_says_nothing() -> None:
    even, noise = [0.25] * 20_000, np.random.default_rng(1).normal(size=20_000).tolist()
    lengths = {len(frames.encode(message(weights=values))[0]) for values in (even, noise)}
    assert len(lengths) == 1


def test_a_bomb_is_refused_before_it_goes_off() -> None:
    told, packed = deflated(bytes(2**26))
    with pytest.raises(Malformed, match="larger than 1000000 bytes once it is opened"):
        frames.read(build({"body": {}, "fields": [told]}, packed, version=2), most_bytes=1_000_000)
    small = {**told, "shape": [2]}  # it says it were small
    with pytest.raises(Malformed, match="another length"):
        frames.read(build({"body": {}, "fields": [small]}, packed, version=2), most_bytes=1_000_000)
    half, packed = deflated(bytes(800_000))
    several = [{**half, "name": name} for name in "xy"]
    with pytest.raises(Malformed, match="larger than 1000000 bytes once it is opened"):
        frames.read(build({"body": {}, "fields": several}, packed * 2, version=2), most_bytes=1_000_000)


@pytest.mark.parametrize(
    ("change", "blocks", "version"),
    [
        ({}, "good", 1),  # a frame of version 1 has none
        ({"deflated": -1}, "good", 2),
        ({"deflated": True}, "good", 2),
        ({"deflated": None}, "good", 2),
        ({"deflated": "9"}, "good", 2),
        ({"deflated": 2**50}, "good", 2),
        ({"shape": [1]}, "good", 2),
        ({"shape": [3]}, "good", 2),
        ({"sha256": "0" * 64}, "good", 2),
        ({}, "cut", 2),
        ({}, "noise", 2),
        ({}, "more", 2),
    ],
)
def test_a_compressed_array_that_is_not_what_it_says_is_refused(
    change: dict[str, Any], blocks: str, version: int
) -> None:
    told, packed = deflated(TWO)
    assert frames.decode(build({"body": {}, "fields": [told]}, packed, version=2)) == {"payload": {"x": [1.0, 2.0]}}
    other = {"good": packed, "cut": packed[:-1], "noise": bytes(len(packed)), "more": packed + packed}[blocks]
    if blocks in ("cut", "more"):
        change = {"deflated": len(other)}
    with pytest.raises(Malformed):
        frames.read(build({"body": {}, "fields": [{**told, **change}]}, other, version=version))


# --- arrays as arrays -----------------------------------------------------------------------------------


def test_arrays_may_stay_arrays_and_are_written_as_the_lists_and_texts_they_stand_for() -> None:
    sent = message(report=list(range(300)), gradient=[i / 7 for i in range(300)], weights=PACKED, short=[1.5, 2.5])
    kept = frames.read(frames.write(frames.split(sent))).message(arrays=True)
    assert {name for name, value in kept["payload"].items() if isinstance(value, np.ndarray)} == {
        "report",
        "gradient",
        "weights",
    }
    assert frames.plain(kept["payload"]) == sent["payload"]
    assert frames.write(frames.split(kept)) == frames.write(frames.split(sent))
    assert frames.encode(kept) == frames.encode(sent)
    assert json.loads(frames.encode(kept, worth=10**9)[0]) == sent


def test_a_layout_hears_an_array_exactly_like_the_list_or_text_it_stands_for() -> None:
    slots = {
        "weights": Slot("number", length=len(WEIGHTS), packed=True),
        "report": Slot("integer", -9, 9, length=100),
        "model": Slot("number", -1e6, 1e6, length=100),
        "words": Slot("text", length=100),
    }
    good = {"weights": PACKED, "report": [3] * 100, "model": [0.1 * i for i in range(100)], "words": "like" * 25}
    bad: dict[str, dict[str, Any]] = {
        "too few": {"model": [0.5] * 99},
        "text for numbers": {"model": base64.b64encode(bytes(75)).decode()},
        "numbers for text": {"weights": [0.5] * 100},
        "fractions": {"report": [0.5] * 100},
        "whole numbers as floats": {"report": [3.0] * 100},
        "outside": {"report": [10] * 100},
        "far outside": {"report": [2**60] * 100},
        "too large": {"model": [1e300] * 100},
        "a longer text that is like bytes": {"words": "like" * 26},
        "numbers for words": {"words": [3] * 100},
        "another length of text": {"weights": base64.b64encode(WEIGHTS[1:].tobytes()).decode()},
    }

    def heard(changed: dict[str, Any], *, framed: bool) -> Any:
        sent = message(**{**good, **changed})
        if framed:
            sent = frames.read(frames.write(frames.split(sent))).message(arrays=True)
        try:
            return {n: a.tolist() for n, a in checked_fields(slots, sent["payload"]).items()}
        except Mistake as refused:
            return refused.argument, refused.message

    assert isinstance(heard({}, framed=False), dict)
    assert heard({}, framed=False) == heard({}, framed=True)
    for fault, changed in bad.items():
        told = heard(changed, framed=False)
        assert isinstance(told, tuple), fault
        assert heard(changed, framed=True) == told, fault


def checked_fields(layout: dict[str, Slot], payload: dict[str, Any]) -> Any:
    return read_payloads(layout, "phase-0", [payload]).fields


def test_a_frame_larger_than_the_reader_takes_is_refused_before_it_is_read() -> None:
    with pytest.raises(Mistake, match="larger than 10 bytes"):
        frames.read(build({"body": {}, "fields": []}), most_bytes=10)


def test_the_builder_of_bad_frames_makes_good_ones_too() -> None:
    good = build({"body": {"payload": {"y": 1}}, "fields": [field(TWO)]}, TWO)
    assert frames.decode(good) == {"payload": {"y": 1, "x": [1.0, 2.0]}}
