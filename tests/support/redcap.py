"""A REDCap for tests: its API as it is published, for one project, with the answers that its users report.

It speaks JSON only and exports only. Logic is understood as far as comparisons with `and`, `or` and parentheses go,
and compares as PHP 8 does.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from tests.support.web import Call, Reply, WebServer

EVENT, INSTRUMENT, INSTANCE = "redcap_event_name", "redcap_repeat_instrument", "redcap_repeat_instance"
MOST_INPUTS = 1000  #: fields of one form that PHP reads (max_input_vars)

Value = str | frozenset[str]


@dataclass(frozen=True)
class Variable:
    """A field of the data dictionary. `choices` are the codes of a choice."""

    name: str
    form: str = "demographics"
    kind: str = "text"
    validation: str = ""
    choices: tuple[str, ...] = ()


@dataclass
class Entry:
    """An entry for one record, in one event, or as one instance of an instrument. A checkbox has the set of its ticked
    codes, or a code for missing data."""

    record: str
    values: dict[str, Value] = field(default_factory=dict)
    event: str = ""
    instrument: str = ""
    instance: int = 0


@dataclass
class Project:
    """One project; the first variable names the record."""

    variables: Sequence[Variable]
    entries: list[Entry]
    events: tuple[str, ...] = ()
    repeating: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return self.variables[0].name

    @property
    def forms(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(variable.form for variable in self.variables))


class RedcapServer(WebServer):
    """`tokens` are those that may export; `hidden` fields are kept from their users. An answer of more than `memory`
    values ends in the message about memory; of more than `quietly` records the others are left out without a word.
    `others`: a record without a row of the instrument that is asked for has its other row all the same."""

    def __init__(self, project: Project, **more: Any) -> None:
        self.project = project
        self.token = secrets.token_hex(16).upper()
        self.tokens = {self.token}
        self.hidden: set[str] = set()
        self.memory: int | None = None
        self.quietly: int | None = None
        self.logic = True  #: whether this version knows filterLogic's every word
        self.others = True
        super().__init__(**more)

    @property
    def url(self) -> str:
        return f"{self.address}/redcap/api/"

    @property
    def asked(self) -> list[dict[str, str]]:
        """The parameters of every question."""
        return [dict(parse_qsl(call.body.decode(), keep_blank_values=True)) for call in self.calls]

    def answer(self, call: Call) -> Reply:
        if call.path != "/redcap/api/":
            return Reply.page(404, "Not found")
        if call.method != "POST":
            return Reply.of(501, {"error": "The requested method is not implemented."})
        given = parse_qsl(call.body.decode(), keep_blank_values=True)[:MOST_INPUTS]
        asked = _Asked(given)
        if asked.one("token") not in self.tokens:
            return asked.error(403, "You do not have permissions to use the API")
        if asked.one("format") != "json":
            return asked.error(400, 'The value of the parameter "format" is not valid')
        if "data" in asked.values or asked.one("action") not in ("", "export"):
            return asked.error(403, "You do not have API Import privileges")
        methods: Mapping[str, Callable[[_Asked], Reply]] = {
            "metadata": self._metadata,
            "exportFieldNames": self._names,
            "project": self._project,
            "record": self._records,
        }
        if asked.one("content") not in methods:
            return asked.error(400, 'The value of the parameter "content" is not valid')
        return methods[asked.one("content")](asked)

    # --- the project ------------------------------------------------------------------------------------

    def _metadata(self, asked: _Asked) -> Reply:
        rows = [
            {
                "field_name": v.name,
                "form_name": v.form,
                "section_header": "",
                "field_type": v.kind,
                "field_label": v.name,
                "select_choices_or_calculations": " | ".join(f"{code}, Choice {code}" for code in v.choices),
                "text_validation_type_or_show_slider_number": v.validation,
                "identifier": "",
            }
            for v in self.project.variables
            if v.name not in self.hidden
        ]
        return Reply.of(200, rows)

    def _names(self, asked: _Asked) -> Reply:
        rows: list[dict[str, str]] = []
        for form in self.project.forms:
            for v in self.project.variables:
                if v.form != form or v.name in self.hidden or v.kind in ("calc", "file", "descriptive"):
                    continue
                codes = v.choices if v.kind == "checkbox" else ("",)
                rows += [
                    {"original_field_name": v.name, "choice_value": code, "export_field_name": exported(v, code)}
                    for code in codes
                ]
            status = f"{form}_complete"
            rows.append({"original_field_name": status, "choice_value": "", "export_field_name": status})
        return Reply.of(200, rows)

    def _project(self, asked: _Asked) -> Reply:
        facts = {
            "project_id": 17,
            "project_title": "Study",
            "in_production": 1,
            "is_longitudinal": int(bool(self.project.events)),
            "has_repeating_instruments_or_events": int(bool(self.project.repeating)),
            "surveys_enabled": 0,
            "missing_data_codes": " | ".join(f"{code}, Code {code}" for code in self.project.missing),
        }
        return Reply.of(200, facts)

    # --- records ------------------------------------------------------------------------------------------

    def _records(self, asked: _Asked) -> Reply:
        known = {v.name: v for v in self.project.variables}
        statuses = {f"{form}_complete": form for form in self.project.forms}
        fields = asked.many("fields") or [*known, *statuses]
        unknown = [name for name in fields if name not in known and name not in statuses]
        if unknown:
            listed = ", ".join(f"'{name}'" for name in unknown)
            return asked.error(400, f'The following values in the parameter "fields" are not valid: {listed}')
        wanted = {record.lower() for record in asked.many("records")}
        entries = [e for e in self.project.entries if not wanted or e.record.lower() in wanted]
        if logic := asked.one("filterLogic"):
            if not self.logic:
                return asked.error(400, 'The logic in the parameter "filterLogic" is not valid')
            try:
                entries = [e for e in entries if _Logic(logic, self.project, e).true]
            except _NotLogic:
                return asked.error(400, 'The logic in the parameter "filterLogic" is not valid')
        forms = {known[name].form if name in known else statuses[name] for name in fields if name != self.project.key}
        fields = [name for name in dict.fromkeys([self.project.key, *fields]) if name not in self.hidden]
        entries = [e for e in entries if self._shown(e, forms)]
        entries.sort(key=lambda e: (_natural(e.record), e.event, e.instrument, e.instance))
        if self.memory is not None and len(entries) * len(fields) > self.memory:
            text = "<b>Fatal error</b>: Allowed memory size exhausted"
            said = {"error": "REDCap ran out of server memory. The request cannot be processed."}
            return Reply(200, text.encode() + Reply.of(200, said).body, "text/html; charset=utf-8")
        if self.quietly is not None:
            first = list(dict.fromkeys(e.record for e in entries))[: self.quietly]
            entries = [e for e in entries if e.record in first]
        return Reply.of(200, [self._row(e, fields, known, statuses) for e in entries])

    def _shown(self, entry: Entry, forms: set[str]) -> bool:
        if entry.instrument:
            return entry.instrument in forms
        return self.others or not forms or not forms <= set(self.project.repeating)

    def _row(
        self, entry: Entry, fields: Sequence[str], known: Mapping[str, Variable], statuses: Mapping[str, str]
    ) -> dict[str, Any]:
        row: dict[str, Any] = {self.project.key: entry.record}
        if self.project.events:
            row[EVENT] = entry.event
        if self.project.repeating:
            row |= {INSTRUMENT: entry.instrument, INSTANCE: entry.instance or ""}
        for name in fields:
            if name in statuses:
                row[name] = "2" if (entry.instrument or statuses[name]) == statuses[name] else ""
                continue
            variable = known[name]
            value: Value = entry.record if name == self.project.key else entry.values.get(name, "")
            if variable.kind != "checkbox":
                row[name] = str(value)
                continue
            blank = isinstance(value, str) and value != ""
            for code in variable.choices:
                row[exported(variable, code)] = "" if blank else str(int(code in value))
            if any(isinstance(e.values.get(name), str) and e.values[name] for e in self.project.entries):
                for code in self.project.missing:
                    row[exported(variable, code)] = str(int(value == code))
        return row


def exported(variable: Variable, code: str) -> str:
    """The name of a field, or of an option of a checkbox, in an export."""
    if variable.kind != "checkbox":
        return variable.name
    return f"{variable.name}___{re.sub('[^a-z0-9_]', '_', code.lower())}"


class _Asked:
    """The parameters of one question, lists as PHP reads them."""

    def __init__(self, given: Sequence[tuple[str, str]]) -> None:
        self.values: dict[str, list[str]] = {}
        for name, value in given:
            self.values.setdefault(re.sub(r"\[\d*\]$", "", name), []).append(value)
        self.lists = {re.sub(r"\[\d*\]$", "", name) for name, _ in given if name.endswith("]")}

    def one(self, name: str) -> str:
        return self.values.get(name, [""])[-1]

    def many(self, name: str) -> list[str]:
        if name in self.lists:
            return self.values[name]
        return [part.strip() for part in self.one(name).split(",") if part.strip()]

    def error(self, status: int, message: str) -> Reply:
        kind = self.one("returnFormat") or self.one("format") or "xml"
        if kind == "json":
            return Reply.of(status, {"error": message})
        if kind == "csv":
            return Reply(status, f"ERROR: {message}".encode(), "text/csv")
        text = f'<?xml version="1.0" encoding="UTF-8" ?><hash><error>{message}</error></hash>'
        return Reply(status, text.encode(), "text/xml")


def _natural(record: str) -> tuple[Any, ...]:
    return (0, int(record), "") if record.isdecimal() else (1, 0, record)


# --- logic -------------------------------------------------------------------------------------------------


class _NotLogic(ValueError):
    """The text is no logic, or names what the project does not have."""


_TOKENS = re.compile(
    r"""\s*(?:(?P<field>\[[a-z]\w*(?:\([^)]*\))?\])|(?P<text>"[^"]*"|'[^']*')|(?P<number>-?\d+(?:\.\d+)?)"""
    r"""|(?P<sign><>|!=|<=|>=|=|<|>)|(?P<word>and|or)\b|(?P<paren>[()]))""",
    re.IGNORECASE,
)


