"""The k instances of one model, of which one is drawn and one is discarded with every update (algorithm 2).

What must stay true: a draw and a discard each take one instance of k with equal chance, independently; nothing
remembers which instance an update came from. No lock: who was asked before another's update brings an older model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.local.privunit import normals
from thebes.privacy.randomness import Randomness

Floats = NDArray[np.float64]

MOST_POINTS = 200  #: of the history of the spread
_COUNTERS = ("updates", "refused", "quarantined", "stale")


@dataclass(frozen=True, slots=True)
class Drawn:
    """A copy of the instance at `place`, after `version` updates of all of them together."""

    place: int
    version: int
    weights: Floats


class Instances:
    """k models of p weights each. `updates` counts what was mixed in, and is the version of whatever is drawn now.

    `changed` holds the places that were replaced since somebody last emptied it, so that only these are stored again.
    """

    def __init__(self, models: Floats) -> None:
        self.models = np.array(models, dtype=np.float64)
        self.age = 0.0  #: how many updates old contributions usually are when they arrive
        self.updates = self.refused = self.quarantined = self.stale = 0
        self.history: list[tuple[int, float]] = []  #: (updates, spread over all weights), at most MOST_POINTS
        self.changed: set[int] = set()
        self._stride = 1
        self._settled = 0  # the update at which the sums were last computed anew
        self.settle()

    @classmethod
    def around(cls, start: Floats, count: int, deviation: float, randomness: Randomness) -> Instances:
        """`count` instances about `start`, each weight with variance count / 2 times that of one update's noise:
        the spread that drawing and discarding keeps (theorem 1)."""
        noise = normals(randomness, count * len(start)).reshape(count, -1)
        return cls(start + noise * (deviation * math.sqrt(count / 2)))

    @property
    def count(self) -> int:
        return len(self.models)

    def copied(self) -> Instances:
        """The same as they are now, which stay so."""
        made = copy(self)
        made.models, made.history, made.changed = self.models.copy(), list(self.history), set(self.changed)
        made.go_on_from(self.sums())
        return made

    # --- algorithm 2 ------------------------------------------------------------------------------------

    def draw(self, randomness: Randomness) -> Drawn:
        """Any instance, each with the same chance."""
        place = int(randomness.below(self.count, 1)[0])
        return Drawn(place, self.updates, self.models[place].copy())

    def discard(self, weights: Floats, randomness: Randomness) -> int:
        """Put a changed model where any instance was, each with the same chance; the place."""
        place = int(randomness.below(self.count, 1)[0])
        self.replace(place, weights)
        return place

    def replace(self, place: int, weights: Floats) -> None:
        """The same with the place already drawn."""
        self._put(place, weights)
        self.updates += 1
        self.changed.add(place)
        if self.updates - self._settled >= 64 * self.count:
            self.settle()
        if self.updates % self._stride == 0:
            self.note()

    def jump(self, models: Floats, updates: int) -> None:
        """Stand where so many further updates led, which somebody simulated together."""
        self.models = np.array(models, dtype=np.float64)
        self.updates += updates
        self.changed.update(range(self.count))
        self.settle()
        if updates and self.updates % self._stride == 0:
            self.note()

    # --- what everybody may see -------------------------------------------------------------------------

    def mean(self) -> Floats:
        """The average of all instances, weight by weight."""
        return np.asarray(self._origin + self._sum / self.count)

    def spread(self) -> Floats:
        """The standard deviation between the instances, weight by weight; 0 of a single one."""
        return np.sqrt(self.variance())

    def variance(self) -> Floats:
        if self.count == 1:
            return np.zeros(self.models.shape[1])
        seen = (self._squares - self._sum * self._sum / self.count) / (self.count - 1)
        return np.asarray(np.maximum(seen, 0.0))

    def about(self) -> tuple[Floats, Floats, Floats]:
        """(origin, sum, sum of squares) of the instances' distances from the origin: what mean and variance are made
        of, kept up to date with every update instead of being computed over all instances."""
        return self._origin, self._sum, self._squares

    # --- keeping ----------------------------------------------------------------------------------------

    def saved(self, place: int) -> bytes:
        """One instance as little-endian 64-bit floats."""
        return np.ascontiguousarray(self.models[place], dtype="<f8").tobytes()

    def load(self, place: int, saved: bytes) -> None:
        """The inverse of `saved`; counts nothing."""
        if len(saved) != 8 * self.models.shape[1]:
            raise Mistake("instance", "does not have the length of this model")
        self._put(place, np.frombuffer(saved, dtype="<f8"))

    def facts(self) -> dict[str, Any]:
        """Everything beside the models and their sums, as JSON."""
        counters = {name: getattr(self, name) for name in _COUNTERS}
        history = [list(point) for point in self.history]
        return {**counters, "history": history, "stride": self._stride, "settled": self._settled, "age": self.age}

    def recall(self, facts: Mapping[str, Any]) -> None:
        """The inverse of `facts`."""
        for name in _COUNTERS:
            setattr(self, name, int(facts[name]))
        self.history = [(int(updates), float(spread)) for updates, spread in facts["history"]]
        self._stride, self._settled, self.age = int(facts["stride"]), int(facts["settled"]), float(facts["age"])

    @staticmethod
    def joined(theirs: Mapping[str, Any], before: Mapping[str, Any], mine: Mapping[str, Any]) -> dict[str, Any]:
        """`theirs` and what came to `mine` since it was `before`. Updates are counted by their models, so each knows
        of all; of two histories every point counts, as far apart as the longer one has them."""
        added = {name: int(theirs[name] + mine[name] - before[name]) for name in ("refused", "quarantined", "stale")}
        stride = max(int(theirs["stride"]), int(mine["stride"]))
        points = {int(updates): spread for updates, spread in [*theirs["history"], *mine["history"]]}
        while len(points) >= MOST_POINTS:
            points, stride = dict(sorted(points.items())[1::2]), stride * 2
        return {
            **mine,
            **added,
            "updates": max(int(theirs["updates"]), int(mine["updates"])),
            "history": [[updates, points[updates]] for updates in sorted(points)],
            "stride": stride,
        }

    def sums(self) -> Floats:
        """Return what mean and variance are made of, in three lines; without them a copy would round differently."""
        return np.stack([self._origin, self._sum, self._squares])

    def go_on_from(self, sums: Floats) -> None:
        """The inverse of `sums`."""
        self._origin, self._sum, self._squares = np.array(sums, dtype=np.float64)

    def settle(self) -> None:
        """Compute the sums anew, so that rounding errors of many updates never add up."""
        self._origin = self.models.mean(axis=0)
        away = self.models - self._origin
        self._sum, self._squares = away.sum(axis=0), (away * away).sum(axis=0)
        self._settled = self.updates

    def note(self) -> None:
        """Write the spread into the history; of a long one every second point is forgotten."""
        self.history.append((self.updates, float(math.sqrt(np.mean(self.variance())))))
        if len(self.history) >= MOST_POINTS:
            self.history = self.history[1::2]
            self._stride *= 2

    @property
    def stride(self) -> int:
        """After how many updates the history gets its next point."""
        return self._stride

    def _put(self, place: int, weights: Floats) -> None:
        new, old = weights - self._origin, self.models[place] - self._origin
        self._sum += new - old
        self._squares += new * new - old * old
        self.models[place] = weights
