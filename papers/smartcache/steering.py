"""Directions out of made-up rows: checked against the rows' exact gradient, and learned from released ones.

What must stay true: see `directions`. A direction is passed by a sparse vector over its agreement with the exact sum,
of which the sensitivity is proved here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from functools import cached_property

import numpy as np

from papers.smartcache.directions import BITS, ROWS, Direction, Noised, Sums, Taught
from thebes.curator.cache.answer import AnswerSource
from thebes.curator.cache.cost_account import loss_in
from thebes.curator.cache.purchase import Purchase, size_of
from thebes.curator.cache.smart.check import UNIT, Sought, SparseCheck
from thebes.curator.cache.smart.rows import MadeUp, chosen
from thebes.curator.cache.synopsis import Pay, SynopsisPart
from thebes.curator.questions.plans import Integers
from thebes.ledger.filter_protocol import EventFilter
from thebes.ledger.filters import BASIC, filter_of
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.figures import figure
from thebes.privacy.measurement import Floats
from thebes.privacy.randomness import Randomness

_LAST_BIT = 2.0**-52  #: by as large a share of the longest sum, for every weight, an inner product may be off
_AHEAD = 1.5  #: so much more than needed an agreement must be expected to be before it is checked
_RECENT, _PACED, _SUREST = 0.1, 0.3, 0.999
_STEP = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class Steering:
    """`alike`: the least cosine with the exact gradient that a passed direction has, but for `beta`. An opening of the
    sparse vector may cost `worth` answers. `trust`: of the latest directions that were compared, this share must have
    been near enough before one is checked; without it, as many as make up for an opening. `rows` of each set serve.
    Learning: `epochs` steps of length `rate` on the weights of a random `share` of the sets."""

    alike: float = 0.5
    beta: float = 0.01
    worth: float = 4.0
    trust: float | None = None
    rows: int = 512
    epochs: int = 50
    rate: float = 0.1
    share: float = 0.5

    def __post_init__(self) -> None:
        ends = (("alike", 0, 0.999), ("beta", 1e-9, 0.5), ("worth", 0.01, 1e6), ("rate", 1e-6, 10), ("share", 1e-6, 1))
        for name, low, high in ends:
            if not low <= getattr(self, name) <= high:
                raise Mistake(name, f"must be from {figure(low)} to {figure(high)}")
        if self.rows < 1 or self.epochs < 1:
            raise Mistake("rows", "and epochs must be at least 1")


@dataclass(frozen=True, slots=True)
class _Course:
    """The course by which a question is answered now: `looks` is paid before a direction is checked, None where it is
    not looked at."""

    gradients: Floats  #: of every made-up row: sets x rows x weights, in whole steps
    mean: Floats
    sought: Sought
    opens: bool
    checked: bool


class Steered:
    """Answers out of made-up rows where they are near enough, otherwise as `drawing` does."""

    def __init__(
        self, drawing: Noised, rows: MadeUp, *, seed: int, steering: Steering | None = None, filter: str = BASIC.name
    ) -> None:
        self.drawing, self.rows, self.seed, self.filter = drawing, rows, seed, filter
        self.steering = steering or Steering()
        self.check = SparseCheck()
        # The first opening is worth a try: sets that agree are seldom wrong before the end of a descent.
        self.turn, self.right, self.passed, self.failed = 0, self._needed, 0, 0
        self.pace = 1.0  #: of a guess, as released directions were longer or shorter than guesses
        self._inputs, self._targets, self._there = self._fed()
        self._last: tuple[object, _Course] | None = None

    @property
    def taught(self) -> Taught:
        return self.drawing.taught

    @cached_property
    def opening(self) -> Purchase:
        """The purchase of an opening of the sparse vector: what it costs."""
        worth, answer = Decimal(str(self.steering.worth)), self.drawing.purchase
        size = worth * size_of(answer, self.filter)
        epsilon = (2 * size).sqrt() if isinstance(filter_of(self.filter), EventFilter) else size
        return Purchase.pure(epsilon.quantize(_STEP, ROUND_CEILING))

    @cached_property
    def _needed(self) -> float:
        """The share of near enough directions from which on an opening pays."""
        if self.steering.trust is not None:
            return self.steering.trust
        loss = [loss_in(self.filter, [purchase]) for purchase in (self.drawing.purchase, self.opening)]
        return max(0.0, min(_SUREST, 1 - loss[0] / loss[1]))

    @cached_property
    def reach(self) -> int:
        """The most that one unit moves `agreement`, in whole steps.

        With u the unit vectors of the guess, layer by layer, and G the exact sum, agreement(G) is the sum over layers
        of <u, G> - alike |G|. Of one layer, a change d of G moves it by at most (1 + alike) |d| (Cauchy-Schwarz and
        the triangle inequality); over L layers, whose changes together are as long as all of G's, by at most
        (1 + alike) sqrt(L) times that length. Rounding to whole steps and floating point add the rest.
        """
        change = self.taught.sensitivity(self.taught.schema.change).l2
        layers = math.sqrt(len(self.taught.layers))
        off = 8 * _LAST_BIT * self.taught.slopes.count * layers**3 * (ROWS << BITS)
        return math.ceil((1 + self.steering.alike) * layers * change * (1 + 1e-9) + off) + 2

    def agreement(self, guess: Floats, total: Integers) -> int:
        """Return how much a sum of gradients agrees with a guess, rounded down: not negative where their cosine, each
        layer's weighed by the length of the sum there, is at least `alike`."""
        found = 0.0
        for u, g in zip(self._layers(guess), self._layers(total.astype(np.float64)), strict=True):
            found += float(u @ g) / max(float(np.linalg.norm(u)), 1e-300) - self.steering.alike * float(
                np.linalg.norm(g)
            )
        return math.floor(found)

    # --- answers ----------------------------------------------------------------------------------------------

    def most(self, weights: Floats) -> Sequence[Purchase]:
        course = self._course(weights)
        return (self.opening, self.drawing.purchase) if course.opens else (self.drawing.purchase,)

    def answer(self, weights: Floats, sums: Sums, pay: Pay, randomness: Randomness) -> Direction:
        course = self._course(weights)
        if not course.checked:
            direction = self.drawing.answer(weights, sums, pay, randomness)
            self._compared(course, direction)
            self._learn(course, direction)
            return direction
        if course.opens:
            pay(self.opening)
            self.check.begin(self.opening.epsilon, randomness)
        total = sums(weights)
        passed = self.check.passes(course.sought, -self.agreement(course.mean, total), randomness)
        self.right += _RECENT * (passed - self.right)
        if passed:
            self.passed += 1
            return Direction(
                course.mean * self.taught.step, AnswerSource.SYNOPSIS, (self.steering.alike, self.steering.beta)
            )
        self.failed += 1
        pay(self.drawing.purchase)
        direction = self.drawing.drawn(total, randomness)
        self._learn(course, direction)
        return direction

    def _course(self, weights: Floats) -> _Course:
        """From public state alone: the sets' own directions, how much they agree, and how good guesses were."""
        key = (weights.tobytes(), self.turn, self.right, self.check.openings, self.check.open)
        if self._last is None or self._last[0] != key:
            self._last = key, self._found(weights)
        return self._last[1]

    def _found(self, weights: Floats) -> _Course:
        steering, taught = self.steering, self.taught
        sets, rows = self._there.shape
        flat = taught.whole(weights, self._inputs, self._targets).astype(np.float64)
        gradients = flat.reshape(sets, rows, -1)
        each = self._means(gradients, range(sets))
        mean = each.mean(axis=0)
        margin = math.ceil(self.check.gap(steering.beta, self.opening.epsilon) * self.reach / UNIT)
        sought = Sought(self.reach, 0, steering.beta, -margin)
        # Where the sum of all rows is taken to be that of one set, for each of the sets.
        expected = np.mean([self.agreement(mean, np.rint(one * self.drawing.size)) for one in each])
        checked = bool(self.right >= self._needed and expected >= _AHEAD * margin)
        return _Course(gradients, mean, sought, checked and not self.check.open, checked)

    def _means(self, gradients: Floats, parts: Sequence[int]) -> Floats:
        weighed = self.rows.weights[list(parts), : gradients.shape[1]] * self._there[list(parts)]
        share = weighed / np.maximum(weighed.sum(axis=1, keepdims=True), 1e-300)
        found: Floats = np.einsum("pi,pik->pk", share, gradients[list(parts)])
        return found

    # --- learning ---------------------------------------------------------------------------------------------

    def _compared(self, course: _Course, direction: Direction) -> None:
        """Note whether the guess would have been near enough, as far as the noised sum tells: its lengths without what
        noise adds to their squares."""
        total = direction.mean * (self.drawing.size / self.taught.step)
        found = 0.0
        for u, g in zip(self._layers(course.mean), self._layers(total), strict=True):
            length = math.sqrt(max(0.0, float(g @ g) - g.size * self.drawing.noise.deviation**2))
            found += float(u @ g) / max(float(np.linalg.norm(u)), 1e-300) - self.steering.alike * length
        self.right += _RECENT * ((found >= -course.sought.threshold) - self.right)

    def _learn(self, course: _Course, direction: Direction) -> None:
        """Turn some sets toward what was released (the seed's algorithm 2, upwards): steps up the slope of the mean
        cosine over layers, by the weights; then each column's shares are brought back."""
        steering, guess = self.steering, course.mean * self.taught.step
        along = float(direction.mean @ guess) / max(float(guess @ guess), 1e-300)
        self.pace += _PACED * (min(max(along, 0.1), 2.0) - self.pace)
        parts = chosen(self.seed, self.turn, len(self.rows.weights), steering.share)
        self.turn += 1
        aims = [g / max(float(np.linalg.norm(g)), 1e-300) for g in self._layers(direction.mean)]
        for part in parts:
            for _ in range(steering.epochs):
                mean = self._means(course.gradients, [part])[0]
                pulls = []
                for g, aim in zip(self._layers(mean), aims, strict=True):
                    length = max(float(np.linalg.norm(g)), 1e-300)
                    pulls.append((aim - float(g @ aim) / length * (g / length)) / length)
                slope = (course.gradients[part] - mean) @ np.concatenate(pulls) * self._there[part]
                whole = np.zeros(self.rows.weights.shape[1])
                whole[: slope.size] = slope
                self._turn(part, whole)
        self.rows.steadied(parts)

    def _turn(self, part: int, slope: Floats) -> None:
        """Move a set's weights one step up a slope (the seed's algorithm 2), by `rate` in root mean square."""
        length = float(np.sqrt(np.mean(slope * slope)))
        if length > 0:
            weights = self.rows.weights
            weights[part] = np.maximum(weights[part] + self.steering.rate * slope / length, 0.0)
            self.rows.normed(part)

    def _layers(self, vector: Floats) -> list[Floats]:
        return list(np.split(vector, self.taught.starts))

    def _fed(self) -> tuple[Floats, Floats, Floats]:
        """Made-up rows as the model is fed them, and which of them have all of its columns."""
        cuts = {cut.name: (place, cut) for place, cut in enumerate(self.rows.cuts)}
        lacking = [name for name in self.taught.columns if name not in cuts]
        if lacking:
            raise Mistake("columns", f"of the made-up rows lack {lacking[0]!r}, which the model needs")
        codes = self.rows.codes[:, : self.steering.rows]
        numbers, there = [], np.ones(codes.shape[:2])
        for name in self.taught.columns:
            place, cut = cuts[name]
            own = codes[:, :, place]
            there *= own < cut.count - cut.missing
            held = [0 if value is None else value for value in cut.middles] if cut.column.ranged else range(cut.count)
            numbers.append(np.array(held, dtype=np.float64)[own])
        flat = np.stack(numbers, axis=2).reshape(-1, len(numbers))
        return (*self.taught.inputs(flat), there)

    # --- kept -------------------------------------------------------------------------------------------------

    def kept(self) -> SynopsisPart:
        """All that goes on after a restart."""
        public = {"turn": self.turn, "right": self.right, "pace": self.pace}
        public |= {"passed": self.passed, "failed": self.failed}
        arrays = {"weights": self.rows.weights.copy(), "scale": self.rows.scale.copy()}
        return SynopsisPart({**public, "check": self.check.public()}, arrays, self.check.secret())

    def restore(self, piece: SynopsisPart) -> None:
        weights = np.array(piece.arrays["weights"], dtype=np.float64)
        if weights.shape != self.rows.weights.shape:
            raise Fault("other made-up rows were kept than there are")
        self.rows.weights, self.rows.scale = weights, np.array(piece.arrays["scale"], dtype=np.float64)
        self.turn, self.right = int(piece.public["turn"]), float(piece.public["right"])
        self.pace = float(piece.public["pace"])
        self.passed, self.failed = int(piece.public["passed"]), int(piece.public["failed"])
        self.check.restore(piece.public["check"], piece.secret)
