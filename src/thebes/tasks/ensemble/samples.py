"""Sample documents of ensemble tasks."""

from __future__ import annotations

from typing import Any

from thebes.tasks.samples import INPUTS, TOWN, Sample, people


def samples() -> list[Sample]:
    """One of every way to put packets together, and one that leaves it open."""
    given = {"age": [30.0, 60.0], "x0": [0.0], "x1": [0.5]}
    return [
        _sample("vote", method="vote", partitions=3, subsets=2, subset_size=2),
        _sample("given-bins", method="vote", partitions=3, bins=given, subsets=3, votes="probability"),
        _sample("scored", method="vote", partitions=3, subsets=2, scoring_share=0.3, score="auc"),
        _sample("open", binning_steps=1),
        _sample("odds", method="odds", bins=4, binning_steps=3),
        _sample("odds-scouted", method="odds", scouting_share=0.2, binning_steps=3),
        _sample("checked", binning_steps=1, quality=True),
        _sample("odds-given", method="odds", feature_subsets=[["town", "age"], ["x0"]], perturbation="subset"),
    ]


def _sample(name: str, **more: Any) -> Sample:
    document = {
        "type": "ensemble",
        "epsilon": 4.0,
        "min_count": 60,
        "featurizer": "SELECT town, age, x0, x1, y FROM profile.example",
        "label": "y",
        "bounds": {
            **TOWN,
            "age": {"type": "range", "low": 0.0, "high": 100.0},
            **INPUTS,
            "y": {"type": "set", "values": [0, 1]},
        },
        **more,
    }
    return Sample(f"ensemble-{name}", document, people())
