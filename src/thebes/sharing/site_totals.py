"""A site's totals in two shares: the coordinator reads one, the other is a seed sealed to a helper.

Promise: either share alone is uniform, whatever the totals are. The helper's is the expansion of a seed that is drawn
for it; the coordinator's is the totals less that, one-time-padded in Field64 as far as XofTurboShake128 cannot be told
from chance (section 6.2 of draft-irtf-cfrg-vdaf). Nothing is proved of the totals: a site is known by name, and
believed about its rows. Not promised: that totals of all sites together stay within ORDER / 2, beyond which a sum is
false; of sensible grids that takes more than 2^30 rows. Wrapping tells nothing more: it is post-processing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import Randomness
from thebes.sharing.expansion import NONCE_BYTES, SEED_BYTES, Expansion, Usage
from thebes.sharing.field import ELEMENT_BYTES, Elements, canonical, elements, read, subtract, written
from thebes.sharing.sealing import SEALED_MORE, SealingKey, SealRefused, seal

SITE_TOTALS = 0xFFFF5403  #: of the draft's numbers for private use
SEALED_BYTES = SEED_BYTES + SEALED_MORE


@dataclass(frozen=True, slots=True)
class SharedTotals:
    """Totals as they travel: `sealed` opens for the helper only, for this nonce and this declaration of the rows."""

    nonce: bytes
    sealed: bytes
    share: Elements

    def as_bytes(self) -> bytes:
        return self.nonce + self.sealed + written(self.share).tobytes()


def bytes_of(size: int) -> int:
    """Return how many bytes so many totals take on their way."""
    return NONCE_BYTES + SEALED_BYTES + ELEMENT_BYTES * size


def shared(
    totals: NDArray[np.int64], *, helper_key: bytes, declaration: bytes, context: bytes, randomness: Randomness
) -> SharedTotals:
    """Split totals. `declaration` is the digest of what the rows are declared to be, by which the helper chooses its
    noise: the share opens under no other."""
    nonce, seed = randomness.words(2).tobytes(), randomness.words(SEED_BYTES // 8).tobytes()
    closed = seal(seed, helper_key, context=context, nonce=nonce, public_share=declaration)
    return SharedTotals(nonce, closed, subtract(elements(totals), _expanded(seed, nonce, context, len(totals))))


def received(raw: bytes, size: int) -> SharedTotals:
    """Read so many totals, or a Mistake."""
    if len(raw) != bytes_of(size):
        raise Mistake("report", f"must hold {bytes_of(size)} bytes")
    nonce, sealed, share = raw[:NONCE_BYTES], raw[NONCE_BYTES : -ELEMENT_BYTES * size], raw[-ELEMENT_BYTES * size :]
    found = read(np.frombuffer(share, dtype=np.uint8))
    if not canonical(found[None]).all():
        raise Mistake("report", "holds a number that is none of the field's")
    return SharedTotals(nonce, sealed, found)


def helper_share(
    key: SealingKey, *, nonce: bytes, sealed: bytes, declaration: bytes, context: bytes, size: int
) -> Elements | None:
    """Return the helper's share; None where it was sealed for another key, task or declaration, or is damaged."""
    try:
        seed = key.open(sealed, context=context, nonce=nonce, public_share=declaration)
    except SealRefused:
        return None
    return _expanded(seed, nonce, context, size) if len(seed) == SEED_BYTES else None


def _expanded(seed: bytes, nonce: bytes, context: bytes, size: int) -> Elements:
    seeds, binder = (np.frombuffer(each, dtype=np.uint8)[None] for each in (seed, nonce))
    found: Elements = Expansion(SITE_TOTALS, context).elements(Usage.MEASUREMENT_SHARE, seeds, binder, size)[0]
    return found
