"""Draw and Discard in simulation: updates per second, convergence to known weights, and what attackers achieve.

The model is the seed's of 33 weights, with the made-up owners of the experiments.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import thebes
from papers.draw_discard import known_weights
from papers.draw_discard.known_weights import SCALED, people
from thebes.privacy import randomness
from thebes.privacy.promise import Unit
from thebes.simulation.featurizer import featurize
from thebes.simulation.tables import people_of
from thebes.tasks import registry
from thebes.tasks.contributions import Contributions
from thebes.tasks.protocols import Ask, OutlyingContribution, Setting

Floats = NDArray[np.float64]
Table = dict[str, NDArray[Any]]

DOCUMENT: dict[str, Any] = {**known_weights.DOCUMENT, "learning_rate": 0.05}
LAPLACE = {"mechanism": "laplace", "epsilon_per_weight": math.log(32)}
GOAL_PER_SECOND = 50_000
UPDATES = 1_000_000
SHARES = (0.01, 0.05, 0.1)


def run() -> dict[str, Any]:
    """Everything this file's first lines promise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return {
            "updates per second, 33 weights": {"goal": GOAL_PER_SECOND, **_speeds()},
            "known weights": {name: learned(**asked) for name, asked in LEARNED.items()},
            "attackers": {name: {f"{share:.0%}": attacked(name, share) for share in SHARES} for name in ATTACKS},
        }


TEST = people(50_000, seed=99)


def judged(model: Any) -> dict[str, float]:
    """Accuracy on new rows (0.811 is the best there is), and how close the weights are to the true ones."""
    found = model.weights
    true, seen = np.array(list(SCALED.values())), np.array([found[name] for name in SCALED])
    return {
        "accuracy": float((model.predict(TEST) == TEST["o"]).mean()),
        "correlation": float(np.corrcoef(true, seen)[0, 1]),
        "error": float(np.sqrt(np.mean((true - seen) ** 2))),
    }


# --- convergence ------------------------------------------------------------------------------------------

LEARNED: dict[str, dict[str, Any]] = {
    "seed's rate .05, 60,000 updates (floor .79)": {"updates": 60_000},
    "seed's rate .05, 1,000,000 updates (floor correlation .95)": {"updates": UPDATES},
    "rate falling from 1, 20,000 updates of 10 rows (goal .80)": {
        "updates": 20_000, "rows": 10, "learning_rate": 1.0, "decay": 30_000.0, "epsilon": 100.0,
    },
    "rate falling from 1, 1,000,000 updates (goal correlation .99)": {
        "updates": UPDATES, "learning_rate": 1.0, "decay": 30_000.0, "epsilon": 100.0,
    },
    "log 32 by weight, rate .005, 300,000 updates (goal .79)": {
        "updates": 300_000, "learning_rate": 0.005, **LAPLACE,
    },
    "log 32 by weight, rate .005, 1,000,000 updates (floor .78)": {
        "updates": UPDATES, "learning_rate": 0.005, **LAPLACE,
    },
    "person-level epsilon 8, PrivUnit, rate .01, 1,000,000 updates": {
        "updates": UPDATES, "learning_rate": 0.01, "epsilon": 8.0, "mechanism": "privunit",
    },
}  # fmt: skip


def learned(*, updates: int, rows: int = 1, seed: int = 1, **more: Any) -> dict[str, float]:
    """One pass over so many made-up people."""
    release = thebes.simulate({**DOCUMENT, **more}, people(updates, rows=rows, seed=seed), seed=seed)
    return {**judged(release.model), "spread": release.extra["spread"], "refused": release.extra["refused"] / updates}


# --- speed ------------------------------------------------------------------------------------------------


def _speeds() -> dict[str, Any]:
    crowd = people(UPDATES + 200_000)
    few = {name: values[:200_000] for name, values in crowd.items()}
    found: dict[str, Any] = {}
    thebes.simulate(DOCUMENT, {name: values[:2000] for name, values in few.items()})  # loading is not measured
    for name, more in (("none", {}), ("laplace", LAPLACE), ("privunit", {"mechanism": "privunit", "epsilon": 8.0})):
        found[name] = round(200_000 / _seconds({**DOCUMENT, **more}, few))
    first, last = _paces(crowd)
    found["the last 200,000 of 1,200,000 against the first"] = round(last / first, 3)
    return found


