"""The crowds that an aggregator's reports were mixed in, phase by phase, and what its certificate may say of that.

What must stay true: only phases that have closed count, each with its own number of people and its own smallest peer
partition; what is told is the crowd that gave the figure; nothing is said where one of them is below two, where the
promise is not pure, or where nothing is gained.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from thebes.tasks.document import PeopleDocument
from thebes.tasks.mixed_document import MixedDocument
from thebes.tasks.mixed_reports import COLLUDING, MixedCrowd, Supports, deciding, mixed_figure, usual_delta
from thebes.tasks.release import Release


class MixedCrowds:
    """The numbers of people whom one aggregator heard, by phase and peer partition."""

    def __init__(self, document: PeopleDocument) -> None:
        self._document = document if isinstance(document, MixedDocument) else None
        self._heard = Counter[tuple[int, int]]()  #: in this phase, by packet and partition
        self._closed: list[MixedCrowd] = []

    def hear(self, packet: int, partition: int, count: int) -> None:
        """Count contributions to the current phase."""
        if self._document is not None:
            self._heard[packet, partition] += count

    def close(self, phase: int, *, people: int, packets: int, partitions: int) -> None:
        """End a phase that so many people answered."""
        if self._document is None:
            return
        smallest = min(self._heard[packet, place] for packet in range(packets) for place in range(partitions))
        crowd = self._document.crowd(phase, people)
        self._closed.append(replace(crowd, partitions=partitions, smallest=smallest))
        self._heard.clear()

    def on(self, release: Release, supports: Supports | None) -> Release:
        """The release with the second promise on its certificate, where there is one; what stood there of earlier
        phases alone is taken off."""
        told, certificate = self._told(release, supports), release.certificate
        parameters = {name: value for name, value in certificate.parameters.items() if name != "mixed"}
        if told is not None:
            parameters["mixed"] = told
        if parameters == certificate.parameters:
            return release
        return replace(release, certificate=replace(certificate, parameters=parameters))

    def _told(self, release: Release, supports: Supports | None) -> dict[str, Any] | None:
        document, certificate = self._document, release.certificate
        if document is None or not self._closed or certificate.guarantee != "pure":
            return None
        if any(crowd.least < 2 for crowd in self._closed):
            return None
        mixed = document.mixed
        delta = usual_delta(max(crowd.people for crowd in self._closed)) if mixed is None else mixed.delta
        colluding = COLLUDING if mixed is None else mixed.colluding
        worst = deciding(self._closed, document.epsilon, delta=delta, colluding=colluding, supports=supports)
        of_any, found = (
            mixed_figure([worst], document.epsilon, delta=delta, colluding=colluding, supports=law)
            for law in (None, supports)
        )
        if mixed is None and found >= document.epsilon:
            return None
        return {
            "epsilon": found,
            "delta": delta,
            "against": "collector" if document.anonymity == "token" else "readers",
            "n": worst.least,
            "honest": worst.honest(delta, colluding),
            "parts": worst.packets,
            "partitions": worst.partitions,
            "mechanism": "its own" if found < of_any else "any",
            "as_accepted": mixed is not None and found <= mixed.epsilon,
        }

    # --- what is remembered ---------------------------------------------------------------------------------

    def as_json(self) -> dict[str, Any] | None:
        if self._document is None:
            return None
        closed = [[crowd.people, crowd.partitions, crowd.packets, crowd.smallest] for crowd in self._closed]
        return {"closed": closed, "heard": [[*place, count] for place, count in self._heard.items()]}

    def restore(self, told: Mapping[str, Any] | None) -> None:
        """The inverse of `as_json`. Of a task that was begun before there was this nothing is said: how many answered
        earlier is not known."""
        if told is None:
            self._document = None
            return
        self._closed = [MixedCrowd(*each) for each in told["closed"]]
        self._heard = Counter({(packet, partition): count for packet, partition, count in told["heard"]})
