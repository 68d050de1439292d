"""Tables that both sides are handed: plain arrays of published data with their public bounds, made in Thebes'
environment.

Each function takes the number of the round, which decides how rows are shared out, and gives one mapping of arrays for
each call. What begins with `answer` is not handed over: returned figures are judged by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers import datasets

Table = dict[str, NDArray[Any]]
FOLDS = 5


class Absent(Exception):
    """THEBES_DATA lacks what a work is done on; the work is left out."""


def wine(turn: int) -> list[Table]:
    return _folds(datasets.wine(), turn)


def cancer(turn: int) -> list[Table]:
    return _folds(datasets.cancer(), turn)


def diabetes(turn: int) -> list[Table]:
    return _folds(datasets.diabetes(), turn)


def census_numbers(_turn: int) -> list[Table]:
    """Adult as numbers: the five columns that are some, and whether somebody is married, and a man."""
    people, bounds = _census(), ("age", "education", "gain", "loss", "hours")

    def numbers(part: Any) -> NDArray[np.float64]:
        told = [part[column].astype(np.float64) for column in bounds]
        return np.column_stack([*told, part["married"] == "Married-civ-spouse", part["sex"] == "Male"])

    low = [people.bounds[column]["low"] for column in bounds]
    high = [people.bounds[column]["high"] for column in bounds]
    return [
        {
            "rows": numbers(people.train),
            "labels": (people.train["income"] == ">50K").astype(np.int64),
            "unseen": numbers(people.test),
            "low": np.array([*low, 0, 0], dtype=np.float64),
            "high": np.array([*high, 1, 1], dtype=np.float64),
            "answer": (people.test["income"] == ">50K").astype(np.int64),
            "classes": np.array([0, 1]),
        }
    ]


def census_scaled(turn: int) -> list[Table]:
    """The same, brought to -1 to 1 by the public bounds."""
    table = census_numbers(turn)[0]
    middle, half = (table["high"] + table["low"]) / 2, (table["high"] - table["low"]) / 2
    scaled = {key: np.clip((table[key] - middle) / half, -1, 1) for key in ("rows", "unseen")}
    return [{**scaled, "labels": table["labels"], "answer": table["answer"]}]


def census_occupations(_turn: int) -> list[Table]:
    people = _census()
    names = people.bounds["occupation"]["values"]
    given = people.train["occupation"].astype(str)
    return [{"given": given, "names": np.array(names), "answer": np.array([np.sum(given == name) for name in names])}]


def census_ages(_turn: int) -> list[Table]:
    ages = _census().train["age"].astype(np.int64)
    return [{"given": ages, "answer_mean": np.array(ages.mean()), "answer_ages": ages}]


def census_years(_turn: int) -> list[Table]:
    ages, names = _census().train["age"].astype(np.int64), np.arange(17, 91)
    return [{"given": ages, "names": names, "answer": np.array([np.sum(ages == name) for name in names])}]


def noises(_turn: int) -> list[Table]:
    """For works without rows: how much noise. What warms up must not be what is measured, or memory would answer."""
    return [{"noise": np.array(1.01)}, {"noise": np.array(1.0)}]


# --- judging ------------------------------------------------------------------------------------------------


def accuracy(table: Table, said: Any) -> float:
    return float(np.mean(np.asarray(said) == table["answer"]))


def r_squared(table: Table, said: Any) -> float:
    answer = table["answer"]
    return float(1 - np.sum((answer - np.asarray(said)) ** 2) / np.sum((answer - answer.mean()) ** 2))


def area_under_curve(table: Table, said: Any) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(table["answer"], np.asarray(said)))


def mean_distance(table: Table, said: Any) -> float:
    """Return how many rows a count is off, on average over all of them."""
    return float(np.mean(np.abs(np.asarray(said, dtype=np.float64) - table["answer"])))


def off_the_mean(table: Table, said: Any) -> float:
    return float(abs(float(said) - float(table["answer_mean"])))


def off_the_median(table: Table, said: Any) -> float:
    return float(abs(float(said) - np.median(table["answer_ages"])))


def itself(_table: Table, said: Any) -> float:
    return float(said)


def _folds(data: datasets.Dataset, turn: int) -> list[Table]:
    """Every row is unseen in one of five tables. Those of a round are the same for both sides."""
    from sklearn.model_selection import KFold, StratifiedKFold

    columns = [pair for key, pair in data.bounds.items() if key != "y"]
    low, high = (np.array([pair[end] for pair in columns]) for end in (0, 1))
    folds: Callable[..., Any] = KFold if "y" in data.bounds else StratifiedKFold
    target = {"target": np.array(data.bounds["y"])} if "y" in data.bounds else {"classes": np.array(data.classes)}
    return [
        {
            "rows": data.X[train],
            "labels": data.y[train],
            "unseen": data.X[test],
            "low": low,
            "high": high,
            "answer": data.y[test],
            **target,
        }
        for train, test in folds(FOLDS, shuffle=True, random_state=turn).split(data.X, data.y)
    ]


def _census() -> datasets.People:
    found = datasets.adult()
    if found is None:
        raise Absent("THEBES_DATA holds no census table (adult)")
    return found
