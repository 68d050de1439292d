"""The look at a kind before it is used: what its author forgot, misnamed or mistyped, said where it is.

What must stay true: no kind is used that fails later and elsewhere for a reason that can be seen here; the owner's half
is looked at only where it is used, so that no coordinator loads one.
"""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
import textwrap
import warnings
from collections.abc import Callable, Collection, Iterator
from dataclasses import fields
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

from thebes.privacy.faults import Mistake
from thebes.privacy.spelling import nearest
from thebes.tasks.document import Document, PeopleDocument
from thebes.tasks.form import Form, PartChoice, wrong
from thebes.tasks.protocols import Aggregator, Foreseeing, Kind, Legible, Owner, Words
from thebes.tasks.site_document import SiteDocument
from thebes.tasks.site_protocols import Planned, SiteKind, SiteOwner, StreamOwner

_TYPE = r"[a-z][a-z0-9-]*"
_HALVES = {"aggregator": "AGGREGATOR", "owner": "OWNER"}
#: the files that a kind may also have, and what is looked for in each
_OPTIONAL = {
    "samples": ("samples",),
    "scene": ("scenes",),
    "audit": ("cases",),
    "release": (),
    "view": ("sections", "table"),
    "course": ("going", "history", "learned"),
    "rehearsal": ("REHEARSAL",),
    "crowd": ("crowd",),
    "form": ("FORM",),
    "accuracy": ("priced", "alone", "expected"),
    "split": ("statistic",),
    "noises": ("noises",),
}
#: methods of an aggregator that do the base class's own work when they are overridden, and may write what it keeps
_ITS_OWN_WORK = {"accept", "advance", "close", "expect", "recall", "restore", "stands", "take_over"}


def looked_at(package: str) -> str:
    """Return the type of the kind that a package holds; Mistake where its public half is wrong or a half is missing."""
    if find_spec(package) is None:
        raise Mistake(package, "cannot be imported as a package; name the package whose kind.py says KIND")
    sites = _answered_by(package) == "sites"
    where = f"{package}.kind.KIND"
    kind = _said(package, "kind", "KIND")
    if not isinstance(getattr(kind, "type", None), str) or not re.fullmatch(_TYPE, kind.type):
        raise Mistake(f"{where}.type", 'must be what documents say as "type": lower-case letters, digits and hyphens')
    _document(f"{where}.document", getattr(kind, "document", None), kind.type, sites=sites)
    _refuse_unlike(package, "kind", kind.document)
    _words(f"{where}.words", getattr(kind, "words", None))
    _same_calls(where, kind, SiteKind if sites else Kind)
    for half, name in _HALVES.items():
        if find_spec(f"{package}.{half}") is None:
            why = "its documents could be accepted and never answered"
            raise Mistake(f"{package}.{half}", f"is missing: without it {why}. Write {half}.py with {name} in it")
    _optional_files(package, kind.document)
    _tell_misnamed(where, _public(kind), ["choice"])
    return str(kind.type)


def _looked_at_once(look: Callable[[str, Any], None]) -> Callable[[str, Any], None]:
    """Make a look at a half of a package be taken at each half once: it is looked at whenever it is used, and what is
    put in its place (a kind that is written anew, a test's) is another one."""
    good = dict[str, Any]()

    @wraps(look)
    def looked(package: str, half: Any) -> None:
        if package not in good or good[package] is not half:
            look(package, half)
            good[package] = half

    return looked


def aggregator_of(package: str) -> Callable[..., Aggregator]:
    """Return what makes a kind's aggregators; Mistake where it could not do an aggregator's work."""
    made: Callable[..., Aggregator] = _said(package, "aggregator", "AGGREGATOR", instance=False)
    _aggregator(package, made)
    return made


