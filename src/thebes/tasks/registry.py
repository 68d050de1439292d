"""The kinds that there are. A kind is one folder with a `kind.py` beside this file, or a package that declares the
entry point `thebes.kinds`; adding one changes nothing here.

A folder holds `kind.py` (KIND), `aggregator.py` (AGGREGATOR) and `owner.py` (OWNER), each imported only by who
needs it, so that no coordinator loads an owner's half; its sample documents (`samples.py`) and its scenes of the demo
(`scene.py`); and, where it has one, its own form of release (`release.py`) and how its answers look (`view.py`). Its
`__init__.py` says `ANSWERED_BY = "sites"` where it is institutions that answer.
"""

from __future__ import annotations

import pkgutil
import warnings
from collections.abc import Mapping
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any, cast

from thebes.tasks import number_view
from thebes.tasks.answer_view import View
from thebes.tasks.document import Document, InvalidDocument, raw, rules_for_new_documents_rest
from thebes.tasks.protocols import Aggregator, Convened, Kind, Owner, Setting, SiteOwner, StreamOwner, Words
from thebes.tasks.site_document import SiteDocument, SiteKind


@lru_cache(maxsize=1)
def packages() -> dict[str, str]:
    """Return the package that holds each kind, by its type."""
    import thebes.tasks as room

    found = {
        info.name.replace("_", "-"): f"{room.__name__}.{info.name}"
        for info in pkgutil.iter_modules(room.__path__)
        if info.ispkg and find_spec(f"{room.__name__}.{info.name}.kind") is not None
    }
    for point in entry_points(group="thebes.kinds"):
        if point.name not in found and _loads(point):
            found[point.name] = point.value
    return found


def _loads(point: EntryPoint) -> bool:
    """Return whether a kind of somebody else's package is one. With a broken one everything else goes on, without
    it."""
    try:
        return import_module(f"{point.value}.kind").KIND is not None
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        told = f"the kind {point.name!r} cannot be used ({why}); mend or uninstall the package that declares it"
        warnings.warn(told, RuntimeWarning, stacklevel=2)
        return False


def register(type_: str, package: str) -> None:
    """Add the kind that a package holds, as an entry point of an installed one does, for as long as this process
    runs."""
    packages()[type_] = package


def types() -> tuple[str, ...]:
    """Every kind's type, in alphabetical order."""
    return tuple(sorted(packages()))


def site_types() -> tuple[str, ...]:
    """The kinds that institutions answer: their package says `ANSWERED_BY = "sites"`."""
    return tuple(type_ for type_ in types() if _answered_by(type_) == "sites")


def people_types() -> tuple[str, ...]:
    """The kinds that people answer."""
    return tuple(type_ for type_ in types() if _answered_by(type_) == "people")


def _answered_by(type_: str) -> str:
    return str(getattr(import_module(packages()[type_]), "ANSWERED_BY", "people"))


def load_all() -> None:
    """Import every kind's public half."""
    for type_ in types():
        kind(type_)


def load_site_owners() -> None:
    """Import the half of every kind that institutions run."""
    for type_ in site_types():
        import_module(f"{packages()[type_]}.owner")


def load_releases() -> None:
    """Import every kind's own form of release (`release.py`, where it has one), so that it can be read from JSON."""
    for package in packages().values():
        if find_spec(f"{package}.release") is not None:
            import_module(f"{package}.release")


def kind(type_: object) -> Kind:
    """The kind of that type; an unknown one is refused naming those that exist."""
    if not isinstance(type_, str) or type_ not in packages():
        raise InvalidDocument([("type", f"must be one of {', '.join(types())}")])
    found: Kind = import_module(f"{packages()[type_]}.kind").KIND
    return found


def view(type_: str) -> View:
    """Return how answers of that kind look: as its `view.py` says, else as numbers with their error bars do."""
    name = f"{packages()[type_]}.view"
    return cast(View, import_module(name) if find_spec(name) is not None else number_view)


def words(type_: str) -> Words:
    """Return the words of a kind; of one that is not known here any more, only its type."""
    return kind(type_).words if type_ in packages() else Words(type_, "")


def subject(document: Mapping[str, Any]) -> str:
    """Say what comes out of a checked document, as JSON."""
    type_ = str(document["type"])
    return kind(type_).subject(document) if type_ in packages() else type_


