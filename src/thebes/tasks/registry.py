"""The kinds that there are. A kind is one folder with a `kind.py` beside this file, or a package that declares the
entry point `thebes.kinds`; adding one changes nothing here.

A folder holds `kind.py` (KIND), `aggregator.py` (AGGREGATOR) and `owner.py` (OWNER), each imported only by who
needs it, so that no coordinator loads an owner's half; its sample documents (`samples.py`), its scenes of the demo
(`scene.py`) and its rows of the audit (`audit.py`); and, where it has one, its own form of release (`release.py`), how
its answers look (`view.py`), how it is asked beside what its document's schema says (`form.py`) and how it is rehearsed
(`rehearsal.py`). Its `__init__.py` says `ANSWERED_BY = "sites"` where it is institutions that answer.

A folder that holds a `dialect.py` (DIALECT) instead is another way to write documents: checking one gives the document
of the kind that does the work, and nothing else knows of it.
"""

from __future__ import annotations

import pkgutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, cast, get_args, overload

from thebes.data.rows import Rows
from thebes.privacy.faults import Mistake
from thebes.privacy.guarantees import Price
from thebes.privacy.randomness import Randomness
from thebes.tasks import course_view, number_view, registration
from thebes.tasks.aggregation.site_shares import SealedShare
from thebes.tasks.aggregation.split_servers import CoordinateNoise, Splitting
from thebes.tasks.answer_view import AnswerView, Cells
from thebes.tasks.audit.case import Case
from thebes.tasks.choice import DocumentChoice, RuledChoice
from thebes.tasks.course_view import CourseView, TaskCourse
from thebes.tasks.document import Document, InvalidDocument, PeopleDocument, raw, rules_for_new_documents_rest
from thebes.tasks.form import Form, safe
from thebes.tasks.kind_failure import KindFailed, guard, guarded
from thebes.tasks.protocols import Aggregator, Dialect, Kind, Owner, Setting, Words
from thebes.tasks.rehearsal import Rehearsal
from thebes.tasks.release import Release
from thebes.tasks.site_document import SiteDocument
from thebes.tasks.site_protocols import Convened, SiteKind, SiteOwner, StreamOwner

_PLAIN = Form()


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
        if _loads(point, found):
            found[point.name] = point.value
    return found


@lru_cache(maxsize=1)
def dialects() -> dict[str, str]:
    """Return the module of every other way to write documents, by the type that they say."""
    import thebes.tasks as room

    named = {
        info.name.replace("_", "-"): f"{room.__name__}.{info.name}.dialect"
        for info in pkgutil.iter_modules(room.__path__)
        if info.ispkg
    }
    return {type_: name for type_, name in named.items() if find_spec(name) is not None}


def dialect(type_: object) -> Dialect | None:
    """Return the way to write documents of that type; None where it is a kind's own, or nobody's."""
    if not isinstance(type_, str) or type_ not in dialects():
        return None
    found: Dialect = import_module(dialects()[type_]).DIALECT
    return found


def written_types() -> tuple[str, ...]:
    """Return every type that a document may say: the kinds, and the dialects that turn into them."""
    return tuple(sorted({*packages(), *dialects()}))


def _loads(point: EntryPoint, known: Mapping[str, str]) -> bool:
    """Return whether a kind of somebody else's package is one. With a broken one everything else goes on, without
    it."""
    try:
        type_ = registration.looked_at(point.value)
        _once(type_, point.value, known)
        if type_ != point.name:
            raise Mistake("thebes.kinds", f"calls it {point.name!r}, and its KIND.type is {type_!r}; they must agree")
        return True
    except Exception as error:
        why = str(error) if isinstance(error, Mistake) else f"{type(error).__name__}: {error}"
        told = f"the kind {point.name!r} cannot be used ({why}); mend or uninstall the package that declares it"
        warnings.warn(told, RuntimeWarning, stacklevel=2)
        return False


def register(package: str) -> str:
    """Add the kind that a package holds, as an entry point of an installed one does, for as long as this process
    runs, and return its type. Mistake where it could not work, naming what is wrong, where, and what to do."""
    type_ = registration.looked_at(package)
    _once(type_, package, packages())
    packages()[type_] = package
    return type_


@contextmanager
def registered(package: str) -> Iterator[str]:
    """Add the kind that a package holds for as long as the context lasts."""
    known = dict(packages())
    try:
        yield register(package)
    finally:
        packages().clear()
        packages().update(known)


def _once(type_: str, package: str, known: Mapping[str, str]) -> None:
    if known.get(type_, package) != package:
        raise Mistake(
            f"{package}.kind.KIND.type",
            f"is {type_!r}, and that is the kind in {known[type_]} already; name yours differently, or uninstall that",
        )


def places() -> list[str]:
    """List the folders that other packages' kinds are imported from: a process of its own needs them too."""
    others = {package.split(".")[0] for package in packages().values()} - {"thebes"}
    return sorted({str(Path(folder).parent) for name in others for folder in import_module(name).__path__})


