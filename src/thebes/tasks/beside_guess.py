"""A model beside one guess for everybody: what each reaches over the same rows, and whether luck explains the rest.

What must stay true: of models that know nothing of rows that they did not learn from, at most `LEVEL` are called
better than guessing; of rows that a model did learn from none is. Rows of one person are alike, so what luck may
bring is counted by person, not by row; of rows whose owners are not known each is taken for somebody's only one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

from thebes.privacy.figures import figure

LEVEL = 0.01  #: how often luck alone may call a model better than guessing
RIGHT, SQUARED = "right", "squared error"


def beyond_luck(gains: Any, whose: Any = None) -> bool:
    """Return whether what a model gains on a guess, row by row, is more than luck brings in one case of 1 / `LEVEL`.
    `whose` numbers the person of each row; without it each is somebody's only one.

    Luck gives what a person's rows gain together either sign alike. Given how large these gains are, the chance that
    their sum then reaches t times the root of the sum of their squares is at most exp(-t^2 / 2) (Hoeffding 1963,
    theorem 2). Of one value of each person told right a gain is -1, 0 or 1, and this is exact, also where a model is
    worse than the guess. Of squared errors, and of several rows, it holds as far as gains are as often above their mean
    as below by as much; for many people, where only their mean counts, a normal distribution passes t = 3.03 in .12 %
    of all cases, which leaves room for those that are askew.
    """
    gained = np.asarray(gains, dtype=np.float64)
    if whose is not None:
        _, place = np.unique(whose, return_inverse=True)
        gained = np.bincount(place.ravel(), weights=gained).astype(np.float64)
    total = float(gained.sum())
    return total > 0 and total**2 >= 2 * log(1 / LEVEL) * float(np.square(gained).sum())


@dataclass(frozen=True, slots=True)
class Guess:
    """Of `column`: by `measure` (the share of values told right, or the mean squared error) what the model `reached`
    over `rows` rows, and what `guessing` gives: the most frequent value, or the mean, for everybody. `aside` says that
    it had not learned from these rows, `beyond` that luck does not explain how much better it did."""

    column: str
    measure: str
    reached: float
    guessing: float
    rows: int
    beyond: bool
    aside: bool

    @property
    def better(self) -> bool | None:
        """Return whether the model is shown to be better than guessing; None where rows it learned leave it open."""
        return self.beyond if self.aside else None if self.beyond else False

    @property
    def told(self) -> str | None:
        """One line, where the model is not shown to be better."""
        if self.beyond:
            return None
        no = self.reached <= self.guessing if self.measure == RIGHT else not self.reached < self.guessing
        rows = f"{figure(self.rows)} rows that it {'did not learn' if self.aside else 'learned'} from"
        if self.measure == RIGHT:
            said = f"of {rows} it gets {_percent(self.reached)} of {self.column} right, and the most frequent value"
            said = f"{said} alone {_percent(self.guessing)}"
        else:
            said = f"over {rows} its mean squared error of {self.column} is {figure(self.reached, 3)}"
            said = f"{said}, and that of the mean alone {figure(self.guessing, 3)}"
        if no:
            return f"the model is no better than guessing: {said}"
        return f"the model is not shown to be better than guessing: {said}, which luck explains"

    def as_json(self) -> dict[str, Any]:
        return {
            "column": self.column,
            "measure": self.measure,
            "reached": self.reached,
            "guessing": self.guessing,
            "rows": self.rows,
            "aside": self.aside,
            "better": self.better,
            "level": LEVEL,
        }


def of_labels(column: str, said: Any, told: Any, *, aside: bool, whose: Any = None) -> Guess:
    """Judge labels: a model must tell more right than each single label would for everybody, so that which of them is
    the most frequent by luck does not matter."""
    labels = np.asarray(told).tolist()
    pairs = zip(np.asarray(said).tolist(), labels, strict=True)
    right = np.array([a == b for a, b in pairs], dtype=np.int64)
    number = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    places = np.array([number[label] for label in labels])
    beyond = all(beyond_luck(right - (places == place), whose) for place in number.values())
    most = float(np.bincount(places).max()) / len(labels)
    return Guess(column, RIGHT, float(right.mean()), most, len(labels), beyond, aside)


def of_numbers(column: str, said: Any, told: Any, *, aside: bool, whose: Any = None) -> Guess:
    """Judge numbers, of each row one or several, by their squared distance; the guess is the mean of these rows, which
    serves the guess better than any mean known before."""
    told = np.asarray(told, dtype=np.float64).reshape(len(told), -1)
    off = np.square(np.asarray(said, dtype=np.float64).reshape(told.shape) - told).sum(axis=1)
    spread = np.square(told - told.mean(axis=0)).sum(axis=1)
    beyond = beyond_luck(spread - off, whose)
    return Guess(column, SQUARED, float(off.mean()), float(spread.mean()), len(told), beyond, aside)


def of_yes_or_no(column: str, said: Any, told: Any, *, aside: bool, whose: Any = None) -> Guess:
    """Judge several labels of each row, True or False, together; the guess is the most frequent of each."""
    right = np.asarray(said) == np.asarray(told)
    most = np.mean(told, axis=0) > 0.5
    gains = [(right.astype(int) - (told == alike)).sum(axis=1) for alike in (most, ~most)]
    beyond = all(beyond_luck(gained, whose) for gained in gains)
    guessed = float(np.mean(told == most))
    return Guess(column, RIGHT, float(np.mean(right)), guessed, len(told), beyond, aside)


def _percent(share: float) -> str:
    return f"{figure(100 * share, 3)} %"
