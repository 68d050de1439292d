"""The ledger of who may still spend what: blocks with a capacity, claims on them, and a journal that cannot be
rewritten unseen.

What must stay true: spent is never less than released, at every crash point, on every store.
"""

from thebes.ledger.amounts import Budget
from thebes.ledger.blocks import Block, SpenderCap
from thebes.ledger.claim import LedgerClaim
from thebes.ledger.freezing import MOVED
from thebes.ledger.journal import Head, JournalEntry
from thebes.ledger.keeper import HeadKeeper, KeyringKeeper, NoKeeper
from thebes.ledger.ledger import Ledger
from thebes.ledger.overview import Use
from thebes.ledger.refusals import BudgetExceeded, ClaimEnded, Frozen, LedgerUnavailable, Tampered
from thebes.ledger.states import BlockState, ClaimState
from thebes.ledger.store import LedgerStore

__all__ = [
    "MOVED",
    "Block",
    "BlockState",
    "Budget",
    "BudgetExceeded",
    "ClaimEnded",
    "ClaimState",
    "Frozen",
    "Head",
    "HeadKeeper",
    "JournalEntry",
    "KeyringKeeper",
    "Ledger",
    "LedgerClaim",
    "LedgerStore",
    "LedgerUnavailable",
    "NoKeeper",
    "SpenderCap",
    "Tampered",
    "Use",
]
