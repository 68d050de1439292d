"""The messages between the leader of a task with two servers and its helper, which are steps of `Word.HELP`.

open    the task, its document            -> the helper's signed key for it, and the key by which proofs are looked at
verify  a numbered job of reports         -> of each whether it is counted, and the seed of its joint randomness
close   which are not counted after all,  -> the helper's sum with its noise
        how many are, and their digest
add     (sites) sealed shares of a phase, -> of each whether it opens, and the sum of those with noise
        and for which declarations of rows,
        and which sort of numbers

What must stay true: neither side trusts a byte of the other; the same step again is answered by the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake
from thebes.wire.refusals import Malformed

OPEN, VERIFY, CLOSE, ADD = "open", "verify", "close", "add"
MOST_ANSWER = 2**18  #: bytes of a helper's answer
MOST_REPORTS = 1000  #: of one job
MOST_DROPPED = 100_000
_LONGEST_SORT = 40

Bytes = NDArray[np.uint8]


def nonces_digest(nonces: Iterable[bytes]) -> str:
    """Return the digest by which both servers know that they add up the same reports."""
    return hashlib.sha256(b"".join(sorted(nonces))).hexdigest()


def packed(rows: Bytes) -> str:
    """Write rows of bytes as text."""
    return base64.b64encode(rows.tobytes()).decode("ascii")


def unpacked(text: object, width: int, *, rows: int | None = None) -> Bytes:
    """Read rows of so many bytes, or a Mistake: as many as said, or at most those of a job."""
    try:
        raw = base64.b64decode(text if isinstance(text, str) else "?", validate=True)
    except ValueError:
        raise Mistake("reports", "must be base64 text") from None
    count = (len(raw) // width if width else 0) if rows is None else rows
    if len(raw) != count * width or count > MOST_REPORTS:
        raise Mistake("reports", f"must be at most {MOST_REPORTS} rows of {width} bytes")
    return np.frombuffer(raw, dtype=np.uint8).reshape(count, width)


def opened(answer: Mapping[str, Any]) -> dict[str, str]:
    """Read what a helper says when it opens a task; what it signed is looked at by whoever seals."""
    sizes = {"helper_key": 64, "signed_by": 64, "signature": 128, "verify_key": 64}
    found = {name: answer.get(name) for name in sizes}
    if not all(_is_hex(value, sizes[name]) for name, value in found.items()):
        raise Malformed("envelope", "does not say the helper's keys")
    return {name: str(value) for name, value in found.items()}


def counted(answer: Mapping[str, Any], count: int) -> list[bool]:
    """Read which of so many the helper counts."""
    told = answer.get("counted")
    if not isinstance(told, str) or len(told) != count or set(told) - {"0", "1"}:
        raise Malformed("envelope", "does not say of each report whether it is counted")
    return [each == "1" for each in told]


def verdicts(answer: Mapping[str, Any], count: int, seed_bytes: int) -> tuple[NDArray[np.bool_], Bytes]:
    """Read which of a job's reports a helper counts, and their seeds."""
    told = counted(answer, count)
    try:
        seeds = unpacked(answer.get("seeds"), seed_bytes, rows=count)
    except Mistake:
        raise Malformed("envelope", "does not say a seed for each report") from None
    return np.array(told, dtype=np.bool_), seeds


def noised_sum(answer: Mapping[str, Any]) -> list[int]:
    """Read a helper's sum with its noise: elements, as they are."""
    told = answer.get("sum")
    if not isinstance(told, list) or not all(_is_hex(each, 16) for each in told):
        raise Malformed("envelope", "does not say the helper's sum")
    return [int(each, 16) for each in told]


def written_sum(elements: Iterable[int]) -> list[str]:
    """Write elements as JSON holds them exactly."""
    return [f"{each:016x}" for each in elements]


def phase_of(message: Mapping[str, Any]) -> int:
    """Read which phase is to be added up: the first where nothing is said."""
    phase = message.get("phase", 0)
    if isinstance(phase, bool) or not isinstance(phase, int) or not 0 <= phase < 10**6:
        raise Mistake("phase", "must be a whole number")
    return phase


def sealed_shares(message: Mapping[str, Any], sealed_bytes: int) -> list[tuple[bytes, bytes, Mapping[str, Any], str]]:
    """Read (nonce, sealed share, schema as JSON, sort of the numbers) of sites, or a Mistake."""
    told, schemas = message.get("reports"), message.get("schemas")
    if not isinstance(told, list) or not isinstance(schemas, list) or not 0 < len(told) <= MOST_REPORTS:
        raise Mistake("reports", f"must be a list of at most {MOST_REPORTS}, beside the schemas that they go by")
    found = []
    for each in told:
        well = isinstance(each, list) and len(each) in (3, 4)
        nonce, sealed, place, sort = [*each, ""][:4] if well else ("", "", -1, "")
        known = isinstance(place, int) and not isinstance(place, bool) and 0 <= place < len(schemas)
        named = isinstance(sort, str) and len(sort) <= _LONGEST_SORT and sort.isascii()
        if not _is_hex(nonce, 32) or not _is_hex(sealed, 2 * sealed_bytes) or not known or not named:
            raise Mistake("reports", "must each be a nonce and a sealed share in hex, and the place of a schema")
        schema = schemas[place]
        if not isinstance(schema, Mapping):
            raise Mistake("schemas", "must be objects")
        found.append((bytes.fromhex(nonce), bytes.fromhex(sealed), schema, sort))
    return found


def dropped(message: Mapping[str, Any]) -> list[bytes]:
    """Read which reports a leader does not count after all."""
    told = message.get("dropped")
    if not isinstance(told, list) or len(told) > MOST_DROPPED or not all(_is_hex(each, 32) for each in told):
        raise Mistake("dropped", "must be a list of nonces in hex")
    return [bytes.fromhex(each) for each in told]


def hexed(nonces: Sequence[bytes]) -> list[str]:
    return [nonce.hex() for nonce in nonces]


def _is_hex(value: object, length: int) -> bool:
    return isinstance(value, str) and len(value) == length and not set(value) - set("0123456789abcdef")
