"""A task that is being composed: what stands in the form, and the document it means.

What must stay true: nothing typed is lost or guessed at; what cannot be read as a number or a value is a problem of
its field, told beside those that the kind itself finds.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from thebes.data import featurizer as sql
from thebes.privacy.faults import Mistake
from thebes.privacy.reading import NotJSON, read_json
from thebes.tasks.basic.kind import ADDED_UP
from thebes.tasks.document import InvalidDocument
from thebes.web.coordinator.forms import draw_discard, ensemble
from thebes.web.coordinator.forms.bound import MOST_COLUMNS, BoundDraft, number, text, typed

KINDS = ("basic", "integrated", "bounded", "gradient", "ensemble", "draw-discard")
#: which typed fields a kind has beside those of every document
OWN: dict[str, tuple[str, ...]] = {
    "basic": ("aggregator", "quantile", "bins", "missing"),
    "integrated": ("model", "output", "missing"),
    "bounded": ("mechanism",),
    "gradient": ("model", "loss", "output", "clip", "rounds", "rounds_per_owner", "learning_rate"),
    "ensemble": (
        "output",
        "subsets",
        "subset_size",
        "feature_subsets",
        "cut",
        "bins",
        "perturbation",
        "method",
        "partitions",
        "votes",
        "classifier",
        "score",
        "scoring_share",
    ),
    "draw-discard": (
        "output",
        "family",
        "crosses",
        "pairs",
        "instances",
        "rates",
        "keep",
        "decay",
        "reduce",
        "hiding",
        "epsilon_per_weight",
        "max_participations",
    ),
}
EVERYWHERE = ("name", "purpose", "epsilon", "delta", "min_count", "max_count", "expires_at", "group")
NUMBERS = frozenset(
    [
        "epsilon",
        "delta",
        "min_count",
        "max_count",
        "quantile",
        "bins",
        "clip",
        "rounds",
        "rounds_per_owner",
        "learning_rate",
        "subsets",
        "subset_size",
        "partitions",
        "scoring_share",
        "instances",
        "decay",
        "max_participations",
    ]
)
DEFAULTS = {
    "epsilon": "1",
    "min_count": "100",
    "aggregator": "median",
    "model": "LinearRegression",
    "mechanism": "split",
    "missing": "refuse",
    "cut": "median",
    "perturbation": "auto",
    "method": "vote",
    "votes": "hard",
    "classifier": "logistic",
    "score": "f1",
    "family": "logistic",
    "hiding": "privunit",
    "reduce": "mean",
}
#: fields that stand in the form of a kind in another shape than in its document
_RESHAPED = {"ensemble": ensemble.RESHAPED, "draw-discard": draw_discard.RESHAPED}
#: what the predicted column is called in a document; what it is predicted from are its `inputs`, or all the others
_PREDICTED = {"integrated": "output", "gradient": "outputs", "ensemble": "label", "draw-discard": "output"}
_BOUNDS_FOUND = ("basic", "integrated")  #: kinds that find bounds nobody declared, with a part of the price
_SET_BY_KIND = ("version", "server")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?")

Schemas = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Draft:
    """Everything that stands in the form. `raw` is the JSON that experts edit; `written` says that it counts.
    `made` is the SQL that the ticked columns gave last: SQL that differs from it was written by hand, and is kept.
    `rest` holds fields of a document that the form has no place for."""

    kind: str = "basic"
    table: str = ""
    ticked: tuple[str, ...] = ()
    sql: str = ""
    made: str = ""
    fields: Mapping[str, str] = field(default_factory=lambda: dict(DEFAULTS))
    bounds: tuple[BoundDraft, ...] = ()
    rest: Mapping[str, Any] = field(default_factory=dict)
    written: bool = False
    raw: str = ""
    note: str = ""

    def get(self, name: str) -> str:
        return "count" if name == "missing" and self.counts_missing else self.fields.get(name, "")

    @property
    def rest_text(self) -> str:
        return json.dumps(self.rest)

    @property
    def outputs(self) -> tuple[str, ...]:
        """The columns that the SQL gives, or nothing while it cannot be read."""
        try:
            return sql.read(self.sql).outputs[:MOST_COLUMNS] if self.sql.strip() else ()
        except Mistake:
            return ()

    @property
    def counts_missing(self) -> bool:
        """Return whether it adds people up of whom somebody may have no value: only so can it be asked for."""
        asked = self.get("aggregator") if self.kind == "basic" else ""
        everybody = any(bound.kind and bound.default.strip() for bound in self.bounds)
        return asked == "count" or (asked in ADDED_UP and not everybody)

    # --- from what a browser sent -----------------------------------------------------------------------

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> Draft:
        """Read what stands in the form, as a browser sent it."""
        kind = text(body, "kind")
        known = kind if kind in KINDS else "basic"
        names = (*EVERYWHERE, *OWN[known])
        return cls(
            kind=known,
            table=text(body, "table"),
            ticked=tuple(_texts(body.get("column"))),
            sql=text(body, "featurizer"),
            made=text(body, "made"),
            fields={name: text(body, name) for name in names if name in body},
            bounds=tuple(BoundDraft.read(body)),
            rest=_object(text(body, "rest")),
            written=text(body, "mode") == "json",
            raw=text(body, "raw"),
        )

    def settled(self, schemas: Schemas) -> Draft:
        """The form after its structure changed: columns of the chosen table, SQL of the ticked columns unless it
        was written by hand, one row of bounds for each column that the SQL gives."""
        draft = self
        if not draft.table and schemas and not draft.sql:
            draft = replace(draft, table=next(iter(tables_of(schemas)), ""))
        columns = tables_of(schemas).get(draft.table, {}).get("columns", {})
        ticked = tuple(column for column in draft.ticked if column in columns)
        by_hand = bool(draft.sql.strip()) and draft.sql.strip() != draft.made.strip()
        made = _select(draft.table, ticked)
        draft = replace(draft, ticked=ticked, made=made, sql=draft.sql if by_hand else made)
        known = {bound.column: bound for bound in draft.bounds}
        wanted = draft.outputs or tuple(known)
        bounds = tuple(known.get(column) or BoundDraft.first(column, columns) for column in wanted)
        fields = {**{n: v for n, v in DEFAULTS.items() if n in (*EVERYWHERE, *OWN[draft.kind])}, **draft.fields}
        if draft.outputs and fields.get("output") not in draft.outputs:
            fields.pop("output", None)
        return replace(draft, bounds=bounds, fields=fields)

    # --- to and from a document -------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """The document that this means; InvalidDocument where something cannot even be read."""
        if self.written:
            return document_in(self.raw)
        problems: list[tuple[str, str]] = []
        made: dict[str, Any] = {"type": self.kind, **self._typed(problems)}
        if made.get("missing") == "refuse":
            del made["missing"]
        if self.sql.strip():
            made["featurizer"] = self.sql.strip()
        made |= self._predicted()
        bounds: dict[str, Any] = {}
        for bound in self.bounds:
            if bound.untouched and self.kind in _BOUNDS_FOUND:
                continue
            if bound.kind and (bound.column in self.outputs or not self.outputs):
                bounds[bound.column] = bound.as_json(problems)
        if bounds:
            made["bounds"] = bounds
        if self.kind == "ensemble":
            made |= ensemble.written(self.fields, self.bounds, problems)
        if self.kind == "draw-discard":
            made = draw_discard.written(made, self.fields, problems)
        group, _, epoch = self.get("group").strip().partition("/")
        if group:
            made |= {"anonymity": "token", "group": group, **({"epoch": epoch} if epoch else {})}
        made |= self.rest
        if problems:
            raise InvalidDocument(problems)
        return made

    def _typed(self, problems: list[tuple[str, str]]) -> dict[str, Any]:
        """The fields that a document has as they stand here."""
        made: dict[str, Any] = {}
        for name in (*EVERYWHERE, *OWN[self.kind]):
            written = self.get(name).strip()
            if not written or name in ("output", "group", *_RESHAPED.get(self.kind, ())):
                continue
            if name in NUMBERS:
                read = number(written)
                if read is None:
                    problems.append((name, "must be a number"))
                else:
                    made[name] = read
            elif name == "expires_at" and _MOMENT.fullmatch(written):
                made[name] = f"{written}{'' if written.count(':') > 1 else ':00'}+00:00"
            else:
                made[name] = written
        return made

    def _predicted(self) -> dict[str, Any]:
        output, name = self.get("output"), _PREDICTED.get(self.kind)
        if name is None:
            return {}
        predicted: dict[str, Any] = {name: [output] if self.kind == "gradient" else output} if output else {}
        if self.kind == "ensemble":
            return predicted
        return {"inputs": [column for column in self.outputs if column != output], **predicted}

    def as_far(self) -> str:
        """The document as JSON, as far as it can be read."""
        try:
            return json.dumps(self.document(), indent=2, ensure_ascii=False)
        except InvalidDocument as refused:
            wrong = {name.partition(".")[0] for name, _ in refused.problems}
            wrong |= {"cut"} if "bins" in wrong else set()
            wrong |= {"rates"} if "learning_rate" in wrong else set()
            read = {name: value for name, value in self.fields.items() if name not in wrong}
            kept = tuple(bound for bound in self.bounds if "bounds" not in wrong or not bound.kind)
            return json.dumps(replace(self, fields=read, bounds=kept).document(), indent=2, ensure_ascii=False)

    @classmethod
    def of(cls, document: Mapping[str, Any], schemas: Schemas) -> Draft:
        """The form that means this document."""
        kind = document.get("type")
        if kind not in KINDS:
            raise InvalidDocument([("type", f"has no form here; the form knows {', '.join(KINDS)}")])
        rest = {name: value for name, value in document.items() if name not in ("type", *_SET_BY_KIND)}
        fields: dict[str, str] = {}
        for name in (*EVERYWHERE, *OWN[kind]):
            known = name in rest and isinstance(rest[name], (str, int, float))
            if known and name not in ("output", "group", *_RESHAPED.get(kind, ())):
                fields[name] = typed(rest.pop(name))
        fields |= _group(rest)
        if fields.get("expires_at", "").endswith("+00:00"):
            fields["expires_at"] = fields["expires_at"].removesuffix("+00:00")
        asked = rest.pop("featurizer", "")
        asked = asked if isinstance(asked, str) else ""
        try:
            read = sql.read(asked)
        except Mistake:
            read = None
        outputs = read.outputs if read else ()
        name = _PREDICTED.get(kind, "")
        output = rest.get(name)
        only = output[0] if isinstance(output, list) and len(output) == 1 else output
        inputs = [column for column in outputs if column != only]
        if isinstance(only, str) and (only in outputs if kind == "ensemble" else rest.get("inputs") == inputs):
            fields["output"] = only
            rest = {field: value for field, value in rest.items() if field not in (name, "inputs")}
        bounds = []
        declared = rest.get("bounds")
        if isinstance(declared, Mapping) and all(isinstance(bound, Mapping) for bound in declared.values()):
            bounds = [BoundDraft.of(str(column), bound) for column, bound in rest.pop("bounds").items()]
        bounds += [BoundDraft(column) for column in outputs if column not in {bound.column for bound in bounds}]
        if kind == "ensemble":
            reshaped, bounds = ensemble.drafted(rest, bounds)
            fields |= reshaped
        if kind == "draw-discard":
            fields |= draw_discard.drafted(rest)
        table = next(iter(read.tables), "") if read and len(read.tables) == 1 else ""
        ticked = tuple(c for c in outputs if c in tables_of(schemas).get(table, {}).get("columns", {}))
        made = _select(table, ticked)
        return cls(
            kind=kind,
            table=table if table in tables_of(schemas) else "",
            ticked=ticked,
            sql=asked,
            made=made if made == asked.strip() else "",
            fields=fields,
            bounds=tuple(bounds),
            rest=rest,
        ).settled(schemas)


def tables_of(schemas: Schemas) -> dict[str, Mapping[str, Any]]:
    """Every published table by the name that SQL knows it by."""
    return {f"{app}.{name}": table for app, told in schemas.items() for name, table in told["tables"].items()}


def document_in(raw: str) -> dict[str, Any]:
    """The document that somebody wrote as JSON, or InvalidDocument."""
    try:
        read = read_json(raw)
    except NotJSON as error:
        raise InvalidDocument([("document", str(error))]) from None
    if not isinstance(read, dict):
        raise InvalidDocument([("document", "must be a JSON object")])
    return read


# --- pieces -------------------------------------------------------------------------------------------------


def _texts(value: object) -> list[str]:
    listed = value if isinstance(value, list) else [value]
    return [each for each in listed if isinstance(each, str)]


def _group(rest: dict[str, Any]) -> dict[str, str]:
    """The field that says who may answer; takes out of `rest` what it says."""
    anonymity, group, epoch = rest.get("anonymity"), rest.get("group"), rest.get("epoch", "")
    if anonymity == "none":
        del rest["anonymity"]
    if anonymity != "token" or not isinstance(group, str) or not isinstance(epoch, str) or "/" in group:
        return {}
    for name in ("anonymity", "group", "epoch"):
        rest.pop(name, None)
    return {"group": f"{group}/{epoch}" if epoch else group}


def _object(words: str) -> dict[str, Any]:
    try:
        read = read_json(words) if words else {}
    except NotJSON:
        return {}
    return read if isinstance(read, dict) else {}


def _select(table: str, columns: Sequence[str]) -> str:
    """The SQL that reads these columns; names that are words of SQL are quoted."""
    if not table or not columns:
        return ""
    names = ", ".join(_named(column) for column in columns)
    return f"SELECT {names} FROM {'.'.join(_named(part) for part in table.split('.'))}"  # noqa: S608


@lru_cache(maxsize=4096)
def _named(name: str) -> str:
    quoted = '"' + name.replace('"', '""') + '"'
    if not _PLAIN.fullmatch(name):
        return quoted
    with closing(sqlite3.connect(":memory:")) as engine:  # who knows its own words best
        try:
            engine.execute(f"SELECT {name} FROM (SELECT 1 AS {quoted})")  # noqa: S608
        except sqlite3.Error:
            return quoted
    return name
