"""Runs of a sample that people answer, phase by phase and packet by packet."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, cast

import numpy as np

from thebes.data.rows import Rows
from thebes.privacy import randomness
from thebes.privacy.promise import Unit
from thebes.simulation.featurizer import featurize
from thebes.simulation.partitions import by_partition
from thebes.simulation.tables import people_of
from thebes.tasks import registry
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.contributions import Contributions
from thebes.tasks.document import PeopleDocument
from thebes.tasks.protocols import Aggregator, Ask, Setting
from thebes.tasks.samples import Sample

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def expect(truth: bool, message: str) -> None:
    if not truth:
        raise AssertionError(message)


def checked(sample: Sample) -> PeopleDocument:
    document = registry.check(sample.document)
    assert isinstance(document, PeopleDocument)
    return document


def begin(sample: Sample, *, seed: int | None = None) -> tuple[PeopleDocument, Aggregator, Rows, randomness.Randomness]:
    document = checked(sample)
    source = randomness.seeded_for_simulation(sample.seed if seed is None else seed)
    setting = Setting(unit=Unit.PERSON, randomness=source, simulated=True)
    rows = featurize(str(sample.document["featurizer"]), people_of(sample.people))
    return document, registry.aggregator(document, setting), rows, source


def turns_of(sample: Sample, document: PeopleDocument, rows: Rows) -> list[np.ndarray[Any, Any]]:
    able = np.flatnonzero(registry.owner(document, simulated=True).able(document, rows))
    return [able[phase :: document.phases] for phase in range(document.phases)]


def run(sample: Sample) -> tuple[PeopleDocument, Aggregator, list[tuple[Ask, Contributions, RecordedClaim]]]:
    """Every batch that was heard, with the claim of those who sent it: one for each packet of a participation."""
    document, aggregator, rows, source = begin(sample)
    heard = []
    for phase, people in enumerate(turns_of(sample, document, rows)):
        aggregator.expect(len(people))
        for ask, given, claim in given_by(document, aggregator, rows, people, phase, source):
            aggregator.accept(given)
            heard.append((ask, given, claim))
        aggregator.advance(NOON)
    return document, aggregator, heard


def given_by(
    document: PeopleDocument,
    aggregator: Aggregator,
    rows: Rows,
    people: Any,
    phase: int,
    source: randomness.Randomness,
    *,
    sealed: bool = False,
) -> Iterator[tuple[Ask, Contributions, RecordedClaim]]:
    """Yield what these people send in a phase, packet by packet, peer partition by peer partition."""
    owner = registry.owner(document, simulated=True)
    for packet in range(document.packets(phase)):
        for slot, asked in by_partition(aggregator, people, packet):
            together = aggregator.together or len(asked)
            for start in range(0, len(asked), together):
                ask, claim = aggregator.ask(slot, packet), RecordedClaim()
                assert isinstance(ask, Ask)
                mine = rows.select(asked[start : start + together])
                chance = Sealed(source, claim) if sealed else source
                yield ask, _contributed(owner.contribute(document, ask, mine, claim, randomness=chance), owner), claim


def _contributed(given: Any, owner: Any) -> Contributions:
    told = f"{type(owner).__name__}.contribute must return Contributions, and returned {type(given).__name__}"
    expect(isinstance(given, Contributions), told)
    return cast(Contributions, given)


class Sealed(randomness.Randomness):
    """A source of chance that gives nothing to whoever has not paid."""

    simulated = True

    def __init__(self, source: randomness.Randomness, claim: RecordedClaim) -> None:
        self._source, self._claim = source, claim

    def _paid(self) -> randomness.Randomness:
        expect(self._claim.epsilon > 0, "noise is drawn before it is paid for: call claim.consume first")
        return self._source

    def words(self, count: int) -> randomness.Words:
        return self._paid().words(count)

    def laplace(self, values: randomness.Integers, *, scale: float) -> randomness.Integers:
        return self._paid().laplace(values, scale=scale)

    def gaussian(self, values: randomness.Integers, *, scale: float) -> randomness.Integers:
        return self._paid().gaussian(values, scale=scale)
