"""The commitment of a release to the contributions that it was made from.

Each contribution that was used is one leaf: a hash over its task, part, pseudonym and receipt. A receipt has 128 random
bits, which its owner and the coordinator know, so a leaf tells everybody else nothing, and two leaves of one person
look like those of two. The leaves go in the order of their bytes, which tells nothing of who came when. Their Merkle
root stands in the release, and the release's digest in the coordinator's signed list: who is shown another list of
leaves, or another release, than everybody else can prove it. It does not show that a coordinator used what it
committed to.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from thebes.wire.refusals import BrokenLog

SIZE = 32  #: bytes of a leaf
_LEAF = b"thebes receipt 1\0"
_NODE = b"thebes receipts node 1\0"
_NONE = b"thebes receipts none 1\0"


def leaf(task_id: str, part: str, contributor: str, receipt: str) -> bytes:
    """Return what stands in the list for one contribution. Its pseudonym is in it, so that one receipt given to two
    people is not in it for both."""
    return hashlib.sha256(_LEAF + json.dumps([task_id, part, contributor, receipt]).encode()).digest()


def ordered(leaves: Iterable[bytes]) -> bytes:
    """Return the list as it travels: the leaves one behind the other, in the order of their bytes."""
    return b"".join(sorted(leaves))


def committed(listed: bytes) -> dict[str, Any]:
    """Return what a release says of its list: the root and how many contributions there are."""
    return {"root": _root(_split(listed)), "count": len(listed) // SIZE}


def read(listed: bytes, told: object) -> frozenset[bytes]:
    """Return the leaves of a list that was sent, once it is the one that the release commits to."""
    leaves = _split(listed)
    if any(later <= before for before, later in pairwise(leaves)):
        raise BrokenLog("the list of receipts names a contribution twice, or is not in order")
    if not isinstance(told, Mapping) or committed(listed) != {name: told.get(name) for name in ("root", "count")}:
        raise BrokenLog("the list of receipts is not the one that the release commits to")
    return frozenset(leaves)


def _split(listed: bytes) -> list[bytes]:
    if len(listed) % SIZE:
        raise BrokenLog("the list of receipts is cut off")
    return [listed[place : place + SIZE] for place in range(0, len(listed), SIZE)]


def _root(leaves: Sequence[bytes]) -> str:
    """The root of the Merkle tree of RFC 9162, 2.1.1, in which the last of an odd number goes up as it is."""
    level = list(leaves) or [hashlib.sha256(_NONE).digest()]
    while len(level) > 1:
        pairs = [level[place : place + 2] for place in range(0, len(level), 2)]
        level = [hashlib.sha256(_NODE + b"".join(pair)).digest() if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0].hex()