def types() -> tuple[str, ...]:
    """Return every kind's type, in alphabetical order."""
    return tuple(sorted(packages()))


def site_types() -> tuple[str, ...]:
    """Return the kinds that institutions answer: their package says `ANSWERED_BY = "sites"`."""
    return tuple(type_ for type_ in types() if _answered_by(type_) == "sites")


def people_types() -> tuple[str, ...]:
    """Return the kinds that people answer."""
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
    """Import every kind's own form of release (`release.py`, where it has one), so that it can be read from JSON. One
    that cannot be imported leaves the others readable."""
    for type_ in packages():
        with suppress(KindFailed):
            _part(type_, "release")


def kind(type_: object) -> Kind[Any]:
    """Return the kind of that type; an unknown one is refused naming those that exist."""
    if not isinstance(type_, str) or type_ not in packages():
        raise InvalidDocument([("type", f"must be one of {', '.join(written_types())}")])
    found: Kind[Any] = import_module(f"{packages()[type_]}.kind").KIND
    return found


def drawn(type_: object) -> Kind[Any]:
    """Return the kind of that type for lists and pages, which one kind must not take down: whatever it raises, or gives
    instead of what it must, is one `KindFailed`."""
    found = kind(type_)
    read = getattr(found, "document", Document)
    return guard(found, str(type_), subject=str, check=read, price=Price, explain=str)


def _part(type_: str, name: str) -> ModuleType | None:
    """Import a file of a kind's folder; None where it has none of that name. `KindFailed` where that fails."""
    found = f"{packages()[type_]}.{name}"
    with guarded(type_, f"{name}.py", may=()):
        return import_module(found) if find_spec(found) is not None else None


def view(type_: str) -> AnswerView[Any]:
    """Return how answers of that kind look: as its `view.py` says, else as numbers with their error bars do. Guarded,
    as `drawn` is."""
    return guard(cast(AnswerView[Any], _part(type_, "view") or number_view), type_)


def table_of(release: Release) -> Cells:
    """Return every number of an answer whose form is a kind's own, as that kind's `view.py` writes them for the
    download."""
    made = f"{type(release).__module__}."
    of = next((type_ for type_, package in packages().items() if made.startswith(f"{package}.")), None)
    return (number_view if of is None else view(of)).table(release)


def place(document: PeopleDocument, release: Release, rows: Sequence[Mapping[str, Any]]) -> str:
    """Say where an owner's own rows lie in an answer (`place.py`), for their eyes only; empty where the kind cannot."""
    with suppress(KindFailed), guarded(document.type, "place.py", may=(KindFailed,)):
        own = _part(document.type, "place")
        return "" if own is None else str(own.place(document, release, rows))
    return ""


def course(type_: str) -> CourseView[Any]:
    """Return how it is shown that tasks without end go: as the kind's `course.py` says, else contributions counted.
    Guarded, as `drawn` is."""
    return guard(
        cast(CourseView[Any], _part(type_, "course") or course_view), type_, going=TaskCourse, learned=Sequence
    )


def crowd(
    document: PeopleDocument,
    aggregator: Aggregator,
    owner: Any,
    everybody: Rows,
    randomness: Randomness,
    in_flight: int,
) -> Any:
    """Return what computes for many simulated people of a task without end together (`crowd.py`, which has `turn`);
    None where its kind has no such thing, or not for this document."""
    part = _part(document.type, "crowd")
    return None if part is None else part.crowd(document, aggregator, owner, everybody, randomness, in_flight)


def form(type_: str) -> Form:
    """Return how a kind's documents are composed: as its `form.py` says, beside their schema; by the schema alone where
    that fails."""
    with suppress(KindFailed), guarded(type_, "form.py", may=(KindFailed,)):
        own = _part(type_, "form")
        return _PLAIN if own is None else safe(own.FORM, type_)
    return _PLAIN


def words(type_: str) -> Words:
    """Return the words of a kind; of one that is not known here any more, only its type."""
    return kind(type_).words if type_ in packages() else Words(type_, "")


def subject(document: Mapping[str, Any]) -> str:
    """Say what comes out of a checked document, as JSON; or that its kind cannot say it."""
    type_ = str(document["type"])
    try:
        return drawn(type_).subject(document) if type_ in packages() else type_
    except KindFailed as failed:
        return str(failed)


def endless(type_: str) -> bool:
    """Return whether tasks of that kind are trained for as long as they are open."""
    return type_ in packages() and kind(type_).document.endless


def samples(type_: str) -> list[Any]:
    """Return the sample documents of a kind (`samples.py`), each with people or sites that can answer it."""
    part = _part(type_, "samples")
    return [] if part is None else list(part.samples())


def scenes(type_: str, players: Any) -> list[Any]:
    """Return the scenes of a kind (`scene.py`) for these players: a crowd, or hospitals."""
    part = _part(type_, "scene")
    return [] if part is None else list(part.scenes(players))


