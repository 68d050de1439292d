"""Everything one person sends for an ensemble task, over all packets: what an aggregator that links them can tell."""

from __future__ import annotations

from typing import Any

import numpy as np

from thebes.data.rows import Rows
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import bulk
from thebes.tasks import registry
from thebes.tasks.ensemble import plan
from thebes.tasks.protocols import Ask
from thebes.testing.audit import Audited, Case, Draw

EPSILON = 1.0
_RANGE = {"type": "range", "low": 0.0, "high": 1.0, "default": 0.0}
_LABEL = {"type": "set", "values": [0, 1], "default": 0}
DOCUMENT = {
    "type": "ensemble",
    "epsilon": EPSILON,
    "featurizer": "SELECT x0, x1, y FROM p.t",
    "label": "y",
    "bounds": {"x0": _RANGE, "x1": _RANGE, "y": _LABEL},
    "subsets": 2,
    "binning_steps": 1,
}
HERE, THERE = (0.0, 0.0, 0), (1.0, 1.0, 1)


def cases() -> list[Case]:
    """Both packets together; an answer about a threshold; what is said about a classifier that an attacker chose to
    tell two people apart. Each packet with the whole epsilon is what must be caught."""
    found: list[Case] = []
    for perturbation in ("krr", "rappor", "pq", "subset"):
        document = registry.check({**DOCUMENT, "perturbation": perturbation})
        found.append(_case(f"ensemble, two packets by {perturbation}", _packets(document)))
        scored = registry.check({**DOCUMENT, "perturbation": perturbation, "scoring_share": 0.2})
        found.append(_case(f"ensemble, one classifier scored by {perturbation}", _score(scored)))
    found.append(_case("ensemble, one answer about a threshold", _answer(registry.check(DOCUMENT))))
    return found


def broken() -> list[Case]:
    """A person pays epsilon twice: every packet has the whole of it; who sent one scores a classifier too."""
    careless = registry.check({**DOCUMENT, "epsilon": 2 * EPSILON, "perturbation": "krr"})
    scored = registry.check({**DOCUMENT, "subsets": 1, "perturbation": "krr", "scoring_share": 0.2})
    return [
        _case("ensemble, two packets that each spend all of it", _packets(careless), positive_control=True),
        _case(
            "ensemble, a packet and then a score by the same person", _packet_and_score(scored), positive_control=True
        ),
    ]


def _case(name: str, draw: Any, *, positive_control: bool = False) -> Audited:
    return Audited(
        name,
        EPSILON,
        0.0,
        Adjacency.REPLACE_ONE,
        draw(HERE),
        draw(THERE),
        draws=180_000 if positive_control else 60_000,
        positive_control=positive_control,
    )


def _packets(document: Any) -> Any:
    """A person's two packets, reports side by side."""
    asks = [
        Ask("a", f"phase-{document.learning}.packet-{packet}", document.learning, _about(feature))
        for packet, feature in enumerate(("x0", "x1"))
    ]
    return lambda values: _drawn(document, asks, values)


def _score(document: Any) -> Any:
    """Draw how a classifier of x0 votes about a person, and what is true."""
    return lambda values: _drawn(document, [_scoring(document)], values)


def _packet_and_score(document: Any) -> Any:
    asks = [Ask("a", f"phase-{document.learning}", document.learning, _about("x0")), _scoring(document)]
    return lambda values: _drawn(document, asks, values)


def _scoring(document: Any) -> Ask:
    phase = document.learning + 1
    return Ask("a", f"phase-{phase}", phase, {**_about("x0"), "votes": [0, 1]})


def _about(feature: str) -> dict[str, Any]:
    return {"features": [{"column": feature, "thresholds": [0.5]}]}


def _answer(document: Any) -> Any:
    ask = Ask("a", "phase-0", 0, {"question": {"column": "x0", "at": 0.5}})
    return lambda values: _drawn(document, [ask], values)


def _drawn(document: Any, asks: list[Ask], values: tuple[float, float, int]) -> Draw:
    owner, randomness = registry.owner(document), bulk()

    def draw(n: int) -> np.ndarray:
        rows = Rows.one_each({name: np.full(n, value) for name, value in zip(("x0", "x1", "y"), values, strict=True)})
        given = [owner.contribute(document, ask, rows, _Paid(), randomness=randomness) for ask in asks]
        reports = [np.asarray(each.fields[plan.REPORT]).reshape(n, -1) for each in given]
        return np.concatenate(reports, axis=1).astype(np.float64)

    return draw


class _Paid:
    def consume(self, *, epsilon: Any, delta: Any = 0) -> None:
        return None
