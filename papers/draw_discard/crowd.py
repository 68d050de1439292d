"""People who train one model one after another, looked at after every pass: the crowd of `thebes.simulate`, with its
rows read once for several documents."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np

from thebes.privacy import randomness
from thebes.privacy.promise import Unit
from thebes.simulation.budgets import SimulatedBudgets
from thebes.simulation.endless_task import take_part
from thebes.simulation.featurizer import featurize
from thebes.simulation.tables import people_of
from thebes.tasks import registry
from thebes.tasks.draw_discard.aggregator import DrawDiscardAggregator
from thebes.tasks.draw_discard.instances import Floats
from thebes.tasks.draw_discard.owner import Prepared
from thebes.tasks.draw_discard.release import GeneralisedModel
from thebes.tasks.protocols import Setting


class Watched(DrawDiscardAggregator):
    """An aggregator that notes the average at every look at the time: in a simulation, after each pass."""

    def __init__(self, document: Any, setting: Setting) -> None:
        super().__init__(document, setting)
        self.averages: list[Floats] = []

    def advance(self, now: datetime, absent: int = 0) -> None:
        self.averages.append(self.lanes[0].mean())
        super().advance(now, absent)


@dataclass(frozen=True, slots=True)
class Trained:
    """The models after each pass, and what the release says. `epsilon` is one person's over all passes."""

    models: tuple[GeneralisedModel, ...]
    release: Any

    @property
    def epsilon(self) -> float | None:
        """None where nothing was private."""
        told = self.release.certificate
        return None if told.guarantee == "none" else float(told.epsilon)


class Crowd:
    """The people of one table, who all run the same featurizer."""

    def __init__(self, featurizer: str, table: Mapping[str, Any]) -> None:
        self.featurizer = featurizer
        self.rows = featurize(featurizer, people_of(table))

    def prepared(self, document: Any) -> Prepared:
        """The owner's half over everybody, for architectures other than the kind's own."""
        return Prepared(document, self.rows)

    def trained(self, asked: Mapping[str, Any], seed: int, *, in_flight: int = 1) -> Trained:
        """Train as `thebes.simulate` does with this document and these people, in as many passes as the document
        allows."""
        document: Any = registry.check({**asked, "featurizer": self.featurizer})
        source = randomness.seeded_for_simulation(seed)
        aggregator = Watched(document, Setting(unit=Unit.PERSON, randomness=source, simulated=True))
        owner = registry.owner(document, simulated=True)
        everybody = np.flatnonzero(owner.able(document, self.rows))
        budgets = SimulatedBudgets(self.rows.people, registry.kind(document.type).price(document, unit=Unit.PERSON))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            take_part(document, aggregator, owner, self.rows, everybody, budgets, source, in_flight=in_flight)
        models = [GeneralisedModel(document, average[None, :]) for average in aggregator.averages]
        return Trained(tuple(models), aggregator.release())
