"""A SELECT taken apart: which data set, which rows, which groups, and what is asked of them. Everything that is not
listed here is refused, with the clause and a way out."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import errors, exp, parse

from thebes.sql.refusal import refusal

LONGEST = 20_000  #: characters
MOST_COLUMNS = 100
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_TOP = re.compile(r"\s*SELECT\s+TOP\s+(\d{1,9})\s", re.IGNORECASE)  #: what others write for LIMIT
#: names that others have for the same
_SYNONYMS: dict[str, type[exp.AggFunc]] = {
    "MEAN": exp.Avg,
    "VAR": exp.Variance,
    "VARP": exp.VariancePop,
    "STD": exp.Stddev,
    "STDEVP": exp.StddevPop,
}
_READ = {"expressions", "from", "from_", "where", "group", "having", "order", "limit", "joins", "kind"}
_WHY = {
    "with": "begins with WITH; write one SELECT over a data set",
    "with_": "begins with WITH; write one SELECT over a data set",
    "distinct": "shows which values there are; GROUP BY the column and count",
    "windows": "is not offered: every answer is over all rows of a group",
    "laterals": "is not offered: FROM names a data set, or two joined by USING (person)",
    "offset": "is not offered; ORDER BY and LIMIT choose what is shown",
    "sample": "is not offered: a sample costs as much and says less",
}


@dataclass(frozen=True)
class Statement:
    """The parts of a SELECT. `items` are what is asked, each with the name of its column."""

    text: str
    tables: Mapping[str, str]  #: the data sets that are read, by what they are called in the statement
    items: tuple[tuple[str, exp.Expr], ...]
    where: exp.Expr | None = None
    group: tuple[exp.Expr, ...] = ()
    having: exp.Expr | None = None
    order: tuple[tuple[exp.Expr, bool], ...] = ()  #: with whether it falls
    limit: int | None = None

    @property
    def datasets(self) -> tuple[str, ...]:
        """One, or two that are joined."""
        return tuple(self.tables.values())


def read_statement(text: str) -> Statement:
    """Read one SELECT, or refuse it naming the clause."""
    top = _TOP.match(text) if isinstance(text, str) else None
    tree = _tree(text if top is None else f"SELECT {text[top.end() :]}")
    for part, held in tree.args.items():
        if held and part not in _READ:
            raise refusal(part.rstrip("_").upper(), _WHY.get(part, "is not offered"))
    tables = _tables(tree)
    where, having, grouped = tree.args.get("where"), tree.args.get("having"), tree.args.get("group")
    if where is not None and where.find(exp.AggFunc):
        raise refusal(where.this, "an aggregate in WHERE; HAVING may hold it")
    if grouped is not None and any(held for part, held in grouped.args.items() if part != "expressions"):
        raise refusal("GROUP BY", "takes columns only: no ROLLUP, CUBE, GROUPING SETS or ALL")
    if len(tree.expressions) > MOST_COLUMNS:
        raise refusal("SELECT", f"asks for {len(tree.expressions)} columns; at most {MOST_COLUMNS}")
    return Statement(
        text=text,
        tables=tables,
        items=tuple(_named(item) for item in tree.expressions),
        where=None if where is None else where.this,
        group=tuple(grouped.expressions) if grouped is not None else (),
        having=None if having is None else having.this,
        order=tuple((one.this, bool(one.args.get("desc"))) for one in _ordered(tree)),
        limit=_limit(tree) if top is None else _both(top, tree),
    )


def _tree(text: str) -> exp.Select:
    logging.getLogger("sqlglot").setLevel(logging.CRITICAL)  # it would print the text
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise refusal("text", 'must be a SELECT such as "SELECT ward, AVG(age) FROM patients GROUP BY ward"')
    if len(text) > LONGEST:
        raise refusal("text", f"is longer than {LONGEST} characters")
    try:
        text.encode()
        trees = [tree for tree in parse(text, read="duckdb") if tree is not None]
    except (errors.SqlglotError, RecursionError, ValueError) as error:
        near = next((each.get("highlight") for each in getattr(error, "errors", ())), None)
        where = f", at {near!r}; a name that is also a word of SQL is written in double quotes" if near else ""
        raise refusal("text", f"is not SQL that can be read{where}") from None
    if len(trees) != 1:
        raise refusal("text", "must be exactly one statement")
    (tree,) = trees
    if not isinstance(tree, exp.Select):
        raise refusal(type(tree).__name__.upper(), "is not offered; write one SELECT over a data set")
    if (
        next(tree.find_all(exp.Subquery, exp.Window, exp.Filter), None) is not None
        or len([*tree.find_all(exp.Select)]) > 1
    ):
        raise refusal("text", "holds a query in a query, OVER or FILTER; write one SELECT, and CASE WHEN for a filter")
    made = tree.transform(_known)
    assert isinstance(made, exp.Select)  # noqa: S101
    return made


def _tables(tree: exp.Select) -> dict[str, str]:
    """Return the data set after FROM and the one that it is joined with, if any, by what they are called."""
    source, joins = tree.args.get("from_") or tree.args.get("from"), tree.args.get("joins") or []
    if len(joins) > 1:
        raise refusal("JOIN", "of more than two data sets is not offered")
    tables = dict([_table("FROM", None if source is None else source.this)])
    for each in joins:
        _of_people(each)
        called, name = _table("JOIN", each.this)
        if called in tables:
            raise refusal(each, f"calls two data sets {called!r}; a data set is joined with another one")
        tables[called] = name
    return tables


def _table(clause: str, table: exp.Expr | None) -> tuple[str, str]:
    if isinstance(table, exp.Table) and isinstance(table.this, exp.Identifier):  # FROM f(x) is a table, too
        odd = {part for part, held in table.args.items() if held} - {"this", "alias"}
        if not odd and _NAME.fullmatch(table.name):  # FROM '/a/file' is a quoted name to the parser
            name = str(table.name if table.this.args.get("quoted") else table.name.lower())
            return (table.alias or name).lower(), name
    raise refusal(clause, "must name one data set, and nothing else: no query, function, file or sample")


def _of_people(one: exp.Join) -> None:
    """Refuse a join that is not of each person's rows with the same person's."""
    kind = " ".join(str(one.args[part]) for part in ("method", "side", "kind") if one.args.get(part)).upper()
    if kind not in ("", "INNER"):
        raise refusal(f"{kind} JOIN", "is not offered: JOIN keeps people who are in both data sets")
    using = [part.name.lower() for part in one.args.get("using") or []]
    odd = {part for part, held in one.args.items() if held} - {"this", "using", "kind"}
    if using != ["person"] or odd:
        raise refusal(one, "joins by something else than the person; write JOIN dataset USING (person)")


def _named(item: exp.Expr) -> tuple[str, exp.Expr]:
    if isinstance(item, exp.Alias):
        return item.alias, item.this
    return (item.name if isinstance(item, exp.Column) else item.sql("duckdb").lower()), item


def _ordered(tree: exp.Select) -> list[exp.Expr]:
    order = tree.args.get("order")
    return [] if order is None else list(order.expressions)


def _known(node: exp.Expr) -> exp.Expr:
    """Call an aggregate by the name that everything here knows, and a constant by its number."""
    if isinstance(node, exp.Pi):
        return exp.Literal.number(repr(math.pi))
    if isinstance(node, exp.Anonymous) and len(node.expressions) == 1:
        made = _SYNONYMS.get(str(node.this).upper())
        return node if made is None else made(this=node.expressions[0])
    return node


def _both(top: re.Match[str], tree: exp.Select) -> int:
    if tree.args.get("limit") is not None:
        raise refusal("TOP", "stands beside LIMIT, which says the same; leave one out")
    return int(top[1])


def _limit(tree: exp.Select) -> int | None:
    limit = tree.args.get("limit")
    if limit is None:
        return None
    number = limit.args.get("expression")
    if not isinstance(number, exp.Literal) or number.is_string or not number.name.isdecimal():
        raise refusal("LIMIT", "must be a whole number")
    return int(number.name)
