"""Scenes of bounded tasks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from thebes.data.rows import Rows
from thebes.privacy.figures import figure
from thebes.tasks.release import Release
from thebes.tasks.scene import MadeUpPeople, Scene, SceneVerdict, beside, column


def scenes(crowd: MadeUpPeople) -> list[Scene]:
    """One for who trusts no server, and one for the members of a group."""
    hours = {"type": "range", "low": 0.0, "high": 5.0, "default": 0.0}
    return [
        Scene(
            "hours of video a day",
            {
                "type": "bounded",
                "epsilon": 4.0,
                "featurizer": _hours("social", "video", "work"),
                "bounds": dict.fromkeys(("social", "video", "work"), hours),
                "purpose": "To know how long people use which kind of application",
            },
            _mean_of("video"),
        ),
        _mixed_among_members(),
    ]


def _mixed_among_members() -> Scene:
    return Scene(
        "share of women, mixed",
        {
            "type": "bounded",
            "epsilon": 4.0,
            "group": "neighbours",
            "anonymity": "token",
            "mixed": {"epsilon": 4.0, "delta": 0.009, "colluding": 0},
            "featurizer": "SELECT gender FROM profile.demographics",
            "bounds": {"gender": {"type": "set", "values": ["Female", "Male"], "default": "Female"}},
            "purpose": "Answered by members of a group: each at most once, and nobody can tell who",
        },
        _mixed,
        few=True,
    )


def _hours(*types: str) -> str:
    """A day's hours with each type of application: when one was left minus when it came, over the week."""
    signed = "CASE e.event WHEN 'closed' THEN 1 ELSE -1 END * unixepoch(e.at)"
    sums = (f"sum(CASE t.type WHEN '{type_}' THEN {signed} ELSE 0 END) / 25200.0 AS {type_}" for type_ in types)
    columns = ", ".join(sums)
    return f"SELECT {columns} FROM screen.events e JOIN screen.types t ON t.application = e.application"  # noqa: S608


def _mean_of(name: str) -> Callable[[Release, Rows, Rows], SceneVerdict]:
    def judge(release: Release, mine: Rows, others: Rows) -> SceneVerdict:
        low, high = (
            release.extra["document"]["bounds"][name]["low"],
            release.extra["document"]["bounds"][name]["high"],
        )
        true = float(np.clip(column(mine, name), low, high).mean())
        value, bar = release.mean(name)  # type: ignore[attr-defined]
        return beside(true, value, bar.as_json())

    return judge


def _mixed(release: Release, mine: Rows, others: Rows) -> SceneVerdict:
    """Judge the share, and say what its certificate promises mixed: among so few people hardly more."""
    found, told = _share_of("gender", "Female")(release, mine, others), release.certificate.parameters["mixed"]
    words = f"to who cannot tell {told['n']} answers apart epsilon {figure(told['epsilon'], 3)}: so few cover nobody"
    return replace(found, answer=words)


def _share_of(name: str, value: str) -> Callable[[Release, Rows, Rows], SceneVerdict]:
    def judge(release: Release, mine: Rows, others: Rows) -> SceneVerdict:
        shares = release.frequencies[name]  # type: ignore[attr-defined]
        ends = release.frequency_interval(name).as_json()  # type: ignore[attr-defined]
        place = list(shares).index(value)
        bar = {"level": ends["level"], "low": ends["low"][place], "high": ends["high"][place]}
        return beside(float(np.mean(column(mine, name) == value)), shares[value], bar)

    return judge
