"""An OpenSpecimen for tests: sessions and the query interface, with the answers of its published source.

Its AQL is what `select ... where ... order by ... limit` needs; conditions are decided as SQL decides them, over text
without regard to case, as most of its databases do.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from tests.support.web import Call, Reply, WebServer

MASK = "##########"

Value = str | int | float | bool | None


@dataclass
class User:
    """Somebody who may sign in. `queries`: they may read queries; `phi`: they see what identifies people."""

    password: str
    queries: bool = True
    phi: bool = True


@dataclass
class Bank:
    """A bank of what is kept: the type of every field, the rows, and which fields identify people."""

    fields: Mapping[str, str]
    rows: list[dict[str, Value]]
    identifying: frozenset[str] = field(default_factory=frozenset)


class OpenSpecimenServer(WebServer):
    """Everything lies under /openspecimen/rest/ng. A session answers `lasts` questions; the next `busy` queries are
    one too many for it."""

    def __init__(self, bank: Bank, **more: Any) -> None:
        self.bank = bank
        self.password = secrets.token_urlsafe(12)
        self.users = {"reader": User(self.password)}
        self.sessions: dict[str, str] = {}
        self.lasts: int | None = None
        self.busy = 0
        self._used: dict[str, int] = {}
        super().__init__(**more)

    @property
    def url(self) -> str:
        return f"{self.address}/openspecimen"

    @property
    def queries(self) -> list[dict[str, Any]]:
        """Every query that was asked."""
        return [json.loads(call.body) for call in self.calls if call.path.endswith("/query") and call.method == "POST"]

    def sign_in(self, name: str = "reader") -> str:
        """The token of a session that somebody opened elsewhere."""
        token = secrets.token_hex(16)
        self.sessions[token] = name
        return token

    def answer(self, call: Call) -> Reply:
        prefix = "/openspecimen/rest/ng"
        if not call.path.startswith(prefix):
            return Reply.page(404, "Not Found")
        path = call.path.removeprefix(prefix)
        if path == "/sessions" and call.method == "POST":
            return self._login(json.loads(call.body))
        token = call.headers.get("x-os-api-token", "")
        self._used[token] = self._used.get(token, 0) + 1
        if token not in self.sessions or (self.lasts is not None and self._used[token] > self.lasts):
            said = "You must supply valid credentials to access the OpenSpecimen REST API"
            return Reply.page(401, said, headers={"WWW-Authenticate": 'Basic realm="OpenSpecimen"'})
        if path == "/sessions" and call.method == "DELETE":
            del self.sessions[token]
            return Reply.of(200, {"Status": "Success"})
        if path == "/query" and call.method == "POST":
            return self._query(json.loads(call.body), self.users[self.sessions[token]])
        return Reply.page(404, "Not Found")

    def _login(self, body: Mapping[str, Any]) -> Reply:
        user = self.users.get(str(body.get("loginName")))
        if user is None or user.password != body.get("password") or body.get("domainName") != "openspecimen":
            return _wrong("AUTH_INVALID_CREDENTIALS", "Invalid login name or password", 401)
        name = str(body["loginName"])
        return Reply.of(200, {"id": 7, "loginName": name, "token": self.sign_in(name), "admin": False})

    def _query(self, body: Mapping[str, Any], user: User) -> Reply:
        if not user.queries:
            return _wrong("RBAC_ACCESS_DENIED", "Access denied", 401)
        if self.busy:
            self.busy -= 1
            return _wrong("QUERY_TOO_BUSY", "Too many queries are running")
        try:
            query = _Query(str(body["aql"]), self.bank.fields)
            rows = [row for row in self.bank.rows if body.get("cpId") in (None, row.get("CollectionProtocol.id"))]
            rows = [row for row in rows if query.holds(row) is True]
        except _Malformed as error:
            return _wrong("QUERY_MALFORMED", f"Query is malformed: {error}")
        if query.order is not None:
            rows.sort(key=lambda row: _key(row.get(str(query.order))))
        shown = [[row.get(name) for name in query.select] for row in rows]
        if query.distinct:
            shown = [list(row) for row in dict.fromkeys(tuple(row) for row in shown)]
        start, count = query.limit
        shown = shown[start : start + count]
        masked = self.bank.identifying if not user.phi else frozenset()
        written = [
            [MASK if name in masked else _written(value) for name, value in zip(query.select, row, strict=True)]
            for row in shown
        ]
        expressions = body.get("outputColumnExprs") is True
        return Reply.of(
            200,
            {
                "columnMetadata": [{"expr": name, "aggregate": False} for name in query.select],
                "columnLabels": [name if expressions else name.replace(".", "# ") for name in query.select],
                "columnTypes": [self.bank.fields[name] for name in query.select],
                "columnUrls": [None] * len(query.select),
                "rows": written,
                "columnIndices": None,
                "dbRowsCount": len(written),
            },
        )


def _wrong(code: str, message: str, status: int = 400) -> Reply:
    return Reply.of(status, [{"code": code, "message": message}])


def _key(value: Value) -> tuple[bool, Any]:
    return (value is not None, value)


def _written(value: Value) -> str | None:
    """A value as an answer holds it: all is text, numbers with two decimals unless they are whole."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    number = Decimal(repr(value))
    whole = number == number.to_integral_value()
    return str(number.quantize(Decimal(1) if whole else Decimal("0.01"), rounding=ROUND_HALF_UP))


