"""Simulated people as slots: who is asked the same, packet by packet."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from thebes.tasks.aggregation.packets import partition_of, slot_of
from thebes.tasks.protocols import Aggregator

People = NDArray[np.int64]


def by_partition(aggregator: Aggregator, people: People, packet: int) -> Iterator[tuple[str, People]]:
    """(a slot, the people whose slots are asked the same as it), over every peer partition that has somebody."""
    if aggregator.partitions == 1:
        if len(people):
            yield slot_of("simulation", packet), people
        return
    slots = [slot_of(f"simulation {person}", packet) for person in people.tolist()]
    partitions = aggregator.partitions
    where = np.fromiter((partition_of(slot, partitions) for slot in slots), dtype=np.int64, count=len(slots))
    order = np.argsort(where, kind="stable")
    for chosen in np.split(order, np.flatnonzero(np.diff(where[order])) + 1) if len(order) else []:
        yield slots[chosen[0]], people[chosen]
