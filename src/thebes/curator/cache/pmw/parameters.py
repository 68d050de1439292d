"""The parameters that a steward may give of a data set's guess, with defaults that serve most."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from itertools import combinations
from typing import Any, Self

from thebes.curator.cache.cells import Cells
from thebes.curator.cache.cuts import MOST_CELLS, axis_of, cuttable
from thebes.curator.cache.synopsis_parameters import Bins, bins_of, names_of
from thebes.curator.cache.synthesis.base_histograms import SOURCES, Groundwork
from thebes.curator.cache.synthesis.domain import Domain
from thebes.data.schema import Schema
from thebes.privacy import exact
from thebes.privacy.faults import Mistake

MOST_VIEWS = 500
NONE = "none"  #: a guess that begins with nothing known


@dataclass(frozen=True, slots=True)
class PmwParameters:
    """`columns` and `bins` cut the domain (see `Cells`). Where that makes too many cells there are several `views`,
    each of some of the columns, and a question goes to the smallest that has all of its columns; without them every
    two columns have one. `complete` names columns in which no row lacks a value.

    A guess is used once at least `visits` answers were heard about each of the cells that a question asks, and of the
    latest guesses a share of `trust` was right (where a budget counts in rho and `trust` is not 0: also as large a
    share as makes up for what a sparse vector costs); where it then proves wrong, only after `penalty` more of them.

    Learning: an answer moves the guess to within `margin` of its noise's width of it, by at most the factor e^rate;
    `rates` says from how many answers on which rate holds. `size_epsilon` buys how many rows there are, once for each
    block of rows.

    `source` says what a guess begins with: nothing known ("none"), or a distribution that is learned from each column
    alone or also from pairs of columns that make a tree. It costs `epsilon` and `delta`, once for each block, says how
    many rows there are, and is as good as `visits` answers about every cell. Whatever is bought then, all that is paid
    never exceeds what answers alone would have cost by more than the share `risk`."""

    columns: tuple[str, ...] | None = None
    bins: Mapping[str, Bins] = field(default_factory=dict)
    views: tuple[tuple[str, ...], ...] | None = None
    complete: tuple[str, ...] = ()
    visits: int = 30
    penalty: int = 10
    trust: float = 0.9
    margin: float = 0.1
    rates: tuple[tuple[int, float], ...] = ((0, 1.0), (50, 0.5), (100, 0.25))
    size_epsilon: Decimal = Decimal("0.005")
    source: str = NONE
    epsilon: Decimal = Decimal("0.1")
    delta: Decimal = Decimal(0)
    risk: float = 0.15

    def __post_init__(self) -> None:
        object.__setattr__(self, "size_epsilon", exact.epsilon(self.size_epsilon, "cache.size_epsilon"))
        object.__setattr__(self, "epsilon", exact.epsilon(self.epsilon, "cache.epsilon"))
        object.__setattr__(self, "delta", exact.delta(self.delta))
        for name in ("visits", "penalty"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 10_000:
                raise Mistake(f"cache.{name}", "must be a whole number from 0 to 10000")
        for name in ("trust", "margin"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
                raise Mistake(f"cache.{name}", "must be a number from 0 to 1")
        if isinstance(self.risk, bool) or not isinstance(self.risk, (int, float)) or not 0 <= self.risk <= 100:
            raise Mistake("cache.risk", "must be a number from 0 to 100")
        if self.source not in (NONE, *SOURCES):
            raise Mistake("cache.source", f"must be one of {', '.join((NONE, *SOURCES))}")
        rates = self.rates
        rising = [start for start, _ in rates] == sorted({start for start, _ in rates})
        if not rates or rates[0][0] != 0 or not rising or not all(0 < rate <= 10 for _, rate in rates):
            raise Mistake("cache.rates", "must be pairs such as [0, 1.0]: from how many answers on, beginning with 0")
        if self.views is not None and not 1 <= len(self.views) <= MOST_VIEWS:
            raise Mistake("cache.views", f"must list from 1 to {MOST_VIEWS} views")

    @classmethod
    def of(cls, declared: Mapping[str, Any]) -> Self:
        """Read what a declaration says, without its `kind`."""
        known = [each.name for each in fields(cls)]
        if unknown := [name for name in declared if name not in known]:
            raise Mistake(
                f"cache.{unknown[0][:63]}", f"is not a parameter of pmw, which has {', '.join(sorted(known))}"
            )
        read = dict(declared)
        for name in ("columns", "complete"):
            if read.get(name) is not None:
                read[name] = names_of(read[name], name)
        if read.get("views") is not None:
            if not isinstance(read["views"], (list, tuple)):
                raise Mistake("cache.views", "must list views, each a list of columns")
            read["views"] = tuple(names_of(view, "views") for view in read["views"])
        if "bins" in read:
            read["bins"] = bins_of(read["bins"])
        if "rates" in read:
            read["rates"] = _rates(read["rates"])
        return cls(**read)

    def groundwork(self, schema: Schema) -> Groundwork | None:
        """Make the groundwork that the guess begins with; None where that is nothing."""
        if self.source == NONE:
            return None
        wide = [cells.cuts for cells in self.domains(schema)]
        cuts = {cut.name: cut for each in wide for cut in each}
        return Groundwork(
            Domain(schema, tuple(cuts.values())), source=self.source, epsilon=self.epsilon, delta=self.delta
        )

    def domains(self, schema: Schema) -> tuple[Cells, ...]:
        """The cells of every view, those with fewest first."""
        named = self.columns or tuple(name for name, column in schema.columns.items() if cuttable(column))
        listed = self.views if self.views is not None else self._views(schema, named)
        lacking = [name for name in named if name not in self.complete]
        if unknown := [name for name in self.bins if name not in {n for view in listed for n in view}]:
            raise Mistake("cache.bins", f"names {unknown[0][:63]!r}, which is not one of the columns")
        made = [
            Cells.of(schema, view, {n: cut for n, cut in self.bins.items() if n in view}, missing=lacking)
            for view in dict.fromkeys(listed)
        ]
        return tuple(sorted(made, key=lambda cells: cells.count))

    def _views(self, schema: Schema, named: Sequence[str]) -> list[tuple[str, ...]]:
        """One of all columns where that makes few enough cells; every two otherwise."""
        cells = [
            axis_of(name, schema.column(name, "cache.columns"), self.bins.get(name), name not in self.complete).cells
            for name in named
        ]
        if math.prod(cells) <= MOST_CELLS:
            return [tuple(named)]
        if math.comb(len(named), 2) > MOST_VIEWS:
            raise Mistake("cache.views", "must say which columns are asked together: here are too many for every two")
        return list(combinations(named, 2))


def _rates(told: Any) -> tuple[tuple[int, float], ...]:
    try:
        return tuple((int(start), float(rate)) for start, rate in told)
    except (TypeError, ValueError):
        raise Mistake("cache.rates", "must be pairs such as [0, 1.0]") from None
