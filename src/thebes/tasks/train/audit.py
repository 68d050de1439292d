"""The audit's rows of models that institutions train: all that a coordinator is sent by a site, or that everybody is
told of its totals, in all rounds together, with one person there or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.schema import Schema, schema_of
from thebes.data.table import Batch, Table
from thebes.learning.slopes import LinearSlopes
from thebes.privacy.promise import Adjacency, Unit
from thebes.privacy.randomness import system
from thebes.sharing import SealingKey
from thebes.tasks import registry
from thebes.tasks.aggregation.site_shares import SealedShare
from thebes.tasks.audit import shares, sites
from thebes.tasks.audit.case import Audited, Case, Draw
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.protocols import Ask, Setting
from thebes.tasks.train.aggregator import TrainAggregator
from thebes.tasks.train.kind import KIND, TrainDocument
from thebes.tasks.train.local import read, totals
from thebes.tasks.train.noises import FIRST, LATER
from thebes.tasks.train.plan import TrainingPlan

ADD = Adjacency.ADD_REMOVE_ONE
_NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
FAST = system()
SCHEMA = schema_of(
    {"unit": "person", "columns": {name: {"type": "float", "low": -1, "high": 1} for name in ("x", "y")}}
)
TRAIN: dict[str, Any] = {
    "type": "train", "dataset": "audited", "model": "LinearRegression", "inputs": ["x"], "output": "y", "clip": 1.0,
    "epsilon": 1.0, "delta": 1e-2, "rounds": 2, "learning_rate": 0.1, "size_share": 0.1,
}  # fmt: skip
#: a gradient and its curvature told together, in every round
NEWTON: dict[str, Any] = {**TRAIN, "learning_rate": 1.0, "update": "newton"}


class Handful:
    """So few rows that reading them costs nothing: (x, y) of each person."""

    schema: Schema = SCHEMA

    def __init__(self, rows: list[tuple[float, float]]) -> None:
        self._numbers = np.array(rows, dtype=np.float64).reshape(-1, 2)

    def batches(self, columns: Any, where: Any = None, *, rows: int = 65_536) -> Any:
        yield Batch(self._numbers, np.arange(len(self._numbers)))

    def sums(self, wanted: Any) -> NDArray[np.int64]:
        raise NotImplementedError


#: nobody pulls at the model but one, who is there or not and pulls as hard as clipping lets anybody
OTHERS = [(0.0, 0.0)] * 3
NEIGHBOURS = (Handful([*OTHERS, (1.0, -1.0)]), Handful(OTHERS))


def cases() -> list[Case]:
    """List every mechanism with which sites answer, attacked by samples and by the noise itself. Noise that would do
    for one step, drawn for each of twenty-five that are added up, must be caught, and a round that is noised again and
    again."""
    steps = {"local_steps": 2, "loss_share": 0.2}
    careless = "train, noise for one step claimed for all of twenty-five"
    one, other = (_as_if_alone(table, times=25) for table in NEIGHBOURS)
    replayed = "train, a round that a helper adds up forty times, each with noise anew"
    again, never = (_replayed(table, times=40) for table in NEIGHBOURS)
    return [
        trained("train, noise at the site", TRAIN),
        trained("train, noise at the site, two local steps", {**TRAIN, **steps}),
        trained("train, over samples", {**TRAIN, "batch": 0.5, "epsilon": 2.0}),
        trained("train, noise at the coordinator", {**TRAIN, "noise": "coordinator"}),
        drawn("train, noise at the site", TRAIN),
        drawn("train, noise at the coordinator", {**TRAIN, "noise": "coordinator"}),
        drawn("train, two local steps, noise at the site", {**TRAIN, **steps}),
        trained("train, newton", NEWTON),
        trained("train, newton, noise at the coordinator", {**NEWTON, "noise": "coordinator"}),
        drawn("train, with a test, noise at the site", {**TRAIN, "quality": True}),
        drawn("train, with a test, noise at the coordinator", {**TRAIN, "quality": True, "noise": "coordinator"}),
        drawn("train, newton, noise at the site", NEWTON),
        drawn("train, newton, noise at the coordinator", {**NEWTON, "noise": "coordinator"}),
        in_shares("train, what the coordinator learns where noise is split", TRAIN, draws=500),
        in_shares("train, newton, what the coordinator learns where noise is split", NEWTON, draws=250),
        Audited(replayed, 1.0, 1e-2, ADD, again, never, positive_control=True),
        Audited(careless, 1.0, 1e-2, ADD, one, other, positive_control=True, draws=20_000),
    ]


def _as_if_alone(table: Table, *, times: int) -> Draw:
    document = registry.check({**TRAIN, "rounds": 1})
    assert isinstance(document, TrainDocument)  # noqa: S101
    plan = TrainingPlan(document.descent, table.schema)
    found = totals(plan, list(read(plan, table)), LinearSlopes(1), np.zeros(2), None, FAST)
    noise = plan.noises(buying=False).sums

    def draw(n: int) -> NDArray[np.float64]:
        drawn = [noise.add(np.tile(found.sums, (n, 1)), FAST) for _ in range(times)]
        together: NDArray[np.float64] = np.sum(drawn, axis=0)
        return together

    return draw


def trained(name: str, body: Mapping[str, Any]) -> Case:
    """Return the row of a document that is answered in rounds: whoever is told all of them."""
    document = KIND.check(body)
    one, other = (_rounds(document, table) for table in NEIGHBOURS)
    return Audited(name, document.epsilon, document.delta, ADD, one, other, draws=1000)


def in_shares(name: str, body: Mapping[str, Any], *, draws: int) -> Case:
    """Return the row of what a coordinator has of a site whose sums come in shares, all others being its own."""
    document = KIND.check({**body, "noise": "split"})
    one, other = (_left(document, table) for table in NEIGHBOURS)
    return Audited(name, document.epsilon, document.delta, ADD, one, other, draws=draws)


def _left(document: TrainDocument, table: Table) -> Draw:
    plan, owner = TrainingPlan(document.descent, table.schema), registry.site_owner(document, simulated=True)

    def once() -> list[float]:
        weights, size, seen, key = np.zeros(2), None, list[float](), SealingKey.generate()
        for phase in range(document.phases):
            ask = Ask("any", f"phase-{phase}", phase, shares.payload_of(key, weights=weights, size=size))
            given = owner.contribute(document, ask, table, RecordedClaim(), randomness=FAST).fields
            told: dict[str, Any] = {"size": plan.numbers, "sort": FIRST if size is None else LATER}
            found = shares.left(document, ask, given, **told, schema=table.schema, key=key, randomness=FAST)
            if size is None:
                seen.append(float(given["size"][0]))
                size = max(1.0, seen[-1])
            seen += found
            weights = weights - 0.1 * np.array(found[:2]) * plan.sums.step
        return seen

    return lambda n: np.array([once() for _ in range(n)])


def _replayed(table: Table, *, times: int) -> Draw:
    document = KIND.check({**TRAIN, "rounds": 1, "noise": "split"})
    plan = TrainingPlan(document.descent, table.schema)
    found = totals(plan, list(read(plan, table)), LinearSlopes(1), np.zeros(2), None, FAST)
    (one,) = registry.noises(document, [SealedShare(b"", b"", table.schema, FIRST)])

    def draw(n: int) -> NDArray[np.float64]:
        drawn = [one.noise.drawn((n, one.count), FAST) for _ in range(times)]
        together: NDArray[np.float64] = found.sums + np.mean(drawn, axis=0) / one.noise.finer
        return together

    return draw


def drawn(name: str, body: Mapping[str, Any]) -> Case:
    """Return the row that judges the noise of all rounds."""
    document = KIND.check(body)
    return sites.drawn(name, document, NEIGHBOURS, used=0.6)


def _rounds(document: TrainDocument, table: Table) -> Draw:
    seen: Callable[[TrainDocument, Table], list[float]] = (
        _at_the_coordinator if document.noise == "coordinator" else _by_the_site
    )
    return lambda n: np.array([seen(document, table) for _ in range(n)])


def _by_the_site(document: TrainDocument, table: Table) -> list[float]:
    """All that one site sends: in each round what it tells of the weights, and its size and losses."""
    weights, size, seen = np.zeros(2), None, []
    for phase in range(document.phases):
        ask = Ask("any", f"phase-{phase}", phase, {"weights": weights, "size": size})
        given = registry.site_owner(document).contribute(document, ask, table, RecordedClaim(), randomness=FAST).fields
        if size is None:
            seen.append(float(given["size"][0]))
            size = max(1.0, seen[-1])
        if "loss" in given:
            seen.append(float(given["loss"][0]))
        for field in ("update", "curvature"):
            seen += given[field][0].tolist() if field in given else []
        weights = weights + given["update"][0]
    return seen


def _at_the_coordinator(document: TrainDocument, table: Table) -> list[float]:
    """All that is told of one site's totals: its size once, and the weights after every round."""
    setting = Setting(unit=Unit.PERSON, randomness=FAST, simulated=True, sites={"a": SCHEMA})
    aggregator = TrainAggregator(document, setting)
    seen: list[float] = []
    for _ in range(document.phases):
        ask = aggregator.ask("a")
        assert isinstance(ask, Ask)  # noqa: S101
        given = registry.site_owner(document).contribute(document, ask, table, RecordedClaim(), randomness=FAST)
        aggregator.accept(given)
        aggregator.advance(_NOON)
        seen += aggregator._weights.tolist()
    return [aggregator._sizes["a"], *seen]
