"""Limits on how large a featurizer may be, so that what is accepted early is not too large for the sandbox of every
owner.

The sandbox's limits (`sandbox/walls.py`) are SQLite's own; these are counted in the statement as read and lie within
them. What only rows decide (time, memory, length of a text) is not seen here.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

DEEPEST = 200  #: operators, functions and subqueries inside each other
MOST_PARTS = 4000  #: of a statement, where each use of a WITH counts as what it stands for
MOST_SELECTS = 10  #: joined by UNION, INTERSECT or EXCEPT, one after the other
MOST_COLUMNS = 250  #: in one list; what the whole statement gives is for whoever asks a store to look at
MOST_TABLES = 60  #: each use counts, and each use of a WITH counts as what it reads
MOST_ARGUMENTS = 20  #: of one function
LONGEST_PATTERN = 100  #: bytes after LIKE or GLOB, where it is written out

_WINDOW_PARTS = 60  # what one window is compiled to, compared with other parts
_NO_CALLS = (exp.Connector, exp.Case, exp.Cast, exp.Exists)  # functions to sqlglot only


def too_large(tree: exp.Expr) -> str | None:
    """Say what of a statement is larger than a sandbox takes, in words; None if nothing is."""
    size = _Size()
    try:
        parts, tables, depth, within = size.of(tree)
    except RecursionError:
        return f"is nested deeper than {DEEPEST} levels"
    if depth + within > DEEPEST:
        return f"is nested deeper than {DEEPEST} levels"
    if parts > MOST_PARTS:
        return f"has more than {MOST_PARTS} parts"
    if tables > MOST_TABLES:
        return f"reads more than {MOST_TABLES} tables"
    for node in tree.walk():
        if isinstance(node, exp.SetOperation) and _selects(node) > MOST_SELECTS:
            return f"joins more than {MOST_SELECTS} SELECTs by UNION, INTERSECT or EXCEPT"
        if any(len(found) > MOST_COLUMNS for found in _lists(node, tree)):
            return f"has more than {MOST_COLUMNS} columns or terms in one list"
        if isinstance(node, exp.Func) and not isinstance(node, _NO_CALLS):
            if len(list(node.iter_expressions())) > MOST_ARGUMENTS:
                return f"gives a function more than {MOST_ARGUMENTS} arguments"
        elif isinstance(node, (exp.Like, exp.Glob)) and _bytes(node.expression) > LONGEST_PATTERN:
            return f"has a pattern of more than {LONGEST_PATTERN} bytes"
    return None


class _Size:
    """(parts, tables, depth, depth of the subqueries within), every use of a WITH's name counted as that WITH."""

    def __init__(self) -> None:
        self._named: dict[str, tuple[int, int, int, int]] = {}

    def of(self, node: exp.Expr) -> tuple[int, int, int, int]:
        named = node.args.get("with_") or node.args.get("with")
        for common in named.expressions if named is not None else ():  # each may use those before it
            self._named[common.alias_or_name.lower()] = self.of(common.this)
        if isinstance(node, exp.Table):
            return self._named.get("" if node.db else node.name.lower(), (1, 1, 1, 0))
        inner = [self.of(part) for part in node.iter_expressions() if part is not named]
        parts, tables = (sum(found[place] for found in inner) for place in (0, 1))
        depth, within = (max((found[place] for found in inner), default=0) for place in (2, 3))
        if isinstance(node, (exp.From, exp.Join)):
            tables = max(tables, 1)
        if isinstance(node, (exp.Paren, exp.Identifier)):
            return parts, tables, depth, within
        if _in_expression(node):  # SQLite counts a subquery with the expression it stands in, and once more by itself
            within += depth
        return parts + (_WINDOW_PARTS if isinstance(node, exp.Window) else 1), tables, depth + 1, within


def _in_expression(node: exp.Expr) -> bool:
    """A query that is part of an expression: its own parent is one, and no list of tables."""
    return (
        isinstance(node, exp.Query)
        and isinstance(node.parent, (exp.Exists, exp.Subquery))
        and not isinstance(node.parent.parent, (exp.From, exp.Join))
    )


def _selects(node: exp.Expr) -> int:
    if isinstance(node, exp.SetOperation):
        return _selects(node.left) + _selects(node.right)
    return 1


def _lists(node: exp.Expr, tree: exp.Expr) -> Iterator[list[exp.Expr]]:
    if isinstance(node, (exp.Select, exp.Group, exp.Order)) and node is not tree:
        yield node.expressions
    elif isinstance(node, exp.Values):
        for row in node.expressions:
            yield row.expressions


def _bytes(pattern: object) -> int:
    return len(pattern.name.encode()) if isinstance(pattern, exp.Literal) and pattern.is_string else 0
