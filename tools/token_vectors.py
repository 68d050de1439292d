"""Writes the project's own vectors of the token scheme: what is accepted, and what is refused for which flaw.

    python tools/token_vectors.py [--out tests/vectors/bbs-nym-1.json]

All secrets come from a fixed stream, so every run writes the same bytes. Nothing made with it protects anybody.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from thebes.tokens import Authority, Context, Credential, Enrolment, Flaw, GroupParameters, codec
from thebes.tokens.bbs import commitment, proof
from thebes.tokens.bbs.curve import ORDER, hash_to_point, times, write_point, write_scalar
from thebes.tokens.bbs.pseudonym import context_point
from thebes.tokens.bbs.scheme import SUITE, BbsPseudonyms
from thebes.tokens.bbs.signature import Issuer, Signature
from thebes.tokens.bbs.suite import expand, write

FILE = Path(__file__).parents[1] / "tests" / "vectors" / f"{BbsPseudonyms.name}.json"
FIELD = 0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB
IDENTITY = bytes([0xC0]) + bytes(47)
REPORT = b'{"answer":1}'


def stream(seed: str) -> Iterator[int]:
    """Numbers that look random and are the same for everybody."""
    index = 0
    while True:
        wide = expand(f"{seed} {index}".encode(), b"THEBES_OWN_VECTORS", 48)
        yield int.from_bytes(wide, "big") % (ORDER - 1) + 1
        index += 1


def take(numbers: Iterator[int], count: int) -> list[int]:
    return [next(numbers) for _ in range(count)]


class Maker:
    """A group, and tokens of its peers with numbers from the stream."""

    def __init__(self, group: str, epoch: str, seed: str) -> None:
        self.numbers = stream(seed)
        key = write_scalar(next(self.numbers))
        self.authority = Authority(BbsPseudonyms.name, group, epoch, 2, key)
        self.parameters = self.authority.parameters(size=3)

    def enrol(self) -> tuple[Enrolment, str, Credential]:
        secret, blind, *masks = take(self.numbers, 4)
        request = commitment.commit(SUITE, [secret], blind=blind, masks=masks)
        begun = Enrolment(self.parameters, codec.write(1, request), write(blind, secret))
        response = self.authority.enrol(begun.request)
        return begun, response, begun.finish(response)

    def issuer(self) -> Issuer:
        public_key, header = self.parameters.public_key, self.parameters.header
        return Issuer.of_pseudonyms(SUITE, public_key, header, messages=0, committed=0, secrets=1)

    def core(self, credential: Credential, context: Context, report: bytes, *, forged: bool = False) -> bytes:
        """A token's bytes; `forged` ones come from somebody who has the secrets and no signature on them."""
        kept = bytes.fromhex(credential.as_json()["secret"])
        signature = Signature.read(kept[:80])
        if forged:
            signature = replace(signature, a=hash_to_point(b"no signature", b"THEBES_OWN_VECTORS"))
        made, pseudonym = proof.prove(
            self.issuer(),
            signature,
            [int.from_bytes(kept[80:112], "big"), int.from_bytes(kept[112:], "big")],
            (),
            context=context_point(SUITE, context.digest(self.parameters)),
            secrets=1,
            header=context.report_digest(report),
            masks=take(self.numbers, proof.OWN_MASKS + 2),
        )
        return made.write() + write_point(pseudonym)


