"""A data set as the code of a task sees it, over any engine: sums and batches are the same whole numbers on each.

Of one person at most `max_rows_per_unit` rows count, chosen after the condition: the latest where the schema names a
time, and otherwise at random, by a hash of who it is and what the row says that every engine computes alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from thebes.data.engines.arithmetic import FINE, clamped, drawn, folded, holds, share, shuffled, steps
from thebes.data.engines.axis_cells import Packs, cell, numbered
from thebes.data.engines.clipping import Clipping, in_parts
from thebes.data.engines.engine import MARK, MOST_NUMBER, PRIME, Computed, Engine, KeptRows
from thebes.data.engines.few_rows import FewRows
from thebes.data.engines.kept_batches import KeptBatches
from thebes.data.engines.kept_frame import KeptFrame
from thebes.data.engines.misfits import misfits_of
from thebes.data.engines.sum_limits import check_axes, check_sums
from thebes.data.engines.sum_terms import place_of, product_of, share_name
from thebes.data.engines.tensor_rows import TensorRows
from thebes.data.filter import ENDS, RowFilter
from thebes.data.schema import Column, Schema, as_held
from thebes.data.table import Axis, Batch, Misfits, Sums
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.promise import Unit
from thebes.privacy.stability import LARGEST_TOTAL

_HALF = 26  # a product of more bits is added up in two halves, so that sums of up to 2^36 rows fit into 63 bits

Frame = nw.LazyFrame[Any]


@dataclass
class EngineTable:
    """The rows of one engine behind the `Table` protocol. `files` is the folder of pictures that rows name by paths,
    `scratch` that for what was read of them."""

    schema: Schema
    engine: Engine
    files: Path | None = None
    scratch: Path | None = None
    _last: tuple[object, KeptRows, TensorRows] | None = field(default=None, init=False, repr=False)

    def sums(self, wanted: Sums) -> NDArray[np.int64]:
        """One row of totals for each cell, one column for each term; clamped to 2^61."""
        check_sums(self.schema, wanted)
        few = self._few(self._read(wanted.columns, wanted.where, wanted.axes), wanted.where)
        totals = self._summed(wanted) if few is None else few.sums(wanted)
        return np.array([[min(total, LARGEST_TOTAL) for total in cell] for cell in totals], dtype=np.int64)

    def cells(self, axes: Sequence[Axis], *, rows: int = 16_384) -> Iterator[NDArray[np.int64]]:
        """The cells of every row that counts, one column for each axis, about `rows` rows at a time; -1 where a row is
        in none: what it has elsewhere counts there."""
        check_axes(self.schema, axes)
        packs = Packs.of([(axis, self._column(axis.column)) for axis in axes])
        made, signs, signature = self._inside({i: replace(axes[i], missing=True) for i in packs.alone})
        frame = self._complete((), None, axes)
        parts = self._clipped(frame, [a.column for a in axes], {**packs.made, **made}, signs, [*packs.made, *signature])
        kept = self.engine.kept(part.select(*packs.made, *made) for part in parts)
        try:
            for chunk in kept.chunks(rows):
                yield packs.read(chunk)
        finally:
            kept.close()

    def batches(self, columns: Sequence[str], where: RowFilter | None = None, *, rows: int = 65_536) -> Iterator[Batch]:
        """The rows that have all of these columns, person after person, about `rows` at a time."""
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
            raise Mistake("rows", "must be a whole number of at least 1")
        names = tuple(columns)
        for name in names:
            column = self.schema.offered(name)
            if not column.ranged and column.values is None and column.tensor is None:
                raise Mistake("columns", f"{name!r} has neither bounds nor values and cannot be counted with")
        kept, tensors = self._kept(names, where)
        return KeptBatches(self.schema, kept, tensors, names).batches(tensors.fitting(rows))

    def tensors(self, kept: KeptRows, at: Mapping[str, str]) -> TensorRows:
        """Return the pictures and arrays of kept rows, by the names of their columns and where their keys stand."""
        return TensorRows(self.schema, self.engine, kept, at, files=self.files, scratch=self.scratch)

    @property
    def unread(self) -> dict[str, dict[str, int]]:
        """The pictures and arrays of the last question that could not be read, by column and reason: for whoever keeps
        the rows and for nobody else."""
        return {} if self._last is None else self._last[2].unread()

    def misfits(self, columns: Sequence[str], where: RowFilter | None = None) -> dict[str, Misfits]:
        """Of each column, how many of all the rows that meet a condition do not fit what the schema declares of it."""
        return misfits_of(self.schema, self.engine, columns, where)

    def occurring(self, column: str, where: RowFilter | None = None, *, most: int, longest: int) -> dict[str, int]:
        """The texts of a column, each with how many units have it; a unit counts with at most `most` of them."""
        if self._column(column).type != "string":
            raise Mistake(
                "by", f"names {column!r}, which does not hold texts: only texts can be looked through for keys"
            )
        frame = self._complete((column,), where)
        frame = frame.filter(nw.col(column).str.len_chars() <= longest)
        found: Counter[str] = Counter()
        for part in self._of_few_texts(frame, column, most):
            counted = self.engine.collected(part.group_by(column).agg(nw.len().alias("_units")))
            found.update(dict(zip(counted[column].tolist(), map(int, counted["_units"]), strict=True)))
        return dict(found)

    @contextmanager
    def declaring(self, column: str, values: Sequence[str]) -> Iterator[EngineTable]:
        """The same rows where these are the declared values of a column that has none."""
        made = replace(self, schema=self.schema.declaring(column, values))
        try:
            yield made
        finally:
            made.let_go()

    def forget(self) -> None:
        """Read the rows anew when they are next asked for: those of the last question are held until then."""
        self.let_go()
        self.engine.forget()

    def let_go(self) -> None:
        """Hold the rows of the last question no longer."""
        if self._last is not None:
            for held in self._last[1:]:
                held.close()
            self._last = None

    def close(self) -> None:
        self.forget()
        self.engine.close()

    # --- which rows count -------------------------------------------------------------------------------

    @property
    def _clipping(self) -> Clipping | None:
        """The cut of each person's rows; None where every row is a unit of its own."""
        return None if self._owner is None else Clipping(self.schema, self.engine, self._owner)

    @property
    def _owner(self) -> str | None:
        """The column by which rows are one person's; None where every row is a unit of its own."""
        return self.schema.key if Unit(self.schema.unit) is Unit.PERSON else None

    @property
    def _cheapest(self) -> str:
        """A column to count rows by: no pictures, where there is another."""
        return min(self.schema.columns, key=lambda name: self.schema.columns[name].tensor is not None)

    def _column(self, name: str) -> Column:
        return self.schema.column(name)

    def _read(self, named: Sequence[str], where: RowFilter | None, axes: Sequence[Axis] = ()) -> list[str]:
        """Every column that a question reads."""
        asked = where.columns if where is not None else ()
        extra = [c for c in (self._owner, self.schema.time if self._owner else None) if c is not None]
        read = dict.fromkeys([*named, *(axis.column for axis in axes), *asked, *extra])
        return list(read) or [self._cheapest]

    def _few(self, read: Sequence[str], where: RowFilter | None) -> FewRows | None:
        """The rows with what a question reads, where they are few and hold neither pictures nor arrays."""
        found = None if {*read} & {*self.schema.tensors} else self.engine.few(read, where)
        return None if found is None else FewRows.of(self.schema, self._owner, found)

    def _complete(self, named: Sequence[str], where: RowFilter | None, axes: Sequence[Axis] = ()) -> Frame:
        """The rows that are asked for and have every column that is named."""
        wanted = self._read(named, where, axes)
        frame = self.engine.rows(wanted, where)
        tests = [~nw.col(name).is_null() for name in [*named, *([self._owner] if self._owner else [])]]
        if self._owner is not None and self.schema.columns[self._owner].type == "integer":
            tests.append(~nw.col(self._owner).is_in(list(ENDS)))  # beyond 64 bits several people would be one
        if where is not None:
            tests.append(holds(where.condition, wanted[0]))
        by_value = {axis.column: axis.values for axis in axes if axis.values is not None}
        for name in named:
            declared = by_value.get(name, self.schema.offered(name).values)
            if declared is not None:
                tests.append(nw.col(name).is_in([as_held(value, self.schema.offered(name).type) for value in declared]))
        return frame.filter(folded(lambda a, b: a & b, tests)) if tests else frame

    def _is_numbered(self, name: str) -> bool:
        column = self.schema.offered(name)
        return not column.ranged and column.type != "float"

    def _clipped(
        self, frame: Frame, read: list[str], made: dict[str, nw.Expr], signs: dict[str, nw.Expr], signature: list[str]
    ) -> Iterator[Frame]:
        """Give the rows that count with what is made of them, in as many parts as the engine needs."""
        clipping = self._clipping
        if clipping is None:
            yield _with(frame, made)
            return
        rows = clipping.divided(frame)
        if rows.few is not None:
            yield _with(rows.few, made)
        if rows.many is None:
            return
        many = self.engine.numbered(rows.many, clipping.numbered([n for n in read if self._is_numbered(n)]))
        many = clipping.timed(_with(many, {**made, **signs}), [*signature, *made])
        for part in in_parts(self.engine, many, MARK + clipping.owner, rows.many_rows):
            yield clipping.chosen(part, signature)

    def _of_few_texts(self, frame: Frame, column: str, most: int) -> Iterator[Frame]:
        """Give each person's texts once, and at most so many of them, drawn."""
        clipping = self._clipping
        if clipping is None:
            yield frame
            return
        rows = self.engine.divided(frame.select(clipping.owner, column).unique(), clipping.owner, None, most)
        if rows.few is not None:
            yield rows.few
        if rows.many is None:
            return
        many = self.engine.numbered(rows.many, [clipping.owner, column])
        many = many.with_columns(_hash=drawn(nw.col(MARK + clipping.owner), [nw.col(MARK + column)]))
        for part in in_parts(self.engine, many, MARK + clipping.owner, rows.many_rows):
            yield clipping.first(part, ["_hash", MARK + column], most)

    # --- sums -------------------------------------------------------------------------------------------

    def _summed(self, wanted: Sums) -> list[list[int]]:
        """The totals as the engine adds them up."""
        ranged = list(dict.fromkeys(f.column for term in wanted.terms for f in term.factors))
        made = {
            f"_t{i}": steps(clamped(n, self._column(n)), self._column(n), wanted.bits) for i, n in enumerate(ranged)
        }
        place = {name: f"_t{i}" for i, name in enumerate(ranged)}
        inside, signs, signature = self._inside(dict(enumerate(wanted.axes)))
        made, signature = {**made, **inside}, [*place.values(), *signature]
        totals = [[0] * len(wanted.terms) for _ in range(wanted.cells)]
        read = list(dict.fromkeys([*wanted.columns, *(axis.column for axis in wanted.axes)]))
        frame = self._complete(wanted.columns, wanted.where, wanted.axes)
        for part in self._clipped(frame, read, made, signs, list(dict.fromkeys(signature))):
            if wanted.units and self._owner is not None:
                part = part.select(self._owner, *(f"_a{i}" for i in range(len(wanted.axes)))).unique()
            self._add(part, wanted, place, totals)
        return totals

    def _inside(self, axes: Mapping[int, Axis]) -> tuple[dict[str, nw.Expr], dict[str, nw.Expr], list[str]]:
        """The cells of these axes, the signs of rows that have to be chosen from, and the signature of a row."""
        made: dict[str, nw.Expr] = {}
        signs: dict[str, nw.Expr] = {}
        signature: list[str] = []
        for i, axis in axes.items():
            made[f"_a{i}"] = cell(axis, self._column(axis.column))
            sign = f"_a{i}" if axis.edges is not None or not self._is_numbered(axis.column) else MARK + axis.column
            if axis.missing and sign != f"_a{i}":
                sign, signs[f"_m{i}"] = f"_m{i}", nw.col(sign).fill_null(-1)
            signature.append(sign)
        return made, signs, signature

    def _add(self, frame: Frame, wanted: Sums, place: dict[str, str], totals: list[list[int]]) -> None:
        frame = frame.with_columns(
            **{
                share_name(f): share(f, nw.col(place[f.column]), wanted.bits)
                for f in dict.fromkeys(f for term in wanted.terms for f in term.factors)
            },
            _one=nw.lit(1).cast(nw.Int64),
        )
        parts: dict[str, nw.Expr] = {}
        for i, term in enumerate(wanted.terms):
            product = product_of(term)
            if len(term.factors) * wanted.bits <= _HALF:
                parts[f"_s{i}"] = product
                continue
            upper = (product / 2**_HALF).floor().cast(nw.Int64)
            parts[f"_u{i}"], parts[f"_s{i}"] = upper, product - upper * 2**_HALF
        cells = [f"_a{i}" for i in range(len(wanted.axes))]
        frame = frame.select(*cells, **parts)
        added = [nw.col(name).sum() for name in parts]
        frame = frame.group_by(cells).agg(*added) if cells else frame.select(*added)
        found = self.engine.collected(frame.with_columns(nw.col(name).cast(nw.Int64) for name in parts))
        at = np.zeros(len(found), dtype=np.int64)
        for i, axis in enumerate(wanted.axes):
            places = numbered(found[f"_a{i}"], axis, self._column(axis.column))
            if (places < 0).any():
                raise Fault("a row that counts is in no cell")
            at = at * axis.cells + places
        for i in range(len(wanted.terms)):
            sums = found[f"_s{i}"].fillna(0).astype("int64").tolist()
            if f"_u{i}" in parts:
                upper_half = found[f"_u{i}"].fillna(0).astype("int64").tolist()
                sums = [low + (up << _HALF) for low, up in zip(sums, upper_half, strict=True)]
            for which, total in zip(at.tolist(), sums, strict=True):
                totals[which][i] += total

    # --- batches ----------------------------------------------------------------------------------------

    def _kept(self, names: tuple[str, ...], where: RowFilter | None) -> tuple[KeptRows, TensorRows]:
        """The rows in order; those of the last question are held for the next time it is asked."""
        asked = (names, where)
        if self._last is not None and self._last[0] == asked:
            return self._last[1:]
        self.let_go()
        distinct = list(dict.fromkeys(names))
        few = self._few(self._read(distinct, where), where)
        kept = self._sorted(distinct, where) if few is None else KeptFrame(few.in_order(distinct, where))
        at = {name: f"_x{i}" for i, name in enumerate(distinct) if name in self.schema.tensors}
        tensors = self.tensors(kept, at)
        self._last = (asked, kept, tensors)
        return kept, tensors

    def _sorted(self, distinct: list[str], where: RowFilter | None) -> KeptRows:
        """The rows in order, as the engine keeps them."""
        made: dict[str, nw.Expr] = {}
        signature: list[str] = []
        for i, name in enumerate(distinct):
            column = self.schema.offered(name)
            if column.ranged:
                made[f"_x{i}"] = clamped(name, column)
            elif column.type == "float":
                made[f"_x{i}"] = place_of(nw.col(name), [float(v) for v in column.values or ()]).cast(nw.Float64)
            else:
                made[f"_x{i}"] = nw.col(name)
        fine: dict[str, nw.Expr] = {}
        for i, name in enumerate(distinct):
            column = self.schema.offered(name)
            if column.ranged:
                fine[f"_t{i}"] = steps(nw.col(f"_x{i}"), column, FINE)
                signature += [f"_t{i}"]
            elif column.type == "float":
                fine[f"_t{i}"] = nw.col(f"_x{i}").cast(nw.Int64)
                signature += [f"_t{i}"]
            else:
                signature += [MARK + name]
        numbers = [f"_x{i}" for i in range(len(distinct))]
        ranged = [f"_x{i}" for i, name in enumerate(distinct) if self.schema.offered(name).ranged]
        texts = [n for n in distinct if self._is_numbered(n)]

        def dressed(frame: Frame, numbered: list[str]) -> Frame:
            frame = _with(_with(self.engine.numbered(frame, numbered), made), fine)
            return frame.with_columns(_order=shuffled([nw.col(name) for name in signature]))

        frame, clipping = self._complete(distinct, where), self._clipping
        columns = list(dict.fromkeys([*numbers, *signature, "_order"]))
        whose, by, below = "_order", "_order", PRIME
        chosen: Computed | None = None
        if clipping is None:
            frame = dressed(frame, texts).select(*columns)
            counting = int(self.engine.collected(frame.select(nw.len().alias("_all")))["_all"].iloc[0])
        else:
            whose, by, below = clipping.owner, MARK + clipping.owner, MOST_NUMBER
            columns = [whose, by, *columns]
            divided = clipping.divided(frame)
            counting, count = divided.counting, []
            if divided.few is not None:
                count.append(dressed(divided.few, [whose, *texts]).select(*columns))
            if divided.many is not None:
                many = clipping.timed(dressed(divided.many, clipping.numbered(texts)), columns)
                parts = in_parts(self.engine, many, by, divided.many_rows)
                chosen = self.engine.kept(clipping.chosen(p, signature, ranged).select(*columns) for p in parts)
                count.append(chosen.frame)
            frame = nw.concat(count) if len(count) > 1 else count[0]
        parts = in_parts(self.engine, frame, by, counting, below)
        order = list(dict.fromkeys([by, whose, "_order", *signature, *ranged]))
        kept = self.engine.kept(part.sort(*order).select(*numbers, nw.col(whose).alias("_whose")) for part in parts)
        if chosen is not None:
            chosen.close()
        return kept


def _with(frame: Frame, made: dict[str, nw.Expr]) -> Frame:
    return frame.with_columns(**made) if made else frame
