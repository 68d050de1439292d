"""Scenes of basic tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from thebes.data.rows import Rows
from thebes.tasks.release import Release
from thebes.tasks.scene import MadeUpPeople, Scene, SceneVerdict, beside, column


def scenes(crowd: MadeUpPeople) -> list[Scene]:
    return [
        Scene(
            "share of men",
            {
                "type": "basic",
                "epsilon": crowd.sharp,
                "featurizer": "SELECT gender = 'Male' AS man FROM profile.demographics",
                "aggregator": "mean",
                "bounds": {"man": {"type": "range", "low": 0, "high": 1}},
                "purpose": "What share of the people is male?",
            },
            _number(_mean),
        ),
        Scene(
            "median age",
            {
                "type": "basic",
                "epsilon": 3 * crowd.sharp,
                "featurizer": "SELECT age FROM profile.demographics",
                "aggregator": "median",
                "bounds": {"age": {"type": "range", "low": 0, "high": 120}},
                "purpose": "To know how old the people here are",
            },
            _number(_median),
        ),
        Scene(
            "favourite site, over 21",
            {
                "type": "basic",
                "epsilon": crowd.sharp,
                "featurizer": (
                    "SELECT CASE WHEN age > 21 THEN (SELECT domain FROM browser.visits GROUP BY domain "
                    "ORDER BY count(*) DESC, domain LIMIT 1) ELSE 'none' END AS site FROM profile.demographics"
                ),
                "aggregator": "histogram",
                "bounds": {"site": {"type": "set", "values": [*crowd.sites, "none"], "default": "none"}},
                "purpose": "Which sites do people older than 21 visit most?",
            },
            _most_frequent,
        ),
        *([] if crowd.helper is None else [_by_two_servers(crowd.helper)]),
    ]


def _by_two_servers(helper: str) -> Scene:
    return Scene(
        "mean age, two servers",
        {
            "type": "basic",
            "server": "split",
            "helper": helper,
            "epsilon": 8.0,
            "featurizer": "SELECT age FROM profile.demographics",
            "aggregator": "mean",
            "bounds": {"age": {"type": "range", "low": 0, "high": 120}},
            "purpose": "Answered in shares to two institutions, neither of which sees an age",
        },
        _number(_mean),
        few=True,
    )


def _median(rows: Rows) -> float:
    return float(np.median(column(rows)))


def _mean(rows: Rows) -> float:
    return float(column(rows).mean())


def _number(truth: Callable[[Rows], float]) -> Callable[[Release, Rows, Rows], SceneVerdict]:
    def judge(release: Release, mine: Rows, others: Rows) -> SceneVerdict:
        return beside(truth(mine), float(release.value), release.as_json()["interval"])

    return judge


def _most_frequent(release: Release, mine: Rows, others: Rows) -> SceneVerdict:
    """The site that the answer names first, and for how many people it, or the true one, comes first."""
    counts = Counter(site for site in column(mine) if site != "none")
    told = {site: number for site, number in release.value.items() if site != "none"}
    first = max(told, key=lambda site: told[site])
    ends = release.as_json()["interval"]
    bar = {"level": ends["level"], "low": ends["low"][first], "high": ends["high"][first]}
    return beside(float(counts.most_common(1)[0][1]), float(told[first]), bar, answer=first)
