"""AIM: pairs of columns chosen and measured one after another, as long as the budget lasts. Needs the extra `synth`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.curator.cache.synthesis.domain import Domain, Measured, Places, sized
from thebes.curator.cache.synthesis.recipe import MEAN_SIZE, LearnedDistribution, Pay, Recipe
from thebes.data.table import Table
from thebes.privacy import exact
from thebes.privacy.events import ConcentratedEvent, Event
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.measurement import Floats
from thebes.privacy.mechanisms.additive import Additive
from thebes.privacy.mechanisms.concentrated import ConcentratedNoise
from thebes.privacy.mechanisms.exponential import exponential
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Randomness

Integers = NDArray[np.int64]

ROUNDS = 16  #: for each column, as far as rho has not been given out faster
MOST_MEGABYTES = 80.0  #: of what is kept while a model is fitted
_MEASURING = Fraction(9, 10)  #: of a round's rho; the rest chooses
_TURNS = 500
_DOWN, _UP = Context(prec=50, rounding=ROUND_FLOOR), Context(prec=50, rounding=ROUND_CEILING)
_STEP = Decimal("1e-18")


class MissingExtra(Refusal):
    """An extra of this package is not installed. `extra` names it."""

    def __init__(self, extra: str, needed_for: str) -> None:
        self.extra = extra
        super().__init__(f"{needed_for} needs an extra that is not installed here: pip install 'thebes[{extra}]'")


@dataclass(slots=True)
class _Rounds:
    """The rest of rho, and what a round may take: `measuring` and `choosing` are rhos."""

    left: Decimal
    measuring: Decimal
    choosing: Decimal
    least: Decimal  #: rho that is not worth a round: what rounding left over

    @classmethod
    def of(cls, rho: Decimal, columns: int) -> _Rounds:
        made = cls(rho, Decimal(0), Decimal(0), rho / 10**6)
        made._share(_DOWN.divide(rho, Decimal(ROUNDS * columns)))
        return made

    def _share(self, rho: Decimal) -> None:
        part = _DOWN.multiply(rho, Decimal(_MEASURING.numerator))
        self.measuring = _DOWN.divide(part, Decimal(_MEASURING.denominator)).quantize(_STEP, ROUND_FLOOR)
        self.choosing = _DOWN.subtract(rho, self.measuring).quantize(_STEP, ROUND_FLOOR)
        if self.measuring <= 0 or self.choosing <= 0:
            raise Mistake("epsilon", "is too small for so many columns")

    def next(self) -> bool:
        """Return whether there is another round. The last one takes all that is left."""
        if self.left <= self.least:
            return False
        if self.left < 2 * (self.measuring + self.choosing):
            self._share(self.left)
        return True

    def spent(self, rho: Decimal) -> None:
        self.left = _DOWN.subtract(self.left, rho)

    def finer(self) -> None:
        """Four times the rho in every round: half the noise. Choices take as much more."""
        self.measuring, self.choosing = 4 * self.measuring, 4 * self.choosing

    @property
    def choice(self) -> Decimal:
        """The epsilon of a choice that is `choosing`-zCDP: epsilon^2 / 8."""
        return _DOWN.sqrt(_DOWN.multiply(self.choosing, Decimal(8))).quantize(exact.EPSILON_STEP, ROUND_FLOOR)


class Adaptive(Recipe):
    """AIM (McKenna, Mullins, Sheldon & Miklau 2022) over pairs of columns; the inference over what was measured is
    private-pgm's (`mbi`).

    First every column is measured by itself. Then, round after round, the exponential mechanism chooses the pair whose
    exact counts are farthest from the model, less the size of the noise, and it is measured; where that changed the
    model by less than noise would, rounds become finer. A unit with r rows moves every utility by at most r
    (`SpanningTree` says why), a pair's counts by r in L1 and L2. Each round is rho-zCDP with the rho that it takes,
    chosen on what was released before, and rounds end before their sum would pass the budget's rho: that is a filter
    (Feldman & Zrnic 2021), so that all of it is rho-zCDP.
    """

    name = "aim"

    @property
    def event(self) -> Event:
        return self.allowance.within(ConcentratedEvent(self._rho))

    @property
    def _rho(self) -> Decimal:
        if self.allowance.rho is None:
            raise Mistake("delta", "must be greater than 0 for aim; independent and mst need none")
        return self.allowance.rho

    def learned(self, table: Table, pay: Pay, randomness: Randomness) -> LearnedDistribution:
        fitted = _Fitting(self.domain)
        found, told = self._histograms(fitted, table, pay, randomness)
        return LearnedDistribution(self.domain, _Graphical(fitted.model(found), self.domain), sized(found), told)

    def histograms(self, table: Table, pay: Pay, randomness: Randomness) -> tuple[list[Measured], dict[str, Any]]:
        return self._histograms(_Fitting(self.domain), table, pay, randomness)

    def _histograms(
        self, fitted: _Fitting, table: Table, pay: Pay, randomness: Randomness
    ) -> tuple[list[Measured], dict[str, Any]]:
        rounds = _Rounds.of(self._rho, len(self.domain.shape))
        single = self._single(rounds)
        self.allowance.within(self.event)
        pay()
        rounds.spent(_rho_of(single))
        found = self._measured(table, self.domain.singles, single, randomness)
        model = fitted.model(found)
        exact_counts = dict(self.domain.histograms(table, self.domain.pairs, self.told))
        chosen: list[Places] = []
        while exact_counts and rounds.next():
            spent = 1 - float(rounds.left / self._rho)
            self.told(f"choosing pair {len(chosen) + 1}; {spent:.0%} of the budget is used")
            noise = ConcentratedNoise(rounds.measuring).noise(
                self.domain.transformation([(0,)]).sensitivity(self._change)
            )
            small = fitted.affordable(chosen, exact_counts, spent)
            guessed = {places: fitted.marginal(model, places) for places in small}
            utilities = [
                int(np.abs(exact_counts[places] - np.rint(guess).astype(np.int64)).sum())
                - round(MEAN_SIZE * noise.scale * guess.size)
                for places, guess in guessed.items()
            ]
            taken = exponential(
                utilities,
                sensitivity=self._change.rows,
                epsilon=rounds.choice,
                adjacency=Adjacency.ADD_REMOVE_ONE,
                randomness=randomness,
            )
            rounds.spent(rounds.choosing)
            places = small[taken.value]
            rounds.spent(rounds.measuring)
            noisy = noise.add(exact_counts[places].reshape(-1), randomness).reshape(exact_counts[places].shape)
            found.append(Measured(places, noisy, noise.deviation))
            chosen.append(places)
            model = fitted.model(found)
            moved = float(np.abs(fitted.marginal(model, places) - guessed[places]).sum())
            if moved <= MEAN_SIZE * noise.scale * noisy.size:
                rounds.finer()
        return found, {"noise": "gaussian", "scale": single.scale, "pairs": self._named(chosen)}

    @property
    def _change(self) -> Any:
        return self.domain.schema.change

    def _single(self, rounds: _Rounds) -> Additive:
        """Every column for itself, at a round's rho for each."""
        rho = rounds.measuring * len(self.domain.shape)
        sensitivity = self.domain.transformation(self.domain.singles).sensitivity(self._change)
        return ConcentratedNoise(rho).noise(sensitivity)


