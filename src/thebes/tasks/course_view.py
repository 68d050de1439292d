"""The pieces in which a page shows how a task without end goes, and what whoever listens could learn of a contributor.

A kind says with these, in its `course.py`, what there is to see; pages draw it. Of a kind that has no such file,
contributions are counted. What must stay true: an estimate is called one, and beside it stands what is guaranteed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from thebes.tasks.answer_view import AnswerTable, Cells
from thebes.tasks.document import Document
from thebes.tasks.protocols import DocumentRead


@dataclass(frozen=True, slots=True)
class Line:
    """Something over the course of a task. `until`: from 0 to where the axis goes, and what is written at both ends."""

    points: Sequence[tuple[float, float]]
    title: str
    until: tuple[float, str, str]


@dataclass(frozen=True, slots=True)
class Profiles:
    """Small multiples: for each of several models the numbers that it is made of."""

    models: Sequence[Sequence[float]]
    title: str


@dataclass(frozen=True, slots=True)
class SmallBars:
    """A row of bars without an axis."""

    values: Sequence[float]
    title: str


@dataclass(frozen=True, slots=True)
class CourseSection:
    """One picture under its title. `label` is what it shows, for whoever cannot see it."""

    title: str
    label: str
    picture: Line | Profiles | SmallBars
    words: str


@dataclass(frozen=True, slots=True)
class CourseOf:
    """The course of one part of a task: a learning rate, for example. `name` tells several apart; `words` stand where
    nothing can be drawn yet."""

    name: str
    sections: tuple[CourseSection, ...]
    words: str = ""


@dataclass(frozen=True, slots=True)
class TaskCourse:
    """The course of a task without end. `note` says what others are shown."""

    counts: AnswerTable
    courses: tuple[CourseOf, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class ContributionLeak:
    """The measure of what somebody who sees so much could learn from one contribution."""

    who: str
    sees: str
    epsilon: float
    delta: float
    guaranteed: bool


class CourseView(Protocol[DocumentRead]):
    """The look of how a kind's tasks go: the module `course.py` of its folder. `progress` is what its aggregator's
    gives."""

    def going(self, document: DocumentRead, progress: Mapping[str, Any]) -> TaskCourse:
        """Return what the page of a task shows beside its answer."""
        ...

    def history(self, document: DocumentRead, progress: Mapping[str, Any]) -> Cells:
        """Return every number of that, for the download."""
        ...

    def learned(self, document: DocumentRead) -> Sequence[ContributionLeak]:
        """Return what each who listens could learn, the one who is guaranteed against first; nothing where the price
        says it all."""
        ...


def going(document: Document, progress: Mapping[str, Any]) -> TaskCourse:
    """Count contributions, of a kind that says no more."""
    return TaskCourse(AnswerTable.of(*history(document, progress)))


def history(document: Document, progress: Mapping[str, Any]) -> Cells:
    """Count contributions, of a kind that says no more."""
    return ("contributions",), [(progress["contributions"],)]


def learned(document: Document) -> Sequence[ContributionLeak]:
    """Return nothing: the price says it all."""
    return ()
