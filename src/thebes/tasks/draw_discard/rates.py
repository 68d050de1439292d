"""The learning rate of a document that names none: a schedule that follows from the noise, which is public.

A step moves a model by the rate times a gradient, whose signal is at most `clip` and whose noise has a known deviation.
Loud noise asks for shorter steps, as the squares of steps add up, and these for more of them, as what is learned grows
with the steps themselves: the best first rate was found to fall with the length of all weights' noise together, not
with its square. Steps grow shorter with the updates as well, as what is left to learn does. The figures were chosen on
made-up people with 8 to 32 features and epsilons of 1 to 8, by a simulation of their own, and are held against fixed
rates on others (`tests/statistical/test_defaults.py`).
"""

from __future__ import annotations

import math

from thebes.privacy.figures import figure
from thebes.tasks.choice import RuledChoice
from thebes.tasks.draw_discard.kind import DrawDiscardDocument
from thebes.tasks.draw_discard.plan import ParticipationPlan, plan

DECAY = 60_000.0  #: after so many updates a step is half as long
_FIRST = 0.09  #: the first rate where all noise of a step together is as long as the greatest gradient, both 1
_LARGEST = 0.1
_LEAST = 1e-9  #: where noise is so loud that nothing can be learned


def rate_for(document: DrawDiscardDocument, made: ParticipationPlan) -> float:
    """Return the rate to begin with, to two digits, so that machines with other floating point write the same."""
    noise = made.first_deviation * math.sqrt(made.weights)
    first = min(_FIRST / noise, _LARGEST / document.clip) if noise else _LARGEST / document.clip
    return float(f"{max(first, _LEAST / document.clip):.2g}")


def choice(document: DrawDiscardDocument) -> RuledChoice:
    """Say which steps are made, and why."""
    fixed = "" if document.decay is None else f", halved after {document.decay:,.0f} updates"
    taken = f"a learning rate of {', '.join(map(figure, document.rates))}{fixed}"
    rate = rate_for(document, plan(document))
    scheduled = (document.rates, document.decay) == ((rate,), DECAY)
    why = "it suits the noise, by a public rule" if scheduled else "the task names it"
    return RuledChoice("learning_rate", taken, why)
