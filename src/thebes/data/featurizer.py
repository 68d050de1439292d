"""Reading a featurizer without running it: which tables and columns it touches, what it gives.

Only one SELECT (or WITH ... SELECT, or VALUES) over `collector.table` names passes, with functions from one
list. This is what people are shown and what is checked early; the sandbox that runs it checks again.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from thebes.privacy.faults import Mistake

LARGEST = 20_000  #: characters of SQL

#: SQLite functions that read nothing but their arguments and cannot grow without bound. Of the date functions,
#: 'now' is the one argument that makes the answer depend on the day.
FUNCTIONS = frozenset(
    name
    for line in (
        "abs avg cast ceil ceiling coalesce count date datetime exists exp first_value floor ifnull iif instr",
        "julianday last_value length like ln log log10 log2 lower ltrim max min mod nullif pow power round",
        "row_number rank dense_rank lag lead ntile rtrim sign sqrt strftime substr substring sum time total",
        "trim trunc typeof unicode unixepoch upper case if and or",
    )
    for name in line.split()
)


#: what else a statement may be made of (names of sqlglot's nodes)
PARTS = frozenset(
    name
    for line in (
        "Select From Where Group Having Order Ordered Limit Offset Join Table TableAlias Identifier Column Alias Star",
        "Literal Null Boolean Paren Tuple Subquery CTE With Union Intersect Except Values Distinct Window WindowSpec",
        "Var DataType Cast Case If And Or Not EQ NEQ GT GTE LT LTE Is In Between Like Glob Escape Neg Add Sub Mul Div",
        "DPipe BitwiseAnd BitwiseOr BitwiseNot BitwiseLeftShift BitwiseRightShift Collate Filter",
        "Mod NullSafeEQ NullSafeNEQ",
    )
    for name in line.split()
)


#: sqlglot's own names for max and min of several values, and for instr
_OTHER_NAMES = frozenset(("greatest", "least", "str_position"))
_BEFORE_PARENTHESES = frozenset(
    name
    for line in (
        "all as between by distinct else escape except filter from glob having in intersect is join limit not",
        "offset on order over partition select then union using values when where with",
    )
    for name in line.split()
)


@dataclass(frozen=True, slots=True)
class Featurizer:
    """A featurizer as read: `tables` maps "collector.table" to the columns named in it, `outputs` are what it gives."""

    sql: str
    tables: dict[str, tuple[str, ...]]
    outputs: tuple[str, ...]
    #: every row is looked at by itself: one plain table, no grouping, ordering, limit or subquery
    row_by_row: bool
    #: outputs that are one column as it stands, and which
    straight: dict[str, str] = field(default_factory=dict)
    #: outputs that are the same in every row of everybody: all that they tell is that there is a row
    constant: frozenset[str] = frozenset()


def _refuse(message: str) -> Mistake:
    return Mistake("featurizer", message)


@lru_cache(maxsize=256)
def read(sql: str) -> Featurizer:
    """Read `sql` or refuse it with the reason; nothing is executed."""
    import sqlglot
    from sqlglot import exp

    from thebes.data.extent import too_large

    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # it would print the statement
    if not isinstance(sql, str) or not sql.strip() or "\0" in sql:
        raise _refuse("must be an SQL SELECT")
    if len(sql) > LARGEST:
        raise _refuse(f"must not be longer than {LARGEST} characters")
    try:
        sql.encode()
        statements = [s for s in sqlglot.parse(sql, read="sqlite") if s is not None]
    except (sqlglot.errors.SqlglotError, RecursionError, ValueError):
        raise _refuse("is not SQL that SQLite understands") from None
    if len(statements) != 1:
        raise _refuse("must be exactly one statement")
    tree = statements[0]
    if not isinstance(tree, (exp.Select, exp.SetOperation, exp.Values)):
        raise _refuse("must be a SELECT; it may only read")
    if any(tree.find_all(exp.Insert, exp.Update, exp.Delete, exp.Create, exp.Drop, exp.Command, exp.Pragma)):
        raise _refuse("may only read")
    with_ = tree.args.get("with_") or tree.args.get("with")
    if with_ is not None and with_.args.get("recursive"):
        raise _refuse("may not use WITH RECURSIVE")
    _check_calls(sql, {cte.alias_or_name.lower() for cte in tree.find_all(exp.CTE)})
    for node in tree.walk():
        if type(node).__name__ in PARTS or _is_date(node):
            continue
        if not isinstance(node, exp.Func):
            raise _refuse(f"may not contain {_spelled(node)}")
        name = node.name if isinstance(node, exp.Anonymous) else node.sql_name()
        if name.lower() not in FUNCTIONS | _OTHER_NAMES:
            raise _refuse(f"may not call {name.lower()[:40]}()")
    if any(tree.find_all(exp.Star)) and not all(isinstance(s.parent, exp.Count) for s in tree.find_all(exp.Star)):
        raise _refuse("must name its columns instead of *")
    beyond = too_large(tree)
    if beyond is not None:
        raise _refuse(f"{beyond}; owners' sandboxes take nothing larger")
    outputs = _outputs(tree)
    if not outputs:
        raise _refuse("must give at least one column")
    return Featurizer(sql, _tables(tree), outputs, _row_by_row(tree), _straight(tree), _constant(tree))


def _check_calls(sql: str, temporary: set[str]) -> None:
    """Every word before a parenthesis, as it is written, is a function on the list or a word of SQL's own."""
    import sqlglot
    from sqlglot.tokenizer_core import TokenType

    for word, following in pairwise(sqlglot.tokenize(sql, read="sqlite")):
        name = word.text.lower()
        if following.token_type is TokenType.L_PAREN and name[:1].isalpha() and name not in _BEFORE_PARENTHESES:
            if word.token_type is TokenType.STRING or name in temporary or name in FUNCTIONS:
                continue
            raise _refuse(f"may not call {name[:40]}()")