def outside_subgroup() -> bytes:
    """The first point of the curve, by its x, that is not in the group of prime order."""
    x = 0
    while True:
        x += 1
        square = (x**3 + 4) % FIELD
        y = pow(square, (FIELD + 1) // 4, FIELD)
        if y * y % FIELD == square:
            largest = 0x20 if y > FIELD - y else 0
            return bytes([0x80 | largest]) + x.to_bytes(48, "big")[1:]


def off_curve() -> bytes:
    """The first x that no point of the curve has."""
    x = 1
    while pow((x**3 + 4) % FIELD, (FIELD - 1) // 2, FIELD) == 1:
        x += 1
    return bytes([0x80]) + x.to_bytes(48, "big")[1:]


def made() -> dict[str, Any]:
    """The whole file."""
    maker = Maker("vectors", "2026-12", "first")
    elsewhere, later = Maker("elsewhere", "2026-12", "second"), Maker("vectors", "2027-01", "first")
    digest = hashlib.sha256(b"a document").hexdigest()
    here = Context("task-1", digest, "h0")
    contexts = {
        "here": here,
        "other task": replace(here, task_id="task-2"),
        "other document": replace(here, task_digest=hashlib.sha256(b"another document").hexdigest()),
        "other part": replace(here, part="h1"),
    }
    peers = [maker.enrol() for _ in range(2)]
    accepted: list[dict[str, Any]] = [
        {"peer": peer, "context": name, "report": REPORT.decode(), "token": core}
        for peer, (_, _, credential) in enumerate(peers)
        for name, context in contexts.items()
        for core in [codec.write(1, maker.core(credential, context, REPORT))]
    ]
    for one in accepted:
        one["pseudonym"] = codec.read(one["token"], version=1, length=384)[-48:].hex()
    good = codec.read(accepted[0]["token"], version=1, length=384)
    cores = refused_cores(maker, peers[0][2], contexts, good, bytes.fromhex(accepted[4]["pseudonym"]))
    strangers = {
        "made in another group": (elsewhere, Flaw.PROOF),
        "made in another epoch": (later, Flaw.PROOF),
    }
    for name, (other, flaw) in strangers.items():
        cores[name] = (other.core(other.enrol()[2], here, REPORT), flaw)
    tokens = {name: (codec.write(1, core), flaw) for name, (core, flaw) in cores.items()}
    tokens |= refused_texts(good)
    return {
        "scheme": BbsPseudonyms.name,
        "made_by": "tools/token_vectors.py; every secret is public, use none of this",
        "authority": maker.authority.as_json(),
        "parameters": maker.parameters.as_json(),
        "contexts": {
            name: {"task_id": c.task_id, "task_digest": c.task_digest, "part": c.part, "digest": digest_of(c, maker)}
            for name, c in contexts.items()
        },
        "report_digest": here.report_digest(REPORT).hex(),
        "enrolments": [
            {"enrolment": begun.as_json(), "response": response, "credential": credential.as_json()}
            for begun, response, credential in peers
        ],
        "accepted": accepted,
        "refused": [{"name": name, "flaw": flaw.value, "token": token} for name, (token, flaw) in tokens.items()],
        "requests": refused_requests(peers[0][0].request),
        "responses": refused_responses(peers, elsewhere, later),
    }


def digest_of(context: Context, maker: Maker) -> str:
    return context.digest(maker.parameters).hex()


def refused_cores(
    maker: Maker, credential: Credential, contexts: dict[str, Context], good: bytes, neighbour: bytes
) -> dict[str, tuple[bytes, Flaw]]:
    """Tokens for `here` and REPORT that are refused, by what is wrong with them."""
    here = contexts["here"]
    order, zero = ORDER.to_bytes(32, "big"), bytes(32)

    def put(start: int, content: bytes) -> bytes:
        return good[:start] + content + good[start + len(content) :]

    def negated(start: int) -> bytes:
        return put(start, bytes([good[start] ^ 0x20]))

    found: dict[str, tuple[bytes, Flaw]] = {}
    for start, name in ((0, "first point"), (48, "second point"), (96, "third point"), (336, "pseudonym")):
        point = good[start : start + 48]
        found |= {
            f"{name} is the identity": (put(start, IDENTITY), Flaw.IDENTITY),
            f"{name} outside the subgroup": (put(start, outside_subgroup()), Flaw.POINT),
            f"{name} off the curve": (put(start, off_curve()), Flaw.POINT),
            f"{name} not compressed": (put(start, bytes([point[0] & 0x7F])), Flaw.POINT),
            f"{name} not below the field": (put(start, bytes([0x80 | FIELD >> 376]) + field_tail()), Flaw.POINT),
            f"{name} negated": (negated(start), Flaw.PROOF),
        }
    places = ("e", "r1", "r3", "blind", "secret", "challenge")
    for start, name in zip(range(144, 336, 32), places, strict=True):
        value = int.from_bytes(good[start : start + 32], "big")
        found |= {
            f"{name} is zero": (put(start, zero), Flaw.SCALAR),
            f"{name} is the order": (put(start, order), Flaw.SCALAR),
            f"{name} is all ones": (put(start, b"\xff" * 32), Flaw.SCALAR),
            f"{name} one more": (put(start, write_scalar(value + 1)), Flaw.PROOF),
        }
        if value + ORDER < 2**256:
            found[f"{name} plus the order"] = (put(start, (value + ORDER).to_bytes(32, "big")), Flaw.SCALAR)
    other_part = maker.core(credential, contexts["other part"], REPORT)
    found |= {
        "empty": (b"", Flaw.LENGTH),
        "one byte short": (good[:-1], Flaw.LENGTH),
        "one byte more": (good + b"\0", Flaw.LENGTH),
        "without its pseudonym": (good[:336], Flaw.LENGTH),
        "one response short": (good[:240] + good[272:], Flaw.LENGTH),
        "one response more": (good[:240] + good[208:], Flaw.LENGTH),
        "a report of its own": (maker.core(credential, here, b'{"answer":2}'), Flaw.PROOF),
        "a pseudonym of another part": (good[:336] + other_part[336:], Flaw.PROOF),
        "another peer's pseudonym": (good[:336] + neighbour, Flaw.PROOF),
        "a proof of another part": (other_part[:336] + good[336:], Flaw.PROOF),
        "no signature behind it": (maker.core(credential, here, REPORT, forged=True), Flaw.SIGNATURE),
        "made under a header of one's own": (tagged(maker, here), Flaw.PROOF),
    }
    for name, context in contexts.items():
        if name != "here":
            found[f"made for {name}"] = (maker.core(credential, context, REPORT), Flaw.PROOF)
    return found


def field_tail() -> bytes:
    return FIELD.to_bytes(48, "big")[1:]


def tagged(maker: Maker, context: Context) -> bytes:
    """Return what a peer would make whose authority signed under a header that only that peer was shown."""
    mine = Maker("vectors", "2026-12.peer-7", "first")
    core = mine.core(mine.enrol()[2], context, REPORT)
    assert mine.parameters.public_key == maker.parameters.public_key
    return core


def refused_texts(good: bytes) -> dict[str, tuple[str, Flaw]]:
    """Spellings of a good token that are refused."""
    text = codec.write(1, good)
    padded = base64.urlsafe_b64encode(bytes([1]) + good).decode()
    slack = text[:-1] + chr(ord(text[-1]) + 1)  # the last character ends in four bits that no byte holds
    assert padded != text
    assert base64.urlsafe_b64decode(slack + "==") == bytes([1]) + good
    return {
        "no text": ("", Flaw.LENGTH),
        "version 0": (codec.write(0, good), Flaw.VERSION),
        "version 2": (codec.write(2, good), Flaw.VERSION),
        "with padding": (padded, Flaw.TEXT),
        "with bits left over": (slack, Flaw.TEXT),
        "with a blank": (text[:100] + " " + text[100:], Flaw.TEXT),
        "with a line's end": (text + "\n", Flaw.TEXT),
        "in the other alphabet": (padded.rstrip("=").replace("-", "+").replace("_", "/"), Flaw.TEXT),
        "in no alphabet": ("ä" * len(text), Flaw.TEXT),
        "in hexadecimal": ((bytes([1]) + good).hex(), Flaw.TEXT),
        "far too long": ("A" * 3000, Flaw.LENGTH),
    }


def refused_requests(request: str) -> list[dict[str, str]]:
    """Requests that no authority signs."""
    good = codec.read(request, version=1, length=BbsPseudonyms.request_bytes)
    doubled = hash_to_point(b"anything", b"THEBES_OWN_VECTORS")
    cases = {
        "commitment is the identity": (IDENTITY + good[48:], Flaw.IDENTITY),
        "commitment outside the subgroup": (outside_subgroup() + good[48:], Flaw.POINT),
        "commitment that nobody can open": (write_point(times(doubled, 2)) + good[48:], Flaw.PROOF),
        "response is the order": (good[:48] + ORDER.to_bytes(32, "big") + good[80:], Flaw.SCALAR),
        "challenge is zero": (good[:112] + bytes(32) + good[144:], Flaw.SCALAR),
        "one secret more": (good[:80] + good[48:], Flaw.LENGTH),
        "one secret fewer": (good[:48] + good[80:], Flaw.LENGTH),
        "empty": (b"", Flaw.LENGTH),
    }
    return [{"name": name, "flaw": flaw.value, "request": codec.write(1, core)} for name, (core, flaw) in cases.items()]


def refused_responses(
    peers: list[tuple[Enrolment, str, Credential]], elsewhere: Maker, later: Maker
) -> list[dict[str, str]]:
    """Responses to the first peer's request that this peer does not take."""
    begun, response, _ = peers[0]
    good = codec.read(response, version=1, length=BbsPseudonyms.response_bytes)
    other = codec.read(peers[1][1], version=1, length=BbsPseudonyms.response_bytes)
    raised = write_scalar(int.from_bytes(good[80:], "big") + 1)

    def core(text: str) -> bytes:
        return codec.read(text, version=1, length=BbsPseudonyms.response_bytes)

    cases = {
        "of another key and group": (core(elsewhere.authority.enrol(begun.request)), Flaw.SIGNATURE),
        "of the same key in another epoch": (core(later.authority.enrol(begun.request)), Flaw.SIGNATURE),
        "of another peer": (other, Flaw.SIGNATURE),
        "with other entropy than was signed": (good[:80] + raised, Flaw.SIGNATURE),
        "with the identity for a signature": (IDENTITY + good[48:], Flaw.IDENTITY),
        "outside the subgroup": (outside_subgroup() + good[48:], Flaw.POINT),
        "with e zero": (good[:48] + bytes(32) + good[80:], Flaw.SCALAR),
        "with entropy not below the order": (good[:80] + b"\xff" * 32, Flaw.SCALAR),
        "truncated": (good[:-1], Flaw.LENGTH),
    }
    return [{"name": name, "flaw": flaw.value, "response": codec.write(1, c)} for name, (c, flaw) in cases.items()]


def text() -> str:
    return json.dumps(made(), indent=1) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=FILE)
    path = parser.parse_args().out
    path.write_text(text(), encoding="utf-8")
    kept = json.loads(path.read_text(encoding="utf-8"))
    GroupParameters.from_json(kept["parameters"])
    print(f"{path}: {len(kept['accepted'])} accepted, {len(kept['refused'])} refused tokens")


if __name__ == "__main__":
    main()
