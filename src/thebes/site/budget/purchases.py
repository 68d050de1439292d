"""The purchases that a data set makes for itself: what its synopsis is made of. Whoever may ask can bring it about, so
its steward says which share of every block's budget may go there.

What must stay true: nobody who asks pays for it, and all of it together is never more than that share.
"""

from __future__ import annotations

from collections.abc import Iterable

from thebes.curator.cache.planner import BOUGHT
from thebes.ledger import Block, Ledger
from thebes.ledger.filters import FILTERS
from thebes.privacy.losses import Loss

SPENDER = "thebes"  #: who buys, in the ledger


def shares(
    ledger: Ledger, blocks: Iterable[Block], *, more: Loss | None = None, without: str | None = None
) -> dict[str, float]:
    """By block, which share of its budget its data set's own purchases have taken or set aside, and would with `more`
    beside; `without` names one that does not count, by its key."""
    keys = {claim.id: claim.key or "" for claim in ledger.claims(spender=SPENDER)}
    own = {number for number, key in keys.items() if key.startswith(BOUGHT) and key != without}
    held = ledger.holdings()
    found = {}
    for block in blocks:
        counting = FILTERS[block.filter]
        steps = {} if more is None else dict(counting.price(more, block.meters))
        for number in own & held.get(block.name, {}).keys():
            for place, amount in held[block.name][number].items():
                steps[place] = steps.get(place, 0) + amount
        taken = [steps.get(place, 0) / meter.capacity for place, meter in block.meters.items() if meter.capacity]
        found[block.name] = (max if counting.firm else min)(taken, default=0.0)
    return found