class _Logic:
    """One logic's truth for one entry."""

    def __init__(self, logic: str, project: Project, entry: Entry) -> None:
        self._project, self._entry = project, entry
        self._tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(logic.rstrip()):
            found = _TOKENS.match(logic, at)
            if found is None or found.lastgroup is None:
                raise _NotLogic
            self._tokens.append((found.lastgroup, found[found.lastgroup]))
            at = found.end()
        self._at = 0
        self.true = self._either()
        if self._at != len(self._tokens):
            raise _NotLogic

    def _next(self, *kinds: str) -> str:
        if self._at >= len(self._tokens) or self._tokens[self._at][0] not in kinds:
            raise _NotLogic
        self._at += 1
        return self._tokens[self._at - 1][1]

    def _is(self, text: str) -> bool:
        found = self._at < len(self._tokens) and self._tokens[self._at][1].lower() == text
        self._at += int(found and self._tokens[self._at][0] in ("word", "paren"))
        return found

    def _either(self) -> bool:
        found = self._every()
        while self._is("or"):
            found = self._every() or found
        return found

    def _every(self) -> bool:
        found = self._part()
        while self._is("and"):
            found = self._part() and found
        return found

    def _part(self) -> bool:
        if self._is("("):
            found = self._either()
            if not self._is(")"):
                raise _NotLogic
            return found
        left = self._value()
        sign = self._next("sign")
        return php(left, sign, self._value())

    def _value(self) -> str | int | float:
        kind = self._tokens[self._at][0] if self._at < len(self._tokens) else ""
        text = self._next("field", "text", "number")
        if kind == "text":
            return text[1:-1]
        if kind == "number":
            return float(text) if "." in text else int(text)
        name, _, code = text[1:-1].rstrip(")").partition("(")
        found = [v for v in self._project.variables if v.name == name.lower()]
        if not found and name.lower() not in {f"{form}_complete" for form in self._project.forms}:
            raise _NotLogic
        if name.lower() == self._project.key:
            return self._entry.record
        value = self._entry.values.get(name.lower(), "")
        if found and found[0].kind == "checkbox":
            return "" if isinstance(value, str) and value else str(int(code in value))
        return str(value)


def php(left: str | int | float, sign: str, right: str | int | float) -> bool:
    """A comparison as PHP 8 makes it: what both look like numbers is compared as numbers, the rest as text."""
    numbers = [_php_number(value) for value in (left, right)]
    a: Any = numbers[0] if None not in numbers else _php_text(left)
    b: Any = numbers[1] if None not in numbers else _php_text(right)
    return bool({"=": a == b, "<>": a != b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[sign])


def _php_number(value: str | int | float) -> int | float | None:
    if not isinstance(value, str):
        return value
    if re.fullmatch(r"[ \t\n\r\v\f]*[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?[ \t\n\r\v\f]*", value, re.ASCII) is None:
        return None
    return int(value) if re.fullmatch(r"\s*[+-]?\d+\s*", value) else float(value)


def _php_text(value: str | int | float) -> bytes:
    return str(value).encode()