@dataclass(frozen=True)
class _Graphical:
    """A graphical model as a distribution."""

    model: Any
    domain: Domain

    def rows(self, count: int, randomness: Randomness) -> Integers:
        np.random.seed(int(randomness.below(2**32, 1)[0]))  # noqa: NPY002  the only source that mbi draws rows from
        drawn: Mapping[str, Any] = self.model.synthetic_data(rows=count).to_dict()
        return np.column_stack([np.asarray(drawn[name], dtype=np.int64) for name in self.domain.names])

    def dense(self) -> Floats:
        values = np.maximum(np.asarray(self.model.project(self.domain.names).values, dtype=np.float64), 0)
        return np.asarray(values.reshape(-1) / values.sum())


class _Fitting:
    """Inference over noisy histograms."""

    def __init__(self, domain: Domain) -> None:
        try:
            import jax
            import mbi
        except ImportError:
            raise MissingExtra("synth", "aim") from None
        jax.config.update("jax_enable_x64", True)  # it stalls above 1e5 rows without
        self._mbi, self._domain = mbi, domain
        self._of = mbi.Domain(domain.names, domain.shape)
        self._before: Any = None

    def model(self, found: list[Measured]) -> Any:
        """The distribution that agrees best with all of them."""
        measurements = [
            self._mbi.LinearMeasurement(each.counts.reshape(-1), self._names(each.places), stddev=each.deviation)
            for each in found
        ]
        self._before = self._mbi.estimation.MirrorDescent().estimate(
            self._of, measurements, known_total=sized(found), iters=_TURNS, warm_start=self._before
        )
        return self._before

    def marginal(self, model: Any, places: Places) -> Floats:
        """About how many rows the model has in each cell of these columns."""
        values = np.asarray(model.project(self._names(places)).values, dtype=np.float64)
        return values.reshape([self._domain.shape[place] for place in places])

    def affordable(self, chosen: list[Places], pairs: Mapping[Places, Integers], spent: float) -> list[Places]:
        """Pairs whose measurement keeps the model within a size that grows with what was spent; those that were
        measured before always do."""
        before = [self._names(places) for places in [*self._domain.singles, *chosen]]
        size = self._mbi.junction_tree.hypothetical_model_size
        most = MOST_MEGABYTES * spent
        return [p for p in pairs if p in chosen or size(self._of, [*before, self._names(p)]) <= most] or list(pairs)[:1]

    def _names(self, places: Places) -> tuple[str, ...]:
        return tuple(self._domain.names[place] for place in places)


def _rho_of(noise: Additive) -> Decimal:
    assert isinstance(noise.event, ConcentratedEvent)  # noqa: S101
    return _UP.plus(noise.event.rho)
