"""A bank's calls, of which one in nine ended with a deposit: a rare yes among many features, as with bad links."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers import datasets

Table = dict[str, NDArray[Any]]


def _range(low: float, high: float) -> dict[str, Any]:
    return {"type": "range", "low": float(low), "high": float(high)}


def _set(values: str) -> dict[str, Any]:
    return {"type": "set", "values": values.split("|")}


_JOBS = "admin.|blue-collar|entrepreneur|housemaid|management|retired|self-employed|services|student|technician|"
BOUNDS: Mapping[str, dict[str, Any]] = {
    "age": _range(18, 95),
    "job": _set(f"{_JOBS}unemployed|unknown"),
    "marital": _set("married|single|divorced"),
    "education": _set("primary|secondary|tertiary|unknown"),
    "default": _set("yes|no"),
    "balance": _range(-1000, 10_000),
    "housing": _set("yes|no"),
    "loan": _set("yes|no"),
    "contact": _set("cellular|telephone|unknown"),
    "day": _range(1, 31),
    "month": _set("jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"),
    "duration": _range(0, 1500),
    "campaign": _range(1, 20),
    "pdays": _range(-1, 400),
    "previous": _range(0, 20),
    "poutcome": _set("failure|other|success|unknown"),
    "y": _set("no|yes"),
}
NUMBERS = tuple(column for column, bound in BOUNDS.items() if bound["type"] == "range")
#: chosen by hand so that there are 387 weights, as many as in the paper's application
CROSSES = (
    *(("month", number) for number in NUMBERS),
    ("job", "month"), ("job", "education"), ("job", "poutcome"), ("job", "marital"), ("month", "contact"),
    ("month", "poutcome"), ("education", "housing"),
)  # fmt: skip
FEATURIZER = f"SELECT {', '.join(BOUNDS)} FROM app.call"  # noqa: S608, our own names
DOCUMENT: Mapping[str, Any] = {
    "type": "draw-discard",
    "min_count": 100,
    "featurizer": FEATURIZER,
    "family": "logistic",
    "inputs": [column for column in BOUNDS if column != "y"],
    "crosses": [list(pair) for pair in CROSSES],
    "output": "y",
    "bounds": dict(BOUNDS),
    "instances": 20,
}
WEIGHTS = 387


@dataclass(frozen=True, slots=True)
class Calls:
    """One call for each person to learn from, and others to test on."""

    train: Table
    test: Table
    made_up: bool

    @property
    def yes(self) -> NDArray[np.bool_]:
        """The calls of the test that ended with a deposit."""
        return np.asarray(self.test["y"] == "yes")

    def __str__(self) -> str:
        whose = "made-up calls with the columns of a bank's" if self.made_up else "a bank's calls (Bank Marketing)"
        return f"{whose}: {len(self.train['y']):,} people with one call each"


def calls(most: int | None = None) -> Calls:
    """45,211 calls, seven of ten to learn from (`most` of them at most); where they are absent, made-up ones."""
    held = datasets.opened("bank/bank-full.csv.gz")
    table, made_up = (_read(held), False) if held is not None else (_invented(), True)
    order = np.random.default_rng(0).permutation(len(table["y"]))  # a split, not noise
    first = round(0.7 * len(order))
    parts = order[:first][:most], order[first:]
    train, test = ({name: column[part] for name, column in table.items()} for part in parts)
    return Calls(train, test, made_up)


def _read(held: BytesIO) -> Table:
    import pandas as pd

    whole = pd.read_csv(held, sep=";", compression="gzip")
    return {column: whole[column].to_numpy() for column in BOUNDS}


def _invented() -> Table:
    """20,000 calls of nobody: yes is likelier after a long call and a success before. They say nothing about a bank."""
    draw, size = np.random.default_rng(0), 20_000  # made-up calls, not noise
    table: Table = {}
    for column, bound in BOUNDS.items():
        if bound["type"] == "set":
            table[column] = draw.choice(bound["values"], size)
        else:
            table[column] = np.rint(bound["low"] + (bound["high"] - bound["low"]) * draw.beta(1, 5, size))
    logit = table["duration"] / 200 + 2.0 * (table["poutcome"] == "success") - 5.0
    table["y"] = np.where(draw.random(size) < 1 / (1 + np.exp(-logit)), "yes", "no")
    return table
