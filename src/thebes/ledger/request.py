"""A request to set a loss aside, read as strictly as it can be refused."""

from __future__ import annotations

from collections.abc import Iterable

from thebes.ledger import losses, rules
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import Loss
from thebes.privacy.promise import Adjacency, Unit, adjacency_of, unit_of


def request_of(
    blocks: Iterable[str],
    loss: Loss,
    *,
    spender: str,
    purpose: str,
    unit: str | Unit | None,
    adjacency: str | Adjacency | None,
    key: str | None,
) -> rules.LossRequest:
    """Return what is asked of the rules, or a Mistake."""
    if isinstance(blocks, (str, bytes)):
        raise Mistake("blocks", "must be a list of block names")
    names = tuple(blocks)
    for name in names:
        losses.text("blocks", name)
    if not names:
        raise Mistake("blocks", "must name at least one block")
    if len(set(names)) != len(names):
        raise Mistake("blocks", "names a block twice")
    return rules.LossRequest(
        blocks=tuple(sorted(names)),
        loss=loss,
        spender=losses.text("spender", spender),
        purpose=losses.text("purpose", purpose),
        unit=None if unit is None else unit_of(unit),
        adjacency=None if adjacency is None else adjacency_of(adjacency),
        key=None if key is None else losses.text("key", key),
    )
