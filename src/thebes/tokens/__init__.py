"""Anonymous credentials: enrol once, then show in any context that one is of the group, once, without saying who.

Pure: no network, no clock, no database. What is promised against whom, and what is not, is in docs/tokens.md. Neither
the protocol's drafts nor this implementation have been audited.
"""

from thebes.tokens.authority import Authority
from thebes.tokens.context import Context
from thebes.tokens.credential import Credential, Enrolment
from thebes.tokens.parameters import GroupParameters
from thebes.tokens.refusals import EnrolmentRefused, Flaw, GroupTooSmall, TokenRefused, UnpinnedGroup
from thebes.tokens.verification import Presented, verify, verify_many

__all__ = [
    "Authority",
    "Context",
    "Credential",
    "Enrolment",
    "EnrolmentRefused",
    "Flaw",
    "GroupParameters",
    "GroupTooSmall",
    "Presented",
    "TokenRefused",
    "UnpinnedGroup",
    "verify",
    "verify_many",
]
