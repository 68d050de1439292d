"""The seed's SmartCache to the planner: guesses from made-up rows, checked, and learned from released answers.

What must stay true: whether an answer is guessed, what it may cost and how rows are weighed follows from what was
released; rows of the data set are read only after what is told of them was paid for.
"""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from hashlib import sha256
from typing import Any

import numpy as np

from thebes.curator.cache.answer import Answered, AnswerSource
from thebes.curator.cache.cost_account import Account, loss_in
from thebes.curator.cache.cuts import MOST_CELLS
from thebes.curator.cache.purchase import Purchase, amounts
from thebes.curator.cache.requirement import Wanted
from thebes.curator.cache.smart.check import Sought, ThresholdCheck
from thebes.curator.cache.smart.learned_guesses import LearnedGuesses, view_piece
from thebes.curator.cache.smart.parameters import SmartParameters
from thebes.curator.cache.smart.rows import MadeUp, RowReading, chosen
from thebes.curator.cache.synopsis import Pay, SynopsisPart, View, ViewRows
from thebes.curator.cache.synthesis.base_histograms import WHOLE, Groundwork
from thebes.curator.cache.synthesis.domain import Domain
from thebes.curator.questions.noise import noise_made
from thebes.curator.questions.plans import Integers, Plan
from thebes.data.schema import Schema
from thebes.ledger.filters import BASIC
from thebes.privacy.faults import Fault, Mistake, Refusal
from thebes.privacy.measurement import Floats
from thebes.privacy.mechanisms.additive import Additive
from thebes.privacy.randomness import Randomness

_SUREST = 0.999
_READ = 16  #: plans whose reading is kept
_VIEWS = 32  #: over which made-up rows are kept
_ACCOUNT, _VIEW = "account", "rows "


@dataclass(frozen=True, slots=True)
class _Course:
    """The course by which a question is answered now. `looks` is paid before the guess is compared, `answers` if it
    fails; `alone` is what a mechanism would cost."""

    guess: Integers
    sought: Sought | None
    threshold: ThresholdCheck | None
    looks: Purchase | None
    noise: Additive
    answers: Purchase
    alone: Purchase

    @property
    def purchases(self) -> tuple[Purchase, ...]:
        return (self.answers,) if self.looks is None else (self.looks, self.answers)


