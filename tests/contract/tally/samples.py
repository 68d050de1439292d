"""A sample document of the example kind."""

from __future__ import annotations

from thebes.tasks.samples import Sample, people


def samples() -> list[Sample]:
    document = {"type": "tally", "epsilon": 1.0, "min_count": 20, "featurizer": "SELECT y FROM profile.example"}
    return [Sample("tally", document, people())]
