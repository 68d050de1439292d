"""One task over a population or over institutions, from document to release, without a network.

Every row (or `person_id`) is declared to be one human, so the release says `simulated`. `min_count` is not
enforced: the people there are take part, spread evenly over the phases.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np

from thebes.privacy import randomness as chance
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.promise import Unit
from thebes.simulation.budgets import SimulatedBudgets
from thebes.simulation.featurizer import featurize
from thebes.simulation.guess import beside, of_people
from thebes.simulation.partitions import by_partition
from thebes.simulation.people_file import given_people
from thebes.simulation.turns import most_at_once, turns_of
from thebes.tasks import registry
from thebes.tasks.contributions import Contributions
from thebes.tasks.document import Document, PeopleDocument
from thebes.tasks.fit import fits, nobody
from thebes.tasks.protocols import Ask, Setting
from thebes.tasks.release import Release
from thebes.tasks.site_document import SiteDocument

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)  #: a simulation has no clock


def simulate(
    document: Mapping[str, Any] | Document,
    rows: Any,
    seed: int | None = None,
    *,
    schema: Any = None,
    aside: Any = None,
    in_flight: int = 1,
    proofs: bool = True,
) -> Release:
    """Run one task over `rows` (a data frame of pandas or polars, an Arrow table, a dict of columns, the path of a CSV
    or Parquet file, or a dict of "collector.table" tables), or, where institutions answer, over `{site: rows}` whose
    columns `schema` declares (one for all, or one for each site).

    Example: thebes.simulate(thebes.task.median("SELECT age FROM profile.demographics", epsilon=1), {"age": ages})

    With a `seed` every draw is repeatable, which protects nobody; without one, chance comes from the
    operating system. Either way the certificate says `simulated`, because the people were declared.
    `aside` are more rows of the same form, which take no part: a model that is released is judged over them, and only
    they can show that it is better than guessing.
    `in_flight` is for tasks that are trained without end: so many people hold a drawn model at any time.
    Without `proofs` a task with two servers opens the same sums with the same noise of both, and makes no shares, which
    take a hundred times as long.
    """
    checked = registry.check(document)
    if isinstance(checked, SiteDocument):
        from thebes.simulation.sites import simulate_sites

        return simulate_sites(checked, rows, schema, seed=seed, aside=aside)
    if not isinstance(checked, PeopleDocument):
        raise Mistake("type", "is answered neither by people nor by sites, so it cannot be simulated")
    if schema is not None:
        raise Mistake("schema", "is for kinds that sites answer; the featurizer says what people's columns are")
    source = chance.system() if seed is None else chance.seeded_for_simulation(seed)
    everybody = featurize(checked.featurizer, given_people(checked, rows))
    shown = everybody if aside is None else featurize(checked.featurizer, given_people(checked, aside, "aside"))
    owner = registry.owner(checked, simulated=True)
    willing = np.flatnonzero(owner.able(checked, everybody))
    found = fits(checked, everybody)
    nobody(checked, found)
    for line in filter(None, (fit.told for fit in found)):
        warnings.warn(line, stacklevel=2)
    if not len(willing):
        raise Mistake(
            "rows", "hold nobody who could take part: every one lacks a value, or has text where a number is needed"
        )
    if len(willing) < len(everybody.failures):
        warnings.warn(
            f"{len(everybody.failures) - len(willing)} of {everybody.people} people have no value and "
            "would be told so before accepting; they send nothing",
            stacklevel=2,
        )
    if len(willing) < checked.min_count:
        warnings.warn(
            f"{len(willing)} people take part, fewer than min_count {checked.min_count}: "
            "a coordinator would not release this",
            stacklevel=2,
        )
    turns = turns_of(checked, len(willing), source)
    budgets = SimulatedBudgets(everybody.people, registry.drawn(checked.type).price(checked, unit=Unit.PERSON))
    setting = Setting(unit=Unit.PERSON, randomness=source, simulated=True, group_size=None, proofs=proofs)
    aggregator = registry.aggregator(checked, setting)
    if isinstance(in_flight, bool) or not isinstance(in_flight, int) or not 1 <= in_flight <= 10_000:
        raise Mistake("in_flight", "must be a whole number from 1 to 10000")
    if aggregator.endless:
        from thebes.simulation.endless_task import take_part

        take_part(checked, aggregator, owner, everybody, willing, budgets, source, in_flight=in_flight)
        turns = []
    for phase, turn in enumerate(turns):
        people = willing[turn]
        aggregator.expect(len(people))
        for packet in range(checked.packets(phase)):
            for slot, asked in by_partition(aggregator, people, packet):
                ask = aggregator.ask(slot, packet)
                if not isinstance(ask, Ask):
                    raise Fault("an aggregator stopped asking before its phase was full")
                size = most_at_once(aggregator.layout(ask.part, ask.partition))
                for start in range(0, len(asked), size):
                    batch = asked[start : start + size]
                    given: Contributions = owner.contribute(
                        checked, ask, everybody.select(batch), budgets.of(batch), randomness=source
                    )
                    aggregator.accept(given)
        aggregator.advance(_EPOCH)
    release = aggregator.release()
    if release is None:
        raise Fault(f"everybody was heard, and the aggregator of {checked.type} has no release: conclude() makes it")
    guess = of_people(checked, release, shown, aside=aside is not None)
    return beside(release.beside(rows_fit={fit.column: fit.as_json() for fit in found}), guess)
