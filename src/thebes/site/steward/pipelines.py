"""The work of a site's pipelines, what they did and made, as its steward is shown it: runs, who waits for budget,
models."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from thebes.curator.pipelines.model_store import ModelStore
from thebes.curator.pipelines.scheduler import Demand
from thebes.curator.pipelines.workspace import JOURNAL, Workspace
from thebes.ledger import Budget, Ledger
from thebes.ledger.states import BlockState
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.losses import Approximate, Both, Concentrated, Pure
from thebes.site.dataset import DataSets
from thebes.site.home import SiteHome
from thebes.site.streams import turns_of

MOST_RUNS = 100


class Pipelines:
    """Those of one home. Whoever runs one may be another process; everything is read from the files."""

    def __init__(self, home: SiteHome, datasets: DataSets, ledger: Ledger) -> None:
        self._home, self._datasets, self._ledger = home, datasets, ledger
        self.store = ModelStore(home.folder)

    def told(self) -> dict[str, Any]:
        """The latest runs, newest first, and what is waited for."""
        return {"runs": self._runs(), "waiting": self._waiting()}

    def model(self, name: str, version: int | None) -> dict[str, Any] | None:
        """A bundle; `gone` is how many of its blocks are retired or deleted."""
        bundle = self.store.whole(name, version)
        if bundle is None:
            return None
        retired = {block.name for block in self._ledger.blocks() if block.state is BlockState.RETIRED}
        return {**bundle, "gone": len(retired & set(bundle["lineage"]["blocks"]))}

    def amounts(self) -> dict[str, Budget]:
        """Return what every attempt may spend, by the key of its claim."""
        if not (self._home.folder / JOURNAL).exists():
            return {}
        with closing(Workspace(self._home.folder)) as workspace:
            return workspace.attempts.amounts()

    def _runs(self) -> list[dict[str, Any]]:
        if not (self._home.folder / JOURNAL).exists():
            return []
        with closing(Workspace(self._home.folder)) as workspace:
            runs = workspace.attempts.runs(most=MOST_RUNS)
            return [run.as_json(workspace.attempts.attempts(run.id)) for run in runs]

    def _waiting(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for name in self._datasets.names():
            try:
                dataset = self._datasets.get(name)
                turns = None if dataset is None else turns_of(self._home, dataset, self._ledger)
            except (Mistake, Refusal):
                continue  # the page of data sets says what is wrong with it
            if turns is not None:
                with closing(turns):
                    found += [{"stream": name, "policy": str(turns.policy), **_demand(one)} for one in turns.queue()]
        return found


def _demand(demand: Demand) -> dict[str, Any]:
    loss = demand.loss
    asks: dict[str, float]
    match loss:
        case Approximate():
            asks = {"epsilon": float(loss.epsilon), "delta": float(loss.delta)}
        case Pure():
            asks = {"epsilon": float(loss.epsilon)}
        case Concentrated():
            asks = {"rho": float(loss.rho)}
        case Both():
            pure = {"epsilon": float(loss.epsilon)} if loss.epsilon.is_finite() else {}
            asks = {**pure, "rho": float(loss.rho)}
        case _:
            asks = {}  # a curve, which no short line can say
    return {
        "pipeline": demand.who,
        "asks": asks,
        "blocks": len(demand.blocks),
        "since": demand.came_at,
        "turn": demand.turn_at is not None,
    }