def endless(type_: str) -> bool:
    """Return whether tasks of that kind are trained for as long as they are open."""
    return type_ in packages() and kind(type_).document.endless


def samples(type_: str) -> list[Any]:
    """Return the sample documents of a kind (`samples.py`), each with people or sites that can answer it."""
    name = f"{packages()[type_]}.samples"
    return list(import_module(name).samples()) if find_spec(name) is not None else []


def scenes(type_: str, players: Any) -> list[Any]:
    """Return the scenes of a kind (`scene.py`) for these players: a crowd, or hospitals."""
    name = f"{packages()[type_]}.scene"
    return list(import_module(name).scenes(players)) if find_spec(name) is not None else []


def server(type_: str) -> str:
    """Return what every document of that kind says of the server, `trusted` or `untrusted`; nothing where documents
    differ, and of a kind that is not known here."""
    field = kind(type_).document.model_fields.get("server") if type_ in packages() else None
    return "" if field is None or field.is_required() else str(field.default)


def check(document: Mapping[str, Any] | Document) -> Document:
    """Read a document of any kind, or refuse it naming the field at fault."""
    plain = raw(document)
    if "type" not in plain:
        raise InvalidDocument([("type", "is missing")])
    return kind(plain["type"]).check(plain)


def accepted_earlier(document: Mapping[str, Any]) -> Document:
    """Read a document that was accepted once and stored, perhaps by an older version. Rules that have come since for
    what may be asked refuse none of these: the digest that people agreed to stays, and no home is locked by them."""
    with rules_for_new_documents_rest():
        return check(document)


def aggregator(document: Document, setting: Setting) -> Aggregator:
    """A new aggregator for a checked document."""
    made: Aggregator = import_module(f"{packages()[document.type]}.aggregator").AGGREGATOR(document, setting)
    return made


def site_kind(document: SiteDocument) -> SiteKind:
    """The kind of a document that institutions answer."""
    found: SiteKind = import_module(f"{packages()[document.type]}.kind").KIND
    return found


def priced(document: SiteDocument, setting: Setting) -> SiteDocument:
    """The document with what its accuracy costs as its epsilon, where it says how exact the answer is to be; any other
    as it is. `InvalidDocument` where that is more than it allows."""
    if not document.by_accuracy:
        return document
    asked = cast(Convened, aggregator(document, setting)).awaited
    made = import_module(f"{packages()[document.type]}.accuracy").priced
    found: SiteDocument = made(document, {site: setting.sites[site] for site in asked}, setting.quotes)
    return found


def alone(document: SiteDocument, setting: Setting) -> dict[str, float]:
    """Of a document that says how exact the answer is to be, what a site is told that answers within a width of its
    own; nothing where none can."""
    asked = cast(Convened, aggregator(document, setting)).awaited
    made = import_module(f"{packages()[document.type]}.accuracy").alone
    told: dict[str, float] = made(document, {site: setting.sites[site] for site in asked})
    return told


def expected(document: SiteDocument, setting: Setting) -> dict[str, tuple[float, str]]:
    """Of a document that says how exact the answer is to be, what each site is expected to pay, and where its answer
    would come from."""
    asked = cast(Convened, aggregator(document, setting)).awaited
    made = import_module(f"{packages()[document.type]}.accuracy").expected
    found: dict[str, tuple[float, str]] = made(document, {site: setting.sites[site] for site in asked}, setting.quotes)
    return found


def site_owner(document: SiteDocument, *, simulated: bool = False) -> SiteOwner:
    """The half of a checked document that an institution runs on its own rows; `simulated` as in `owner`."""
    half: SiteOwner = _owner(document, simulated)
    return half


def stream_owner(document: SiteDocument) -> StreamOwner:
    """The half of a checked document that an institution runs in attempts over a growing data set."""
    half: StreamOwner = _owner(document, simulated=False)
    return half


def owner(document: Document, *, simulated: bool = False) -> Owner:
    """The owner's half for a checked document. In simulation of one's own documents a kind may give a quicker one
    (`SIMULATED`) that computes the same without confining strangers' models."""
    half: Owner = _owner(document, simulated)
    return half


def _owner(document: Document, simulated: bool) -> Any:
    module = import_module(f"{packages()[document.type]}.owner")
    return getattr(module, "SIMULATED", module.OWNER) if simulated else module.OWNER
