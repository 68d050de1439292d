"""Limits of what can be added up exactly."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from thebes.data.schema import Schema
from thebes.data.table import Axis, Sums
from thebes.privacy.faults import Mistake

MOST_BITS = 52  #: of one row's product: still exact as a double
MOST_CELLS = 1_000_000


def check_sums(schema: Schema, wanted: Sums) -> None:
    """Refuse sums of columns that cannot be added up, and sums that would not be exact."""
    if not wanted.terms:
        raise Mistake("terms", "must name at least one number to add up")
    check_axes(schema, wanted.axes)
    if wanted.units and any(term.factors for term in wanted.terms):
        raise Mistake("terms", "of units are counts: a unit has no number of its own")
    if wanted.units and any(axis.missing for axis in wanted.axes):
        raise Mistake("axes", "of units have no cell for missing values: a unit's rows may lie there and elsewhere")
    if wanted.cells > MOST_CELLS:
        raise Mistake("axes", f"must have at most {MOST_CELLS} cells together")
    for term in wanted.terms:
        for factor in term.factors:
            if not schema.column(factor.column).ranged:
                raise Mistake("terms", f"{factor.column!r} has no bounds and cannot be added up")
            if factor.degree not in (1, 2) or not 0 <= factor.place <= factor.degree:
                raise Mistake("terms", "a factor's degree is 1 or 2, and its place is at most that")
        if len(term.factors) * wanted.bits > MOST_BITS or (2 * wanted.bits + 1 > MOST_BITS and term.factors):
            raise Mistake("bits", f"times the factors of a term must be at most {MOST_BITS}")


def check_axes(schema: Schema, axes: Sequence[Axis]) -> None:
    """Refuse axes that do not divide all rows that may count."""
    for axis in axes:
        column = schema.column(axis.column)
        if (axis.values is None) is (axis.edges is None):
            raise Mistake("axes", "an axis has either values or edges")
        if axis.edges is not None:
            ends = (axis.edges[0], axis.edges[-1]) if len(axis.edges) > 1 else None
            if ends != (column.low, column.high) or any(a >= b for a, b in pairwise(axis.edges)):
                raise Mistake("axes", f"the edges of {axis.column!r} must rise from its low to its high")
