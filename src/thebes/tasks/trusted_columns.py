"""Columns of trusted kinds, which travel as they are to a server that promises to use them once and destroy them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from thebes.data import featurizer as sql
from thebes.data.rows import FAILURES, Rows
from thebes.privacy.randomness import Randomness
from thebes.tasks.contributions import Contributions, Layout, Slot
from thebes.tasks.document import FAILURE, PeopleDocument, Range, Values, is_new, rule
from thebes.tasks.fit import outcomes
from thebes.tasks.protocols import Ask, Claim

LONGEST_TEXT = 100
COUNT_SHARE = 0.05  #: of epsilon, to count missing values privately


class TrustedDocument(PeopleDocument):
    """A document whose contributions a trusted server holds until it has released the answer."""

    server: Literal["trusted"] = "trusted"
    #: "refuse": a person without the value sends nothing; "count": null is sent and counted privately
    missing: Literal["refuse", "count"] = "refuse"

    @model_validator(mode="after")
    def _asks_more_than_who_is_there(self) -> Self:
        """Refuse SQL that plainly gives the same to everybody, where only who has a row takes part.

        The published number of contributors is then how many have one, and such SQL asks nothing else: a slip, which
        is told. No promise rests on this, since the same can be said in other words.
        """
        if is_new() and self.taking_part_tells and set(self.columns) <= sql.read(self.featurizer).constant:
            raise rule(
                "missing",
                'must be "count" here: the SQL gives the same value to everybody who has a row, so all that it asks is '
                "how many take part, and that is published exactly",
            )
        return self

    @property
    def taking_part_tells(self) -> bool:
        """Return whether only who has a value can agree, so that to take part tells that one has it."""
        declared = {name for name, bound in (self.bounds or {}).items() if bound.default is not None}
        return self.missing == "refuse" and bool(self.reads) and not set(self.columns) <= declared

    @property
    def buys_missing(self) -> bool:
        """Return whether the number of missing values is bought with a share of epsilon of its own."""
        return self.missing == "count"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that travel."""
        return self.gives


def undeclared(
    document: TrustedDocument,
    words: str = "none are given, so a part of epsilon goes into finding them; give them if you know them",
) -> Iterator[tuple[str, str]]:
    """Give the columns whose bounds would be found with a part of the price, each with these words."""
    for column in document.gives:
        if column not in (document.bounds or {}):
            yield f"bounds.{column}", words


def layout_of(document: TrustedDocument) -> Layout:
    """One field for each column, and the failure class where diagnostics were asked for.

    Null is refused unless missing values are counted: elsewhere the number of values is used as a public one.
    """
    slots: dict[str, Slot] = {}
    nullable = document.missing == "count"
    for column in document.columns:
        bound = (document.bounds or {}).get(column)
        if isinstance(bound, Values):
            slots[column] = Slot("integer", 0, len(bound.values) - 1, nullable=nullable)
        elif column in document.texts():
            slots[column] = Slot("text", length=LONGEST_TEXT)
        else:
            slots[column] = Slot("number", nullable=nullable)
    if document.diagnostics is not None:
        slots[FAILURE] = Slot("integer", 0, len(FAILURES))
    return slots


def able(document: TrustedDocument, rows: Rows) -> NDArray[np.bool_]:
    """Find who has a value in every column; where missing values are counted, everybody, and where failing featurizers
    are, those whose featurizer fails too."""
    one_each = rows.first()
    everybody = np.ones(rows.people, dtype=np.bool_)
    if document.missing == "count":
        return everybody
    for column in document.columns:
        _, missing = _encoded(document, one_each, column)
        everybody &= ~missing
    return everybody | (rows.failures > 0) if document.diagnostics is not None else everybody


def contribute(
    document: TrustedDocument, ask: Ask, rows: Rows, claim: Claim, *, randomness: Randomness
) -> Contributions:
    """Every column's first value. What is missing after consent is sent as null where nulls are counted, and
    otherwise as the middle of its bounds, so that a failure is never a signal."""
    claim.consume(epsilon=document.epsilon, delta=document.delta)
    one_each = rows.first()
    fields: dict[str, NDArray[np.generic]] = {}
    for column in document.columns:
        values, missing = _encoded(document, one_each, column)
        if values.dtype.kind == "U":
            fields[column] = values
        elif document.missing == "count":
            fields[column] = np.where(missing, np.nan, values.astype(np.float64))
        else:
            fields[column] = np.where(missing, _stand_in(document, column), values.astype(np.float64))
    if document.diagnostics is not None:
        fields[FAILURE] = outcomes(document, rows)
    return Contributions(ask.part, rows.people, fields)


def legible(document: TrustedDocument, contributions: Contributions) -> dict[str, list[Any]]:
    """The columns as the server reads them: the values themselves."""
    shown: dict[str, list[Any]] = {}
    for name, values in contributions.fields.items():
        bound = (document.bounds or {}).get(name)
        plain = [None if value != value else value for value in values.tolist()]
        if isinstance(bound, Values):
            plain = [None if place is None else bound.values[int(place)] for place in plain]
        shown[name] = plain
    return shown


def _encoded(document: TrustedDocument, rows: Rows, column: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    bound = (document.bounds or {}).get(column)
    if isinstance(bound, Values):
        index, missing = rows.categories(column, bound.values)
        if bound.default is not None:
            return np.where(missing, bound.values.index(bound.default), index), np.zeros_like(missing)
        return index, missing
    if column in document.texts():
        raw = np.asarray(rows.columns[column], dtype=object)
        texts = np.array(["" if v is None or v != v else str(v)[:LONGEST_TEXT] for v in raw], dtype=f"<U{LONGEST_TEXT}")
        return texts, texts == ""
    numbers, missing = rows.numbers(column)
    if isinstance(bound, Range):
        default = bound.default
        numbers = np.clip(numbers, bound.low, bound.high)
        if default is not None:
            return np.where(missing, default, numbers), np.zeros_like(missing)
    return np.nan_to_num(numbers, nan=0.0, posinf=np.finfo(np.float64).max, neginf=np.finfo(np.float64).min), missing


def _stand_in(document: TrustedDocument, column: str) -> float:
    bound = (document.bounds or {}).get(column)
    if isinstance(bound, Range):
        return bound.middle
    return 0.0
