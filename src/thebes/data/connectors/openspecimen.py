"""Rows of an OpenSpecimen server, through its query interface: a user who may read queries is all it takes.

Rows are read in the order of one record's number, each page after the last number of the one before, so that a record
that comes or goes meanwhile moves no other. All rows of one record come in one page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from thebes.data.connectors.connector import Columns, Held, SourceUnavailable, read_source, secret_of
from thebes.data.connectors.remote_filter import Leaf, joined, narrowed
from thebes.data.connectors.web import ServerAnswer, Web, WebSource
from thebes.data.filter import Compared, Operator, Present, RowFilter
from thebes.privacy.faults import Mistake

MASK = "##########"  #: what OpenSpecimen shows in place of what its user may not see

_FIELD = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_?]\w*\??_?)+")
#: text that needs no escape and is nowhere else than in its quotes
_PLAIN = re.compile(r"[^\W_](?:[\w .,:+/()-]*[\w.+)-])?")
_EXACT = 2**53


class OpenSpecimenSource(WebSource):
    """A server's rows. `url` is its address without /rest/ng, `user` with a password signs in (a `token` is one of a
    session that somebody opened); `columns` gives each column of the data set its field, as queries name it
    (Participant.gender); `row` is the field that numbers the records (Specimen.id), `protocol` the number of the
    collection protocol they belong to, and `condition`, in AQL, says which of them are meant."""

    kind: Literal["openspecimen"]
    user: str | None = None
    domain: str = "openspecimen"
    password_env: str | None = None
    password_file: str | None = None
    token_env: str | None = None
    token_file: str | None = None
    columns: dict[str, str] = Field(min_length=1)
    row: str
    form: str | None = None  #: the form that queries start from (Participant unless said otherwise)
    protocol: int | None = None
    condition: str | None = Field(default=None, max_length=4000)


def open_openspecimen(source: Mapping[str, Any], *, folder: Path) -> OpenSpecimen:
    """Open a server. Nothing is asked yet."""
    read = read_source(OpenSpecimenSource, source)
    for name, field in {**read.columns, "row": read.row}.items():
        if not _FIELD.fullmatch(field):
            where = "source.row" if field is read.row else f"source.columns.{name}"
            raise Mistake(where[:120], "must be a field as queries name it, such as Participant.gender")
    password = secret_of(read.password_env, read.password_file, field="password", folder=folder)
    token = secret_of(read.token_env, read.token_file, field="token", folder=folder)
    if (read.user is None) is not (password is None) or (token is None) is (password is None):
        raise Mistake(
            "source.user", "needs a password (source.password_file or source.password_env), or give a token instead"
        )
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        raise Mistake("source.token_file", "must hold the token of a session and nothing else")
    return OpenSpecimen(read, password, token, Web(read, name="OpenSpecimen", folder=folder))


class OpenSpecimen:
    """A `Connector`."""

    def __init__(self, source: OpenSpecimenSource, password: str | None, token: str | None, web: Web) -> None:
        self._source, self._password, self._token, self._web = source, password, token, web
        self._base = "" if web.url.endswith("/rest/ng") else "/rest/ng"

    def columns(self) -> Mapping[str, Held]:
        self._types(list(self._source.columns))
        return dict.fromkeys(self._source.columns, "text")

    def batches(self, columns: Sequence[str], where: RowFilter | None = None) -> Iterator[Columns]:
        for name in columns:
            if name not in self._source.columns:
                raise Mistake("columns", f"source.columns names no field for {name[:63]!r}")
        named = list(dict.fromkeys((*columns, *([] if where is None else where.columns))))
        types = self._types(named or list(self._source.columns))
        aql = narrowed(where, lambda leaf: self._aql(leaf, types))
        wanted = list(columns) or list(self._source.columns)[:1]  # rows are counted by something
        last, more = 0, True
        while more:
            rows, more = self._page(wanted, aql, last)
            if rows:
                last = rows[-1][0]
                yield {name: [row[1][at] for row in rows] for at, name in enumerate(wanted)}

    def close(self) -> None:
        if self._password is not None and self._token is not None:
            shown = {"X-OS-API-TOKEN": self._token}
            with suppress(SourceUnavailable):  # it ends by itself, too; what was read was read
                self._web.ask(f"{self._base}/sessions", method="DELETE", headers=shown, tries=1)
            self._token = None
        self._web.close()

    # --- what is asked ----------------------------------------------------------------------------------

    def _types(self, names: Sequence[str]) -> dict[str, str]:
        """Look up what OpenSpecimen holds in each of these columns; a column that it does not know is named."""
        answer = self._query(names, f" and {self._source.row} < 0", 0, rows=1)  # of no row
        if answer.status == 400 and len(names) > 1:
            for name in names:
                self._types([name])
        if answer.status == 400:
            (name, *_), field = names, self._source.columns[names[0]]
            raise Mistake(
                f"source.columns.{name}"[:120],
                f"OpenSpecimen does not answer about {field[:120]!r}: it knows no such field, its user may not read "
                f"it, or source.row, source.form or source.condition cannot be read",
            )
        heard = self._known(answer, len(names)).get("columnTypes")
        types = heard if isinstance(heard, list) and len(heard) == len(names) + 1 else [None] * (len(names) + 1)
        own, *others = (str(kind).upper() for kind in types)
        if own in ("STRING", "BOOLEAN", "DATE"):
            raise Mistake("source.row", "must be the field that numbers the records, such as Specimen.id")
        return dict(zip(names, others, strict=True))

    def _page(self, names: Sequence[str], aql: str | None, last: int) -> tuple[list[tuple[int, list[Any]]], bool]:
        """Rows after record number `last`, with it, and whether there are more."""
        limit = self._source.page
        while True:
            rows, more = self._rows(names, aql, last, limit)
            if not more:
                return rows, False
            whole = [row for row in rows if row[0] != rows[-1][0]]  # of the last record there may be more
            if whole:
                return whole, True
            limit *= 2

    def _rows(
        self, names: Sequence[str], aql: str | None, last: int, limit: int
    ) -> tuple[list[tuple[int, list[Any]]], bool]:
        """At most `limit` rows, no two alike, and whether it stopped there."""
        answer = self._query(names, f" and {aql}" if aql else "", last, rows=limit)
        if answer.status == 400:
            raise self._web.away("refuses the question or took too long; ask for fewer records with source.page")
        body = self._known(answer, len(names))
        rows: dict[tuple[Any, ...], tuple[int, list[Any]]] = {}
        least = last + 1
        for number, *values in body["rows"]:
            if not isinstance(number, str) or not number.isdecimal() or int(number) < least:
                raise self._web.away("numbers its records in another way than source.row says")
            if MASK in values:
                hidden = names[values.index(MASK)]
                raise self._web.away(f"hides {hidden!r} from its user, who may not read what identifies people")
            least = int(number)
            rows.setdefault((number, *values), (least, values))
        return list(rows.values()), max(len(body["rows"]), _count(body.get("dbRowsCount"))) >= limit

    def _query(self, names: Sequence[str], condition: str, last: int, *, rows: int) -> ServerAnswer:
        source = self._source
        fields = ", ".join([source.row, *(source.columns[name] for name in names)])
        own = f" and ({source.condition})" if source.condition else ""
        aql = (
            f"select distinct {fields} where {source.row} > {last}{own}{condition} "
            f"order by {source.row} asc limit 0, {rows}"
        )
        body: dict[str, Any] = {
            "aql": aql,
            "wideRowMode": "OFF",
            "runType": "Data",
            "outputColumnExprs": True,
            "outputIsoDateTime": True,
            "caseSensitive": True,
        }
        if source.form is not None:
            body["drivingForm"] = source.form
        if source.protocol is not None:
            body["cpId"] = source.protocol
        return self._signed_in("/query", body)

    def _signed_in(self, path: str, body: Mapping[str, Any]) -> ServerAnswer:
        """The answer to one question; a session that ran out is opened again."""
        fresh = self._token is None
        for again in (not fresh and self._password is not None, False):
            token = self._token = self._token or self._session()
            answer = self._web.ask(self._base + path, body=body, headers={"X-OS-API-TOKEN": token}, busy=_busy)
            if answer.status != 401 or not again:
                break
            self._token = None
        if answer.status in (401, 403):
            raise self._web.away("does not accept its user any more, or they may not read queries there")
        if answer.status == 404:
            raise self._web.away("has no query interface at source.url; it often ends with /openspecimen")
        if answer.status not in (200, 400):
            raise self._web.away(f"refuses the question ({answer.status})")
        return answer

    def _session(self) -> str:
        body = {"loginName": self._source.user, "password": self._password, "domainName": self._source.domain}
        answer = self._web.ask(f"{self._base}/sessions", body=body)
        token = answer.body.get("token") if isinstance(answer.body, Mapping) else None
        if answer.status in (400, 401, 403):
            raise self._web.away("does not accept its user's name and password")
        if answer.status != 200 or not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise self._web.away("opens no session; source.url often ends with /openspecimen")
        return token

    def _known(self, answer: ServerAnswer, columns: int) -> dict[str, Any]:
        """An answer with rows of the number itself and `columns` values, each a text or missing."""
        body = answer.body
        rows = body.get("rows") if isinstance(body, dict) else None
        if not isinstance(rows, list) or not all(
            isinstance(row, list) and len(row) == columns + 1 and all(v is None or isinstance(v, str) for v in row)
            for row in rows
        ):
            raise self._web.away("answers with something that is not what its query interface says")
        return dict(body)

    # --- what OpenSpecimen is asked to leave out ------------------------------------------------------------

    def _aql(self, leaf: Leaf, types: Mapping[str, str]) -> str | None:
        field = self._source.columns.get(leaf.column)
        if field is None:
            return None
        if isinstance(leaf, Present):
            return f"{field} exists" if leaf.there else None
        if isinstance(leaf, Compared):
            return _compared(field, types.get(leaf.column), leaf.operator, leaf.value)
        operator: Operator = "=" if leaf.inside else "<>"
        parts = [_compared(field, types.get(leaf.column), operator, value) for value in leaf.values]
        known = [part for part in parts if part is not None]
        return joined("or" if leaf.inside else "and", known) if known and len(known) == len(parts) else None


def _compared(field: str, kind: str | None, operator: Operator, value: object) -> str | None:
    """One comparison in AQL, or None where the database may see it differently: it may compare text without case, it
    holds more decimals than it shows, and its dates are written as that installation writes them."""
    if isinstance(value, (bool, datetime)):
        return None
    if isinstance(value, int) and kind == "INTEGER" and abs(value) <= _EXACT:
        return f"{field} {'!=' if operator == '<>' else operator} {value}"
    if isinstance(value, str) and kind == "STRING" and operator == "=" and _PLAIN.fullmatch(value):
        return f'{field} = "{value}"'
    return None


def _busy(answer: ServerAnswer) -> bool:
    """Return whether it answers that too many others ask just now."""
    first = answer.body[0] if isinstance(answer.body, list) and answer.body else None
    return answer.status == 400 and isinstance(first, Mapping) and first.get("code") == "QUERY_TOO_BUSY"


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