@_looked_at_once
def _aggregator(package: str, made: Any) -> None:
    where = f"{package}.aggregator.AGGREGATOR"
    try:
        inspect.signature(made).bind(object(), object())
    except TypeError:
        raise Mistake(where, "must be what makes an aggregator: it is called with a document and a setting") from None
    if inspect.isclass(made):
        missing = [name for name in _named_by(Aggregator) if name != "state" and not hasattr(made, name)]
        missing += sorted(getattr(made, "__abstractmethods__", ()))
        _refuse_unlike(package, "aggregator", made)
        if missing:
            raise Mistake(f"{where}.{missing[0]}", f"is missing: {made.__name__} needs {_listed(missing)}")
        _same_calls(where, made, Aggregator, bound=False)
        for name, method, base in _collisions(made):
            why = f"which {base.__name__} keeps for its own work, so that phases would never end or end wrongly"
            at = f"{package}.aggregator.{made.__name__}.{method}"
            raise Mistake(at, f"sets self.{name}, {why}; give yours another name")
        if hasattr(made, "facts"):
            _untrusted(f"{package}.kind.KIND.document.server", _said(package, "kind", "KIND").document)


def owner_of(package: str) -> Any:
    """Return a kind's owner's half; Mistake where it could not do an owner's work."""
    owner = _said(package, "owner", "OWNER")
    _owner(package, owner)
    return owner


@_looked_at_once
def _owner(package: str, owner: Any) -> None:
    more = [name for each in (Legible, Foreseeing, Planned) for name in vars(each) if not name.startswith("_")]
    _tell_misnamed(f"{package}.owner.OWNER", _public(owner), more)
    if _answered_by(package) != "sites":
        _same_calls(f"{package}.owner.OWNER", owner, Owner)
    elif hasattr(owner, "attempt"):
        _same_calls(f"{package}.owner.OWNER", owner, StreamOwner)
    else:
        _same_calls(f"{package}.owner.OWNER", owner, SiteOwner)


def _answered_by(package: str) -> str:
    said = getattr(import_module(package), "ANSWERED_BY", "people")
    if said not in ("people", "sites"):
        raise Mistake(f"{package}.ANSWERED_BY", 'must be "people" or "sites"; leave it out for people')
    return str(said)


def _said(package: str, half: str, name: str, *, instance: bool = True) -> Any:
    if find_spec(f"{package}.{half}") is None:
        raise Mistake(f"{package}.{half}", f"is missing; write {half}.py with {name} in it")
    said = getattr(import_module(f"{package}.{half}"), name, None)
    if said is None:
        raise Mistake(f"{package}.{half}.{name}", f"is missing: the last line of {half}.py says what {name} is")
    if instance and inspect.isclass(said):
        raise Mistake(f"{package}.{half}.{name}", f"is the class {said.__name__}; write {name} = {said.__name__}()")
    return said


def _document(where: str, document: Any, type_: str, *, sites: bool) -> None:
    base: type[Document] = SiteDocument if sites else PeopleDocument
    if not inspect.isclass(document) or not issubclass(document, base):
        other = 'take it out of __init__.py or say ANSWERED_BY = "sites" there' if inspect.isclass(document) else ""
        advice = f"; if others answer it, {other}" if other else ""
        raise Mistake(where, f"must be a class made from {base.__name__}{advice}")
    if document.model_fields["type"].default != type_:
        raise Mistake(f"{where}.type", f'must be declared as type: Literal["{type_}"] = "{type_}", as KIND.type says')
    for name in document.model_fields:
        for each in base.__mro__:
            if issubclass(each, Document) and name in vars(each) and name not in each.model_fields:
                raise Mistake(
                    f"{where}.{name}",
                    "is a field with the name of something that every document says by itself "
                    f"({each.__name__}.{name}): give the field another name, and where it is meant, override it with a "
                    "property that reads the field",
                )


