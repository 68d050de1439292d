"""The audit's rows of networks that people train: the gradients that one of them sends, over all rounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from thebes.privacy.promise import Adjacency, Unit
from thebes.privacy.randomness import system
from thebes.tasks import registry
from thebes.tasks.audit.case import Audited, Case
from thebes.tasks.audit.people import sent
from thebes.tasks.gradient.kind import KIND
from thebes.tasks.gradient.network import REPORT
from thebes.tasks.protocols import Ask, Setting
from thebes.tasks.samples import NETWORK

DOCUMENT = {
    "type": "gradient",
    "epsilon": 1.0,
    "featurizer": "SELECT x0, x1, z FROM p.t",
    "inputs": ["x0", "x1"],
    "outputs": ["z"],
    **NETWORK,
    "clip": 0.5,
}
#: rows whose gradients point opposite ways, both longer than the clip
HERE, THERE = {"x0": 1.0, "x1": 1.0, "z": -100.0}, {"x0": 1.0, "x1": 1.0, "z": 100.0}


def cases() -> list[Case]:
    """List both mechanisms, and both rounds of an owner who takes part twice. Who takes part in two rounds with the
    whole epsilon in each must be caught."""
    twice: dict[str, Any] = {"rounds": 2, "rounds_per_owner": 2}
    return [
        _row("gradient, privunit"),
        _row("gradient, gaussian", mechanism="gaussian", delta=1e-2),
        _row("gradient, privunit in two rounds", **twice),
        _row("gradient, the whole epsilon in each of two rounds", positive_control=True, epsilon=2.0, **twice),
    ]


def _row(name: str, *, positive_control: bool = False, **more: Any) -> Audited:
    document = KIND.check({**DOCUMENT, **more})
    first = registry.aggregator(document, Setting(unit=Unit.PERSON, randomness=system(), simulated=True)).ask("a")
    assert isinstance(first, Ask)  # noqa: S101
    asks = [replace(first, part=f"phase-{phase}", phase=phase) for phase in range(document.participations)]
    one, other = (sent(document, own, asks=asks, look=lambda given: given.fields[REPORT]) for own in (HERE, THERE))
    draws = 180_000 if positive_control else 60_000
    return Audited(name, 1.0, document.delta, Adjacency.REPLACE_ONE, one, other, positive_control, draws)
