"""The description a collector gives of itself: what it reads, what it fills, how it may be set up and how often it
runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from thebes.data.store.declaration import MOST_RELEASE, Column, Declaration, Table, collector_name, read_declaration
from thebes.privacy.faults import Mistake

if TYPE_CHECKING:
    from thebes.collectors.session import Session

State = dict[str, Any]
Migration = Callable[[State], State]

_OPTION = re.compile(r"[a-z][a-z0-9-]{0,30}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Option:
    """Something the person sets when installing: `--NAME VALUE`, or `--NAME` alone for a flag."""

    name: str
    description: str
    kind: Literal["path", "text", "number", "flag"] = "text"
    default: Any = None
    required: bool = False
    several: bool = False  #: may be given more than once; its value is a list


class Collector:
    """A program that fills tables of a person's store. Subclass it, say what it is, and write `collect`.

    `version` is a whole number; raise it when the tables or the meaning of the state change. `migrations` lead the
    state from one version to the next: {1: function} is called with the state that version 1 left.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    description: ClassVar[str]
    reads: ClassVar[str]  #: in words for the person: which files, and what of them
    tables: ClassVar[tuple[Table, ...]] = ()
    options: ClassVar[tuple[Option, ...]] = ()
    every: ClassVar[timedelta | None] = None  #: how often it runs unless the person says otherwise; None: when asked
    many: ClassVar[bool] = False  #: may be installed several times, each under a name of its own
    migrations: ClassVar[Mapping[int, Migration]] = {}

    def declare(self, options: Mapping[str, Any], state: State) -> Sequence[Table]:
        """The tables this run fills; for nearly all collectors they are always the same."""
        return self.tables

    def doubts(self) -> Sequence[str]:
        """Name what the person may want to say with an option before they agree; asked after `declare`."""
        return ()

    def collect(self, session: Session) -> None:
        """Insert what is new since `session.state`, and write into that state how far it came."""
        raise NotImplementedError


def table(name: str, description: str, **columns: tuple[str, str]) -> Table:
    """A table in short: `table("walks", "One row a day", day=("timestamp", "UTC"), steps=("integer", "counted"))`."""
    return Table(name, description, tuple(Column(column, kind, text) for column, (kind, text) in columns.items()))


def declaration(collector: Collector, tables: Sequence[Table]) -> Declaration:
    """Return what is registered for a run, checked as the store will check it."""
    plain = Declaration(tuple(tables)).plain()
    return read_declaration({"tables": plain, "description": collector.description, "release": collector.version})


def checked(made: object) -> Collector:
    """A collector that says everything it must, or a Mistake for its author that names what is missing."""
    if not isinstance(made, Collector):
        raise Mistake("collector", "must be a subclass of thebes.collector.Collector")
    collector_name(getattr(made, "name", None))
    for said in ("description", "reads"):
        if not isinstance(getattr(made, said, None), str) or not getattr(made, said).strip():
            raise Mistake(f"collector.{said}", "must say in words what the person should know")
    if isinstance(made.version, bool) or not isinstance(made.version, int) or not 1 <= made.version <= MOST_RELEASE:
        raise Mistake("collector.version", f"must be a whole number from 1 to {MOST_RELEASE}")
    if made.every is not None and (not isinstance(made.every, timedelta) or made.every < timedelta(seconds=1)):
        raise Mistake("collector.every", "must be a timedelta of a second or more, or None")
    names = [option.name for option in made.options]
    if len(set(names)) != len(names) or not all(_OPTION.fullmatch(name) for name in names):
        raise Mistake("collector.options", "must have distinct names of small letters, digits and dashes")
    if made.tables or type(made).declare is Collector.declare:
        declaration(made, made.tables)
    return made
