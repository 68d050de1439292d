"""Scenes of integrated tasks."""

from __future__ import annotations

from typing import Any

import numpy as np

from thebes.data.rows import Rows
from thebes.privacy.figures import figure
from thebes.tasks.beside_guess import beyond_luck
from thebes.tasks.release import Release
from thebes.tasks.scene import MadeUpPeople, Scene, SceneVerdict, column, far, poor, table, told_right


def scenes(crowd: MadeUpPeople) -> list[Scene]:
    share = {"type": "range", "low": 0.0, "high": 0.8}
    age = {"type": "range", "low": 18, "high": 95}
    lean = " ".join(
        f"WHEN '{site}.example' THEN {sign}"
        for site, sign in (("sports", 1), ("motors", 1), ("fashion", -1), ("recipes", -1))
    )
    return [
        Scene(
            "age from school, income",
            {
                "type": "integrated",
                "epsilon": 6 * crowd.sharp,
                "delta": 1e-6,
                "featurizer": "SELECT education, min(income, 150) AS income, age FROM profile.demographics",
                "model": "LinearRegression",
                "inputs": ["education", "income"],
                "output": "age",
                "bounds": {
                    "education": {"type": "range", "low": 8, "high": 21},
                    "income": {"type": "range", "low": 0, "high": 150},
                    "age": age,
                },
                "purpose": "To see whether school and income tell people's age",
            },
            _regression,
            metric="years",
        ),
        Scene(
            "age from sites visited",
            {
                "type": "integrated",
                "epsilon": 6 * crowd.sharp,
                "delta": 1e-6,
                "featurizer": (
                    "SELECT avg(domain = 'social.example') AS social, avg(domain = 'news.example') AS news, "
                    "(SELECT age FROM profile.demographics) AS age FROM browser.visits"
                ),
                "model": "LinearRegression",
                "inputs": ["social", "news"],
                "output": "age",
                "bounds": {"social": share, "news": share, "age": age},
                "purpose": "To see whether the sites people visit tell their age",
            },
            _regression,
            metric="years",
        ),
        Scene(
            "gender from sites",
            {
                "type": "integrated",
                "epsilon": 6 * crowd.sharp,
                "featurizer": (
                    f"SELECT sum(CASE domain {lean} ELSE 0 END) / (count(*) + 0.0) AS lean, "  # noqa: S608
                    "(SELECT gender FROM profile.demographics) AS gender FROM browser.visits"
                ),
                "model": "GaussianNB",
                "inputs": ["lean"],
                "output": "gender",
                "bounds": {
                    "lean": {"type": "range", "low": -0.5, "high": 0.5},
                    "gender": {"type": "set", "values": ["Female", "Male"]},
                },
                "purpose": "Can a person's gender be told from the sites they visit?",
            },
            _classifier,
            metric="right",
        ),
    ]


def _regression(release: Release, mine: Rows, others: Rows) -> SceneVerdict:
    """Mean errors of two models over others; a prediction outside 18 to 95 counts as the nearer end. No one guess for
    everybody errs less than the median."""
    from sklearn.linear_model import LinearRegression

    *inputs, output = mine.columns
    told, rows = column(others, output), table(others, inputs)
    exact = LinearRegression().fit(table(mine, inputs), column(mine, output))

    def errors(said: Any) -> Any:
        return np.abs(np.clip(said, 18, 95) - told)

    off, alone = errors(release.model.predict(rows)), errors(np.full(len(told), np.median(told)))
    true, value, guessed = (float(each.mean()) for each in (errors(exact.predict(rows)), off, alone))
    words = f"errs by {figure(value, 3)}, and one guess for everybody by {figure(guessed, 3)}"
    gained = beyond_luck(alone - off) and far(-true, -value, -guessed)
    return SceneVerdict(true, value, gained, answer=None if gained else poor(words, value < guessed), guessing=guessed)


def _classifier(release: Release, mine: Rows, others: Rows) -> SceneVerdict:
    from sklearn.naive_bayes import GaussianNB

    *inputs, output = mine.columns
    told, rows = column(others, output), table(others, inputs)
    exact = GaussianNB().fit(table(mine, inputs), column(mine, output))
    true = float(np.mean(exact.predict(rows) == told))
    return told_right(true, release.model.predict(rows), told)