def _optional_files(package: str, document: type[Document]) -> None:
    """Refuse a file in which what is looked for is not; tell of one that is nearly called as what is not there."""
    there = {each.name for each in pkgutil.iter_modules(getattr(import_module(package), "__path__", ()))}
    _tell_misnamed(package, there - {"kind", *_HALVES}, _OPTIONAL)
    for half in there & _OPTIONAL.keys():
        written = _names_in(f"{package}.{half}")
        for name in _OPTIONAL[half] if written else ():
            if name not in written:
                near = next((each for each in sorted(written) if nearest(each, [name])), None)
                said = f"; it has {near}, which nobody looks for" if near else ""
                raise Mistake(f"{package}.{half}.{name}", f"is missing: {half}.py must say what {name} is{said}")
    if "form" in there:
        _hints(f"{package}.form.FORM", _said(package, "form", "FORM"), document)


def _hints(where: str, form: Any, document: type[Document]) -> None:
    """Refuse a form that hints at what no document has, or that cannot be drawn."""
    if not isinstance(form, Form):
        raise Mistake(where, f"must be a Form, and is of type {type(form).__name__}")
    schema = document.model_json_schema()
    known = {name for part in (schema, *schema.get("$defs", {}).values()) for name in part.get("properties", ())}
    for name, hint in {**dict.fromkeys(form.meanings), **form.fields}.items():
        for path in hint.parts.values() if isinstance(hint, PartChoice) else [name]:
            for step in path.replace(".*", "").split("."):
                if step not in known:
                    near = nearest(step, known)
                    raise Mistake(
                        f"{where}.{'meanings' if hint is None else 'fields'}[{name!r}]",
                        f"is about {path}, which no document of this kind has{f'; it has {near}' if near else ''}",
                    )
        if hint is not None and (why := wrong(hint)):
            raise Mistake(f"{where}.fields[{name!r}]", why)


def _tell_misnamed(where: str, there: Collection[str], looked_for: Collection[str]) -> None:
    """Warn of what is nearly called as something that may be left out, and is looked for by its name alone."""
    absent = [name for name in looked_for if name not in there]
    for name in sorted(set(there) - set(looked_for)):
        if near := nearest(name, absent):
            told = f"{where}.{name} is looked for by nobody; if it is meant to be {where}.{near}, call it so"
            warnings.warn(told, RuntimeWarning, stacklevel=2)


def _names_in(module: str) -> set[str]:
    """Read the names that a file gives to something, without running it; none where it has no text."""
    spec = find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return set()
    found = set[str]()
    for node in ast.walk(ast.parse(Path(spec.origin).read_text("utf-8"))):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.alias(name=name, asname=other):
                found.add(other or name)
    return set() if "*" in found else found


def _public(half: object) -> list[str]:
    return [name for name in dir(half) if not name.startswith("_")]


def _untrusted(where: str, document: type[Document]) -> None:
    """Refuse a task without end whose contributions a server would have to be trusted with."""
    if "trusted" in get_args(document.model_fields["server"].annotation):
        raise Mistake(
            where,
            'may say "trusted" of a task without end: what it keeps is not sealed, and each look at it would draw '
            'noise anew for one price. Declare server: Literal["untrusted"] = "untrusted", and add noise before '
            "anything leaves",
        )


def _words(where: str, words: Any) -> None:
    if not isinstance(words, Words):
        raise Mistake(where, f"must be Words(title, about, ...), and is of type {type(words).__name__}")
    for each in fields(Words):
        if not isinstance(getattr(words, each.name), str):
            raise Mistake(f"{where}.{each.name}", f"must be text, and is a {type(getattr(words, each.name)).__name__}")
    if not words.title or not words.about:
        raise Mistake(where, "must have a title and an about: pages call the kind by them")


