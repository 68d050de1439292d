"""The expressions of what is added up: a term's product of factors, and the place of a value among others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import narwhals.stable.v2 as nw

from thebes.data.table import Factor, Term


def place_of(number: nw.Expr, values: Sequence[float]) -> nw.Expr:
    """Find which of these values a number is."""
    found: nw.Expr = nw.lit(-1)
    for n in reversed(range(len(values))):
        found = nw.when(number == values[n]).then(nw.lit(n)).otherwise(found)
    return found.cast(nw.Int64)


def share_name(factor: Factor) -> str:
    return f"_f{factor.degree}{factor.place}_{factor.column}"


def product_of(term: Term) -> nw.Expr:
    return reduce(lambda a, b: a * b, (nw.col(share_name(factor)) for factor in term.factors), nw.col("_one"))
