"""The answer to a statement: a table with an error bar at every number, and the certificate of what was released."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from thebes.data.frame import FrameSource
from thebes.privacy.certificate import Certificate
from thebes.privacy.figures import figure
from thebes.privacy.plain_text import shortened
from thebes.sql.arithmetic import BarredValue
from thebes.tasks import notebook
from thebes.tasks.release import Release

PICKED = (
    "HAVING or LIMIT chose these rows after the noise, which favours numbers that noise made larger or smaller. So the "
    "bars are longer, to hold for all groups at once; a number without a bar has none that long."
)
_MOST_PRINTED = 40
Ends = tuple[float, float]


@dataclass(frozen=True)
class SqlAnswer(FrameSource):
    """`rows` hold the values by the names of the columns, `bars` the ends between which the exact value of each number
    lies with probability `level` (None where no such ends are known, or a key stands there).

    Example: answer.to_frame().sort_values("n"), answer.rows[0]["n"], answer.bars[0]["n"]
    """

    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]
    bars: tuple[Mapping[str, Ends | None], ...]
    level: float
    release: Release
    notes: tuple[str, ...] = ()
    selected: bool = False  #: which rows are shown was chosen by noisy numbers: shown values err in its direction

    @classmethod
    def of(
        cls,
        columns: Sequence[str],
        rows: Sequence[Mapping[str, BarredValue]],
        *,
        release: Release,
        level: float,
        picked: bool,
    ) -> Self:
        return cls(
            tuple(columns),
            tuple({name: one.value for name, one in row.items()} for row in rows),
            tuple({name: one.ends if one.barred else None for name, one in row.items()} for row in rows),
            level,
            release,
            (PICKED,) if picked else (),
            picked,
        )

    @property
    def certificate(self) -> Certificate:
        return self.release.certificate

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def as_columns(self) -> dict[str, list[Any]]:
        """Return the table as columns: beside each that has bars its `_low` and `_high`."""
        table: dict[str, list[Any]] = {}
        for name in self.columns:
            table[name] = [row[name] for row in self.rows]
            if any(bar[name] is not None for bar in self.bars):
                for end, word in enumerate(("low", "high")):
                    ends = [bar[name] for bar in self.bars]
                    table[f"{name}_{word}"] = [math.nan if each is None else each[end] for each in ends]
        return table

    def as_json(self) -> dict[str, Any]:
        return {
            "columns": list(self.columns),
            "rows": [dict(row) for row in self.rows],
            "bars": [{name: None if ends is None else list(ends) for name, ends in bar.items()} for bar in self.bars],
            "level": self.level,
            "selected": self.selected,
            "notes": list(self.notes),
            "release": self.release.as_json(),
        }

    def __repr__(self) -> str:
        epsilon = figure(self.certificate.epsilon)
        head = shortened(f"answer of {len(self.rows)} rows: {', '.join(self.columns)}", 95)
        return f"<{head}; epsilon {epsilon}>"

    def __str__(self) -> str:
        lines = [self.columns, *([self._cell(place, name) for name in self.columns] for place in range(len(self.rows)))]
        shown = lines[: _MOST_PRINTED + 1]
        widths = [max(len(line[i]) for line in shown) for i in range(len(self.columns))]
        table = ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in shown]
        more = [f"... and {len(lines) - len(shown)} rows more"] if len(lines) > len(shown) else []
        each = "for all groups at once" if self.notes else "each by itself"
        bars = [f"In brackets: where the exact number lies, {self.level:.0%} of the time, {each}."]
        return "\n".join(
            [
                *table,
                *more,
                *self._answered(),
                *(bars if any(map(any, map(dict.values, map(dict, self.bars)))) else []),
                *self.notes,
                *self.certificate.statements,
            ]
        )

    def _answered(self) -> list[str]:
        """Say who is not in the answer, and why."""
        covered = self.release.extra.get("coverage", {})
        without = [f"not by {site}: {why}" for site, why in covered.get("missing", {}).items()]
        return ["; ".join([f"Answered by {', '.join(covered['answered'])}", *without])] if without else []

    def _repr_html_(self) -> str:
        rows = ([self._cell(place, name) for name in self.columns] for place in range(len(self.rows)))
        table, notes = notebook.table(self.columns, rows), notebook.lines([*self._answered(), *self.notes])
        return notebook.shown(table, notes, notebook.certified(self.certificate))

    def cells(self, place: int) -> list[str]:
        """Return one row as it is shown, each number with its bar."""
        return [self._cell(place, name) for name in self.columns]

    def _cell(self, place: int, name: str) -> str:
        value, ends = self.rows[place][name], self.bars[place][name]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return str(value)
        if math.isnan(value):
            return "none"
        return figure(value) if ends is None else f"{figure(value)} ({figure(ends[0])} to {figure(ends[1])})"