class Smart:
    """The synopsis of one data set. `filter` is how its budget counts, which decides what is cheap."""

    def __init__(self, schema: Schema, parameters: SmartParameters | None = None, *, filter: str = BASIC.name) -> None:
        self.schema, self.parameters, self.filter = schema, parameters or SmartParameters(), filter
        self.cuts = self.parameters.cuts(schema)
        own = self.parameters
        self.groundwork = Groundwork(Domain(schema, self.cuts), source=own.source, epsilon=own.epsilon, delta=own.delta)
        self.account = Account()
        self._views: OrderedDict[View, LearnedGuesses] = OrderedDict()
        self._openings = 0  #: of checks whose rows are no longer kept: whoever asks about them again meets later ones
        self._written: dict[str, SynopsisPart] = {}
        self._reading: OrderedDict[tuple[View, Plan], RowReading] = OrderedDict()

    # --- what the planner asks ------------------------------------------------------------------------------

    def covers(self, plan: Plan) -> bool:
        """Return whether every column that a plan asks is made up, and its cells are few enough to be listed."""
        asked = {*plan.sums.columns, *(axis.column for axis in plan.sums.axes)}
        asked |= set(plan.where.columns if plan.where is not None else ())
        sizes = [cut.count for cut in self.cuts if cut.name in asked]
        return len(sizes) == len(asked) and math.prod(sizes) <= MOST_CELLS

    def preparation(self, view: View) -> Sequence[Purchase]:
        """Return the purchase of what rows are made of, once for each block, as soon as that may be risked: answers
        must have cost enough before."""
        lacking = self.groundwork.lacking(view)
        price = loss_in(self.filter, [self.groundwork.purchase])
        return [self.groundwork.purchase] if lacking and self._risks(price * len(lacking), 0.0) else []

    def prepare(self, rows: ViewRows, pay: Pay, randomness: Randomness) -> None:
        blocks = len(self.groundwork.lacking(rows.view))
        self.groundwork.buy(rows, pay, randomness)
        self.account.add(blocks * loss_in(self.filter, [self.groundwork.purchase]), 0.0)

    def most(self, plan: Plan, wanted: Wanted, view: View) -> Sequence[Purchase] | None:
        course = self._course(plan, wanted, view)
        return None if course is None else course.purchases

    def answer(self, plan: Plan, wanted: Wanted, rows: ViewRows, pay: Pay, randomness: Randomness) -> Answered:
        course = self._course(plan, wanted, rows.view)
        if course is None:
            raise Fault("made-up rows were asked what they do not answer")
        state = self._state(rows.view)
        assert state is not None  # noqa: S101
        paid = [course.looks] if course.looks is not None else []
        if course.looks is not None:
            pay(course.looks)
            if course.sought is not None:
                state.check.begin(course.looks.epsilon, randomness)
        exact = rows.totals(plan)
        distance = max(abs(int(a) - int(b)) for a, b in zip(course.guess, exact, strict=True))
        passed, bound = self._passes(state, course, distance, randomness)
        state.found(passed)
        if passed:
            state.passed += 1
            self._count(rows.view, paid, course.alone)
            return Answered(course.guess.astype(np.float64), None, bound, AnswerSource.SYNOPSIS)
        state.failed += 1
        pay(course.answers)
        self._count(rows.view, [*paid, course.answers], course.alone)
        noisy = course.noise.add(exact, randomness)
        self._learn(state, self._read(state, plan, rows.view), noisy)
        return Answered(noisy, (course.answers.epsilon, course.answers.delta), None, AnswerSource.MECHANISM)

    def heard(self, plan: Plan, answered: Answered, view: View) -> None:
        if answered.made is None or not self.covers(plan):
            return
        epsilon, delta = answered.made
        noise = noise_made(plan, self.schema, epsilon=epsilon, delta=delta)
        purchase = Purchase.of_noise(noise, epsilon=epsilon, delta=delta)
        self._count(view, [purchase], purchase)
        state = self._state(view)
        if state is None:
            return
        read = self._read(state, plan, view)
        guess, spread = _guessed(state.rows.answers(read))
        width = noise.width(self._level(plan))
        if spread <= self.parameters.agreement * width:
            state.found(bool(np.abs(guess - answered.totals).max() <= width))
        self._learn(state, read, answered.totals)

    # --- how a question is answered --------------------------------------------------------------------------

    def guess(self, plan: Plan, view: View = ()) -> tuple[Floats, float] | None:
        """Return what the made-up rows say by themselves, and how far their sets are from each other: for nothing, and
        without any promise. None before they are made."""
        state = self._state(view)
        if state is None or not self.covers(plan):
            return None
        guess, spread = _guessed(state.rows.answers(self._read(state, plan, view)))
        return guess.astype(np.float64), spread

    def made_up(self, view: View = ()) -> MadeUp | None:
        """A copy of the rows for a view as they are weighed now, for whoever learns something else from them."""
        state = self._state(view)
        if state is None:
            return None
        return replace(state.rows, weights=state.rows.weights.copy(), scale=state.rows.scale.copy())

    def standing(self, view: View = ()) -> dict[str, Any]:
        """Return what is public of the rows for a view."""
        state = self._state(view)
        if state is None:
            return {}
        told = {"passed": state.passed, "failed": state.failed, "right": state.right, "learned": state.turn}
        return {**told, "openings": state.check.openings, "size": state.rows.size}

    def _course(self, plan: Plan, wanted: Wanted, view: View) -> _Course | None:
        state = self._state(view)
        if state is None or not self.covers(plan):
            return None
        sensitivity = plan.transformation.sensitivity(self.schema.change)
        reach = min(sensitivity.l1, math.isqrt(sensitivity.l2_squared - 1) + 1)  # of each total by itself
        try:
            made = (self._sparse if self.parameters.check == "sparse" else self._noisy)(plan, wanted, state, reach)
        except (Mistake, Refusal):  # no noise within what may be paid
            return None
        if made is None:
            return None
        width, sought, threshold, looks, noise, answers, needed = made
        paid = [answers] if looks is None else [looks, answers]
        most = amounts(paid)
        if most[0] > wanted.epsilon or most[1] > wanted.delta or state.right < needed:
            return None
        _, alone = wanted.calibrated(plan, self.schema, filter=self.filter)
        if not self._risks(loss_in(self.filter, paid), loss_in(self.filter, [alone]), len(view or (WHOLE,))):
            return None
        guess, spread = _guessed(state.rows.answers(self._read(state, plan, view)))
        if spread > self.parameters.agreement * width:
            return None
        return _Course(guess, sought, threshold, looks, noise, answers, alone)

    def _sparse(self, plan: Plan, wanted: Wanted, state: LearnedGuesses, reach: int) -> _Made | None:
        if wanted.width is None or wanted.beta is None:
            noise, answers = wanted.calibrated(plan, self.schema, filter=self.filter)
            width, beta = noise.width(self._level(plan)), 1 - self.parameters.threshold
        else:  # the odds of an error are shared by the two ways in which there can be one
            width, beta = wanted.width, wanted.beta / 2
            halved = Wanted(wanted.epsilon, wanted.delta, width, beta)
            noise, answers = halved.calibrated(plan, self.schema, filter=self.filter)
        sought = Sought(reach, min(math.floor(width), 2**60), beta)
        epsilon = state.check.price(sought)
        if epsilon is None:
            return None
        opening, looks = Purchase.pure(epsilon), None
        if not state.check.open:
            looks = opening
        elif not state.check.serves(sought):  # it was opened for coarser questions, and serves those on
            return None
        return width, sought, None, looks, noise, answers, self._needed(opening, answers)

    def _noisy(self, plan: Plan, wanted: Wanted, state: LearnedGuesses, reach: int) -> _Made | None:
        if wanted.width is None or wanted.beta is None:
            share = Decimal(str(self.parameters.check_share))
            epsilon, beta = (wanted.epsilon * share).quantize(Decimal("1e-12")), 1 - self.parameters.threshold
            width = wanted.calibrated(plan, self.schema)[0].width(self._level(plan))
            rest = Wanted(wanted.epsilon - epsilon, wanted.delta)
            check = ThresholdCheck.of(epsilon, reach=reach, threshold=math.floor(width), beta=beta)
        else:
            width, beta = wanted.width, wanted.beta / 2
            rest = Wanted(wanted.epsilon, wanted.delta, width, beta)
            within = ThresholdCheck.within(width, reach=reach, beta=beta)
            if within is None:
                return None
            epsilon, check = within
        if check is None:
            return None
        noise, answers = rest.calibrated(plan, self.schema, filter=self.filter)
        looks = Purchase(check.noise.event, epsilon)
        needed = self.parameters.trust
        if needed is None:
            needed = min(_SUREST, loss_in(self.filter, [looks]) / loss_in(self.filter, [answers]))
        return width, None, check, looks, noise, answers, needed

    def _passes(
        self, state: LearnedGuesses, course: _Course, distance: int, randomness: Randomness
    ) -> tuple[bool, tuple[float, float]]:
        if course.sought is not None:
            bound = float(course.sought.width), course.sought.beta
            return state.check.passes(course.sought, distance, randomness), bound
        assert course.threshold is not None  # noqa: S101
        return course.threshold.passes(distance, randomness), (course.threshold.width, course.threshold.beta)

    def _needed(self, opening: Purchase, answers: Purchase) -> float:
        """The share of right guesses from which on an opening, that ends with the first wrong one, costs less than the
        answers that it saves."""
        if self.parameters.trust is not None:
            return self.parameters.trust
        return max(0.0, min(_SUREST, 1 - loss_in(self.filter, [answers]) / loss_in(self.filter, [opening])))

    def _risks(self, cost: float, worth: float, blocks: int = 1) -> bool:
        """Return whether what is to be paid may be risked. Who declares a trust wants none of this."""
        if self.parameters.trust is not None:
            return True
        return self.account.bears(cost * blocks, worth * blocks, self.parameters.risk)

    def _count(self, view: View, paid: Sequence[Purchase], alone: Purchase) -> None:
        blocks = len(view or (WHOLE,))
        self.account.add(blocks * loss_in(self.filter, paid), blocks * loss_in(self.filter, [alone]))

    def _level(self, plan: Plan) -> float:
        """At which each total's noise is within the width of a question by epsilon, so that all are together."""
        return 1 - (1 - self.parameters.threshold) / plan.size

    # --- learning ---------------------------------------------------------------------------------------------

    def _learn(self, state: LearnedGuesses, read: RowReading, released: Floats) -> None:
        own = self.parameters
        state.rows.learn(read, released, chosen(state.seed, state.turn, own.parts, own.share), own)
        state.turn += 1

    def _read(self, state: LearnedGuesses, plan: Plan, view: View) -> RowReading:
        found = self._reading.get((view, plan))
        if found is None:
            found = self._reading[view, plan] = state.rows.reads(plan)
            while len(self._reading) > _READ:
                self._reading.popitem(last=False)
        return found

    def _state(self, view: View) -> LearnedGuesses | None:
        """The rows for a view, made when they are first asked for; of a view that grew, with the weights that they had
        before. None before all that they are made of is bought."""
        if self.groundwork.lacking(view):
            return None
        if view not in self._views:
            self._views[view] = self._kept(view) or self._begun(view)
            while len(self._views) > _VIEWS and self._named(next(iter(self._views))) in self._written:
                self._views.popitem(last=False)
        return self._views[view]

    def _begun(self, view: View) -> LearnedGuesses:
        """Rows for a new view."""
        known = {*self._views, *(tuple(p.public["view"]) for n, p in self._written.items() if n.startswith(_VIEW))}
        parts = [each for each in known if set(each) < set(view)]
        before = max(parts, key=lambda each: (len(each), each), default=None)
        earlier = None if before is None else self._state(before)
        seed = self.groundwork.seed((view or (WHOLE,))[0]) if earlier is None else earlier.seed
        state = LearnedGuesses(seed, self._made(view, seed))
        if earlier is not None:
            made, old = state.rows, earlier.rows
            made.weights[:] = old.weights
            made.scale[:] = np.maximum(old.scale * (made.size / old.size), 1.0)
            state.turn, state.right = earlier.turn, earlier.right
        return state

    def _kept(self, view: View) -> LearnedGuesses | None:
        """Rows that were written down. Where others are made by now (other numbers of them are declared, or what they
        are made of was bought anew) they learn anew, behind the same check: its openings have had their part of the
        odds."""
        piece = self._written.get(self._named(view))
        if piece is None:
            return None
        told, weights = piece.public, np.array(piece.arrays["weights"], dtype=np.float64)
        same = int(told["seed"]) in self.groundwork.seeds
        seed = int(told["seed"]) if same else self.groundwork.seed((view or (WHOLE,))[0])
        state = LearnedGuesses(seed, self._made(view, seed))
        state.check.restore(told["check"], piece.secret)
        if same and weights.shape == state.rows.weights.shape:
            state.rows.weights, state.rows.scale = weights, np.array(piece.arrays["scale"], dtype=np.float64)
            state.turn, state.right = int(told["turn"]), float(told["right"])
        state.passed, state.failed = int(told["passed"]), int(told["failed"])
        return state

    def _named(self, view: View) -> str:
        return _VIEW + _name(view)

    def _made(self, view: View, seed: int) -> MadeUp:
        tree, size = self.groundwork.tree(view), self.groundwork.size(view)
        return MadeUp.of(self.cuts, tree, size, self.parameters, seed)

    # --- kept -------------------------------------------------------------------------------------------------

    def changed(self) -> Mapping[str, SynopsisPart]:
        account = SynopsisPart({"paid": self.account.paid, "alone": self.account.alone})
        pieces = {**self.groundwork.pieces(), _ACCOUNT: account}
        pieces |= {self._named(view): view_piece(view, state) for view, state in self._views.items()}
        fresh = {name: piece for name, piece in pieces.items() if not _same(piece, self._written.get(name))}
        self._written |= fresh
        return fresh

    def restore(self, pieces: Mapping[str, SynopsisPart]) -> None:
        self._views, self._written = OrderedDict(), dict(pieces)
        self._reading.clear()
        self.groundwork.restore(pieces)
        known = pieces[_ACCOUNT].public if _ACCOUNT in pieces else {"paid": 0.0, "alone": 0.0}
        self.account = Account(float(known["paid"]), float(known["alone"]))


#: width, what a sparse vector seeks or a threshold, what a look costs, noise and price of an answer, the trust it needs
_Made = tuple[float, Sought | None, ThresholdCheck | None, Purchase | None, Additive, Purchase, float]


def _guessed(answers: Floats) -> tuple[Integers, float]:
    """The mean over all sets in whole steps, and how far the sets are from each other."""
    return np.rint(answers.mean(axis=0)).astype(np.int64), float(answers.std(axis=0).max())


def _name(view: View) -> str:
    return sha256(json.dumps(view).encode()).hexdigest()[:32]


def _same(one: SynopsisPart, other: SynopsisPart | None) -> bool:
    if other is None or one.public != other.public or one.secret != other.secret:
        return False
    return all(np.array_equal(array, other.arrays[name]) for name, array in one.arrays.items())