def _is_date(node: object) -> bool:
    # What sqlglot makes of SQLite's date functions.
    from sqlglot import exp

    return isinstance(node, (exp.TimeToStr, exp.TsOrDsToDate, exp.TsOrDsToTimestamp))


def _spelled(node: object) -> str:
    # A node's class in words: "TableSample" -> "table sample".
    return "".join(f" {c.lower()}" if c.isupper() else c for c in type(node).__name__).strip()


def _tables(tree: object) -> dict[str, tuple[str, ...]]:
    from sqlglot import exp

    assert isinstance(tree, exp.Expression)  # noqa: S101
    temporary = {cte.alias_or_name.lower() for cte in tree.find_all(exp.CTE)}
    named: dict[str, set[str]] = {}
    alias_of: dict[str, str] = {}
    for table in tree.find_all(exp.Table):
        if not table.db and table.name.lower() in temporary:
            continue
        if not table.db or table.catalog:
            raise _refuse(f"must name tables as collector.table, not {table.sql(dialect='sqlite')[:80]!r}")
        if table.db.lower() in ("main", "temp") or table.name.lower().startswith("sqlite_"):
            raise _refuse("may read collectors' tables only, not the store's own")
        full = f"{table.db}.{table.name}"
        named.setdefault(full, set())
        alias_of[table.alias_or_name.lower()] = full
    for column in tree.find_all(exp.Column):
        if column.table:
            full_name = alias_of.get(column.table.lower())
            if full_name is not None:
                named[full_name].add(column.name)
        else:
            for columns in named.values():
                columns.add(column.name)
    return {table: tuple(sorted(columns)) for table, columns in sorted(named.items())}


def _outputs(tree: object) -> tuple[str, ...]:
    from sqlglot import exp

    assert isinstance(tree, (exp.Query, exp.Values))  # noqa: S101
    if isinstance(tree, exp.Values):
        first = tree.expressions[0]
        width = len(first.expressions) if isinstance(first, exp.Tuple) else 1
        return tuple(f"column{i + 1}" for i in range(width))
    names = tuple(
        e.alias_or_name if isinstance(e, (exp.Column, exp.Alias)) else e.sql(dialect="sqlite") for e in tree.selects
    )
    if not names:
        raise _refuse("must give at least one column")
    if len(set(names)) != len(names):
        raise _refuse("gives two columns of the same name; rename one with AS")
    return names


def _straight(tree: object) -> dict[str, str]:
    from sqlglot import exp

    if not isinstance(tree, exp.Select):
        return {}
    plain = [(e.alias_or_name, e.this if isinstance(e, exp.Alias) else e) for e in tree.selects]
    return {name: column.name for name, column in plain if isinstance(column, exp.Column)}


def _constant(tree: object) -> frozenset[str]:
    from sqlglot import exp

    if not isinstance(tree, exp.Select):
        return frozenset()
    says = (exp.Column, exp.AggFunc, exp.Window, exp.Query, exp.Exists, exp.Anonymous)
    plain = [(e, e.this if isinstance(e, exp.Alias) else e) for e in tree.selects]
    return frozenset(
        e.alias_or_name if isinstance(e, exp.Alias) else e.sql(dialect="sqlite")
        for e, inner in plain
        if not any(inner.find_all(*says))
    )


def _row_by_row(tree: object) -> bool:
    from sqlglot import exp

    if not isinstance(tree, exp.Select) or len(list(tree.find_all(exp.Table))) != 1:
        return False
    if any(
        tree.args.get(part) for part in ("group", "having", "order", "limit", "offset", "distinct", "joins", "with_")
    ):
        return False
    if any(tree.find_all(exp.AggFunc, exp.Window, exp.Subquery, exp.Exists)):
        return False
    if any(call.name.lower() == "total" for call in tree.find_all(exp.Anonymous)):  # an aggregate, but not to sqlglot
        return False
    return len(list(tree.find_all(exp.Select))) == 1
