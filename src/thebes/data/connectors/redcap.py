"""Rows of a REDCap project, through its API: the right to export is all that is used of the token's user.

Records are listed first and then read some at a time, each with all its rows, so that one that changes, comes or goes
meanwhile is neither read twice nor torn apart. What REDCap should have sent and did not is noticed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from thebes.data.connectors.connector import Columns, Held, read_source, secret_of
from thebes.data.connectors.remote_filter import Leaf, joined, narrowed
from thebes.data.connectors.web import Web, WebSource
from thebes.data.filter import Compared, Operator, Present, RowFilter
from thebes.data.schema import Schema
from thebes.privacy.faults import Mistake

EVENT, INSTRUMENT, INSTANCE = "redcap_event_name", "redcap_repeat_instrument", "redcap_repeat_instance"
_OWN = (EVENT, INSTRUMENT, INSTANCE)  #: columns that REDCap adds by itself
MOST_RECORDS = 900  #: of one question; PHP reads 1000 fields of a form unless it was told otherwise

_TOKEN = re.compile(r"[0-9A-Fa-f]{32}")
#: text that says the same to REDCap, whatever it does with quotes, brackets, comments and piping
_PLAIN = re.compile(r"(?!.*\b(?:and|or)\b)[^\W_](?:[\w .,:+-]*[\w.+-])?", re.IGNORECASE)
_NUMBERS = {"integer", "number", *(f"number_{places}dp" for places in range(1, 5))}
_CHOICES = {"radio", "dropdown"}
_NEVER_ROWS = {"descriptive", "file"}
_EXACT = 2**53  #: whole numbers up to here are the same to every system

Row = dict[str, str | None]


class RedcapSource(WebSource):
    """A project, known by its token. `columns` gives a field another name in the data set; `events` keeps the rows of
    these events only; `instrument` says whose rows are meant where instruments repeat ("" for all others); `carried`
    names columns whose value stands in one row of a record and counts for all of its rows; `missing` adds to the
    project's own codes for missing data."""

    kind: Literal["redcap"]
    token_env: str | None = None
    token_file: str | None = None
    page: int = Field(default=500, ge=1, le=MOST_RECORDS)
    columns: dict[str, str] = Field(default_factory=dict)
    events: list[str] = Field(default_factory=list)
    instrument: str | None = Field(default=None, max_length=200)
    carried: list[str] = Field(default_factory=list)
    missing: list[str] = Field(default_factory=list)


def open_redcap(source: Mapping[str, Any], *, folder: Path) -> Redcap:
    """Open a project. Nothing is asked yet."""
    read = read_source(RedcapSource, source)
    token = secret_of(read.token_env, read.token_file, field="token", folder=folder)
    if token is None:
        raise Mistake("source.token_file", "must name the file with the token, or source.token_env its variable")
    if not _TOKEN.fullmatch(token):
        raise Mistake("source.token_file", "must hold the API token of one project: 32 hexadecimal digits")
    return Redcap(read, token, Web(read, name="REDCap", folder=folder))


@dataclass(frozen=True, slots=True)
class _Variable:
    """A column of an export: `asked` is the field's own name, `option` the choice where it is one of a checkbox."""

    asked: str
    kind: str = "text"
    validation: str = ""
    option: str | None = None

    @property
    def spelled(self) -> str:
        """As logic names it."""
        return f"[{self.asked}]" if self.option is None else f"[{self.asked}({self.option})]"


@dataclass(frozen=True, slots=True)
class _Project:
    """The description that a project gives of itself. `key` is the field that names the record."""

    key: str
    variables: Mapping[str, _Variable]
    instruments: frozenset[str]
    repeats: bool
    missing: frozenset[str]


