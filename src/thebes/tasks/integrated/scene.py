"""Scenes of integrated tasks."""

from __future__ import annotations

from typing import Any

import numpy as np

from thebes.data.rows import Rows
from thebes.privacy.figures import figure
from thebes.tasks.release import Release
from thebes.tasks.scene import MadeUpPeople, Scene, Verdict, better, column, poor, table, told_right


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


def _regression(release: Release, mine: Rows, everybody: Rows) -> Verdict:
    """Mean errors of two models over everybody; a prediction outside 18 to 95 counts as the nearer end. No one guess
    for everybody errs less than the median."""
    from sklearn.linear_model import LinearRegression

    *inputs, output = mine.columns
    told, rows = column(everybody, output), table(everybody, inputs)
    exact = LinearRegression().fit(table(mine, inputs), column(mine, output))

    def error(said: Any) -> float:
        return float(np.abs(np.clip(said, 18, 95) - told).mean())

    true, value = error(exact.predict(rows)), error(release.model.predict(rows))  # type: ignore[attr-defined]
    guessed = error(np.full(len(told), np.median(told)))
    words = f"errs by {figure(value, 3)}, and one guess for everybody by {figure(guessed, 3)}"
    gained = better(-true, -value, -guessed)
    return Verdict(true, value, gained, answer=None if gained else poor(words, value < guessed), guessing=guessed)


def _classifier(release: Release, mine: Rows, everybody: Rows) -> Verdict:
    from sklearn.naive_bayes import GaussianNB

    *inputs, output = mine.columns
    told, rows = column(everybody, output), table(everybody, inputs)
    exact = GaussianNB().fit(table(mine, inputs), column(mine, output))

    def accuracy(model: Any) -> float:
        return float(np.mean(np.asarray(model.predict(rows)) == told))

    return told_right(accuracy(exact), accuracy(release.model), told)  # type: ignore[attr-defined]
