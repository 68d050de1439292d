"""Reports in shares for two servers: verified together without being seen by either, added up, opened as sums only.

Pure: no network, no clock, no database. What is promised and what is not stands in `prio3`; neither the draft that it
follows nor this implementation has been audited by an outside party.
"""

from thebes.sharing.field import Elements, elements, signed
from thebes.sharing.helper_identity import HelperIdentity, StrangeHelper, sealing_key
from thebes.sharing.prio3 import LEADER, PreparedShares, Prio3, ShardedReports, context_of, opened
from thebes.sharing.sealing import SealingKey, SealRefused, bound_to, seal

__all__ = [
    "LEADER",
    "Elements",
    "HelperIdentity",
    "PreparedShares",
    "Prio3",
    "SealRefused",
    "SealingKey",
    "ShardedReports",
    "StrangeHelper",
    "bound_to",
    "context_of",
    "elements",
    "opened",
    "seal",
    "sealing_key",
    "signed",
]
