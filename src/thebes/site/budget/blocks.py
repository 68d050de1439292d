"""The blocks of a data set that does not grow, as policy and stewards read them, and what a document costs there."""

from __future__ import annotations

from typing import Any

from thebes.ledger import Block, Budget, Ledger
from thebes.ledger.amounts import Amount
from thebes.privacy import exact
from thebes.privacy.faults import Mistake, Refusal
from thebes.site.dataset import DataSet
from thebes.tasks.site_document import SiteDocument


def price_of(document: SiteDocument) -> Budget:
    """Return what a document says that it costs."""
    return Budget(Amount(exact.epsilon(document.epsilon)), Amount(exact.delta(document.delta)))


def block_of(ledger: Ledger, dataset: DataSet) -> Block:
    """A data set's block; a Refusal where the ledger has another than the file says."""
    try:
        block = ledger.block(dataset.name)
    except Mistake:
        raise Refusal("this data set has no budget in the site's ledger") from None
    held = {"epsilon": block.budget.epsilon, "delta": block.budget.delta, "filter": block.filter}
    held |= {"unit": block.unit, "adjacency": block.adjacency}
    if held != dataset.terms:
        raise Refusal(
            "this data set is declared on other terms than its budget in the site's ledger; its steward gives it the "
            "budget and the unit again that it was first declared with"
        )
    return block


def standing(block: Block) -> dict[str, Any]:
    """A block as its owner is shown it. `remaining` is the most that one more answer could cost, `left` the share of
    the budget that is not spent or set aside, `account` both in words."""
    return {
        "block": block.name,
        **block.budget.as_json(),
        "remaining": block.remaining.as_json(),
        "left": block.left,
        "account": block.account,
        "state": str(block.state),
        "filter": block.filter,
        "unit": str(block.unit),
    }
