"""The place where a contribution belongs: a phase has one part for each packet, and a part its peer partitions.

Pure functions of public names, so that owner, coordinator and simulation agree without asking each other. A peer
chooses its pseudonym, and with it its partition, unless a token proves that there is no choice.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache


def part_of(phase: int, packet: int = 0, packets: int = 1) -> str:
    """Return the name of the part to which contributions to one packet of a phase count."""
    return parts_of(f"phase-{phase}", packets)[packet]


@lru_cache(maxsize=64)  # asked for with every contribution, and there may be 10,000
def parts_of(phase: str, packets: int) -> tuple[str, ...]:
    """Every part of a phase, in the order of the packets; a phase of one packet is its own part."""
    return (phase,) if packets == 1 else tuple(f"{phase}.packet-{packet}" for packet in range(packets))


def phase_of(part: str) -> str:
    """The phase a part belongs to."""
    return part.partition(".packet-")[0]


def packet_of(part: str) -> int:
    """Return the number of the packet a part is for."""
    return int(part.partition(".packet-")[2] or 0)


def slot_of(contributor: str, packet: int) -> str:
    """The slot under which a contributor sends a packet: the pseudonym itself, then its hashes with the number."""
    return contributor if packet == 0 else _hash("packet", f"{packet} {contributor}").hex()[:32]


def partition_of(slot: str, partitions: int) -> int:
    """The peer partition a slot belongs to, each equally likely."""
    return int.from_bytes(_hash("partition", slot)[:8], "big") % partitions if partitions > 1 else 0


def drawn(slot: str, phase: int, share: float) -> bool:
    """Return whether a slot is among that share of all slots which a phase calls; each phase draws anew."""
    return int.from_bytes(_hash(f"call {phase}", slot)[:8], "big") < share * 2**64


def _hash(what: str, of: str) -> bytes:
    return hashlib.sha256(f"thebes {what}: {of}".encode()).digest()
