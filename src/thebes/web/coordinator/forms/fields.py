"""The fields of a kind's form, made from the schema of its document and the hints that the kind gives.

What must stay true: every field of a document that may differ has a place in the form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.tasks import registry
from thebes.tasks.document import Document, PeopleDocument
from thebes.tasks.field_meanings import meaning
from thebes.tasks.form import EVERYWHERE, Form, Hint, PartChoice
from thebes.tasks.trust_models import choice
from thebes.web.coordinator.forms import notation
from thebes.web.coordinator.forms.notation import Schema

#: fields that the part of the form about data asks for
OF_DATA = frozenset(["featurizer", "bounds", "group", "epoch", "anonymity", "sites", "dataset"])
#: which follow from the trust that is chosen
_NOT_ASKED = frozenset(["server"])
TRUST = "trust"  #: the choice of whom people must trust
_LONG = 1000  #: characters; what may be longer gets several lines


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a document, and how it is asked. `path` names its place, and itself in the form."""

    path: str
    schema: Schema
    hint: Hint
    default: Any
    required: bool
    meaning: str = ""

    @property
    def top(self) -> str:
        return self.path.partition(".")[0]

    @property
    def inside(self) -> bool:
        """Return whether it belongs to a part of the document."""
        return self.top != self.path

    @property
    def label(self) -> str:
        words = self.path.replace("_", " ").replace(".", ": ")
        return self.hint.label or words[:1].upper() + words[1:]

    @property
    def help(self) -> str:
        told = [self.hint.help or ("" if self.hint.told else self.meaning or self.schema.get("description", ""))]
        if isinstance(self.default, (int, float)) and "if empty" not in told[0] and not self.words:
            told.append(f"{figure(self.default)} if empty")
        return "; ".join(filter(None, told))

    @property
    def words(self) -> list[str] | None:
        """Everything that it may be, where that is known beforehand."""
        return notation.choices(self.schema)

    @property
    def columns(self) -> bool:
        """Return whether several columns are ticked for it."""
        return self.hint.columns is not None and notation.parted(self.schema)

    @property
    def rows(self) -> int:
        """The lines of the place to write in."""
        long = max((each.get("maxLength", 0) for each in notation.alternatives(self.schema)), default=0)
        return self.hint.lines or (2 if notation.parted(self.schema) or long > _LONG else 1)

    @property
    def mode(self) -> str:
        return "" if self.hint.kind else notation.number_mode(self.schema)

    def read(self, text: str) -> Any:
        """Return the value that was typed; ValueError with what it must be."""
        if self.hint.reads is not None and text[:1] not in ("{", "["):
            return self.hint.reads(text)
        return notation.read(self.schema, text)

    def write(self, value: Any) -> str | None:
        """Return the text that reads as this value; None where there is none."""
        for write in (self.hint.writes, *notation.WAYS):
            try:
                text = None if write is None else write(value)
                if text is not None and text == text.strip() and notation.same(self.read(text), value):
                    return text
            except (ValueError, Mistake):
                continue
        return None


def form_fields(kind: str) -> dict[str, Field | PartChoice]:
    """Return the fields of a kind's form by name, in the order in which they are asked."""
    model: type[Document] = registry.kind(kind).document
    return _fields(kind, model, registry.form(kind))


@lru_cache(maxsize=256)
def _fields(kind: str, model: type[Document], form: Form) -> dict[str, Field | PartChoice]:
    schema = model.model_json_schema()
    leaves = _leaves(_inlined(schema, schema.get("$defs", {})), form, "", required=True)
    found = {path: replace(leaf, meaning=meaning(path, model, form)) for path, leaf in leaves}
    asked = {name: found.get(name, hint) for name, hint in form.fields.items()}
    general = {name: found[name] for name in EVERYWHERE if name in found}
    trust = {TRUST: choice(kind, model)} if issubclass(model, PeopleDocument) else {}
    every = {**asked, **trust, **general, **found}
    return {name: each for name, each in every.items() if not isinstance(each, Hint)}


def _leaves(schema: Schema, form: Form, prefix: str, *, required: bool) -> Iterator[tuple[str, Field]]:
    for name, found in schema["properties"].items():
        path = f"{prefix}{name}"
        ways = notation.alternatives(found)
        must = required and name in schema.get("required", ())
        if path in OF_DATA or path in _NOT_ASKED or "const" in found:
            continue
        if len(ways) == 1 and "properties" in ways[0]:
            yield from _leaves(ways[0], form, f"{path}.", required=must)
            continue
        said, general = form.fields.get(path), EVERYWHERE.get(path)
        hint = said if isinstance(said, Hint) else Hint(expert=general is None and not must)
        hint = hint if general is None else hint.over(general)
        yield path, Field(path, found, hint, found.get("default"), must)


def _inlined(schema: Any, parts: Mapping[str, Any], deep: int = 8) -> Any:
    """A schema with what it refers to in its place; what refers to itself may be anything at some depth."""
    if isinstance(schema, list):
        return [_inlined(each, parts, deep) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    if "$ref" in schema:
        if not deep:
            return {}
        return _inlined(parts[schema["$ref"].rpartition("/")[2]], parts, deep - 1)
    return {name: _inlined(each, parts, deep) for name, each in schema.items() if name != "$defs"}