def rehearsal(type_: str) -> Rehearsal[Any]:
    """Return how tasks of a kind are rehearsed: as its `rehearsal.py` says, else as what answers with a number, over
    people like those of its first sample document where there are no bounds. Guarded, as `drawn` is."""
    part = _part(type_, "rehearsal")
    with guarded(type_, "samples.py" if part is None else "rehearsal.py"):
        own = Rehearsal(next(iter(samples(type_)), None)) if part is None else cast(Rehearsal[Any], part.REHEARSAL)
    return guard(own, type_, refused=str, people=int)


def audit(type_: str) -> list[Case]:
    """Return the rows of a kind in the audit (`audit.py`): honest ones, and those that must be caught."""
    part = _part(type_, "audit")
    return [] if part is None else list(part.cases())


def servers(type_: str) -> tuple[str, ...]:
    """Return what documents of that kind may say of the server: `trusted`, `split`, `untrusted`; nothing of a kind that
    is not known here."""
    field = kind(type_).document.model_fields.get("server") if type_ in packages() else None
    return () if field is None else tuple(map(str, get_args(field.annotation)))


def unsaid_servers(type_: str) -> tuple[str, ...]:
    """Return what a rule about that kind covers that says nothing of the server. Where noise at home would do, two
    servers must be named: such rules were written when a kind trusted nobody."""
    possible = servers(type_)
    return tuple(each for each in possible if each != "split" or "untrusted" not in possible)


def check(document: Mapping[str, Any] | Document) -> Document:
    """Read a document of any kind as it is written now, or refuse it naming the field at fault."""
    plain = raw(document)
    type_ = plain.get("type")
    if not isinstance(document, Document) and isinstance(type_, str) and type_ in packages():
        plain = {**getattr(kind(type_), "document", Document).WRITTEN_NOW, **plain}
    return posted(plain)


def posted(document: Mapping[str, Any] | Document) -> Document:
    """Read a document that somebody else posted, perhaps by an older version, as it stands: nothing is filled in that
    has come since. What may not be asked now is refused."""
    plain = raw(document)
    if "type" not in plain:
        raise InvalidDocument([("type", "is missing")])
    checked: Document = (dialect(plain["type"]) or drawn(plain["type"])).check(plain)
    return checked


def accepted_earlier(document: Mapping[str, Any]) -> Document:
    """Read a document that was accepted once and stored, perhaps by an older version. Rules that have come since for
    what may be asked refuse none of these: the digest that people agreed to stays, and no home is locked by them."""
    with rules_for_new_documents_rest():
        return posted(document)


def choice(document: Document) -> DocumentChoice[Any] | RuledChoice | None:
    """Return which of several ways a checked document takes, and what each is expected to err or by which rule; None
    where its kind has one way, or compares none."""
    chosen = getattr(kind(document.type), "choice", None)
    return None if chosen is None else cast("DocumentChoice[Any] | RuledChoice", chosen(document))


@overload
def aggregator(document: SiteDocument, setting: Setting) -> Convened: ...
@overload
def aggregator(document: Document, setting: Setting) -> Aggregator: ...
def aggregator(document: Document, setting: Setting) -> Aggregator:
    """Make a new aggregator for a checked document."""
    return registration.aggregator_of(packages()[document.type])(document, setting)


def split(document: PeopleDocument, randomness: Randomness) -> Splitting:
    """Return how reports in shares of a document with two servers are verified, and what each adds to its sum."""
    made: Splitting = import_module(f"{packages()[document.type]}.split").statistic(document, randomness)
    return made


def noises(document: SiteDocument, shares: Sequence[SealedShare]) -> tuple[CoordinateNoise, ...]:
    """Return the noise that each of two servers adds to the sum of these shares of sites."""
    made: tuple[CoordinateNoise, ...] = import_module(f"{packages()[document.type]}.noises").noises(document, shares)
    return made


def site_kind(document: SiteDocument) -> SiteKind[Any]:
    """Return the kind of a document that institutions answer."""
    return cast(SiteKind[Any], import_module(f"{packages()[document.type]}.kind").KIND)


def site_owner(document: SiteDocument, *, simulated: bool = False) -> SiteOwner[Any]:
    """Return the half of a checked document that an institution runs on its own rows; `simulated` as in `owner`."""
    half: SiteOwner[Any] = _owner(document, simulated)
    return half


def stream_owner(document: SiteDocument) -> StreamOwner[Any]:
    """Return the half of a checked document that an institution runs in attempts over a growing data set."""
    half: StreamOwner[Any] = _owner(document, simulated=False)
    return half


def owner(document: Document, *, simulated: bool = False) -> Owner[Any]:
    """Return the owner's half for a checked document. In simulation of one's own documents a kind may give a quicker
    one (`SIMULATED`) that computes the same without confining strangers' models."""
    half: Owner[Any] = _owner(document, simulated)
    return half


def _owner(document: Document, simulated: bool) -> Any:
    package = packages()[document.type]
    half = registration.owner_of(package)
    return getattr(import_module(f"{package}.owner"), "SIMULATED", half) if simulated else half
