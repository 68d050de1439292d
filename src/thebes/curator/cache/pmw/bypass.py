"""PMW-Bypass to the planner: what the guess is not ready for goes to the mechanism, and trains it; everything else is
compared with the exact totals by a sparse vector, and answered from the guess where that is near enough.

What must stay true: whether a guess is ready, what an answer may cost, and every array here follow from what was
released; the only secret is the noise of an open threshold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np

from thebes.curator.cache.answer import Answered, AnswerSource
from thebes.curator.cache.cells import Cells
from thebes.curator.cache.cost_account import Account, loss_in
from thebes.curator.cache.pmw.guess import CellGuess
from thebes.curator.cache.pmw.parameters import PmwParameters
from thebes.curator.cache.pmw.ranges import nodes_of
from thebes.curator.cache.pmw.reading import GuessCourse, GuessReading
from thebes.curator.cache.purchase import Purchase, size_of
from thebes.curator.cache.requirement import Wanted
from thebes.curator.cache.smart.check import Sought, SparseCheck
from thebes.curator.cache.synopsis import Pay, Sizes, SynopsisPart, View, ViewRows
from thebes.curator.cache.synthesis.base_histograms import WHOLE, Groundwork
from thebes.curator.cache.vectors import Vectors
from thebes.curator.questions.groups import Groups
from thebes.curator.questions.noise import noise_made
from thebes.curator.questions.plans import CountPlan, Plan
from thebes.data.schema import Schema
from thebes.ledger.filter_protocol import EventFilter
from thebes.ledger.filters import BASIC, filter_of
from thebes.privacy.faults import Fault, Refusal
from thebes.privacy.measurement import Floats
from thebes.privacy.mechanisms.additive import Additive
from thebes.privacy.randomness import Randomness

_FAR = 2**60
_RECENT = 0.05  #: the weight of the latest guess in the share of those that were right
_SUREST = 0.999  #: a share of right guesses that is as good as all
_SURE = 0.999  #: the probability with which noise lies within what is called its width here
_STATE, _GUESS, _CHECK = "state", "guess ", "check "
_EVERYBODY = CountPlan(Groups(), None)


@dataclass
class Pmw:
    """The synopsis of one data set. `filter` is how its budget counts, which decides what is cheap. `sizes` tells how
    many rows blocks have, as far as that is public already; without it that is bought.

    One sparse vector is paid for in every block of the range for which it was opened, and then serves questions about
    any of these blocks: each is a function of their rows alone, and one unit moves it by no more.
    """

    schema: Schema
    parameters: PmwParameters = field(default_factory=PmwParameters)
    filter: str = BASIC.name
    sizes: Sizes | None = None

    def __post_init__(self) -> None:
        self.domains = self.parameters.domains(self.schema)
        self.groundwork = self.parameters.groundwork(self.schema)
        count = Wanted(self.parameters.size_epsilon)
        self._noise, self._size = count.calibrated(_EVERYBODY, self.schema)
        self._vectors: tuple[object, Vectors] | None = None
        self._forget()

    def _forget(self) -> None:
        self._numbers: dict[str, int] = {}  #: of blocks, as they were first asked about
        self._bought: dict[str, float] = {}  #: sizes, by block ("" for all rows of a set that does not grow)
        self._openings, self._right = 0, 0.0
        self._guesses: dict[tuple[int, View], CellGuess] = {}
        self._checks: dict[View, SparseCheck] = {}
        self.account = Account()
        self._changed: set[tuple[str, int, View]] = set()

    # --- what the planner asks ------------------------------------------------------------------------------

    def covers(self, plan: Plan) -> bool:
        return any(cells.covers(plan) for cells in self.domains)

    def preparation(self, view: View) -> Sequence[Purchase]:
        """Return what is to be bought: what the guess begins with, where something does and as soon as that may be
        risked; otherwise sizes, where nobody tells them. Only where nothing of a view is known: blocks have no rows in
        common, so those of several cost as much as of one, no block pays twice, and one that comes later is taken to be
        like the others."""
        if self.groundwork is not None and self._waits(view):
            purchase = [self.groundwork.purchase]
            return purchase if self._risks(view, purchase) else []
        return [self._size] if self.sizes is None and self._unsized(view) else []

    def prepare(self, rows: ViewRows, pay: Pay, randomness: Randomness) -> None:
        lacking = self._unsized(rows.view)
        if self.groundwork is not None and self._waits(rows.view):
            blocks = self.groundwork.lacking(rows.view)
            self.groundwork.buy(rows, pay, randomness)
            self.account.add(len(blocks) * loss_in(self.filter, [self.groundwork.purchase]), 0.0)
            for block in blocks:
                self._bought.setdefault(block, self.groundwork.size((block,)))
            self._changed.add((_STATE, 0, ()))
        elif lacking and self.sizes is None:
            pay(self._size)
            for block in lacking:
                exactly = rows.totals(_EVERYBODY, (block,) if rows.view else None)
                self._bought[block] = max(1.0, float(self._noise.add(exactly, randomness)[0]))
            self._changed.add((_STATE, 0, ()))

    def most(self, plan: Plan, wanted: Wanted, view: View) -> Sequence[Purchase] | None:
        """Nothing of an answer to be given by epsilon alone, or for which the guess is not ready: it is for the
        mechanism."""
        course = self._course(plan, wanted, view)
        if course is None:
            return None
        return [course.answers] if course.opens is None else [course.opens, course.answers]

    def answer(self, plan: Plan, wanted: Wanted, rows: ViewRows, pay: Pay, randomness: Randomness) -> Answered:
        course = self._course(plan, wanted, rows.view)
        if course is None:
            raise Fault("a guess was asked for that is not ready")
        check = self._checks.setdefault(course.check, SparseCheck())
        paid = [] if course.opens is None else [course.opens]
        if course.opens is not None:
            pay(course.opens)
            check.openings = self._openings
            check.begin(course.opens.epsilon, randomness)
            self._openings = check.openings
        self._changed |= {(_STATE, 0, ()), (_CHECK, 0, course.check)}
        exactly = rows.totals(plan)
        distance = int(np.abs(exactly - course.guess.astype(np.int64)).max())
        passed = check.passes(course.sought, distance, randomness)
        self._judge(passed)
        if passed:
            assert wanted.width is not None  # noqa: S101
            assert wanted.beta is not None  # noqa: S101
            self._count(rows.view, paid, course.alone)
            return Answered(course.guess, None, (wanted.width, wanted.beta), AnswerSource.SYNOPSIS)
        pay(course.answers)
        self._count(rows.view, [*paid, course.answers], course.alone)
        noisy = course.noise.add(exactly, randomness)
        for place in self._places(plan, rows.view):
            self._own(place).doubt(self._read(plan, place[0]), self.parameters.penalty)
        self._learn(plan, noisy, course.noise, rows.view)
        return Answered(noisy, (course.answers.epsilon, course.answers.delta), None, AnswerSource.MECHANISM)

    def heard(self, plan: Plan, answered: Answered, view: View) -> None:
        if answered.made is None or not self.covers(plan):
            return
        epsilon, delta = answered.made
        noise = noise_made(plan, self.schema, epsilon=epsilon, delta=delta)
        if self.groundwork is not None:
            purchase = Purchase.of_noise(noise, epsilon=epsilon, delta=delta)
            self._count(view, [purchase], purchase)
        if not self._known(view):
            return
        near = self._learn(plan, answered.totals, noise, view)
        if near is not None:
            self._judge(near)

    def size(self, view: View) -> float:
        """About how many rows some blocks have, as everybody may know; one whose size is not known, as many as the
        others."""
        blocks = view or (WHOLE,)
        self._unsized(blocks)
        like = sum(self._bought.values()) / max(1, len(self._bought))
        return sum(self._bought.get(block, like) for block in blocks)

    def guessed(self, plan: Plan, wanted: Wanted, view: View) -> Floats | None:
        """Return the guess at the totals, which follows from what was released; nothing where it is not ready."""
        course = self._course(plan, wanted, view)
        return None if course is None else course.guess

    # --- what it holds --------------------------------------------------------------------------------------

    def changed(self) -> Mapping[str, SynopsisPart]:
        told = {_name(*place): self._piece(*place) for place in self._changed}
        self._changed.clear()
        return told if self.groundwork is None else {**told, **self.groundwork.changed()}

    def restore(self, pieces: Mapping[str, SynopsisPart]) -> None:
        """Restore what was written. What was written under other cells is left alone: it was public, and is of no
        use."""
        self._forget()
        if self.groundwork is not None:
            self.groundwork.restore(pieces)
        for name, piece in pieces.items():
            public = piece.public
            if name == _STATE:
                self._numbers = {block: number for number, block in enumerate(public["blocks"])}
                self._bought = {block: float(size) for block, size in public["sizes"].items()}
                self._openings, self._right = int(public["openings"]), float(public["right"])
                self.account = Account(*map(float, public.get("account", (0, 0))))
            elif name.startswith(_CHECK):
                check = self._checks[tuple(public["blocks"])] = SparseCheck()
                check.restore(public, piece.secret)
            elif name.startswith(_GUESS):
                domain = next((n for n, cells in enumerate(self.domains) if _face(cells) == public["cells"]), None)
                if domain is not None:
                    made = CellGuess.restored(piece.arrays, self.domains[domain].shape)
                    self._guesses[domain, tuple(public["blocks"])] = made

    def _piece(self, kind: str, domain: int, blocks: View) -> SynopsisPart:
        if kind == _STATE:
            public: dict[str, Any] = {"blocks": list(self._numbers), "sizes": dict(self._bought)}
            public["account"] = [self.account.paid, self.account.alone]
            return SynopsisPart({**public, "openings": self._openings, "right": self._right})
        if kind == _CHECK:
            check = self._checks[blocks]
            return SynopsisPart({**check.public(), "blocks": list(blocks)}, secret=check.secret())
        arrays = {name: array.copy() for name, array in self._guesses[domain, blocks].arrays().items()}
        return SynopsisPart({"cells": _face(self.domains[domain]), "blocks": list(blocks)}, arrays)

    # --- which guesses --------------------------------------------------------------------------------------

    def _nodes(self, view: View) -> tuple[View, ...]:
        for block in view:
            if block not in self._numbers:
                self._numbers[block] = len(self._numbers)
                self._changed.add((_STATE, 0, ()))
        return nodes_of(view, self._numbers)

    def _places(self, plan: Plan, view: View) -> list[tuple[int, View]]:
        """The guesses that an answer teaches: in every view of columns that has all of the plan's, of every node."""
        return [(n, node) for n, cells in enumerate(self.domains) if cells.covers(plan) for node in self._nodes(view)]

    def _peek(self, place: tuple[int, View]) -> CellGuess:
        return self._guesses.get(place) or self._warm(*place)

    def _own(self, place: tuple[int, View]) -> CellGuess:
        """The guess to be changed."""
        self._changed.add((_GUESS, *place))
        if place not in self._guesses:
            self._guesses[place] = self._warm(*place)
        return self._guesses[place]

    def _warm(self, domain: int, node: View) -> CellGuess:
        """Return what a node begins with, all of it public: its halves together, else what was bought of it, else the
        latest node of its size before it, else what was bought of others, else nothing known."""
        half = len(node) // 2
        halves = [part for part in (node[:half], node[half:]) if half and (domain, part) in self._guesses]
        if halves:
            return CellGuess.mean(
                [self._guesses[domain, part] for part in halves], [self.size(part) for part in halves]
            )
        if self.groundwork is not None and not self.groundwork.lacking(node):
            return self._begun(self.groundwork, domain, node)
        before = [
            other
            for place, other in self._guesses
            if node and place == domain and len(other) == len(node) and self._numbers[other[0]] < self._numbers[node[0]]
        ]
        if before:
            latest = max(before, key=lambda other: self._numbers[other[0]])
            return CellGuess.mean([self._guesses[domain, latest]], [1.0])
        if self.groundwork is not None and self.groundwork.blocks:
            return self._begun(self.groundwork, domain, self.groundwork.blocks)
        return CellGuess.uniform(self.domains[domain], self.parameters.visits)

    def _begun(self, groundwork: Groundwork, domain: int, blocks: View) -> CellGuess:
        """Ready as it is: more was bought than many answers would tell."""
        cells = self.domains[domain]
        places = [groundwork.domain.names.index(name) for name in cells.columns]
        return CellGuess.begun(cells, groundwork.tree(blocks).dense(places), 0)

    def _unsized(self, view: View) -> Sequence[str]:
        """The blocks of a view, where no size of any is known: told, or bought."""
        blocks = view or (WHOLE,)
        unknown = tuple(block for block in blocks if block not in self._bought)
        if unknown and self.sizes is not None:
            self._bought |= {block: max(1.0, float(size)) for block, size in self.sizes(unknown).items()}
        return () if any(block in self._bought for block in blocks) else blocks

    def _known(self, view: View) -> bool:
        """Return whether there is anything to guess from."""
        return not self._unsized(view) and not self._waits(view)

    def _waits(self, view: View) -> bool:
        """Return whether there is no guess yet, and the first one has to begin with something that is to be bought."""
        return self.groundwork is not None and not self._guesses and not self.groundwork.held(view)

    def _risks(self, view: View, cost: Sequence[Purchase], alone: Sequence[Purchase] = ()) -> bool:
        """Return whether so much may be paid for each block of a view. Without groundwork there is no such limit."""
        if self.groundwork is None:
            return True
        price, worth = (len(view or (WHOLE,)) * loss_in(self.filter, each) for each in (cost, alone))
        return self.account.bears(price, worth, self.parameters.risk)

    def _count(self, view: View, paid: Sequence[Purchase], alone: Purchase) -> None:
        if self.groundwork is not None:
            blocks = len(view or (WHOLE,))
            self.account.add(blocks * loss_in(self.filter, paid), blocks * loss_in(self.filter, [alone]))
            self._changed.add((_STATE, 0, ()))

    def _read(self, plan: Plan, domain: int) -> Vectors:
        asked = (domain, plan)
        if self._vectors is None or self._vectors[0] != asked:
            self._vectors = asked, self.domains[domain].vectors(plan)
        return self._vectors[1]

    def _reading(self, plan: Plan, view: View, domain: int) -> GuessReading:
        nodes = self._nodes(view)
        guesses = tuple(self._peek((domain, node)) for node in nodes)
        return GuessReading(self._read(plan, domain), guesses, tuple(self.size(node) for node in nodes))

    # --- how it answers -------------------------------------------------------------------------------------

    def _course(self, plan: Plan, wanted: Wanted, view: View) -> GuessCourse | None:
        width, beta = wanted.width, wanted.beta
        domain = next((n for n, cells in enumerate(self.domains) if cells.covers(plan)), None)
        if width is None or beta is None or domain is None or not self._known(view) or not self._trusted:
            return None
        reading = self._reading(plan, view, domain)
        if not all(guess.ready(reading.vectors) for guess in reading.guesses):
            return None
        # A guess that passes in error, or noise that is too large: each has half of the odds.
        # The most by which one unit moves a total is also the largest difference between totals and a guess.
        reach = self.schema.max_rows_per_unit * math.ceil(max(abs(end) for end in plan.ends_of_totals))
        sought = Sought(reach, math.floor(width), beta / 2)
        try:
            noise, answers = Wanted(wanted.epsilon, wanted.delta, width, beta / 2).calibrated(
                plan, self.schema, filter=self.filter
            )
            _, alone = wanted.calibrated(plan, self.schema, filter=self.filter)
        except Refusal:
            return None
        guess = np.rint(np.clip(reading.totals, -_FAR, _FAR))
        serving = self._serving(sought, view)
        if serving is not None:
            course = GuessCourse(reading, guess, sought, serving, None, noise, answers, alone)
            return course if self._risks(view, [answers], [alone]) else None
        fresh = SparseCheck()
        fresh.openings = self._openings
        price = fresh.price(sought)
        if price is None or self._right < self._needed(opens := Purchase.pure(price), answers):
            return None
        course = GuessCourse(reading, guess, sought, view, opens, noise, answers, alone)
        return course if self._risks(view, [opens, answers], [alone]) else None

    def _needed(self, opens: Purchase, answers: Purchase) -> float:
        """The share of right guesses from which on an opening, that ends with the first wrong one, costs less than the
        answers that it saves: in rho it is hundreds of times dearer than one with Gaussian noise. Who declares a trust
        of 0 wants none of this."""
        if not isinstance(filter_of(self.filter), EventFilter) or not self.parameters.trust:
            return self.parameters.trust
        price, saved = (size_of(one, self.filter) for one in (opens, answers))
        return max(self.parameters.trust, min(_SUREST, 1 - float(saved / price)))

    def _serving(self, sought: Sought, view: View) -> View | None:
        """The blocks of an opening that can answer about these: the one with the fewest."""
        asked = set(view)
        wider = [blocks for blocks in self._checks if bool(blocks) is bool(view) and asked <= set(blocks)]
        found = [blocks for blocks in wider if self._checks[blocks].serves(sought)]
        return min(found, key=len, default=None)

    @property
    def _trusted(self) -> bool:
        return self._right >= self.parameters.trust

    def _judge(self, right: bool) -> None:
        self._right += _RECENT * (right - self._right)
        self._changed.add((_STATE, 0, ()))

    # --- how it learns --------------------------------------------------------------------------------------

    def _learn(self, plan: Plan, totals: Floats, noise: Additive, view: View) -> bool | None:
        """Move the guesses towards a released answer. Tells whether the one that would have been used was near, if
        anything is known about its cells."""
        width, near = noise.width(_SURE), None
        for number, domain in enumerate(n for n, cells in enumerate(self.domains) if cells.covers(plan)):
            reading = self._reading(plan, view, domain)
            vectors = reading.vectors
            guessed, squares = reading.moments
            gap = totals - guessed
            seen = min(guess.least_seen(vectors) for guess in reading.guesses)
            if number == 0 and (self.groundwork is not None or 2 * seen >= self.parameters.visits):
                near = bool(np.abs(gap).max() <= width / 2)
            beyond = np.sign(gap) * np.maximum(np.abs(gap) - self.parameters.margin * width, 0.0)
            rate = [rate for start, rate in self.parameters.rates if seen >= start][-1]
            strengths = reading.strengths(beyond, squares, noise, rate)
            for node in self._nodes(view):
                guess = self._own((domain, node))
                if strengths.any():
                    guess.tilt(vectors, strengths)
                guess.visit(vectors)
        return near


def _face(cells: Cells) -> list[Any]:
    """Return what tells cells apart from those of another declaration, for JSON."""
    return [[cut.name, list(map(str, cut.middles))] for cut in cells.cuts]


def _name(kind: str, domain: int, blocks: View) -> str:
    if kind == _STATE:
        return kind
    told = sha256("\n".join(blocks).encode()).hexdigest()[:32]
    return f"{kind}{domain} {told}" if kind == _GUESS else f"{kind}{told}"
