"""At most so many rows of one person, chosen alike by every engine: the latest where the schema names a time, and
otherwise at random, by a hash of who it is and what the row says.

What must stay true: whoever has more rows than may count is cut to exactly as many, whatever the rows of others say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import narwhals.stable.v2 as nw

from thebes.data.engines.arithmetic import drawn
from thebes.data.engines.engine import MARK, MOST_NUMBER, Divided, Engine
from thebes.data.schema import Schema

Frame = nw.LazyFrame[Any]


@dataclass(frozen=True, slots=True)
class Clipping:
    """The cut of each person's rows in one data set. `owner` names the column that says whose a row is."""

    schema: Schema
    engine: Engine
    owner: str

    @property
    def most(self) -> int:
        """The number of rows of one person that count."""
        return self.schema.max_rows_per_unit

    def divided(self, frame: Frame) -> Divided:
        """Return the rows of people who have few, all of which count, and those of the others, to be chosen from."""
        return self.engine.divided(frame, self.owner, self.schema.time, self.most)

    def numbered(self, names: Sequence[str]) -> list[str]:
        """Name the columns whose portable numbers a choice needs, beside `names`."""
        time = self.schema.time
        timed = [time] if time is not None and self.schema.column(time).type == "timestamp" else []
        return list(dict.fromkeys([self.owner, *timed, *names]))

    def timed(self, frame: Frame, columns: Sequence[str]) -> Frame:
        """Keep these columns, whose each row is, and how late it is."""
        late = self._lateness()
        whose = [self.owner, MARK + self.owner]
        if late is not None:
            frame = frame.with_columns(_late=late, _untimed=nw.col(self.schema.time or "").is_null().cast(nw.Int64))
        return frame.select(*dict.fromkeys([*whose, *columns, *self._before]))

    def chosen(self, frame: Frame, signature: Sequence[str], beside: Sequence[str] = ()) -> Frame:
        """Keep the rows that count of timed ones. Rows with one signature are numbered, in the order of `beside`, so
        that each has its own chance and not only each value."""
        before = self._before
        frame = self.engine.placed(frame, [self.owner, *before, *signature], beside, "_again")
        hashed = drawn(nw.col(MARK + self.owner), [nw.col(name) for name in (*signature, "_again")])
        frame = frame.with_columns(hashed.alias("_hash"))
        return self.first(frame, [*before, "_hash", *signature, "_again"], self.most)

    def first(self, frame: Frame, order: Sequence[str], most: int) -> Frame:
        """Keep the first rows of each person in this order."""
        return self.engine.placed(frame, [self.owner], order, "_place").filter(nw.col("_place") <= most)

    @property
    def _before(self) -> list[str]:
        """The columns by which rows are chosen before any chance: those without a time come last."""
        return [] if self.schema.time is None else ["_untimed", "_late"]

    def _lateness(self) -> nw.Expr | None:
        """A number that is the smaller the later a row is, and the largest for rows without a time."""
        time = self.schema.time
        if time is None:
            return None
        if self.schema.column(time).type == "float":
            return (0.0 - nw.col(time)).fill_null(math.inf)
        number = nw.col(MARK + time if self.schema.column(time).type == "timestamp" else time)
        return (-1 - number).fill_null(2**63 - 1)


def in_parts(engine: Engine, frame: Frame, by: str, rows: int, below: int = MOST_NUMBER) -> Iterator[Frame]:
    """Give at most so many rows in parts that the engine can sort, one after another by a number below `below`."""
    if engine.parts(rows) == 1:
        yield frame
        return
    computed = engine.computed(frame)
    try:
        parts = engine.parts(computed.rows)
        for low, high in pairwise([*(below * n // parts for n in range(parts)), below]):
            yield computed.frame.filter((nw.col(by) >= low) & (nw.col(by) < high))
    finally:
        computed.close()
