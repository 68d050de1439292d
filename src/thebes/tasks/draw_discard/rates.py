"""The learning rate of a document that names none: a schedule that follows from the noise, which is public.

A step moves a model by the rate times a gradient, whose signal is at most `clip` and whose noise has a known deviation.
Loud noise asks for short steps, as the squares of steps add up, and what is learned grows with the steps themselves: so
the best rate falls with the square of the noise. It falls with the updates as well, as what is left to learn does. The
figures were measured against fixed rates (`tests/statistical/test_draw_discard_accuracy.py`).
"""

from __future__ import annotations

from thebes.privacy.figures import figure
from thebes.tasks.choice import RuledChoice
from thebes.tasks.draw_discard.kind import DrawDiscardDocument
from thebes.tasks.draw_discard.plan import ParticipationPlan, plan

DECAY = 30_000.0  #: the updates after which a step is half as long
_STEADY = 0.006  #: the first rate where the noise of a weight is as large as the greatest gradient, both 1
_LARGEST = 0.5


def rate_for(document: DrawDiscardDocument, made: ParticipationPlan) -> float:
    """Return the rate to begin with, to two digits, so that machines with other floating point write the same."""
    noise = made.first_deviation / document.clip
    return float(f"{min(_LARGEST, _STEADY / (noise * noise)) / document.clip:.2g}")


def choice(document: DrawDiscardDocument) -> RuledChoice:
    """Say which steps are made, and why."""
    fixed = "" if document.decay is None else f", halved after {document.decay:,.0f} updates"
    taken = f"a learning rate of {', '.join(map(figure, document.rates))}{fixed}"
    scheduled = document.decay == DECAY and document.rates == (rate_for(document, plan(document)),)
    why = "it suits the noise, by a public rule" if scheduled else "the task names it"
    return RuledChoice("learning_rate", taken, why)
