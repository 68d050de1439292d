"""An example of what an owner would send, for its own eyes: by how much its rows and the noise would move a model."""

from __future__ import annotations

from typing import Any

import numpy as np

from thebes.tasks.aggregation.packets import parts_of
from thebes.tasks.contributions import Contributions
from thebes.tasks.draw_discard.kind import DrawDiscardDocument
from thebes.tasks.draw_discard.plan import LANE, VERSION, WEIGHTS, plan
from thebes.tasks.protocols import Ask

MOST_SHOWN = 40  #: weights that say anything to the eye


def possible(document: DrawDiscardDocument) -> list[Ask]:
    """An ask for the model the task begins with. Nothing of a network or of many weights, which say nothing to the
    eye."""
    made = plan(document)
    if made.network is not None or made.weights > MOST_SHOWN:
        return []
    payload = {WEIGHTS: made.start, VERSION: 0, LANE: document.kept}
    return [Ask(f"{document.digest[:16]}.{document.kept}.0", parts_of("phase-0", 1)[0], 0, payload)]


def in_words(document: DrawDiscardDocument, contributions: Contributions) -> dict[str, list[Any]]:
    """By how much each weight was moved."""
    made = plan(document)
    moved = np.asarray(contributions.fields[WEIGHTS], dtype=np.float64) - made.start
    return {name: [float(f"{value:.3g}") for value in moved[:, place]] for place, name in enumerate(made.names)}
