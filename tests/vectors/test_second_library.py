"""A slow and obvious second verifier on py_ecc, pure Python by other hands, sees what ours sees.

Written from the drafts, sharing nothing with `thebes.tokens`: other curve code, other hashing to the curve, other
expand_message.
"""

from __future__ import annotations

import base64
import json
import secrets
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from py_ecc.bls.hash import expand_message_xmd
from py_ecc.bls.hash_to_curve import hash_to_G1
from py_ecc.bls.point_compression import compress_G1, decompress_G1, decompress_G2
from py_ecc.optimized_bls12_381 import FQ12, G2, Z1, add, curve_order, multiply, neg, pairing

from tests.support.examples import examples
from thebes.tokens.bbs import curve, suite

# py_ecc raises it for the whole process; then deeply nested JSON is no longer an error but the end of the interpreter.
sys.setrecursionlimit(1000)

KEPT: dict[str, Any] = json.loads((Path(__file__).parent / "bbs-nym-1.json").read_text(encoding="utf-8"))
API = b"BBS_BLS12381G1_XMD:SHA-256_SSWU_RO_H2G_HM2S_PSEUDONYM_"
P1 = 0xA8CE256102840821A3E94EA9025E4662B205762F9776B3A766C872B948F1FD225E7C59698588E70D11406D161B4E28C9


def to_scalar(message: bytes, tag: bytes) -> int:
    return int.from_bytes(expand_message_xmd(message, tag, 48, sha256), "big") % curve_order


def octets(point: Any) -> bytes:
    return int(compress_G1(point)).to_bytes(48, "big")


def total(*terms: tuple[Any, int]) -> Any:
    found = Z1
    for point, times in terms:
        found = add(found, multiply(point, times % curve_order))
    return found


def generators(api: bytes, number: int) -> list[Any]:
    seed = expand_message_xmd(api + b"MESSAGE_GENERATOR_SEED", api + b"SIG_GENERATOR_SEED_", 48, sha256)
    found = []
    for index in range(1, number + 1):
        seed = expand_message_xmd(seed + index.to_bytes(8, "big"), api + b"SIG_GENERATOR_SEED_", 48, sha256)
        found.append(hash_to_G1(seed, api + b"SIG_GENERATOR_DST_", sha256))
    return found


def slowly_verified(public_key: bytes, header: bytes, context: bytes, bound: bytes, token: bytes) -> bool:
    """The drafts' ProofVerify with pseudonym for one hidden blind and one hidden secret, step by step."""
    a, b, d = (decompress_G1(int.from_bytes(token[at : at + 48], "big")) for at in (0, 48, 96))
    e, r1, r3, blind, secret, c = (int.from_bytes(token[at : at + 32], "big") for at in range(144, 336, 32))
    name = decompress_G1(int.from_bytes(token[336:], "big"))
    key = decompress_G2((int.from_bytes(public_key[:48], "big"), int.from_bytes(public_key[48:], "big")))
    points = [*generators(API, 1), *generators(b"BLIND_" + API, 2)]
    head = header + (1).to_bytes(8, "big")
    listed = public_key + (2).to_bytes(8, "big") + b"".join(octets(point) for point in points) + API
    domain = to_scalar(listed + len(head).to_bytes(8, "big") + head, API + b"H2S_")
    base = total((decompress_G1(P1), 1), (points[0], domain))
    first = total((b, c), (a, e), (d, r1))
    second = total((base, c), (d, r3), (points[1], blind), (points[2], secret))
    third = total((hash_to_G1(context, API, sha256), secret), (name, -c))
    said = bytes(8) + b"".join(octets(point) for point in (a, b, d, first, second, name, third))
    said += domain.to_bytes(32, "big") + b"".join(len(x).to_bytes(8, "big") + x for x in (bound, context))
    return to_scalar(said, API + b"H2S_") == c and pairing(key, a) * pairing(neg(G2), b) == FQ12.one()


def seen(one: dict[str, str], token: str) -> bool:
    group = KEPT["parameters"]
    raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    context = bytes.fromhex(KEPT["contexts"][one["context"]]["digest"])
    report = bytes.fromhex(KEPT["report_digest"])
    return slowly_verified(bytes.fromhex(group["public_key"]), bytes.fromhex(group["header"]), context, report, raw[1:])


@pytest.mark.slow
def test_the_second_verifier_accepts_what_ours_accepts() -> None:
    for one in KEPT["accepted"]:
        if one["context"] in ("here", "other part") and one["peer"] == 0:
            assert seen(one, one["token"])


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "name", ["no signature behind it", "a report of its own", "another peer's pseudonym", "first point negated"]
)
def test_the_second_verifier_refuses_what_ours_refuses(name: str) -> None:
    (case,) = (case for case in KEPT["refused"] if case["name"] == name)
    assert not seen({"context": "here"}, case["token"])


@given(st.binary(max_size=80), st.binary(min_size=1, max_size=60))
@examples(10)
def test_hashing_to_the_curve_and_to_bytes_agrees(message: bytes, tag: bytes) -> None:
    assert curve.write_point(curve.hash_to_point(message, tag)) == octets(hash_to_G1(message, tag, sha256))
    for length in (1, 32, 48, 333):
        assert suite.expand(message, tag, length) == expand_message_xmd(message, tag, length, sha256)


@given(st.lists(st.integers(1, curve.ORDER - 1), min_size=1, max_size=3))
@examples(5)
def test_sums_of_products_agree(values: list[int]) -> None:
    points = suite.Suite(API).generators(len(values))
    expected = octets(total(*zip(generators(API, len(values)), values, strict=True)))
    assert curve.write_point(curve.combine(points, values)) == expected
    fixed = curve.FixedPoints(points)
    fixed.USES_BEFORE_TABLES = 0
    assert curve.write_point(fixed.combine(values)) == expected


@pytest.mark.slow
def test_pairings_agree_on_true_and_false_equations() -> None:
    key = secrets.randbelow(curve.ORDER - 1) + 1
    a = suite.Suite(API).generators(1)[0]
    for factor, holds in ((key, True), (key + 1, False)):
        b = curve.times(a, factor)
        assert curve.signed_by(curve.key_point(key), a, b) is holds
        there, here = (decompress_G1(int.from_bytes(curve.write_point(point), "big")) for point in (a, b))
        assert (pairing(multiply(G2, key), there) == pairing(G2, here)) is holds
