"""The fit of rows to what a document declares of them, column by column, and what becomes of values that do not.

Exact counts of private rows: for whoever owns the rows, and for simulations. Nothing here ever leaves its owner.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from thebes.data.rows import FAILURES, Rows
from thebes.data.schema import Schema
from thebes.data.table import Misfits
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.tasks.document import PeopleDocument, Range, Values
from thebes.tasks.site_document import SiteDocument

TOLD_FROM = 0.05  #: shares from here on are worth a line
_MOST_CAUSES = 3
NONE, CUT = "without a value", ", cut to it"
UNUSABLE = 1 + FAILURES.index("no usable value")

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Fit:
    """One column: of `rows`, how many have each fault. `instead` says what becomes of those without a usable value."""

    column: str
    rows: int
    usable: int  #: of the declared kind, also where a bound cuts them
    faults: Mapping[str, int]
    instead: str

    def share(self, fault: str) -> float:
        return self.faults[fault] / self.rows if self.rows else 0.0

    @property
    def told(self) -> str | None:
        """One line, where enough of the column does not fit."""
        worst = sorted(self.faults, key=lambda fault: -self.faults[fault])
        told = [f"{_percent(self.share(fault))} {fault}" for fault in worst if self.share(fault) >= TOLD_FROM]
        if not told and sum(self.faults.values()) >= TOLD_FROM * max(1, self.rows):
            told = [f"{_percent(self.share(fault))} {fault}" for fault in worst[:_MOST_CAUSES] if self.faults[fault]]
        return f"{self.column}: {', '.join(told)}" if told else None

    @property
    def causes(self) -> str:
        """The faults of the column, most frequent first."""
        worst = sorted((f for f in self.faults if self.faults[f]), key=lambda fault: -self.faults[fault])
        return ", ".join(f"{_percent(self.share(fault))} {fault}" for fault in worst[:_MOST_CAUSES])

    def as_json(self) -> dict[str, Any]:
        shares = {fault: self.share(fault) for fault, count in self.faults.items() if count}
        return {"usable": self.usable / self.rows if self.rows else 0.0, "shares": shares}


def fits(document: PeopleDocument, rows: Rows) -> list[Fit]:
    """Every column that the document works on. Of kinds that read several rows of a person each row counts, and whoever
    has none as one without a value."""
    return [fit for fit, _ in _each(document, rows)]


def fits_of_table(document: SiteDocument, schema: Schema, found: Mapping[str, Misfits]) -> list[Fit]:
    """Every column that a site's rows are counted with, as the data set declares it."""
    fits = []
    for name in document.counted:
        column, own = schema.column(name), found[name]
        faults = {"not among the declared values": own.undeclared, "without a value of its type": own.missing}
        if column.low is not None and column.high is not None:
            faults[f"above {figure(column.high)}{CUT}"] = own.above
            faults[f"below {figure(column.low)}{CUT}"] = own.below
        fits.append(Fit(name, own.rows, own.rows - own.missing - own.undeclared, faults, "such rows are left out"))
    return fits


def nobody_at(sites: Mapping[str, list[Fit]]) -> None:
    """Refuse where a column has rows and no usable value at any site."""
    for same in zip(*sites.values(), strict=True):
        if any(fit.rows for fit in same) and not any(fit.usable for fit in same):
            worst = max(same, key=lambda fit: fit.rows)
            raise Mistake(
                "rows",
                f"hold no usable value in column {worst.column!r} at any site ({worst.causes}): {worst.instead}, so "
                "the answer would be about nobody's data. Change what is asked, or what the schema declares",
            )


def nobody(document: PeopleDocument, found: list[Fit]) -> None:
    """Refuse where a column has no usable value at all: whatever came out would be about nobody. A document may say
    that its defaults are meant to stand in."""
    if document.default_is_meant or getattr(document, "aggregator", None) == "count":  # of nobody there are none
        return
    for fit in found:
        if fit.usable:
            continue
        why = f" ({fit.causes})" if fit.causes else ""
        raise Mistake(
            "rows",
            f"hold no usable value in column {fit.column!r}{why}: {fit.instead}, so the answer would be about nobody's "
            'data. Change the featurizer or the bounds, or say "default_is_meant": true if that is what is wanted',
        )


def outcomes(document: PeopleDocument, rows: Rows) -> NDArray[np.int64]:
    """For diagnostics: 0 for whoever has a value of their own that counts in every column, else what went wrong."""
    told = rows.failures.astype(np.int64)
    kept, counted = _whole(document, rows)
    if document.most_rows > 1:
        whose = np.zeros(rows.people, dtype=np.bool_)
        whose[kept.person[counted]] = True
        counted = whose
    return np.where((told == 0) & ~counted, UNUSABLE, told)


def told_to_owner(document: PeopleDocument, rows: Rows) -> list[str]:
    """One person's own values that do not fit, a line for each column and fault, and what becomes of them: for that
    person's eyes only."""
    lines = []
    for fit in fits(document, rows):
        for fault, count in fit.faults.items():
            if not count:
                continue
            whose = "your value is" if fit.rows == 1 else f"{count} of your {fit.rows} values are"
            what = "missing" if fault == NONE else fault
            becomes = "" if fault.endswith(CUT) else f": {_becomes(document, fit.column, bool(rows.failures[0]))}"
            lines.append(f"{fit.column}: {whose} {what}{becomes}")
    return lines


