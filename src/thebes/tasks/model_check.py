"""The check of a model by people of its own: who is asked, what they answer, and what they are told.

A tenth of the people who take part send nothing that a model is learned from. They are asked when it is there, and say
with their whole epsilon whether it does better on their own row than one guess for everybody. What must stay true: who
is asked is a function of public names; a document that says nothing of it is answered as it ever was.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from thebes.privacy.faults import Mistake
from thebes.privacy.gain_quality import ANSWERS, GainResponse
from thebes.privacy.randomness import Randomness
from thebes.tasks.contributions import Contributions, Layout, Slot
from thebes.tasks.document import rule
from thebes.tasks.mixed_document import MixedDocument
from thebes.tasks.protocols import Ask, Claim

ANSWER = "answer"  #: the one field of what somebody sends who checks
LEARN_PER_CHECK = 9  #: so many people learn for each who checks
MOST_CHECKERS = 20_000
LAYOUT: Layout = {ANSWER: Slot("integer", 0, ANSWERS - 1)}


class CheckableDocument(MixedDocument):
    """A document whose model people can check in a phase of their own, after all others.

    Without the field nobody is asked to: `min_count` people are then all that a task ever needs, which was promised
    before there was the field. Forms set it.
    """

    quality: bool | None = None

    @model_validator(mode="after")
    def _checked_in_time(self) -> Self:
        if self.quality and self.max_count is not None:
            raise rule("max_count", "must be left out with quality: people are asked to check once the model is there")
        return self

    @property
    def phases_to_learn(self) -> int:
        """The number of phases that the model is made in."""
        return 1

    @property
    def phases(self) -> int:
        return self.phases_to_learn + self.checking

    @property
    def checking(self) -> int:
        """One where a last phase has people of its own check the model, else none."""
        return 1 if self.quality else 0

    @property
    def learners(self) -> int:
        """The number of people who are needed to make the model."""
        return sum(self.least_in(phase) for phase in range(self.phases_to_learn))

    @property
    def checkers(self) -> int:
        """The number of people who are needed to check it."""
        return min(MOST_CHECKERS, math.ceil(self.learners / LEARN_PER_CHECK))

    @property
    def kept_apart(self) -> float:
        """The share of the slots that are kept for the check: a few more than are needed, so that these are there when
        the model is."""
        needed = self.checkers + 2 * math.sqrt(self.checkers) + 2
        return min(0.5, needed / (self.checkers + self.learners))

    def least_in(self, phase: int) -> int:
        return self.checkers if self.checks_in(phase) else super().least_in(phase)

    def wanted_in(self, phase: int) -> int:
        return self.checkers if self.checks_in(phase) else super().wanted_in(phase)

    def checks_in(self, phase: int) -> bool:
        """Return whether the model is checked in that phase."""
        return bool(self.checking) and phase == self.phases_to_learn


def asked_instead(document: CheckableDocument, sends: str) -> str:
    """Tell the person whose data it is about that some are asked to check, and what they would send; nothing where
    nobody is. `sends` is what everybody else does: "packet"."""
    if not document.checking:
        return ""
    return (
        f" About {document.checkers} people, whom chance chooses, are asked instead once the model is there: their "
        "machine tries it on their own row, and says only whether it did better there than one guess for everybody, "
        f"worse, or neither. That is changed at random at the same price; who answers that sends no {sends}."
    )


def answered(
    document: CheckableDocument, ask: Ask, gains: NDArray[Any], claim: Claim, *, randomness: Randomness
) -> Contributions:
    """Say once, with the whole epsilon, what the model gains on each person's row. Nobody who says so sends anything
    else, so this report is all that leaves them (`GainResponse` for the proof)."""
    response = GainResponse(document.epsilon)
    claim.consume(epsilon=document.epsilon, delta=0)
    return Contributions(ask.part, len(gains), {ANSWER: response.perturb(gains, randomness)}, ask.partition)


def gains_of_labels(said: NDArray[Any], guess: int, true: NDArray[Any]) -> NDArray[np.float64]:
    """Return what is gained on each row by labels `said` on the same `guess` for all; labels are places, and a `true`
    one that is no label is told right by nobody."""
    return np.asarray(said == true, dtype=np.float64) - np.asarray(true == guess, dtype=np.float64)


def unusable() -> Mistake:
    """Make the refusal of an ask that holds no model of its task."""
    return Mistake("ask", "holds no model that this task could have made; the server did not keep to the task")
