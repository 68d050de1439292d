"""The turns of a simulated population: who takes part in which phase, and how many are computed together."""

from __future__ import annotations

from typing import Any

import numpy as np

from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import Randomness
from thebes.tasks.contributions import Layout
from thebes.tasks.document import PeopleDocument

MOST_PEOPLE = 250_000  #: whose contributions are computed together
MOST_NUMBERS = 2**25  #: in contributions that are computed together, to bound memory


def most_at_once(layout: Layout) -> int:
    """Return of how many people contributions with this layout are computed together."""
    return max(1, min(MOST_PEOPLE, MOST_NUMBERS // sum(max(1, slot.length) for slot in layout.values())))


def turns_of(document: PeopleDocument, people: int, source: Randomness) -> list[np.ndarray[Any, Any]]:
    """Choose who takes part in which phase: everybody in `participations` of them, in random order, never twice in one.
    A phase that needs fewer than another has fewer."""
    phases, each = document.phases, document.participations
    if phases == 1:
        return [np.arange(people)]
    if people * each < phases:
        raise Mistake("rows", f"{phases} phases need at least {-(-phases // each)} people")
    order = source.permutation(people)
    least = np.array([document.least_in(phase) for phase in range(phases)], dtype=np.float64)
    if each == 1 and len(set(least)) > 1:
        ends = np.rint(np.cumsum(least) / least.sum() * (people - phases)).astype(np.int64) + np.arange(1, phases + 1)
        return [np.sort(turn) for turn in np.split(order, ends[:-1])]
    turn = np.arange(people * each) % phases
    member = order[np.arange(people * each) // each]
    return [np.sort(member[turn == phase]) for phase in range(phases)]
