"""The audit's rows of the example kind: the exact odds of what one person says, and a coin that lies too seldom."""

from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction

from thebes.privacy.mechanisms.local.response import RandomizedResponse
from thebes.privacy.promise import Adjacency
from thebes.tasks.audit.case import Audited, Case, Enumerated
from thebes.tasks.audit.people import HERE, LABEL, THERE, document_of, sent
from thebes.tasks.document import PeopleDocument

DOCUMENT = {"type": "tally", "featurizer": "SELECT y FROM p.t", "bounds": {"y": LABEL}}


def cases() -> list[Case]:
    """List the odds, and what is sent; who pays for epsilon 1 and gets the coin of epsilon 2 must be caught."""
    document, careless = document_of(DOCUMENT), document_of({**DOCUMENT, "epsilon": 2.0})
    odds = [_odds(yes) for yes in (False, True)]
    return [
        Enumerated("tally, exact odds", 1.0, 0.0, Adjacency.REPLACE_ONE, odds[0], odds[1]),
        _drawn("tally, what one person says", document),
        _drawn("tally, the coin of twice the epsilon", careless, positive_control=True),
    ]


def _odds(yes: bool) -> dict[Hashable, Fraction]:
    truth = RandomizedResponse(2, 1.0).hold
    return {yes: truth, not yes: 1 - truth}


def _drawn(name: str, document: PeopleDocument, *, positive_control: bool = False) -> Audited:
    one, other = (sent(document, own) for own in (HERE, THERE))
    return Audited(name, 1.0, 0.0, Adjacency.REPLACE_ONE, one, other, positive_control, 20_000)