# --- AQL ---------------------------------------------------------------------------------------------------


class _Malformed(ValueError):
    """The text is not AQL, or names a field that there is not."""


_TOKENS = re.compile(
    r"""\s*(?:(?P<text>"(?:\\["\\]|[^"\\])*")|(?P<word>not\ in|not\ exists|starts\ with|order\ by|in|exists|contains"""
    r"""|select|distinct|where|and|or|not|limit|asc|desc|between)(?![\w.])|(?P<field>[A-Za-z_]\w*(?:\.\w+)+)"""
    r"""|(?P<number>-?\d+(?:\.\d+)?)|(?P<sign>!=|<=|>=|=|<|>)|(?P<mark>[(),]))"""
)


class _Query:
    """One query; `holds` decides a row: True, False, or None where SQL does not know."""

    def __init__(self, aql: str, fields: Mapping[str, str]) -> None:
        self._fields = fields
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(aql.rstrip()):
            found = _TOKENS.match(aql, at)
            if found is None or found.lastgroup is None:
                raise _Malformed(f"token recognition error at position {at}")
            self._tokens.append((found.lastgroup, found[found.lastgroup]))
            at = found.end()
        self._at = 0
        self._need("select")
        self.distinct = self._is("distinct")
        self.select = [self._field()]
        while self._is(","):
            self.select.append(self._field())
        self._need("where")
        self.holds = self._either()
        self.order = self._field() if self._is("order by") else None
        if self._is("desc"):
            raise _Malformed("this one sorts upwards only")
        self._is("asc")
        self.limit = (0, 10_000)
        if self._is("limit"):
            first = int(self._next("number"))
            self.limit = (first, int(self._next("number"))) if self._is(",") else (0, first)
        if self._at != len(self._tokens):
            raise _Malformed("extraneous input")

    def _next(self, kind: str) -> str:
        if self._at >= len(self._tokens) or self._tokens[self._at][0] != kind:
            raise _Malformed(f"missing {kind}")
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _is(self, text: str) -> bool:
        found = self._at < len(self._tokens) and self._tokens[self._at] in (("word", text), ("mark", text))
        self._at += found
        return found

    def _need(self, text: str) -> None:
        if not self._is(text):
            raise _Malformed(f"missing {text}")

    def _field(self) -> str:
        name = self._next("field")
        if name not in self._fields:
            raise _Malformed(f"Invalid field {name}")
        return name

    def _either(self) -> Callable[[Mapping[str, Value]], bool | None]:
        parts = [self._every()]
        while self._is("or"):
            parts.append(self._every())
        return parts[0] if len(parts) == 1 else lambda row: _or([part(row) for part in parts])

    def _every(self) -> Callable[[Mapping[str, Value]], bool | None]:
        parts = [self._part()]
        while self._is("and"):
            parts.append(self._part())
        return parts[0] if len(parts) == 1 else lambda row: _not(_or([_not(part(row)) for part in parts]))

    def _part(self) -> Callable[[Mapping[str, Value]], bool | None]:
        if self._is("not"):
            inner = self._part()
            return lambda row: _not(inner(row))
        if self._is("("):
            found = self._either()
            self._need(")")
            return found
        name = self._field()
        if self._is("exists"):
            return lambda row: row.get(name) is not None
        if self._is("not exists"):
            return lambda row: row.get(name) is None
        if self._is("in"):
            listed = self._listed()
            return lambda row: _or([_sql(row.get(name), "=", value) for value in listed])
        if self._is("not in"):
            listed = self._listed()
            return lambda row: _not(_or([_sql(row.get(name), "=", value) for value in listed]))
        sign = self._next("sign")
        value = self._literal()
        return lambda row: _sql(row.get(name), sign, value)

    def _listed(self) -> list[Value]:
        self._need("(")
        found = [self._literal()]
        while self._is(","):
            found.append(self._literal())
        self._need(")")
        return found

    def _literal(self) -> Value:
        if self._at < len(self._tokens) and self._tokens[self._at][0] == "text":
            return re.sub(r"\\(.)", r"\1", self._next("text")[1:-1])
        written = self._next("number")
        return float(written) if "." in written else int(written)


def _or(values: Sequence[bool | None]) -> bool | None:
    return True if True in values else None if None in values else False


def _not(value: bool | None) -> bool | None:
    return None if value is None else not value


def _sql(left: Value, sign: str, right: Value) -> bool | None:
    if left is None:
        return None
    if isinstance(left, str) is not isinstance(right, str):
        raise _Malformed("a field and a value of another type")
    a: Any = left.casefold().rstrip() if isinstance(left, str) else left
    b: Any = right.casefold().rstrip() if isinstance(right, str) else right
    return bool({"=": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[sign])
