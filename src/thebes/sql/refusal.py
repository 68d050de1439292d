"""The refusal of a statement: the clause at fault, why, and what may stand there instead."""

from __future__ import annotations

from sqlglot import exp

from thebes.privacy.faults import Mistake

_LONGEST = 60


def refusal(part: exp.Expr | str, why: str) -> Mistake:
    """Make the refusal of a part of a statement, told as it was written."""
    told = part if isinstance(part, str) else part.sql("duckdb")
    return Mistake("sql", f"{told if len(told) <= _LONGEST else told[:_LONGEST] + '...'}: {why}")
