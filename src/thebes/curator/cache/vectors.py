"""A plan's totals as weighed sums over cells: what a row of each cell adds to each total.

Kept small: only the columns that a plan asks have an axis here, all others are summed out first, so that a question
about three of ten columns costs one pass over the cells and little else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, reduce
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.curator.cache.cuts import Cut
from thebes.curator.questions.plans import Plan
from thebes.data.filter import Among, Compared, Condition, Every, Present, Value, leaves
from thebes.data.schema import as_held
from thebes.data.table import Axis, Factor
from thebes.privacy.measurement import Floats
from thebes.privacy.transformations.counts import LevelCounts

Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

FINE = 12  #: values at which a condition is judged within a bin
_MOST = 2**18  #: places at which it is judged at all; beyond, a bin is judged by its middle


@dataclass(frozen=True)
class Vectors:
    """A row of a cell adds `weights[k]` to the total number `places[k]`, for every k. Both have one axis for each
    column of the cells, of length 1 where the plan does not ask it. `size` is how many totals there are."""

    shape: tuple[int, ...]  #: of the cells
    places: Integers
    weights: Floats
    size: int
    low: float  #: between which ends a weight lies
    high: float

    @classmethod
    def of(cls, cuts: Sequence[Cut], plan: Plan) -> Vectors:
        """Those of a plan all of whose columns are cut."""
        spread, sums, row = _Spread(cuts), plan.sums, plan.row
        shape = tuple(cut.count for cut in cuts)
        counts: Floats = np.ones([1] * len(cuts))
        for name in sums.columns:
            counts = counts * spread(name, [value is not None for value in spread.middles[name]])
        if plan.where is not None:
            counts = counts * _meeting(plan.where.condition, cuts)
        slots: list[tuple[Integers, Floats]] = [(np.zeros([1] * len(cuts), dtype=np.int64), counts)]
        named = {*sums.columns, *(plan.where.columns if plan.where is not None else ())}
        fine = FINE if FINE * math.prod(cut.count for cut in cuts if cut.name in named) <= _MOST else 1
        for axis in sums.axes:
            name, found = axis.column, _places(axis, spread.cuts[axis.column], fine)
            slots = [
                (group * axis.cells + spread(name, own), share * spread(name, part))
                for group, share in slots
                for own, part in found
            ]
        asked: list[Floats] = []
        for term in sums.terms:
            factors = [spread(f.column, _share(f, spread.cuts[f.column], sums.bits)) for f in term.factors]
            asked.append(np.asarray(reduce(np.multiply, factors, np.ones([1] * len(cuts))), dtype=np.float64))
        if isinstance(row, LevelCounts):  # a row counts once in every level of bins
            starts = np.cumsum((0, *row.levels[:-1]))
            made = [
                (start + group // (row.levels[-1] // own), share)
                for group, share in slots
                for start, own in zip(starts, row.levels, strict=True)
            ]
            return cls._made(shape, made, plan)
        whole = np.broadcast_shapes(*(each.shape for each in asked))
        flat = np.stack([np.broadcast_to(each, whole).reshape(-1) for each in asked], axis=1)
        given = np.asarray(plan.of_sums(flat), dtype=np.float64).reshape(flat.shape[0], -1)  # type: ignore[arg-type]
        per = given.shape[1]
        made = [(group * per + k, share * given[:, k].reshape(whole)) for group, share in slots for k in range(per)]
        return cls._made(shape, made, plan)

    @classmethod
    def _made(cls, shape: tuple[int, ...], parts: Sequence[tuple[Integers, Floats]], plan: Plan) -> Vectors:
        whole = np.broadcast_shapes(*(each.shape for part in parts for each in part))
        low, high = plan.ends_of_totals
        places = np.stack([np.broadcast_to(group, whole) for group, _ in parts])
        weights = np.stack([np.broadcast_to(weight, whole) for _, weight in parts])
        return cls(shape, places, weights, plan.size, low, high)

    def totals(self, mass: NDArray[np.floating[Any]]) -> Floats:
        """The totals of rows that are in the cells so many times."""
        return self._added(self.weights * self._held(mass))

    def moments(self, mass: NDArray[np.floating[Any]]) -> tuple[Floats, Floats]:
        """The totals, and the same of squared weights: how fast a total moves with the strength of a tilt."""
        added = self.weights * self._held(mass)
        return self._added(added), self._added(added * self.weights)

    def _held(self, mass: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
        cube = mass.reshape(self.shape)
        return cube.sum(axis=self._unasked, keepdims=True, dtype=np.float64) if self._unasked else cube

    def _added(self, parts: Floats) -> Floats:
        if self.size == 1:
            return np.array([parts.sum()])
        found: Floats = np.zeros(self.size)
        found += np.bincount(self.places.reshape(-1), weights=parts.reshape(-1), minlength=self.size)
        return found

    def pulled(self, strengths: Floats) -> Floats:
        """For every cell the sum of its weights, each times the strength of its total; of a shape that broadcasts to
        `shape`."""
        each = strengths[0] if self.size == 1 else strengths[self.places]
        found: Floats = (self.weights * each).sum(axis=0)
        return found

    def along(self, cells: NDArray[Any], combine: np.ufunc) -> NDArray[Any]:
        """Return what cells that differ in nothing that the plan asks have together."""
        cube = cells.reshape(self.shape)
        return np.asarray(combine.reduce(cube, axis=self._unasked, keepdims=True)) if self._unasked else cube

    @cached_property
    def _unasked(self) -> tuple[int, ...]:
        return tuple(axis for axis, cells in enumerate(self.places.shape[1:]) if cells == 1)

    @cached_property
    def reached(self) -> Flags:
        """The cells whose rows add anything; of a shape that broadcasts to `shape`."""
        found: Flags = (self.weights != 0).any(axis=0)
        return found

    def dense(self) -> Floats:
        """The weights of every total over all cells, one row for each total. Large where there are many of both."""
        found = np.zeros((self.size, *self.shape))
        cells = np.indices(self.shape, sparse=True)
        for place, weight in zip(self.places, self.weights, strict=True):
            np.add.at(found, (np.broadcast_to(place, self.shape), *cells), np.broadcast_to(weight, self.shape))
        return found.reshape(self.size, -1)


class _Spread:
    """Numbers of one column's cells, laid along its axis."""

    def __init__(self, cuts: Sequence[Cut], fine: int = 1) -> None:
        self.cuts = {cut.name: cut for cut in cuts}
        self.middles = {cut.name: cut.middles if fine == 1 else cut.inside(fine) for cut in cuts}
        self._shapes = {name: [-1 if name == other else 1 for other in self.cuts] for name in self.cuts}

    def __call__(self, name: str, values: ArrayLike) -> NDArray[Any]:
        return np.asarray(values).reshape(self._shapes[name])


