"""Trust models: who must keep their word for a promise to people, and the document that asks the same question so.

What must stay true: every model makes the same promise, so that only accuracy and trust differ; a model that a question
cannot have says why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from thebes.privacy.faults import Mistake
from thebes.tasks import registry
from thebes.tasks.document import PeopleDocument, Range, Values
from thebes.tasks.form import PartChoice
from thebes.tasks.mixed_document import MixedDocument, planned

NOBODY, MIXED, SPLIT, TRUSTED = "nobody", "mixed", "split", "trusted"
#: what each does and who has to keep their word, from the least trust to the most
MODELS: Mapping[str, str] = {
    NOBODY: "each answer is changed at random on its owner's machine before it leaves; nobody has to keep their word",
    MIXED: "the same with less noise, among many answers that nobody can assign: who sees them must not learn whose is "
    "whose, and enough of the others must follow the rules. What people pay holds whatever anybody does",
    SPLIT: "two servers of two institutions each hear a share of every answer, which alone is chance; one of the two "
    "has to keep its word",
    TRUSTED: "this server is shown the values, adds noise once and destroys them; it has to keep its word",
}
TITLES: Mapping[str, str] = {NOBODY: "Nobody", MIXED: "Nobody, mixed", SPLIT: "Two servers", TRUSTED: "This server"}
#: by what a document calls it
SERVERS: Mapping[str, str] = {"untrusted": NOBODY, "split": SPLIT, "trusted": TRUSTED}
_PARTS = {MIXED: "mixed", SPLIT: "helper"}  #: of a document that has the model
#: fields that belong to one model, or to one mechanism of it
_OWN = ("type", "server", "mixed", "helper", "helper_key", "mechanism", "aggregator", "bins", "missing", "predicted")
#: models that a kind has not, where the same question may be one of another kind
_ELSEWHERE = {"basic": (NOBODY, MIXED), "bounded": (SPLIT, TRUSTED)}
_ROWS = "ask a mean of a range or a histogram of declared values as Perturbed rows; other statistics need a server"
_ONE = "servers add up one statistic of one column: ask each column by itself as One statistic"


@dataclass(frozen=True, slots=True)
class TrustModel:
    """One way to ask a question. `document` is None where there is none, and `why` says so."""

    name: str
    document: Mapping[str, Any] | None = None
    why: str = ""


def offered(document: type[PeopleDocument]) -> list[str]:
    """Name the models that documents of a kind can have, from the least trust to the most."""
    server = document.model_json_schema()["properties"]["server"]
    said = {SERVERS[word] for word in server.get("enum", [server.get("const")])}
    mixed = issubclass(document, MixedDocument)
    return [name for name in MODELS if name in said or (name == MIXED and mixed)]


def choice(type_: str, document: type[PeopleDocument]) -> PartChoice:
    """Ask for the model of a kind's documents, first the one of those that say nothing."""
    there, usual = offered(document), SERVERS[document.model_fields["server"].default]
    words = {model: word for word, model in SERVERS.items()}
    return PartChoice(
        label="Whom people must trust",
        parts={name: _PARTS.get(name, "") for name in sorted(there, key=lambda name: name != usual)},
        told={name: MODELS[name] for name in there},
        place="trust",
        fixes={name: {"server": words[name]} for name in there if name != MIXED},
        without={name: without(name, type_) for name in MODELS if name not in there},
    )


def trust_model(document: PeopleDocument) -> str:
    """Name the model of a document."""
    return MIXED if getattr(document, "mixed", None) is not None else SERVERS[document.server]


def trust_models(document: PeopleDocument) -> list[TrustModel]:
    """Ask the same question, with the same promise, in every model."""
    return [_model(name, document) for name in MODELS]


def _model(name: str, document: PeopleDocument) -> TrustModel:
    if name == trust_model(document):
        return TrustModel(name, document.as_json())
    given: Mapping[str, Any] | str
    if name in offered(type(document)):
        given = {field: value for field, value in document.as_json().items() if field not in _OWN[1:6]}
    elif name in _ELSEWHERE.get(document.type, ()):
        given = _perturbed(document) if document.type == "basic" else _added_up(document)
    else:
        given = without(name, document.type)
    if isinstance(given, str):
        return TrustModel(name, why=given)
    try:
        return TrustModel(name, _asked(name, {**given, "epsilon": _promised(document)}, document.min_count))
    except Mistake as refused:
        return TrustModel(name, why=str(refused))


def without(name: str, type_: str) -> str:
    """Say why documents of a kind cannot have a model, and which can."""
    if name in _ELSEWHERE.get(type_, ()):
        return _ROWS if type_ == "basic" else _ONE
    if name == MIXED and NOBODY in offered(registry.kind(type_).document):
        return "everybody is asked something else here, so that answers do not cover each other"
    people = [type_ for type_ in registry.types() if type_ not in registry.site_types()]
    able = [registry.words(each).title for each in people if name in offered(registry.kind(each).document)]
    why = {SPLIT: "two servers open sums alone", TRUSTED: "nobody is shown a value here"}
    return f"{why.get(name, 'a server has to be shown the values here')}; it can be had of: {', '.join(able)}"


def _promised(document: PeopleDocument) -> float:
    mixed = getattr(document, "mixed", None)
    return float(document.epsilon if mixed is None else mixed.epsilon)


def _asked(name: str, given: Mapping[str, Any], people: int) -> dict[str, Any]:
    if name == MIXED:
        free = {field: value for field, value in given.items() if (field, value) != ("anonymity", "none")}
        return planned(free, mixed=given["epsilon"], people=people).as_json()
    server = next(word for word, model in SERVERS.items() if model == name)
    return registry.check({**given, "server": server}).as_json()


def _perturbed(document: Any) -> dict[str, Any] | str:
    """Return the rows that tell the same statistic."""
    bound = (document.bounds or {}).get(document.column)
    told = Range if document.aggregator == "mean" else Values if document.aggregator == "histogram" else ()
    return {**_shared(document), "type": "bounded"} if isinstance(bound, told) else _ROWS


def _added_up(document: Any) -> dict[str, Any] | str:
    """Return the statistic that the only column of perturbed rows tells."""
    if len(document.gives) != 1:
        return _ONE
    (bound,) = document.bounds.values()
    return {**_shared(document), "type": "basic", "aggregator": "mean" if isinstance(bound, Range) else "histogram"}


def _shared(document: PeopleDocument) -> dict[str, Any]:
    fields = {*PeopleDocument.model_fields} - {*_OWN}
    return {name: value for name, value in document.as_json().items() if name in fields}