def whole(document: PeopleDocument, rows: Rows) -> tuple[Rows, NDArray[np.int64]]:
    """Return the rows that count and have a usable value of their own in every column, each as somebody's only one,
    and whose each of them is."""
    kept, counted = _whole(document, rows)
    columns = {name: np.asarray(values)[counted] for name, values in kept.columns.items()}
    return Rows.one_each(columns), kept.person[counted]


def is_number(document: PeopleDocument, column: str) -> bool:
    """Return whether a column is read as numbers."""
    return not isinstance((document.bounds or {}).get(column), Values) and column not in document.texts()


def _whole(document: PeopleDocument, rows: Rows) -> tuple[Rows, Flags]:
    """(the rows that count, which of them have a usable value of their own in every column)."""
    kept = _kept(document, rows)
    counted = np.ones(len(kept.person), dtype=np.bool_)
    for _, usable in _each(document, rows):
        counted &= usable
    return kept, counted


def _kept(document: PeopleDocument, rows: Rows) -> Rows:
    return rows.at_most(document.most_rows) if document.most_rows > 1 else rows.first()


def _each(document: PeopleDocument, rows: Rows) -> Iterator[tuple[Fit, Flags]]:
    """(how a column fits, which rows have a usable value of their own)."""
    several = document.most_rows > 1
    kept = _kept(document, rows)
    empty = rows.people - len(np.unique(kept.person)) if several else 0
    for column in columns_of(document):
        bound = (document.bounds or {}).get(column)
        values = np.asarray(kept.columns[column])
        none = _none(values)
        faults: dict[str, Flags] = {}
        if isinstance(bound, Values):
            _, undeclared = kept.categories(column, bound.values)
            usable = ~undeclared
            faults["not among the declared values"] = undeclared & ~none
        elif column in document.texts():
            usable = ~none
        else:
            numbers, missing = kept.numbers(column)
            usable = ~missing
            faults["text, where a number is needed"] = missing & ~none
            if isinstance(bound, Range):
                faults[f"above {figure(bound.high)}{CUT}"] = usable & (numbers > bound.high)
                faults[f"below {figure(bound.low)}{CUT}"] = usable & (numbers < bound.low)
        counts = {fault: int(flags.sum()) for fault, flags in faults.items()}
        counts[NONE] = int((none & ~usable).sum()) + empty
        yield Fit(column, len(values) + empty, int(usable.sum()), counts, _instead(document, column)), usable


def columns_of(document: PeopleDocument) -> tuple[str, ...]:
    """The columns that a document works on."""
    if hasattr(document, "columns"):
        return tuple(document.columns)
    inputs = getattr(document, "inputs", ())
    outputs = getattr(document, "outputs", (document.output,) if hasattr(document, "output") else ())
    return (*inputs, *outputs) or tuple(document.gives)


def _none(values: NDArray[Any]) -> Flags:
    """Return which cells hold nothing."""
    if values.dtype.kind == "f":
        return np.asarray(np.isnan(values))
    if values.dtype.kind == "O":
        return np.fromiter((cell is None or cell != cell for cell in values), dtype=np.bool_, count=len(values))
    return np.zeros(len(values), dtype=np.bool_)


def _instead(document: PeopleDocument, column: str) -> str:
    missing = getattr(document, "missing", None)
    bound = (document.bounds or {}).get(column)
    if bound is not None and bound.default is not None:
        return "the default stands in for everybody"
    if missing is not None:
        return "nobody's would count" if missing == "count" else "nobody could agree"
    return f"of everybody {_without_default(document, column)}"


def _becomes(document: PeopleDocument, column: str, failed: bool) -> str:
    """Say what counts instead of one person's value that does not fit. `failed` says that the featurizer did."""
    bound, missing = (document.bounds or {}).get(column), getattr(document, "missing", None)
    if bound is not None and bound.default is not None:
        return f"{_shown(bound.default)} counts instead"
    if missing is None:
        return _without_default(document, column)
    if missing == "count":
        return "it counts as missing"
    sent = f"sends {_stand_in(document, column)} instead"
    if failed and document.diagnostics is not None:
        return f"if you agree, your machine {sent}, and that the query failed"
    return f"you cannot agree; if a rule agrees for you, your machine {sent}"


def _without_default(document: PeopleDocument, column: str) -> str:
    """Say what kinds whose owners perturb make of a value that does not fit where no default is declared."""
    if not hasattr(document, "outputs") and not hasattr(document, "output"):
        searched = getattr(document, "searching", 0) and column in getattr(document, "ranges", ())
        asked = f", and as {_stand_in(document, column)} where it is asked how to cut {column}" if searched else ""
        return f"it counts as missing, as the task declares{asked}"
    if column not in getattr(document, "inputs", ()):
        return "the row is left out, and who has no other sends noise alone"
    bound = (document.bounds or {}).get(column)
    last = isinstance(bound, Values)
    return f"{_shown(bound.values[-1]) if last else _stand_in(document, column)} counts instead"  # type: ignore[union-attr]


def _stand_in(document: PeopleDocument, column: str) -> str:
    """Return what is sent of a column of which nothing else may be."""
    bound = (document.bounds or {}).get(column)
    if isinstance(bound, Values):
        return _shown(bound.values[0])
    if column in document.texts():
        return "an empty text"
    return f"{figure(bound.middle)}, the middle of the range," if isinstance(bound, Range) else "0"


def _shown(value: Any) -> str:
    return figure(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _percent(share: float) -> str:
    return "100 %" if share == 1 else f"{figure(min(99.0, share * 100), 2)} %" if share * 100 >= 1 else "under 1 %"
