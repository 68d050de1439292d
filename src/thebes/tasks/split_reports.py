"""Reports in shares as contributions: one text for each, which only the two servers together could read.

The leader gets its share as it is, the helper's is sealed, and whatever both may see stands before them.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import Randomness
from thebes.sharing import Prio3, bound_to, context_of, seal, sealing_key
from thebes.sharing.expansion import NONCE_BYTES
from thebes.sharing.field import Bytes
from thebes.sharing.sealing import SEALED_MORE
from thebes.tasks.aggregation.split_servers import Splitting
from thebes.tasks.contributions import Contributions, Layout, Slot
from thebes.tasks.helped_document import HelpedDocument
from thebes.tasks.protocols import Ask

REPORT = "report"  #: the one field of such a contribution
AT_ONCE = 1000  #: reports that are made or verified together


def bytes_of(prio: Prio3) -> int:
    """Return how many bytes one report takes on its way to the leader."""
    return NONCE_BYTES + prio.public_bytes + prio.leader_bytes + prio.helper_bytes + SEALED_MORE


def layout_of(prio: Prio3) -> Layout:
    return {REPORT: Slot("text", length=4 * -(-bytes_of(prio) // 3))}


def sealed(
    prio: Prio3, numbers: NDArray[np.int64], *, context: bytes, helper_key: bytes, randomness: Randomness
) -> NDArray[np.str_]:
    """Make a report of each row of `numbers`, whose helper's share opens for the holder of `helper_key` only."""
    found = []
    for start in range(0, len(numbers), AT_ONCE):
        batch = numbers[start : start + AT_ONCE]
        nonces = _drawn(randomness, len(batch), NONCE_BYTES)
        made = prio.shard(batch, nonces, _drawn(randomness, len(batch), prio.randomness_bytes))
        for nonce, public, leader, helper in zip(nonces, made.public, *made.shares, strict=True):
            shown = {"nonce": nonce.tobytes(), "public_share": public.tobytes()}
            closed = seal(helper.tobytes(), helper_key, context=context, **shown)
            found.append(base64.b64encode(b"".join((*shown.values(), leader.tobytes(), closed))).decode("ascii"))
    return np.array(found, dtype=f"<U{layout_of(prio)[REPORT].length}")


def decoded(text: str) -> bytes:
    """Return the bytes that a report's text stands for, or a Mistake."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise Mistake(f"payload.{REPORT}", "must be base64 text") from None


@dataclass(frozen=True, slots=True)
class ReceivedReports:
    """Reports as the leader reads them: all but what is in the sealed shares."""

    nonces: Bytes
    public: Bytes
    leader: Bytes
    sealed: tuple[bytes, ...]


def received(prio: Prio3, texts: Sequence[str]) -> ReceivedReports:
    """Read reports, or refuse them all where one is not of the length that every report has here."""
    size, rows = bytes_of(prio), []
    for text in texts:
        raw = decoded(text)
        if len(raw) != size:
            raise Mistake(f"payload.{REPORT}", f"must hold {size} bytes")
        rows.append(np.frombuffer(raw, dtype=np.uint8))
    table = np.stack(rows) if rows else np.empty((0, size), dtype=np.uint8)
    ends = np.cumsum([NONCE_BYTES, prio.public_bytes, prio.leader_bytes])
    nonces, public, leader, rest = np.split(table, ends, axis=1)
    return ReceivedReports(nonces, public, leader, tuple(row.tobytes() for row in rest))


def reports_of(
    document: HelpedDocument,
    splitting: Splitting,
    numbers: NDArray[np.int64],
    ask: Ask,
    *,
    simulated: bool,
    randomness: Randomness,
) -> Contributions:
    """Answer an ask with a report of each row of `numbers`, sealed to the key that the document's own helper signed,
    which its owner knows; in a simulation to the one that the ask names, or, where it names none, the bare numbers."""
    if simulated and "helper_key" not in ask.payload:
        return Contributions(ask.part, len(numbers), {REPORT: numbers})
    context = context_of(bytes.fromhex(document.digest), ask.part)
    bound = bound_to(ask.task, context)
    key = (
        bytes.fromhex(ask.payload["helper_key"]) if simulated else sealing_key(ask.payload, document.helper_key, bound)
    )
    made = sealed(splitting.make(context), numbers, context=bound, helper_key=key, randomness=randomness)
    return Contributions(ask.part, len(numbers), {REPORT: made})


def _drawn(randomness: Randomness, count: int, length: int) -> Bytes:
    words = randomness.words(-(-count * length // 8))
    return words.view(np.uint8)[: count * length].reshape(count, length)
