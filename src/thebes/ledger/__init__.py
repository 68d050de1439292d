"""The ledger of who may still spend what: blocks with a capacity, claims on them, and a journal that cannot be
rewritten unseen.

What must stay true: spent is never less than released, at every crash point, on every store.
"""

from thebes.ledger.amounts import Budget
from thebes.ledger.blocks import Block, Cap
from thebes.ledger.claim import Claim
from thebes.ledger.journal import Entry, Head
from thebes.ledger.keeper import HeadKeeper, KeyringKeeper, NoKeeper
from thebes.ledger.ledger import Ledger
from thebes.ledger.overview import Use
from thebes.ledger.refusals import BudgetExceeded, ClaimEnded, Frozen, LedgerUnavailable, Tampered
from thebes.ledger.states import BlockState, ClaimState
from thebes.ledger.store import LedgerStore

__all__ = [
    "Block",
    "BlockState",
    "Budget",
    "BudgetExceeded",
    "Cap",
    "Claim",
    "ClaimEnded",
    "ClaimState",
    "Entry",
    "Frozen",
    "Head",
    "HeadKeeper",
    "KeyringKeeper",
    "Ledger",
    "LedgerStore",
    "LedgerUnavailable",
    "NoKeeper",
    "Tampered",
    "Use",
]
