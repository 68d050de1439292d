"""Sample documents of the example kind without end."""

from __future__ import annotations

from thebes.tasks.samples import TOWN, Sample, people


def samples() -> list[Sample]:
    document = {"type": "daily", "epsilon": 6.0, "min_count": 20, "featurizer": "SELECT town FROM p.t", "bounds": TOWN}
    return [Sample("daily", document, people()), Sample("daily once", {**document, "days": 1}, people())]