class Redcap:
    """A `Connector`."""

    def __init__(self, source: RedcapSource, token: str, web: Web) -> None:
        self._source, self._token, self._web = source, token, web

    def columns(self) -> Mapping[str, Held]:
        return dict.fromkeys(self._named(self._project()), "text")

    def batches(self, columns: Sequence[str], where: RowFilter | None = None) -> Iterator[Columns]:
        project = self._project()
        names = self._named(project)
        for name in (*columns, *self._source.carried):
            if name not in names:
                raise Mistake("columns", f"the project has no field for {name[:63]!r}")
        logic = None if project.repeats else narrowed(where, lambda leaf: self._logic(leaf, names, project))
        columns = columns or [project.key]  # rows are counted by something
        wanted = {name: names[name] for name in dict.fromkeys((*columns, *self._source.carried))}
        records = self._records(project, logic)
        for start in range(0, len(records), self._source.page):
            rows = self._rows(project, wanted, records[start : start + self._source.page])
            if rows:
                yield {name: [row[export] for row in rows] for name, export in wanted.items() if name in columns}

    def joins_within(self, schema: Schema) -> None:
        """Refuse a schema by which the record is not whose the rows are: what is carried stands in another row of its
        record."""
        if not self._source.carried:
            return
        project = self._project()
        if schema.unit != "person" or schema.key is None or self._named(project).get(schema.key) != project.key:
            raise Mistake(
                "source.carried",
                f'needs a schema with unit = "person" whose key is the record ({project.key[:63]!r}): what is carried '
                "into a row tells of another row, and both must be the same person's",
            )

    def close(self) -> None:
        self._web.close()

    # --- what is asked ----------------------------------------------------------------------------------

    def _project(self) -> _Project:
        facts = self._export("project")
        fields = _table(self._export("metadata"))
        exported = _table(self._export("exportFieldNames"))
        if not isinstance(facts, Mapping) or not fields or fields is None or exported is None:
            raise self._strange()
        known = {str(field.get("field_name")): field for field in fields}
        variables: dict[str, _Variable] = {}
        for name, asked, option in _exports(known, exported):
            field = known.get(asked, {})
            kind = str(field.get("field_type", "text"))
            if kind not in _NEVER_ROWS:
                validation = str(field.get("text_validation_type_or_show_slider_number") or "")
                variables[name] = _Variable(asked, kind, validation, option)
        repeats = _is_set(facts.get("has_repeating_instruments_or_events"))
        if _is_set(facts.get("is_longitudinal")):
            variables[EVENT] = _Variable(EVENT)
        if repeats:
            variables |= {INSTRUMENT: _Variable(INSTRUMENT), INSTANCE: _Variable(INSTANCE)}
        instruments = frozenset(str(field.get("form_name")) for field in fields)
        self._check(repeats, instruments, EVENT in variables)
        codes = re.split(r"[|\n]", str(facts.get("missing_data_codes") or ""))
        missing = {code.partition(",")[0].strip() for code in codes} | set(self._source.missing)
        return _Project(str(fields[0].get("field_name")), variables, instruments, repeats, frozenset(missing - {""}))

    def _check(self, repeats: bool, instruments: frozenset[str], longitudinal: bool) -> None:
        chosen = self._source.instrument
        if repeats and chosen is None:
            raise Mistake(
                "source.instrument",
                'must name an instrument whose rows are meant, for some repeat; "" means the others',
            )
        if chosen and (not repeats or chosen not in instruments):
            raise Mistake("source.instrument", "names an instrument that does not repeat in this project")
        if self._source.events and not longitudinal:
            raise Mistake("source.events", "is for longitudinal projects, and this one is not")

    def _named(self, project: _Project) -> dict[str, str]:
        """The data set's names of columns, each with the project's."""
        renamed = self._source.columns
        for name, export in renamed.items():
            if export not in project.variables:
                raise Mistake(f"source.columns.{name}"[:120], f"the project has no field {export[:63]!r}")
        return {export: export for export in project.variables} | renamed

    def _records(self, project: _Project, logic: str | None) -> list[str]:
        """The names of all records of which a row may be wanted."""
        listed = (
            None if logic is None else self._export("record", {"fields": project.key, "filterLogic": logic}, (400,))
        )
        if listed is None:  # nothing to leave out, or this REDCap does not understand what
            listed = self._export("record", {"fields": project.key})
        rows = _table(listed)
        if rows is None or any(not row.get(project.key) for row in rows):
            raise self._strange()
        return list(dict.fromkeys(str(row[project.key]) for row in rows))

    def _rows(self, project: _Project, wanted: Mapping[str, str], records: list[str]) -> list[Row]:
        """Every row of these records. What an answer leaves out is asked for once more, until nothing more comes."""
        fields = [project.key, *(project.variables[e].asked for e in wanted.values() if e not in _OWN)]
        if self._source.instrument:
            fields.append(f"{self._source.instrument}_complete")  # without one of its fields its rows stay away
        asked = {
            "fields": ",".join(dict.fromkeys(fields)),
            "type": "flat",
            "rawOrLabel": "raw",
            "decimalCharacter": ".",
        }
        found: list[Mapping[str, Any]] = []
        absent = records
        while absent:
            heard = self._of(project, {project.key, *wanted.values()}, asked, absent)
            here = {str(row[project.key]).lower() for row in heard}
            left = [record for record in absent if record.lower() not in here]
            if len(left) == len(absent):
                self._gone(project, left)
                break
            found, absent = found + heard, left
        return self._kept(project, wanted, found)

    def _of(
        self, project: _Project, needed: set[str], asked: Mapping[str, str], records: Sequence[str]
    ) -> list[Mapping[str, Any]]:
        """Return what REDCap gives of some records."""
        named = {f"records[{number}]": record for number, record in enumerate(records)}
        rows = _table(self._export("record", {**asked, **named}))
        if rows is None:
            raise self._strange()
        for row in rows:
            for export in needed - row.keys():
                raise self._web.away(
                    f"does not give the field {export!r}; its user may not have the right to export it"
                )
        waited = {record.lower() for record in records}
        return [row for row in rows if str(row[project.key]).lower() in waited]

    def _gone(self, project: _Project, records: Sequence[str]) -> None:
        """Records that are listed and never come were deleted meanwhile, or have no row of a repeating instrument;
        else REDCap leaves them out."""
        if self._source.instrument or not self._of(project, {project.key}, {"fields": project.key}, records):
            return
        raise self._web.away("leaves out records that it has; ask for fewer at once with source.page")

    def _kept(self, project: _Project, wanted: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> list[Row]:
        """The rows that are meant, each once, with what is missing as None and what is carried in each of them."""
        kept: dict[tuple[Any, ...], Row] = {}
        carried: dict[tuple[str, str], str] = {}
        spread = [wanted[name] for name in self._source.carried]
        for row in rows:
            record = str(row[project.key])
            values = {export: _value(row[export], project.missing) for export in wanted.values()}
            for export in spread:
                if (value := values[export]) is not None:
                    carried.setdefault((record, export), value)
            at = tuple(str(row.get(name) or "") for name in _OWN)
            of_event = not self._source.events or at[0] in self._source.events
            of_instrument = not project.repeats or at[1] == self._source.instrument
            if of_event and of_instrument:
                kept.setdefault((record, *at), values)
        for (record, *_), values in kept.items():
            values |= {export: carried.get((record, export)) for export in spread}
        return list(kept.values())

    def _export(self, content: str, more: Mapping[str, str] | None = None, allowed: tuple[int, ...] = ()) -> Any:
        """Return what REDCap exports; None where it refuses with a status that is `allowed`."""
        form = {"token": self._token, "content": content, "format": "json", "returnFormat": "json", **(more or {})}
        answer = self._web.ask(form=form)
        if answer.status in allowed:
            return None
        if answer.status in (401, 403):
            raise self._web.away("does not accept the token, or its user may not export through the API")
        if answer.status == 404:
            raise self._web.away("has no API at source.url; it often ends with /api/")
        if answer.status != 200:
            raise self._web.away(f"refuses the question ({answer.status}); check what the token's user may export")
        if isinstance(answer.body, Mapping) and "error" in answer.body:
            raise self._web.away("failed; if it ran out of memory, ask for fewer records at once with source.page")
        return answer.body

    def _strange(self) -> Exception:
        return self._web.away("answers with something that is not what REDCap's API says")

    # --- what REDCap is asked to leave out ----------------------------------------------------------------

    def _logic(self, leaf: Leaf, names: Mapping[str, str], project: _Project) -> str | None:
        export = names.get(leaf.column)
        if export is None or leaf.column in self._source.carried or export in _OWN:
            return None
        field = project.variables[export]
        if isinstance(leaf, Present):
            return f'{field.spelled} <> ""' if leaf.there else None
        if isinstance(leaf, Compared):
            said = _compared(field, leaf.operator, leaf.value)
        else:
            operator: Operator = "=" if leaf.inside else "<>"
            parts = [_compared(field, operator, value) for value in leaf.values]
            known = [part for part in parts if part is not None]
            said = joined("or" if leaf.inside else "and", known) if known and len(known) == len(parts) else None
        # A blank is smaller than every number to PHP, and different from every text.
        return None if said is None else f'({field.spelled} <> "" and {said})'


def _compared(field: _Variable, operator: Operator, value: object) -> str | None:
    """One comparison as REDCap sees it, or None where it may see it differently: PHP takes text that looks like
    numbers for numbers, so that text can only be asked to be equal."""
    name = field.spelled
    if isinstance(value, bool):
        if field.option is None and field.kind not in ("yesno", "truefalse"):
            return None
        return f'{name} = "{int(value is (operator == "="))}"'
    if isinstance(value, (int, float)):
        numeric = field.kind in _CHOICES | {"calc", "slider"} or (field.kind == "text" and field.validation in _NUMBERS)
        written = repr(value)
        if not numeric or abs(value) > _EXACT or "e" in written:
            return None
        return f"{name} {operator} {written}"
    if isinstance(value, datetime):
        return _moment(field, operator, value)
    if isinstance(value, str) and operator == "=" and field.option is None and _PLAIN.fullmatch(value):
        return f'{name} = "{value}"'
    return None


def _moment(field: _Variable, operator: Operator, value: datetime) -> str | None:
    # Dates are exported and compared as 2026-01-31 or 2026-01-31 09:30, whatever people see. Asked by whole days, which
    # is never too strict.
    if field.kind != "text" or not field.validation.startswith(("date_", "datetime_")) or value.year < 1000:
        return None
    first, last = f'{field.spelled} >= "{value:%Y-%m-%d}"', f'{field.spelled} <= "{value:%Y-%m-%d} 23:59:59"'
    said = {"=": joined("and", [first, last]), "<": last, "<=": last, ">": first, ">=": first}
    return said.get(operator)


def _exports(
    fields: Mapping[str, Mapping[str, Any]], exported: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, str, str | None]]:
    """(name in an export, field, option of a checkbox) of every column; REDCap lists only those that may be imported,
    which leaves out what is computed."""
    listed = set()
    for entry in exported:
        asked, option = str(entry.get("original_field_name")), entry.get("choice_value")
        listed.add(asked)
        yield str(entry.get("export_field_name")), asked, None if option in ("", None) else str(option)
    for name, field in fields.items():
        if name not in listed and field.get("field_type") != "checkbox":
            yield name, name, None


def _table(body: Any) -> list[Mapping[str, Any]] | None:
    """A list of objects of plain values, or None where it is something else."""
    if not isinstance(body, list):
        return None
    for row in body:
        if not isinstance(row, Mapping) or any(isinstance(value, (list, dict)) for value in row.values()):
            return None
    return body


def _value(value: object, missing: frozenset[str]) -> str | None:
    written = "" if value is None else str(value)
    return None if written == "" or written in missing else written


def _is_set(value: object) -> bool:
    return value in (1, "1", True)
