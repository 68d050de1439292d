"""A task that is being composed: what stands in the form, and the document it means.

What must stay true: nothing typed is lost or guessed at; what cannot be read as a value is a problem of its field, told
beside those that the kind itself finds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from thebes.privacy.reading import NotJSON, read_json
from thebes.tasks import registry
from thebes.tasks.document import InvalidDocument, raw
from thebes.tasks.form import PLACES, Form, PartChoice, Place
from thebes.tasks.trust_models import MIXED
from thebes.web.coordinator.forms import notation
from thebes.web.coordinator.forms.bound import text, texts
from thebes.web.coordinator.forms.fields import TRUST, Field, form_fields
from thebes.web.coordinator.forms.people_data import PeopleData
from thebes.web.coordinator.forms.site_data import SiteData

Told = Mapping[str, Any]  #: what is published: tables of people, groups, data sets of sites
_ABSENT = object()
_MIXED = "mixed.epsilon"


def kinds() -> dict[str, Any]:
    """Return the words of every kind by its type, in the order in which they are offered."""
    order = sorted(registry.types(), key=lambda type_: (registry.form(type_).rank, type_))
    return {type_: registry.words(type_) for type_ in order}


@dataclass(frozen=True, slots=True)
class Draft:
    """Everything that stands in the form. `raw` is the JSON that experts edit; `written` says that it counts. `rest`
    holds what the form has no place for."""

    kind: str
    data: PeopleData | SiteData
    fields: Mapping[str, str] = field(default_factory=dict)
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rest: Mapping[str, Any] = field(default_factory=dict)
    written: bool = False
    raw: str = ""
    note: str = ""

    # --- what stands in it ------------------------------------------------------------------------------

    def get(self, name: str) -> str:
        """Return what stands in a field; of a choice, the part that is chosen."""
        asked, stands = form_fields(self.kind).get(name), self.fields.get(name, "")
        if isinstance(asked, PartChoice):
            open_ = asked.when is None or asked.when(self)
            return stands if open_ and stands in asked.parts else next(iter(asked.parts))
        if asked is None or (words := self.words(asked)) is None:
            return stands
        if asked.hint.choices is not None and asked.words is not None and stands not in words:
            return next(iter(words), "")
        unsaid = not stands and not asked.inside and isinstance(asked.default, (str, bool))
        return (asked.write(asked.default) or "") if unsaid else stands

    def ticked(self, name: str) -> tuple[str, ...]:
        return self.lists.get(name, ())

    def words(self, asked: Field) -> list[str] | None:
        """Return what may be chosen for a field just now; None where it is written."""
        if asked.hint.columns is not None:
            return list(asked.hint.columns(self))
        if asked.hint.choices is not None:
            return list(asked.hint.choices(self))
        return list(asked.hint.told) if asked.hint.told is not None else asked.words

    def columns(self, asked: Field) -> list[str]:
        """The columns that may be ticked for a field: first those that are, in their order."""
        chosen = self.ticked(asked.path)
        return [*chosen, *(column for column in self._offered(asked) if column not in chosen)]

    def idle(self, asked: Field) -> bool:
        """Return whether a field means nothing beside the others, so that what stands there is left aside."""
        if asked.hint.when is not None and not asked.hint.when(self):
            return True
        return any(
            f"{asked.path}.".startswith(f"{part}.")
            for name, choice in form_fields(self.kind).items()
            if isinstance(choice, PartChoice)
            for chosen, part in choice.parts.items()
            if chosen != self.get(name)
        )

    def asked(self, place: Place, *, expert: bool) -> Iterator[tuple[str, Field | PartChoice]]:
        """The fields of a section of the form, with their names."""
        for name, each in form_fields(self.kind).items():
            if isinstance(each, PartChoice):
                if place == each.place and not expert and (each.when is None or each.when(self)):
                    yield name, each
            elif (each.hint.place, each.hint.expert) == (place, expert) and not self.idle(each):
                yield name, each

    def says(self, asked: Sequence[tuple[str, Field]]) -> bool:
        """Return whether something else than at first stands in one of these fields."""
        return any(self.ticked(name) or self.get(name) != Draft.empty(self.kind).get(name) for name, _ in asked)

    @property
    def shown(self) -> dict[str, Field | PartChoice]:
        """Every field that the form shows, by name."""
        return {n: each for place in PLACES for expert in (False, True) for n, each in self.asked(place, expert=expert)}

    @property
    def aside(self) -> list[tuple[str, str]]:
        """The content of fields that mean nothing just now, and is kept for a change of mind."""
        shown = self.shown
        kept = [(name, self.fields.get(name, "")) for name in form_fields(self.kind) if name not in shown]
        ticks = [(name, each) for name, chosen in self.lists.items() if name not in shown for each in chosen]
        return [(name, stands) for name, stands in (*kept, *ticks) if stands]

    @property
    def given(self) -> Sequence[str]:
        return (*self.data.given, *self._made_columns)

    @property
    def numbers(self) -> Sequence[str]:
        return (*self.data.numbers, *self._made_columns)

    @property
    def keys(self) -> Sequence[str]:
        return self.data.keys

    @property
    def tensors(self) -> Sequence[str]:
        return self.data.tensors

    @property
    def filled(self) -> Sequence[str]:
        return self.data.filled

    @property
    def rest_text(self) -> str:
        return json.dumps(self.rest)

    @property
    def form(self) -> Form:
        return registry.form(self.kind)

    @property
    def _leaves(self) -> list[Field]:
        return [each for each in form_fields(self.kind).values() if isinstance(each, Field)]

    @property
    def _choices(self) -> list[tuple[str, PartChoice]]:
        return [(name, each) for name, each in form_fields(self.kind).items() if isinstance(each, PartChoice)]

    @property
    def _followed(self) -> dict[str, Any]:
        """Return the fields that follow from choices other than the first."""
        made: dict[str, Any] = {}
        for name, each in self._choices:
            if (chosen := self.get(name)) != next(iter(each.parts)):
                made |= each.fixes.get(chosen, {})
        return made

    @property
    def _made_columns(self) -> tuple[str, ...]:
        return tuple(self.form.makes(self))

    # --- from what a browser sent -----------------------------------------------------------------------

    @classmethod
    def empty(cls, kind: str = "", data: PeopleData | SiteData | None = None) -> Draft:
        """Begin a task of this kind; of one that is not known, of the first."""
        known = kind if kind in registry.packages() else next(iter(kinds()))
        return cls(known, data or _data_of(known)())

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> Draft:
        """Read what stands in the form, as a browser sent it."""
        kind = text(body, "kind")
        draft = cls.empty(kind)
        ticks = {each.path for each in draft._leaves if each.columns}
        return replace(
            draft,
            data=draft.data.read(body),
            fields={n: text(body, n) for n in form_fields(draft.kind) if n in body and n not in ticks},
            lists={name: texts(body[name]) for name in ticks if name in body},
            rest=_object(text(body, "rest")),
            written=text(body, "mode") == "json",
            raw=text(body, "raw"),
        )

    def seen(self, told: Told) -> Draft:
        """The same beside what is published, as far as what it means depends on that."""
        return replace(self, data=self.data.seen(told, one_site=self.form.one_site))

    def trusting(self, before: str) -> Draft:
        """The form after another trust was chosen: the epsilon that is promised moves to where it is asked now."""
        now, fields = self.get(TRUST), dict(self.fields)
        if now == MIXED != before:
            fields |= {_MIXED: fields.get("epsilon", ""), "epsilon": ""}
        elif before == MIXED != now and fields.get(_MIXED):
            fields |= {_MIXED: "", "epsilon": fields[_MIXED]}
        return replace(self, fields=fields)

    def settled(self, told: Told) -> Draft:
        """The form after its structure changed."""
        draft = replace(self, data=self.data.settled(told, one_site=self.form.one_site))
        first = {each.path: each.hint.first for each in self._leaves if each.hint.first}
        fields = {**first, **self.fields}
        for each in self._leaves:
            stands = fields.get(each.path, "")
            elsewhere = each.words is not None and stands not in ("", *each.words)  # a choice of another kind
            asks = each.hint.columns is not None and isinstance(draft.data, PeopleData)
            if elsewhere or (asks and draft.given and stands not in draft.given):  # or what the SQL gives no more
                fields.pop(each.path, None)
                fields |= {each.path: each.hint.first} if each.hint.first else {}
        draft = replace(draft, fields=fields)
        said = {each.path for each in self._leaves if fields.get(each.path) and not draft.idle(each)}
        return replace(draft, rest={name: value for name, value in self.rest.items() if name not in said})

    # --- to and from a document -------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """The document that this means; InvalidDocument where something cannot even be read."""
        if self.written:
            return document_in(self.raw)
        problems: list[tuple[str, str]] = []
        made = self._read(problems)
        if problems:
            raise InvalidDocument(problems)
        return made

    def as_far(self) -> str:
        """The document as JSON, as far as it can be read."""
        return json.dumps(self._read([]), indent=2, ensure_ascii=False)

    def _read(self, problems: list[tuple[str, str]]) -> dict[str, Any]:
        bounds = registry.kind(self.kind).document.model_fields.get("bounds")
        bounded = bounds is not None and bounds.is_required()
        made = {"type": self.kind, **self.data.document(problems, bounded=bounded)}
        for each in self._leaves:
            value = _ABSENT if self.idle(each) else self._value(each, problems)
            if value is _ABSENT or (not each.inside and not each.required and notation.same(value, each.default)):
                continue
            inner = made
            for part in each.path.split(".")[:-1]:
                inner = inner.setdefault(part, {})
            inner[each.path.rpartition(".")[2]] = value
        shown = {each.path.partition(".")[0] for each in self._leaves if self.get(each.path) and not self.idle(each)}
        told = {
            "type",
            *shown,
            *({"dataset"} & made.keys()),
        }  # what stands on the page counts, not what is hidden in it
        kept = {name: value for name, value in self.rest.items() if name not in told}
        return {**made, **kept, **self._followed}

    def _value(self, asked: Field, problems: list[tuple[str, str]]) -> Any:
        if asked.columns:
            offered = self._offered(asked)
            without = self._without(asked)
            chosen = [column for column in self.ticked(asked.path) if column not in without]
            return chosen or (offered if asked.hint.rest and offered else _ABSENT)
        written = self.get(asked.path).strip()
        if not written:
            return _ABSENT
        try:
            return asked.read(written)
        except InvalidDocument as refused:
            problems += refused.problems
        except ValueError as error:
            problems.append((asked.path, str(error)))
        return _ABSENT

    def _offered(self, asked: Field) -> list[str]:
        without = self._without(asked)
        columns = () if asked.hint.columns is None else asked.hint.columns(self)
        return [column for column in columns if column not in without]

    def _without(self, asked: Field) -> tuple[str, ...]:
        other = form_fields(self.kind).get(asked.hint.but)
        if not isinstance(other, Field) or self.idle(other):
            return ()
        return (*self.ticked(other.path), self.get(other.path))

    @classmethod
    def of(cls, document: Mapping[str, Any], told: Told) -> Draft:
        """The form that means this document; InvalidDocument where there is none."""
        if registry.dialect(document.get("type")) is not None:
            document = registry.check(document).as_json()
        kind = registry.kind(document.get("type"))
        rest = {name: value for name, value in raw(document, kind.document.ALIASES).items() if value is not None}
        data = _data_of(kind.type).of(rest, told, one_site=registry.form(kind.type).one_site)
        draft = cls(kind.type, data)
        fields: dict[str, str] = {}
        lists: dict[str, tuple[str, ...]] = {}
        unsaid: set[str] = set()
        followed: dict[str, Any] = {}
        for name, each in form_fields(kind.type).items():
            if isinstance(each, PartChoice):
                there = [chosen for chosen, part in each.parts.items() if _has(rest, part, each.fixes.get(chosen, {}))]
                fields[name] = there[-1] if there else ""
                followed |= each.fixes.get(fields[name], {})
                continue
            fields[name] = ""
            value = _at(rest, each.path)
            if value is _ABSENT or value is None:
                continue
            listed = [value] if isinstance(value, str) else value
            written = each.write(value)
            if each.columns and _names(listed):
                lists[name] = tuple(listed)
            elif written is not None and not each.columns:
                plain = not each.inside and each.words is None and notation.same(value, each.default)
                fields[name] = "" if plain else written
            else:
                unsaid.add(each.top)
        draft = replace(draft, fields=fields, lists=lists)
        for each in draft._leaves:
            value = _at(rest, each.path)
            if value is _ABSENT or value is None or each.hint.derived or not draft.idle(each):
                continue
            if not notation.same(value, each.default):
                unsaid.add(each.top)
        known = {each.top for each in draft._leaves} - unsaid
        fixed = {n for n, f in kind.document.model_fields.items() if n in rest and rest[n] == f.default}
        fixed |= {n for n, value in followed.items() if rest.get(n) == value}
        kept = {n: value for n, value in rest.items() if n not in known and n not in fixed and n != "type"}
        for each in draft._leaves:  # all the others are chosen where nothing is ticked
            if each.hint.rest and list(lists.get(each.path, ())) == draft._offered(each):
                lists.pop(each.path)
        return replace(draft, lists=lists, rest=kept).settled(told)

    # --- what is wrong ----------------------------------------------------------------------------------

    def place(self, name: str) -> tuple[str, str]:
        """Return what a field of the document is called in the form, and where it can be mended."""
        if self.written:
            return name.replace("_", " ").capitalize(), "raw"
        if (found := self.data.place(name)) is not None:
            return found
        shown = self.shown
        for n, each in shown.items():
            if f"{name}.".startswith(f"{n}."):
                rest = name[len(n) + 1 :]
                return f"{each.label}: {rest}" if rest else each.label, n
        for n, choice in self._choices:
            if any(name in fixed for fixed in choice.fixes.values()):
                return choice.label, n
        for n, each in shown.items():
            parts = each.parts.values() if isinstance(each, PartChoice) else (n,)
            if any(f"{part}.".startswith(f"{name}.") or part.endswith(f".{name}") for part in parts):
                return each.label, n
        return {"type": ("What comes out", "kind")}.get(name, (name, ""))


def document_in(text: str) -> dict[str, Any]:
    """The document that somebody wrote as JSON, or InvalidDocument."""
    try:
        read = read_json(text)
    except NotJSON as error:
        raise InvalidDocument([("document", str(error))]) from None
    if not isinstance(read, dict):
        raise InvalidDocument([("document", "must be a JSON object")])
    return read


def _data_of(kind: str) -> type[PeopleData] | type[SiteData]:
    return SiteData if kind in registry.site_types() else PeopleData


def _at(document: Mapping[str, Any], path: str) -> Any:
    found: Any = document
    for part in path.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return _ABSENT
        found = found[part]
    return found


def _has(document: Mapping[str, Any], part: str, fixed: Mapping[str, Any]) -> bool:
    """Return whether a document has a part, or what follows from choosing it."""
    return _at(document, part) is not _ABSENT or (bool(fixed) and fixed.items() <= document.items())


def _names(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(each, str) and each for each in value)


def _object(words: str) -> dict[str, Any]:
    try:
        read = read_json(words) if words else {}
    except NotJSON:
        return {}
    return read if isinstance(read, dict) else {}
