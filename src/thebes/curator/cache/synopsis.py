"""The synopsis as the planner sees it: something made of released answers that may answer for less, or for nothing.

What must stay true: which answers it gives for nothing, what it costs now and all of its public state are functions of
what was released; everything else is paid for before it is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from thebes.curator.cache.answer import Answered
from thebes.curator.cache.purchase import Purchase
from thebes.curator.cache.requirement import Wanted
from thebes.curator.questions.plans import Integers, Plan, QuestionPlan
from thebes.data.table import Table
from thebes.privacy.randomness import Randomness

View = tuple[str, ...]  #: the names of the blocks whose rows are asked, oldest first; empty where a set does not grow
Pay = Callable[[Purchase], None]
Sizes = Callable[[View], Mapping[str, float]]  #: about how many rows each block has, as far as that is public already


class ViewRows(Protocol):
    """The rows of a view. Nothing is opened before it is asked for, and nothing that is read here may decide what is
    public, except through noise that was paid for."""

    view: View

    def table(self, blocks: View | None = None) -> Table:
        """All rows, or those of some of the view's blocks; closed by whoever gave it."""
        ...

    def totals(self, plan: QuestionPlan, blocks: View | None = None) -> Integers:
        """The exact totals of a plan over them: secret."""
        ...


@dataclass(frozen=True, slots=True)
class SynopsisPart:
    """A part of a synopsis's state that is written by itself. `secret` is kept encrypted; where its key is lost it
    comes back empty, and whatever needed it must be paid anew."""

    public: Mapping[str, Any] = field(default_factory=dict)  #: what JSON can hold
    arrays: Mapping[str, NDArray[np.generic]] = field(default_factory=dict)  #: public as well
    secret: Mapping[str, Any] = field(default_factory=dict)


class Synopsis(Protocol):
    """One data set's. The planner calls it under the data set's lock and writes its state before an answer leaves."""

    def covers(self, plan: Plan) -> bool:
        """Return whether it may answer such plans: by schema and parameters only."""
        ...

    def preparation(self, view: View) -> Sequence[Purchase]:
        """Return what it must still buy before it can answer over a view: sizes, marginals. It is the data set's own
        purchase, not that of whoever asks first. Empty once it has all."""
        ...

    def prepare(self, rows: ViewRows, pay: Pay, randomness: Randomness) -> None:
        """Buy that, each for what `preparation` said."""
        ...

    def most(self, plan: Plan, wanted: Wanted, view: View) -> Sequence[Purchase] | None:
        """All that an answer may have to pay now, whichever way it takes, from public state alone; None where it
        leaves the answer to the mechanism."""
        ...

    def answer(self, plan: Plan, wanted: Wanted, rows: ViewRows, pay: Pay, randomness: Randomness) -> Answered:
        """The answer. `pay` charges durably, each purchase at most as often as `most` has it, before its noise is
        drawn. What the answer says it cost, the planner fills in."""
        ...

    def heard(self, plan: Plan, answered: Answered, view: View) -> None:
        """A mechanism's released answer, from which it may learn."""
        ...

    def changed(self) -> Mapping[str, SynopsisPart]:
        """The pieces of its state that are not as they were at the last call (or as `restore` was given them)."""
        ...

    def restore(self, pieces: Mapping[str, SynopsisPart]) -> None:
        """Go on from what was written: all pieces there are, also where another process wrote some of them."""
        ...
