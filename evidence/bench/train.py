"""Training over sites against the same gradient steps over all rows in one place, by what the time goes into.

One process takes the sites' turns one after another, so that nothing is hidden by doing things at once: `site` is what
the sites computed, `travel` writing and reading what is sent (as frames, without a wire), `aggregation` the
coordinator's part. The same rows are split over more and more sites. `private` repeats the clipped and noised steps
themselves in one place; `plain` is full-batch descent in numpy that protects nobody. What a ratio has beyond 1 where
sites share one process is what each of them does whatever its rows are; with machines of their own it is below 1.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tests.support.training import DOCUMENT, NOON, SCHEMA, patients
from thebes.data.engines.source import frame_table
from thebes.data.schema import schema_of
from thebes.data.table import Table
from thebes.learning.updates import Sgd
from thebes.privacy.promise import Unit
from thebes.privacy.randomness import system
from thebes.tasks import registry
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.contributions import read_payloads
from thebes.tasks.protocols import Setting, State
from thebes.tasks.train.local import RowCache, totals
from thebes.tasks.train.owner import SIMULATED
from thebes.tasks.train.plan import TrainingPlan
from thebes.wire import frames

SITES = (1, 5, 10, 15)
STEPS = 50
ROWS = 15_000
NETWORK_ROWS = 1500
GOAL = 1.2


def run() -> dict[str, Any]:
    """Ratios and seconds of a logistic regression and of a small network."""
    logistic = {**DOCUMENT, "rounds": STEPS, "learning_rate": 2.0}
    found = {"logistic regression, 15,000 rows": _measured(logistic, ROWS)}
    try:
        import torch
        from torch import nn

        from thebes.torch import encode
    except ImportError:
        return found
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model, loss = encode(nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 2)), nn.CrossEntropyLoss())
    network = {**logistic, "model": model, "loss": loss}
    return {**found, "network of 386 weights, 1,500 rows": _measured(network, NETWORK_ROWS)}


def _measured(document: dict[str, Any], rows: int) -> dict[str, Any]:
    everybody = patients(rows)
    checked: Any = registry.check(document)
    tables = {n: _tables(everybody, n) for n in SITES}
    _federated(checked, _tables({c: v[:200] for c, v in everybody.items()}, 1))  # loading is not measured
    central = min(_timed(lambda: _central(checked, tables[1]["s0"])) for _ in range(3))
    plain = None if checked.family is None else min(_timed(lambda: _plain(everybody)) for _ in range(3))
    told: dict[str, Any] = {"private, in one place, seconds": central}
    if plain is not None:
        told["private over plain"] = central / plain
    for n in SITES:
        seconds = min((_federated(checked, tables[n]) for _ in range(3)), key=lambda s: s["whole"])
        told[f"{n} sites"] = {
            "over the private steps in one place": seconds["whole"] / central,
            "the same, if each site had a machine of its own": seconds["alone"] / central,
            "goal met": seconds["alone"] / central <= GOAL,
            **{f"{phase}, seconds": seconds[phase] for phase in ("site", "travel", "aggregation")},
            "travel and aggregation, milliseconds for a round and site": 1000
            * (seconds["travel"] + seconds["aggregation"])
            / (STEPS * n),
        }
    return told


def _tables(columns: dict[str, NDArray[Any]], sites: int) -> dict[str, Table]:
    parts = np.array_split(np.arange(len(columns["age"])), sites)
    return {
        f"s{i}": frame_table(schema_of(SCHEMA), pd.DataFrame({c: v[part] for c, v in columns.items()}))
        for i, part in enumerate(parts)
    }


def _federated(document: Any, tables: dict[str, Table]) -> dict[str, float]:
    """Seconds of a whole training, by phase."""
    source, claim = system(), RecordedClaim()
    schemas = {site: table.schema for site, table in tables.items()}
    seconds = {"site": 0.0, "travel": 0.0, "aggregation": 0.0}
    slowest = 0.0  #: site of each round, all rounds together
    for site, table in tables.items():  # rows are read from their source before the first step, as in one place
        SIMULATED._shelf.rows(TrainingPlan(document.descent, schemas[site]), table)
    began = time.perf_counter()
    aggregator: Any = registry.aggregator(
        document, Setting(unit=Unit.PERSON, randomness=source, simulated=True, sites=schemas)
    )
    while aggregator.state is State.OPEN:
        rounds = [0.0]
        for site in aggregator.awaited:
            start = time.perf_counter()
            ask = aggregator.ask(site)
            there = frames.read(frames.write(frames.split({"payload": dict(ask.payload)}))).message(arrays=True)
            seconds["travel"] += time.perf_counter() - start
            start = time.perf_counter()
            given = SIMULATED.contribute(document, ask, tables[site], claim, randomness=source)
            rounds.append(time.perf_counter() - start)
            seconds["site"] += rounds[-1]
            start = time.perf_counter()
            layout = aggregator.layout(ask.part, ask.partition)
            payload = next(iter(given.payloads(layout)))
            back = frames.read(frames.write(frames.split({"payload": payload}))).message(arrays=True)["payload"]
            heard = read_payloads(layout, ask.part, [back], ask.partition)
            seconds["travel"] += time.perf_counter() - start
            assert there
            start = time.perf_counter()
            aggregator.accept(heard)
            seconds["aggregation"] += time.perf_counter() - start
        start = time.perf_counter()
        aggregator.advance(NOON)
        aggregator.snapshot()
        slowest += max(rounds)
        seconds["aggregation"] += time.perf_counter() - start
    whole = time.perf_counter() - began
    return {**seconds, "whole": whole, "alone": whole - seconds["site"] + slowest}


def _central(document: Any, table: Table) -> None:
    """The same clipped and noised steps over all rows in one place."""
    plan, source = TrainingPlan(document.descent, table.schema), system()
    rows, rule, weights = _SHELF.rows(plan, table), Sgd(document.learning_rate), plan.start
    with SIMULATED._children.slopes(plan) as slopes:
        for _ in range(document.descent.steps):
            found = totals(plan, rows, slopes, weights, None, source)
            noised = plan.noises(buying=False).sums.add(found.sums, source) * plan.sums.step
            weights = rule.step(weights, noised / found.people)


_SHELF = RowCache()


def _plain(rows: dict[str, NDArray[Any]]) -> None:
    x = np.column_stack(
        [rows["age"] / 50 - 1, (rows["height"] - 100) / 60 - 1, rows["sex"] == "female", rows["age"] ** 0]
    )
    weights = np.zeros(4)
    for _ in range(STEPS):
        weights = weights - 2.0 * x.T @ (1 / (1 + np.exp(-(x @ weights))) - rows["ill"]) / len(x)


def _timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
