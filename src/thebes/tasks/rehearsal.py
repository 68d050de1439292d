"""Rehearsals: how a kind's task is tried out beforehand over made-up rows, and what of its answer is looked at.

A kind's folder holds its own in `rehearsal.py` (`REHEARSAL`), where its answer is no number, is not exact with a huge
epsilon, or where made-up rows say nothing about it. A kind that says nothing is rehearsed without bounds too: made-up
people then have the values of those who answer its first sample document. Rows of sites follow their schemas. A
coordinator's pages run it in a child process, a requestor's machine in its own. What must stay true: none of it loads
an owner's half, and nothing in it is anybody's data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from thebes.data.featurizer import read
from thebes.privacy.faults import Mistake
from thebes.tasks.document import Document, PeopleDocument, Values
from thebes.tasks.samples import Sample

REPEATS = 100
HARMLESS = 1e5  #: an epsilon at which noise is far below anybody's interest: the same code gives the truth
MOST_PEOPLE = 100_000  #: more people than that only make the answer better
#: values of a column whose values are found rather than declared, and how many made-up rows of 174 have each
FOUND = {f"made-up {place}": 60 // place for place in range(1, 11)}
MOST_PEERS = 20_000  #: of what every repeat trains anew, one person after another
UNRELATED = (
    "it has several outputs: what is learned of them together made-up people do not show; "
    "rehearse it with thebes.simulate over rows of your own"
)

#: what a model is judged by, over other rows than it learned from
RIGHT = "the share of people whose label is told right"
ERROR = "the mean squared error of what is told"
WRONG = "the share whose label is told wrong"  #: as a curve over epsilon says it

#: the numbers of an answer, by what they are
Quantities = dict[str, list[float]]
#: the class of a kind's documents
Asked = TypeVar("Asked", bound=Document)
#: runs the task with these fields changed; None where no answer came out
RehearsalRun = Callable[..., Quantities | None]


class Rehearsal(Generic[Asked]):
    """The rehearsal of a kind whose answer is a number, or a number for each key. `example`
    is the sample whose people lend their values to columns without bounds, by their place; None where the kind says
    itself what it cannot do without."""

    repeats: int = REPEATS  #: at most; fewer where each takes long

    def __init__(self, example: Sample | None = None) -> None:
        self.example = example

    def refused(self, document: Asked) -> str:
        """Say why made-up rows say nothing about a task; nothing where they do."""
        if not isinstance(document, PeopleDocument):
            return ""
        if self.example is not None and learned_by(document) is None:
            lent = len(read(self.example.document["featurizer"]).outputs)
            return unbounded(document) if lent < len(document.gives) else ""
        return unbounded(document)

    def finds(self, document: Asked) -> tuple[str, ...]:
        """Name the columns of people whose values nobody declares and the answer finds: made-up people have `FOUND`."""
        return ()

    def people(self, document: Asked) -> int:
        """Return how many people are made up; of a task of sites whoever asks says how many rows."""
        return min(document.min_count, MOST_PEOPLE) if isinstance(document, PeopleDocument) else 0

    def truth(self, document: Asked, rows: Mapping[str, NDArray[Any]], run: RehearsalRun) -> Quantities | None:
        """Return what would be answered without noise."""
        return run(epsilon=HARMLESS, accuracy=None, max_epsilon=None)

    def unanswered(self, document: Asked) -> str:
        """Say what to do where made-up rows give no answer, even without noise."""
        return "declare bounds, or ask more people"

    def of_noise_alone(self, document: Asked) -> bool:
        """Return whether the error bar of an answer is that of noise whose scale follows from the document: then it
        says beforehand how far off the answer will be, whatever the rows."""
        return False

    def guess(self, document: Asked, people: int) -> float | None:
        """Return each number of an answer as whoever knows the document alone would guess it; None where nothing can be
        said."""
        return None

    def grows(self, document: Asked) -> bool:
        """Return whether the numbers of an answer grow with how many take part."""
        return False

    def quantities(self, release: Any) -> Quantities | None:
        """Return what a requestor would look at of a release; None where it has no answer."""
        if release.value is None:
            return None
        if isinstance(release.value, Mapping):
            return {"each count": [float(each) for each in release.value.values()]}
        if not isinstance(release.value, int | float | np.number):
            raise Mistake(
                "type", "is of a kind whose answer is not a number, and which does not say how to rehearse it"
            )
        return {"the answer": [float(release.value)]}


def learned_by(document: Document) -> str | None:
    """Return the column whose values are learned to be told, where there is one."""
    outputs: tuple[str, ...] = getattr(document, "outputs", ())
    found = getattr(document, "output", None) or getattr(document, "label", None)
    found = outputs[0] if len(outputs) == 1 else found
    return None if found is None else str(found)


def unbounded(document: PeopleDocument) -> str:
    """Name a column within which nobody can be drawn; nothing where all have bounds."""
    missing = [column for column in document.gives if column not in (document.bounds or {})]
    return f"to rehearse it, declare bounds of {missing[0]!r}: made-up people are drawn within them" if missing else ""


def shares(column: str) -> str:
    """Return the words for how often each value of a column is there."""
    return f"each value's share of {column}"


def true_shares(document: PeopleDocument, column: str, rows: Mapping[str, NDArray[Any]]) -> list[float]:
    """Return how often each declared value of a column is there."""
    bound = (document.bounds or {})[column]
    return [float(np.mean(rows[column] == value)) for value in bound.values] if isinstance(bound, Values) else []