def _seconds(document: dict[str, Any], table: Table) -> float:
    start = time.perf_counter()
    thebes.simulate(document, table, seed=1)
    return time.perf_counter() - start


def _paces(table: Table) -> tuple[float, float]:
    """Updates per second of the first and of the last 200,000 in one long training, rows read before."""
    from thebes.tasks.draw_discard.crowd import TrainingCrew

    document: Any = registry.check(DOCUMENT)
    source = randomness.system()
    aggregator: Any = registry.aggregator(document, Setting(unit=Unit.PERSON, randomness=source, simulated=True))
    owner: Any = registry.owner(document, simulated=True)
    prepared = owner.prepared(document, featurize(document.featurizer, people_of(table)))
    crew, paces = TrainingCrew(document, aggregator, 0, prepared, source, 1), []
    for start in range(0, UPDATES + 200_000, 200_000):
        began = time.perf_counter()
        crew.work(np.arange(start, start + 200_000))
        paces.append(200_000 / (time.perf_counter() - began))
    return paces[0], paces[-1]


# --- attackers --------------------------------------------------------------------------------------------

Attack = Callable[[Any, Ask, Floats], Floats]


def _random(aggregator: Any, ask: Ask, honest: Floats) -> Floats:
    return np.random.default_rng(ask.payload["version"]).normal(0, 3, honest.size)


def _scaled(aggregator: Any, ask: Ask, honest: Floats) -> Floats:
    return 10 * honest


def _flipped(aggregator: Any, ask: Ask, honest: Floats) -> Floats:
    return -honest


def _constant(aggregator: Any, ask: Ask, honest: Floats) -> Floats:
    return np.full(honest.size, 2.0)


def _drifting(aggregator: Any, ask: Ask, honest: Floats) -> Floats:
    """Always a little less than the filter allows, and always the same way: against the true weights."""
    way = -np.sign(list(SCALED.values()))
    return np.asarray(aggregator.lanes[0].mean() + 0.95 * aggregator.allowed(0, ask.payload["version"]) * way)


ATTACKS: dict[str, Attack] = {
    "random": _random,
    "scaled": _scaled,
    "sign-flipped": _flipped,
    "constant": _constant,
    "drifting": _drifting,
}


def attacked(name: str, share: float, *, updates: int = 20_000, seed: int = 1, **more: Any) -> dict[str, float]:
    """Training from the weights of an earlier one, with this share of attackers who know everything that is public."""
    asked = {**DOCUMENT, "mechanism": "privunit", "epsilon": 8.0, "learning_rate": 0.01, **more}
    document: Any = registry.check({**asked, "start": list(SCALED.values())})
    source, draw = randomness.seeded_for_simulation(seed), np.random.default_rng(seed)
    aggregator: Any = registry.aggregator(document, Setting(unit=Unit.PERSON, randomness=source, simulated=True))
    owner: Any = registry.owner(document, simulated=True)
    prepared = owner.prepared(document, featurize(document.featurizer, people_of(people(updates, seed=seed))))
    crowd = prepared.batch(np.arange(updates))
    refused = {True: 0, False: 0}
    evil = draw.random(updates) < share
    aggregator.expect(updates)
    for person in range(updates):
        ask = aggregator.ask("simulation")
        rate = np.array([document.rate(0, ask.payload["version"])])
        drawn, batch = ask.payload["weights"][None, :], crowd.some(slice(person, person + 1))
        weights = prepared.changed(drawn, rate, batch, prepared.ahead(1, source))[0]
        if evil[person]:
            weights = ATTACKS[name](aggregator, ask, weights)
        fields = {"weights": weights[None, :], "version": np.array([ask.payload["version"]]), "lane": np.zeros(1, int)}
        try:
            aggregator.accept(Contributions(ask.part, 1, fields))
        except OutlyingContribution:
            refused[bool(evil[person])] += 1
    release = aggregator.release()
    return {
        "attackers refused": refused[True] / max(1, int(evil.sum())),
        "honest refused": refused[False] / max(1, int((~evil).sum())),
        "spread": release.extra["spread"],
        **judged(release.model),
    }
