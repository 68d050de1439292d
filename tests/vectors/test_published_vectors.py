"""Byte for byte what the drafts' own fixtures say, suite BLS12-381-SHA-256: BBS signatures, and pseudonyms over them.

The fixtures are read from the folder THEBES_VECTORS (default ../shared/vectors) and not kept here. Their pseudonyms
are made with several messages and secrets; the operations under test are the same that the scheme uses with one.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from thebes.tokens.bbs import batch, commitment, proof
from thebes.tokens.bbs.curve import (
    ORDER,
    POINT_BYTES,
    hash_to_point,
    key_point,
    read_point,
    signed_by,
    write_point,
    write_scalar,
)
from thebes.tokens.bbs.proof import Proof
from thebes.tokens.bbs.pseudonym import ContextPoint, context_point
from thebes.tokens.bbs.scheme import SUITE
from thebes.tokens.bbs.signature import Issuer, Signature, sign_blindly, sign_point
from thebes.tokens.bbs.suite import CIPHERSUITE, P1, Suite, count, expand, write
from thebes.tokens.refusals import Flawed

FOLDER = Path(os.environ.get("THEBES_VECTORS") or Path(__file__).parents[2] / "../shared/vectors").resolve()
CORE, NYM = FOLDER / "bbs-core-sha256", FOLDER / "bbs-pseudonym-sha256"
CORE_SUITE = Suite(CIPHERSUITE + b"H2G_HM2S_")

pytestmark = pytest.mark.skipif(
    not CORE.is_dir() and "vectors" not in os.environ.get("THEBES_REQUIRE", ""),
    reason="the drafts' fixtures are read from THEBES_VECTORS, which is absent here",
)


def fixtures(pattern: str, folder: Path, expected: int) -> Any:
    """Every fixture of a kind; where the folder is absent, one case that is skipped (or fails) in their place."""
    paths = sorted(folder.glob(pattern)) or [folder / pattern.replace("*", "")]
    assert len(paths) in (1, expected)
    return pytest.mark.parametrize("path", paths, ids=lambda path: path.stem)


def read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def number(text: str) -> int:
    return int(text, 16)  # one fixture leaves out a leading zero


def raw(texts: list[str]) -> list[bytes]:
    return [bytes.fromhex(text) for text in texts]


# --- the signatures everything rests on


def test_the_fixed_point_comes_from_the_drafts_seed() -> None:
    tag = CORE_SUITE.tag("SIG_GENERATOR_SEED_")
    seed = expand(expand(CORE_SUITE.tag("BP_MESSAGE_GENERATOR_SEED"), tag, 48) + count(1), tag, 48)
    assert hash_to_point(seed, CORE_SUITE.tag("SIG_GENERATOR_DST_")) == P1


def test_generators_hashes_and_keys_are_those_of_the_draft() -> None:
    found = read(CORE / "generators.json")
    points = [write_point(point).hex() for point in CORE_SUITE.generators(len(found["MsgGenerators"]) + 1)]
    assert points == [found["Q1"], *found["MsgGenerators"]]
    assert write_point(P1).hex() == found["P1"]
    hashed = read(CORE / "h2s.json")
    assert bytes.fromhex(hashed["dst"]) == CORE_SUITE.tag("H2S_")
    assert CORE_SUITE.hash_to_scalar(bytes.fromhex(hashed["message"])) == number(hashed["scalar"])
    for case in read(CORE / "MapMessageToScalarAsHash.json")["cases"]:
        assert CORE_SUITE.message_scalar(bytes.fromhex(case["message"])) == number(case["scalar"])
    pair = read(CORE / "keypair.json")["keyPair"]
    assert write_point(key_point(number(pair["secretKey"]))).hex() == pair["publicKey"]
    mocked = read(CORE / "mockedRng.json")
    stream = expand(bytes.fromhex(mocked["seed"]), bytes.fromhex(mocked["dst"]), 48 * mocked["count"])
    scalars = [int.from_bytes(stream[start : start + 48], "big") % ORDER for start in range(0, len(stream), 48)]
    assert scalars == [number(text) for text in mocked["mockedScalars"]]


def core_issuer(key: str, messages: int, header: str) -> Issuer:
    return Issuer(CORE_SUITE, bytes.fromhex(key), CORE_SUITE.generators(messages + 1), bytes.fromhex(header))


@fixtures("signature/*.json", CORE, 10)
def test_signature_is_the_drafts_byte_for_byte(path: Path) -> None:
    found = read(path)
    scalars = [CORE_SUITE.message_scalar(message) for message in raw(found["messages"])]
    key = number(found["signerKeyPair"]["secretKey"])
    issuer = core_issuer(found["signerKeyPair"]["publicKey"], len(scalars), found["header"])
    try:
        Signature.read(bytes.fromhex(found["signature"])).verify(issuer, scalars)
        valid = True
    except Flawed:
        valid = False
    assert valid == found["result"]["valid"]
    if valid:
        e = CORE_SUITE.hash_to_scalar(write(key, *scalars, issuer.domain))
        assert sign_point(key, e, issuer.signed_point(scalars)).write().hex() == found["signature"]


@fixtures("proof/*.json", CORE, 15)
def test_proof_of_a_signature_is_judged_as_in_the_draft(path: Path) -> None:
    found = read(path)
    content = bytes.fromhex(found["proof"])
    places, messages = found["disclosedIndexes"], raw(found["messages"])
    hidden = (len(content) - proof.length(0)) // 32
    issuer = core_issuer(found["signerPublicKey"], hidden + len(places), found["header"])
    disclosed = {place: CORE_SUITE.message_scalar(messages[place]) for place in places}
    made = Proof.read(content, hidden)
    if len(disclosed) < len(places):  # one index twice
        with pytest.raises(Flawed, match="length"):
            made.commitments(issuer, disclosed)
        assert not found["result"]["valid"]
        return
    first, second = made.commitments(issuer, disclosed)
    points = (made.a, made.b, made.d, first, second)
    challenge = proof.challenge_of(issuer, disclosed, points, bytes.fromhex(found["presentationHeader"]))
    valid = challenge == made.challenge and signed_by(issuer.key, made.a, made.b)
    assert valid == found["result"]["valid"]
    if challenge == made.challenge:
        trace = found["trace"]
        shown = [write_point(point).hex() for point in points]
        assert shown == [trace[name] for name in ("A_bar", "B_bar", "D", "T1", "T2")]
        assert write_scalar(issuer.domain).hex() == trace["domain"]


# --- pseudonyms


def test_the_scheme_uses_the_fixtures_interface() -> None:
    found = read(NYM / "generators.json")
    own, blind = found["generators"], found["blindGenerators"]
    assert SUITE.api_id.decode() == own["api_id"]
    assert b"BLIND_" + SUITE.api_id == blind["api_id"].encode()
    points = [write_point(point).hex() for point in SUITE.generators(11)]
    assert points == [own["Q1"], *own["MsgGenerators"]]
    listed = [value for name, value in blind.items() if name.startswith("Q")]
    listed += next(value for value in blind.values() if isinstance(value, list))
    assert [write_point(point).hex() for point in SUITE.blind_generators(len(listed))] == listed


@fixtures("nymCommit/*.json", NYM, 4)
def test_commitment_is_the_drafts_byte_for_byte(path: Path) -> None:
    found = read(path)
    drawn = found["trace"]["random_scalars"]
    values = [SUITE.message_scalar(message) for message in raw(found["committedMessages"])]
    values += [number(text) for text in found["proverNyms"]]
    masks = [number(drawn["s_tilde"]), *(number(text) for text in drawn["m_tildes"])]
    made = commitment.commit(SUITE, values, blind=number(found["proverBlind"]), masks=masks)
    assert made.hex() == found["commitmentWithProof"]
    assert write_point(commitment.opened(SUITE, made, len(values))) == made[:POINT_BYTES]


class Signed:
    """Return what a fixture's authority and holder have in common, once the holder is enrolled."""

    def __init__(self, found: dict[str, Any], public_key: str) -> None:
        self.own = [SUITE.message_scalar(message) for message in raw(found["messages"])]
        self.secrets = [number(text) for text in found["nym_secrets"]]
        committed = [SUITE.message_scalar(message) for message in raw(found["committedMessages"])]
        self.scalars = [*self.own, number(found["proverBlind"]), *committed, *self.secrets]
        self.issuer = Issuer.of_pseudonyms(
            SUITE,
            bytes.fromhex(public_key),
            bytes.fromhex(found["header"]),
            messages=len(self.own),
            committed=len(committed),
            secrets=len(self.secrets),
        )


