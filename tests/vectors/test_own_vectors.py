"""Vectors of our own making: what the shape used here gives, and everything that is refused, named by its fault."""

from __future__ import annotations

import hashlib
import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from thebes.tokens import (
    Authority,
    Context,
    Credential,
    Enrolment,
    EnrolmentRefused,
    GroupParameters,
    Presented,
    TokenRefused,
    verify,
    verify_many,
)

ROOT = Path(__file__).parents[2]
KEPT: dict[str, Any] = json.loads((Path(__file__).parent / "bbs-nym-1.json").read_text(encoding="utf-8"))
GROUP = GroupParameters.from_json(KEPT["parameters"])
CONTEXTS = {
    name: Context(found["task_id"], found["task_digest"], found["part"]) for name, found in KEPT["contexts"].items()
}
HERE = CONTEXTS["here"]
REPORT = bytes.fromhex(KEPT["report_digest"])


def by_name(kind: str) -> Any:
    return pytest.mark.parametrize("case", KEPT[kind], ids=[case["name"] for case in KEPT[kind]])


def test_the_script_writes_the_same_vectors_again() -> None:
    written = runpy.run_path(str(ROOT / "tools" / "token_vectors.py"))["text"]()
    assert written == (Path(__file__).parent / "bbs-nym-1.json").read_text(encoding="utf-8")


def test_every_accepted_token_proves_its_pseudonym() -> None:
    for one in KEPT["accepted"]:
        context = CONTEXTS[one["context"]]
        report = context.report_digest(one["report"].encode())
        assert verify(GROUP, context, report, one["token"]) == one["pseudonym"]


def test_pseudonyms_of_two_peers_and_of_two_contexts_all_differ() -> None:
    names = [one["pseudonym"] for one in KEPT["accepted"]]
    assert len({(one["peer"], one["context"]) for one in KEPT["accepted"]}) == len(set(names)) == len(names)


def test_a_context_is_the_hash_that_the_page_describes() -> None:
    for name, found in KEPT["contexts"].items():
        parts = [b"thebes/tokens/context/v1", GROUP.public_key, b"vectors", b"2026-12"]
        parts += [found["task_id"].encode(), bytes.fromhex(found["task_digest"]), found["part"].encode()]
        plain = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
        assert CONTEXTS[name].digest(GROUP) == hashlib.sha256(plain).digest() == bytes.fromhex(found["digest"])


def test_what_was_kept_is_read_and_used_again() -> None:
    authority = Authority.from_json(KEPT["authority"])
    for peer, found in enumerate(KEPT["enrolments"]):
        begun = Enrolment.from_json(found["enrolment"])
        assert authority.enrol(begun.request) == found["response"]
        credential = Credential.from_json(found["credential"])
        assert begun.finish(found["response"]) == credential
        token = credential.present(HERE, REPORT, GROUP)
        (known,) = (
            one["pseudonym"] for one in KEPT["accepted"] if one["peer"] == peer and CONTEXTS[one["context"]] == HERE
        )
        assert verify(GROUP, HERE, REPORT, token) == known


@by_name("refused")
def test_token_is_refused(case: dict[str, str]) -> None:
    with pytest.raises(TokenRefused) as refused:
        verify(GROUP, HERE, REPORT, case["token"])
    assert refused.value.flaw == case["flaw"]


def test_refused_tokens_among_good_ones_spoil_none() -> None:
    good = [one for one in KEPT["accepted"] if one["context"] == "here"]
    cases = KEPT["refused"]
    tokens = [entry for case in cases for entry in (good[0]["token"], case["token"], good[1]["token"])]
    results = verify_many(GROUP, [Presented(HERE, REPORT, token) for token in tokens])
    assert results[0::3] == [good[0]["pseudonym"]] * len(cases)
    assert results[2::3] == [good[1]["pseudonym"]] * len(cases)
    assert [result.flaw for result in results[1::3] if isinstance(result, TokenRefused)] == [c["flaw"] for c in cases]


@by_name("requests")
def test_request_is_refused(case: dict[str, str]) -> None:
    with pytest.raises(EnrolmentRefused) as refused:
        Authority.from_json(KEPT["authority"]).enrol(case["request"])
    assert refused.value.flaw == case["flaw"]


@by_name("responses")
def test_response_is_refused(case: dict[str, str]) -> None:
    with pytest.raises(EnrolmentRefused) as refused:
        Enrolment.from_json(KEPT["enrolments"][0]["enrolment"]).finish(case["response"])
    assert refused.value.flaw == case["flaw"]