def _same_calls(where: str, half: Any, protocol: Any, *, bound: bool = True) -> None:
    """Refuse a half that lacks a method of its protocol, or cannot be called as everybody calls it."""
    named = protocol.__name__
    for name in _named_by(protocol):
        if not inspect.isfunction(getattr(protocol, name, None)):
            continue
        mine = getattr(half, name, None)
        if not callable(mine):
            file = protocol.__module__.replace(".", "/") + ".py"
            raise Mistake(f"{where}.{name}", f"is missing; {named} in {file} says what it does")
        called = list(inspect.signature(getattr(protocol, name)).parameters.values())[1:]
        placed = [object() for each in called if each.kind is not each.KEYWORD_ONLY]
        told = {each.name: object() for each in called if each.kind is each.KEYWORD_ONLY}
        takes = inspect.signature(mine)
        try:
            takes.bind(*([] if bound else [object()]), *placed, **told)
        except TypeError:
            wanted = ", ".join(_written(called))
            given = ", ".join(_written(list(takes.parameters.values())[0 if bound else 1 :]))
            raise Mistake(
                f"{where}.{name}", f"takes ({given}), and is called with ({wanted}), as {named} says; take these"
            ) from None


def _written(parameters: list[inspect.Parameter]) -> Iterator[str]:
    keywords = False
    for each in parameters:
        if each.kind is each.KEYWORD_ONLY and not keywords:
            keywords = True
            yield "*"
        yield each.name


def _named_by(protocol: Any) -> list[str]:
    found: list[str] = []
    for each in reversed(protocol.__mro__):
        if getattr(each, "_is_protocol", False):
            found += [name for name in vars(each) if not name.startswith("_") and name not in found]
    return found


def _listed(names: list[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def _refuse_unlike(package: str, half: str, made: type) -> None:
    """Refuse a method where a base class of ours has a value that is read, and a value where it has a method."""
    for each in made.__mro__:
        for name, mine in vars(each).items() if _within(package, each) else ():
            base = next((base for base in made.__mro__ if not _within(package, base) and name in vars(base)), object)
            called = _is_called(vars(base).get(name))
            if base.__module__.startswith("thebes.") and not name.startswith("__") and _is_called(mine) is not called:
                is_, theirs = ("a value", "is called") if called else ("a method", "is read without a call")
                told = f"is {is_}, and {base.__name__}.{name} {theirs}; write it alike, or give yours another name"
                raise Mistake(f"{package}.{half}.{each.__name__}.{name}", told)


def _within(package: str, made: type) -> bool:
    return f"{made.__module__}.".startswith(f"{package}.")


def _is_called(part: object) -> bool:
    return isinstance(part, (classmethod, staticmethod)) or (callable(part) and not inspect.isclass(part))


def _collisions(made: type) -> Iterator[tuple[str, str, type]]:
    """Yield (name, where it is set, whose it is) of everything an author's class sets that its base class keeps."""
    ours = [each for each in made.__mro__ if each.__module__.startswith("thebes.tasks.aggregation.")]
    kept = {name: base for base in reversed(ours) for method, name in _set_in(base) if method == "__init__"}
    for each in made.__mro__:
        if each in ours or each is object:
            continue
        for method, name in _set_in(each):
            if name in kept and method not in _ITS_OWN_WORK:
                yield name, method, kept[name]


@cache
def _set_in(made: type) -> tuple[tuple[str, str], ...]:
    """Return (method, attribute) of every `self.attribute = ...`, and (name, name) of what the class body sets or
    defines. Once of each class: most have the same bases, and finding a class in its file takes long."""
    return tuple(_attributes(made))


def _attributes(made: type) -> Iterator[tuple[str, str]]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(made))).body[0]
    except (OSError, TypeError, SyntaxError):  # made without a file: nothing to read
        return
    for part in getattr(tree, "body", []):
        if isinstance(part, ast.FunctionDef) and not part.name.startswith("__"):
            yield part.name, part.name
        if isinstance(part, ast.FunctionDef) and part.args.args:
            first = part.args.args[0].arg
            for node in ast.walk(part):
                match node:
                    case ast.Attribute(value=ast.Name(id=name), attr=attribute, ctx=ast.Store()) if name == first:
                        yield part.name, attribute
        elif isinstance(part, ast.Assign):
            yield from ((target.id, target.id) for target in part.targets if isinstance(target, ast.Name))
        elif isinstance(part, ast.AnnAssign) and part.value is not None and isinstance(part.target, ast.Name):
            yield part.target.id, part.target.id