@fixtures("nymSignature/*.json", NYM, 6)
def test_blind_signature_is_the_drafts_byte_for_byte(path: Path) -> None:
    found = read(path)
    signed = Signed(found, found["signerKeyPair"]["publicKey"])
    assert write_scalar(signed.issuer.domain).hex() == found["trace"]["domain"]
    committed = len(signed.scalars) - len(signed.own) - 1
    made = sign_blindly(
        signed.issuer,
        number(found["signerKeyPair"]["secretKey"]),
        messages=signed.own,
        commitment=commitment.opened(SUITE, bytes.fromhex(found["commitmentWithProof"]), committed),
        entropy=number(found["signer_nym_entropy"]),
    )
    assert made.write().hex() == found["signature"]
    made.verify(signed.issuer, signed.scalars)
    entropy = number(found["signer_nym_entropy"])
    assert (number(found["proverNyms"][-1]) + entropy) % ORDER == signed.secrets[-1]


class Case:
    """A fixture's proof, its context, and the arguments it is made and checked with."""

    def __init__(self, path: Path) -> None:
        found = read(path)
        self.signed = Signed(found, found["signerPublicKey"])
        self.signature = Signature.read(bytes.fromhex(found["signature"]))
        self.context: ContextPoint = context_point(SUITE, bytes.fromhex(found["context_id"]))
        self.header = bytes.fromhex(found["presentationHeader"])
        after = len(self.signed.own) + 1
        self.places = sorted(int(place) for place in found["revealedMessages"])
        self.places += sorted(int(place) + after for place in found["revealedCommittedMessages"])
        drawn = found["trace"]["random_scalars"]
        self.masks = [number(drawn[name]) for name in drawn if name != "m_tilde_scalars"]
        self.masks += [number(text) for text in drawn["m_tilde_scalars"]]
        self.proof, self.pseudonym = found["proof"], found["pseudonym"]

    def check(self, made: Proof, pseudonym: str, header: bytes) -> list[bool]:
        disclosed = {place: self.signed.scalars[place] for place in self.places}
        name, secrets = read_point(bytes.fromhex(pseudonym)), len(self.signed.secrets)
        issuer, context = self.signed.issuer, self.context
        proof.check(issuer, made, name, disclosed, context=context, secrets=secrets, header=header)
        return batch.verified(issuer.key, [made])


@fixtures("nymProof/*.json", NYM, 11)
def test_proof_with_pseudonym_is_the_drafts_byte_for_byte(path: Path) -> None:
    case = Case(path)
    made, name = proof.prove(
        case.signed.issuer,
        case.signature,
        case.signed.scalars,
        case.places,
        context=case.context,
        secrets=len(case.signed.secrets),
        header=case.header,
        masks=case.masks,
    )
    assert made.write().hex() == case.proof
    assert write_point(name).hex() == case.pseudonym
    hidden = len(case.signed.scalars) - len(case.places)
    published = Proof.read(bytes.fromhex(case.proof), hidden)
    assert case.check(published, case.pseudonym, case.header) == [True]


@fixtures("nymProof/*.json", NYM, 11)
def test_proof_with_pseudonym_is_refused_under_another_header(path: Path) -> None:
    case = Case(path)
    published = Proof.read(bytes.fromhex(case.proof), len(case.signed.scalars) - len(case.places))
    with pytest.raises(Flawed, match="proof"):
        case.check(published, case.pseudonym, case.header + b"\0")
