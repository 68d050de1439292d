"""The learning rate of a document that names none: a schedule that follows from the noise, which is public.

A step moves a model by the rate times a gradient, whose signal is at most `clip` and whose noise has a known deviation.
Loud noise asks for short steps, as the squares of steps add up, and what is learned grows with the steps themselves: so
the best rate falls with the square of the noise. It falls with the updates as well, as what is left to learn does, but
not before the steps made could have led somewhere. The figures were measured against fixed rates
(`tests/statistical/test_defaults.py`).
"""

from __future__ import annotations

import math

from thebes.privacy.figures import figure
from thebes.tasks.choice import RuledChoice
from thebes.tasks.draw_discard.kind import DrawDiscardDocument
from thebes.tasks.draw_discard.plan import ParticipationPlan, plan

_EARLIEST = 30_000.0  #: no fewer updates make a step half as long,
_WAY = 4500.0  #: nor fewer than lead so far at the first rate, in clips
_STEADY = 0.008  #: the first rate where the noise of a weight is as large as the greatest gradient, both 1
_LARGEST = 0.5
_LEAST, _LATEST = 1e-9, 1e12  #: where noise is so loud that nothing can be learned


def rate_for(document: DrawDiscardDocument, made: ParticipationPlan) -> float:
    """Return the rate to begin with, to two digits, so that machines with other floating point write the same."""
    noise = max(made.first_deviation / document.clip, math.sqrt(_STEADY / _LARGEST))  # a quieter one: the largest rate
    return float(f"{max(_STEADY / (noise * noise), _LEAST) / document.clip:.2g}")


def decay_for(document: DrawDiscardDocument, rate: float) -> float:
    """Return after how many updates a step is half as long, to two digits."""
    return float(f"{min(max(_EARLIEST, _WAY / (rate * document.clip)), _LATEST):.2g}")


def choice(document: DrawDiscardDocument) -> RuledChoice:
    """Say which steps are made, and why."""
    fixed = "" if document.decay is None else f", halved after {document.decay:,.0f} updates"
    taken = f"a learning rate of {', '.join(map(figure, document.rates))}{fixed}"
    rate = rate_for(document, plan(document))
    scheduled = (document.rates, document.decay) == ((rate,), decay_for(document, rate))
    why = "it suits the noise, by a public rule" if scheduled else "the task names it"
    return RuledChoice("learning_rate", taken, why)
