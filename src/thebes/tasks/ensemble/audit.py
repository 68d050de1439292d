"""The audit's rows of ensembles: everything one person sends, over all packets, which an aggregator that links them can
tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thebes.privacy.promise import Adjacency
from thebes.tasks.audit.case import Audited, Case
from thebes.tasks.audit.people import LABEL, RANGE, sent
from thebes.tasks.ensemble import plan
from thebes.tasks.ensemble.kind import KIND, EnsembleDocument
from thebes.tasks.protocols import Ask

EPSILON = 1.0
DOCUMENT = {
    "type": "ensemble",
    "epsilon": EPSILON,
    "featurizer": "SELECT x0, x1, y FROM p.t",
    "label": "y",
    "bounds": {"x0": RANGE, "x1": RANGE, "y": LABEL},
    "method": "vote",
    "subsets": 2,
    "binning_steps": 1,
}
HERE, THERE = {"x0": 0.0, "x1": 0.0, "y": 0}, {"x0": 1.0, "x1": 1.0, "y": 1}


def cases() -> list[Case]:
    """List both packets together; an answer about a threshold; what is said about a classifier that an attacker chose
    to tell two people apart. Each packet with the whole epsilon, and a packet before a score, must be caught."""
    found: list[Case] = []
    for perturbation in ("krr", "rappor", "pq", "subset"):
        document = KIND.check({**DOCUMENT, "perturbation": perturbation})
        found.append(_row(f"ensemble, two packets by {perturbation}", document, _packets(document)))
        scored = KIND.check({**DOCUMENT, "perturbation": perturbation, "scoring_share": 0.2})
        found.append(_row(f"ensemble, one classifier scored by {perturbation}", scored, [_scoring(scored)]))
    question = Ask("a", "phase-0", 0, {"question": {"column": "x0", "at": 0.5}})
    return [
        *found,
        _row("ensemble, one answer about a threshold", KIND.check(DOCUMENT), [question]),
        _checked(),
        *_broken(),
    ]


def _checked() -> Case:
    """Ask whether a model does better than a guess, made up so that it does for one row and not for the other."""
    document = KIND.check({**DOCUMENT, "quality": True})
    phase, table = document.phases - 1, [[0.9, 0.1], [0.9, 0.1]]
    member = {**_about("x0"), "weight": 1.0, "table": table}
    ask = Ask("a", f"phase-{phase}", phase, {"base": [0.4, 0.6], "members": [member]})
    one, other = (sent(document, own, asks=[ask]) for own in (HERE, THERE))
    return Audited("ensemble, a model checked", EPSILON, 0.0, Adjacency.REPLACE_ONE, one, other, draws=60_000)


def _broken() -> list[Case]:
    """A person pays epsilon twice: every packet has the whole of it; who sent one scores a classifier too."""
    careless = KIND.check({**DOCUMENT, "epsilon": 2 * EPSILON, "perturbation": "krr"})
    scored = KIND.check({**DOCUMENT, "subsets": 1, "perturbation": "krr", "scoring_share": 0.2})
    both = [Ask("a", f"phase-{scored.learning}", scored.learning, _about("x0")), _scoring(scored)]
    return [
        _row("ensemble, two packets that each spend all of it", careless, _packets(careless), positive_control=True),
        _row("ensemble, a packet and then a score by the same person", scored, both, positive_control=True),
    ]


def _row(name: str, document: EnsembleDocument, asks: Sequence[Ask], *, positive_control: bool = False) -> Audited:
    one, other = (sent(document, own, asks=asks, look=lambda given: given.fields[plan.REPORT]) for own in (HERE, THERE))
    draws = 180_000 if positive_control else 60_000
    return Audited(name, EPSILON, 0.0, Adjacency.REPLACE_ONE, one, other, positive_control, draws)


def _packets(document: EnsembleDocument) -> list[Ask]:
    """Ask a person for two packets."""
    return [
        Ask("a", f"phase-{document.learning}.packet-{packet}", document.learning, _about(feature))
        for packet, feature in enumerate(("x0", "x1"))
    ]


def _scoring(document: EnsembleDocument) -> Ask:
    """Ask how a classifier of x0 votes about a person, and what is true."""
    phase = document.learning + 1
    return Ask("a", f"phase-{phase}", phase, {**_about("x0"), "votes": [0, 1]})


def _about(feature: str) -> dict[str, Any]:
    return {"features": [{"column": feature, "thresholds": [0.5]}]}