def _meeting(condition: Condition, cuts: Sequence[Cut]) -> Floats:
    """The share of each cell's rows that meet a condition, if those in a bin are spread evenly over it."""
    asked = {leaf.column for leaf in leaves(condition)}
    whole = math.prod(cut.count for cut in cuts if cut.name in asked)
    fine = FINE if whole * FINE ** sum(cut.axis.edges is not None for cut in cuts if cut.name in asked) <= _MOST else 1
    found = _holds(condition, _Spread(cuts, fine))
    split = [
        each
        for n, cut in zip(found.shape, cuts, strict=True)
        for each in ((cut.count, n // cut.count) if n > 1 else (1, 1))
    ]
    return np.asarray(found.reshape(split).mean(axis=tuple(range(1, 2 * len(cuts), 2))), dtype=np.float64)


def _holds(condition: Condition, spread: _Spread) -> Flags:
    if isinstance(condition, (Compared, Among, Present)):
        return spread(condition.column, [_true(condition, value) for value in spread.middles[condition.column]])
    every = isinstance(condition, Every)
    found: Flags = np.full([1] * len(spread.cuts), every)
    for part in condition.parts:
        found = found & _holds(part, spread) if every else found | _holds(part, spread)
    return found


def _true(leaf: Compared | Among | Present, value: Value | None) -> bool:
    if isinstance(leaf, Present):
        return (value is not None) is leaf.there
    if value is None:
        return False
    if isinstance(leaf, Among):
        return (value in leaf.values) is leaf.inside
    if leaf.operator in ("=", "<>"):
        return (value == leaf.value) is (leaf.operator == "=")
    lower = _before(value, leaf.value)
    if leaf.operator in ("<", ">="):
        return lower is (leaf.operator == "<")
    return _before(leaf.value, value) is (leaf.operator == ">")


def _before(a: Value, b: Value) -> bool:
    if isinstance(a, str) and isinstance(b, str):
        return a < b
    if isinstance(a, datetime) and isinstance(b, datetime):
        return a < b
    return float(a) < float(b)  # type: ignore[arg-type]


def _places(axis: Axis, cut: Cut, fine: int) -> list[tuple[Integers, Floats]]:
    """Return which cells of an axis each of these cells lies in, and with which share of it: several for a bin that
    lies across an edge, as values spread evenly over it say; none for missing values."""
    if axis.values is not None:
        place = {as_held(value, cut.column.type): n for n, value in enumerate(axis.values)}
        own = np.array([-1 if value is None else place.get(value, -1) for value in cut.middles], dtype=np.int64)
        return [(np.maximum(own, 0), (own >= 0).astype(np.float64))]
    edges = np.array(axis.edges or ())
    numbers = _numbers(cut.middles if fine == 1 else cut.inside(fine)).reshape(cut.count, -1)
    each = np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, edges.size - 2)
    found = [np.unique(line[~np.isnan(own)], return_counts=True) for line, own in zip(each, numbers, strict=True)]
    most = max(cells.size for cells, _ in found)
    places, shares = np.zeros((most, cut.count), dtype=np.int64), np.zeros((most, cut.count))
    for n, (cells, times) in enumerate(found):
        places[: cells.size, n], shares[: cells.size, n] = cells, times / numbers.shape[1]
    return list(zip(places, shares, strict=True))


def _share(factor: Factor, cut: Cut, bits: int) -> Floats:
    """Return how many of its tokens a row of each cell gives (see `Factor`)."""
    grid = cut.column.grid(bits)
    numbers = _numbers(cut.middles)
    t, whole = grid.integers(np.where(np.isnan(numbers), grid.low, numbers)), grid.steps
    if factor.degree == 1:
        return np.asarray(t if factor.place == 1 else whole - t, dtype=np.float64)
    square, mixed = t * t // whole, 2 * t * (whole - t) // whole
    return np.asarray((whole - square - mixed, mixed, square)[factor.place], dtype=np.float64)


def _numbers(values: Sequence[Value | None]) -> Floats:
    return np.array([np.nan if value is None else float(value) for value in values])  # type: ignore[arg-type]
