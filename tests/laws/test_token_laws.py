"""Laws of tokens: one pseudonym for each peer and context; and whatever arrives, only our own refusals are raised."""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from thebes.privacy.faults import Mistake
from thebes.tokens import (
    Authority,
    Context,
    Credential,
    Enrolment,
    EnrolmentRefused,
    GroupParameters,
    Presented,
    TokenRefused,
    codec,
    verify,
    verify_many,
)
from thebes.tokens.bbs.curve import ORDER, FixedPoints, combine, hash_to_point, read_point, read_scalar, write_point
from thebes.tokens.bbs.scheme import SUITE
from thebes.tokens.refusals import Flawed

DIGEST = hashlib.sha256(b"document").hexdigest()
HERE = Context("task", DIGEST, "h0")
REPORT = HERE.report_digest(b"{}")


@cache
def group() -> tuple[Authority, GroupParameters, list[Credential]]:
    authority = Authority.create("laws", "2026-12", minimum=2)
    published = authority.parameters(size=3)
    begun = [Enrolment.begin(published, pin=published.digest) for _ in range(3)]
    return authority, published, [one.finish(authority.enrol(one.request)) for one in begun]


@cache
def good() -> str:
    _, published, credentials = group()
    return credentials[0].present(HERE, REPORT, published)


def spell(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)
CONTEXTS = st.builds(Context, NAMES, st.binary(min_size=32, max_size=32).map(bytes.hex), NAMES)


@given(st.lists(st.tuples(st.integers(0, 2), CONTEXTS, st.binary(max_size=20)), min_size=1, max_size=5))
@examples(15)
def test_a_pseudonym_is_one_for_each_peer_and_context(uses: list[tuple[int, Context, bytes]]) -> None:
    _, published, credentials = group()
    presented = [
        Presented(
            context,
            context.report_digest(body),
            credentials[peer].present(context, context.report_digest(body), published),
        )
        for peer, context, body in uses
    ]
    names = verify_many(published, presented)
    assert all(isinstance(name, str) for name in names)
    again = [verify(published, one.context, one.report_digest, one.token) for one in presented]
    assert names == again
    pairs = [(peer, context.digest(published)) for peer, context, _ in uses]
    for name, pair in zip(names, pairs, strict=True):
        assert [n for n, p in zip(names, pairs, strict=True) if p == pair] == [name] * pairs.count(pair)
        assert [p for n, p in zip(names, pairs, strict=True) if n == name] == [pair] * pairs.count(pair)


@given(CONTEXTS, CONTEXTS)
def test_two_contexts_never_share_a_digest(one: Context, other: Context) -> None:
    _, published, _ = group()
    assert (one.digest(published) == other.digest(published)) == (one == other)


def test_text_moved_over_a_border_makes_another_context() -> None:
    _, published, _ = group()
    digests = {
        Context(task, DIGEST, part).digest(published) for task, part in (("ab", "c"), ("a", "bc"), ("abc", "abc"))
    }
    assert len(digests) == 3


ANYTHING: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.integers(), st.binary(max_size=400), st.text(max_size=520), st.lists(st.text(max_size=5), max_size=3)
)


@given(ANYTHING)
def test_anything_for_a_token_raises_only_a_refusal(token: Any) -> None:
    _, published, _ = group()
    with pytest.raises(TokenRefused):
        verify(published, HERE, REPORT, token)


@given(ANYTHING)
def test_anything_for_a_request_or_a_response_raises_only_a_refusal(received: Any) -> None:
    authority, published, _ = group()
    with pytest.raises(EnrolmentRefused):
        authority.enrol(received)
    with pytest.raises(EnrolmentRefused):
        Enrolment.begin(published, pin=published.digest).finish(received)


@given(
    st.binary(min_size=384, max_size=384), st.binary(min_size=144, max_size=144), st.binary(min_size=112, max_size=112)
)
def test_random_bytes_of_the_right_length_raise_only_a_refusal(token: bytes, request: bytes, response: bytes) -> None:
    authority, published, _ = group()
    with pytest.raises(TokenRefused):
        verify(published, HERE, REPORT, spell(b"\x01" + token))
    with pytest.raises(EnrolmentRefused):
        authority.enrol(spell(b"\x01" + request))
    with pytest.raises(EnrolmentRefused):
        Enrolment.begin(published, pin=published.digest).finish(spell(b"\x01" + response))


@given(st.integers(0, 384), st.integers(1, 255))
@examples(60)
def test_a_token_with_any_byte_changed_is_refused(place: int, change: int) -> None:
    _, published, _ = group()
    raw = bytearray(base64.urlsafe_b64decode(good() + "=="))
    raw[place] ^= change
    with pytest.raises(TokenRefused):
        verify(published, HERE, REPORT, spell(bytes(raw)))


@given(st.integers(0, 513), st.characters(codec="utf-8"))
def test_a_token_with_any_character_changed_is_refused(place: int, character: str) -> None:
    _, published, _ = group()
    text = good()
    if text[place] != character:
        with pytest.raises(TokenRefused):
            verify(published, HERE, REPORT, text[:place] + character + text[place + 1 :])


FIELD = 0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB


@given(st.binary(max_size=20))
@examples(15)
def test_no_second_spelling_of_a_point_is_read(message: bytes) -> None:
    raw = write_point(hash_to_point(message, b"laws"))
    x = int.from_bytes(bytes([raw[0] & 0x1F]) + raw[1:], "big")
    for flags in range(0, 256, 32):
        spelled = bytes([flags | raw[0] & 0x1F]) + raw[1:]
        if flags in (0x80, 0xA0):  # the point and its opposite
            assert write_point(read_point(spelled)) == spelled
        else:
            with pytest.raises(Flawed):
                read_point(spelled)
    if x + FIELD < 2**381:
        over = (x + FIELD).to_bytes(48, "big")
        with pytest.raises(Flawed):
            read_point(bytes([over[0] | raw[0] & 0xE0]) + over[1:])


@given(st.binary(min_size=32, max_size=32))
def test_a_scalar_is_read_below_the_order_and_nowhere_else(raw: bytes) -> None:
    value = int.from_bytes(raw, "big")
    if 0 < value < ORDER:
        assert read_scalar(raw) == value
    else:
        with pytest.raises(Flawed):
            read_scalar(raw)


@given(st.lists(st.integers(-(2**260), 2**260), min_size=3, max_size=3))
@examples(12)
def test_tables_of_multiples_give_what_the_library_gives(values: list[int]) -> None:
    assert tables().combine(values) == combine(SUITE.generators(3), values)


@cache
def tables() -> FixedPoints:
    fixed = FixedPoints(SUITE.generators(3))
    for _ in range(FixedPoints.USES_BEFORE_TABLES):
        fixed.combine([1, 2, 3])
    return fixed


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


@cache
def records() -> list[tuple[Any, dict[str, Any]]]:
    authority, published, credentials = group()
    begun = Enrolment.begin(published, pin=published.digest)
    kept = ((Authority, authority), (GroupParameters, published), (Credential, credentials[0]), (Enrolment, begun))
    return [(kind, one.as_json()) for kind, one in kept]


@given(JSON)
def test_anything_for_a_record_raises_only_a_mistake(value: Any) -> None:
    for kind, _ in records():
        with pytest.raises(Mistake):
            kind.from_json(value)


def test_a_record_of_a_version_that_only_looks_like_one_is_refused() -> None:
    for kind, record in records():
        right = record["version"]
        for version in (True, float(right), str(right), 0, right + 1, None):
            with pytest.raises(Mistake, match="version"):
                kind.from_json({**record, "version": version})


@pytest.mark.slow
@given(st.integers(0, 3), st.data(), JSON)
@examples(50)
def test_a_record_with_any_field_changed_is_refused_or_another_record(
    place: int, data: st.DataObject, value: Any
) -> None:
    kind, record = records()[place]
    field = data.draw(st.sampled_from(sorted(record)))
    changed = {**record, field: value}
    try:
        read = kind.from_json(changed)
    except Mistake:
        return
    assert json.dumps(read.as_json(), sort_keys=True) == json.dumps(changed, sort_keys=True)


@given(st.lists(st.binary(max_size=6), max_size=4), st.lists(st.binary(max_size=6), max_size=4))
def test_digests_tell_every_two_lists_of_parts_apart(one: list[bytes], other: list[bytes]) -> None:
    assert (codec.digest("label", *one) == codec.digest("label", *other)) == (one == other)
