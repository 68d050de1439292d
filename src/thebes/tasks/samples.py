"""Sample documents of kinds, each with made-up people or sites that can answer it: what suites, fuzzers and newcomers
begin with. A kind's folder holds its own in `samples.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

#: columns made of those that the made-up hospitals have
FEATURES: dict[str, Any] = {
    "burden": {"multiply": ["visits", {"divide": ["weight", 100]}]},
    "man": {"is": ["sex", "male"]},
}


@dataclass(frozen=True)
class Sample:
    """A valid document of a kind, and people who can answer it."""

    name: str
    document: Mapping[str, Any]
    people: Any
    seed: int = 7


@dataclass(frozen=True)
class SiteSample:
    """A valid document of a kind, and at least three sites that can answer it (one, where it is worked on in attempts):
    their rows as a data frame each, and one schema for all."""

    name: str
    document: Mapping[str, Any]
    sites: Mapping[str, Any]
    schema: Mapping[str, Any]
    seed: int = 7

    @property
    def alone(self) -> bool:
        """True where no other site is asked, as of a document that is worked on in attempts."""
        return len(self.sites) == 1


@cache
def people(count: int = 600) -> dict[str, Any]:
    """Make people up: where they live, how old they are, and numbers of which one tells the others."""
    draw = np.random.Generator(np.random.PCG64(5))  # made-up people, not noise
    age = draw.integers(18, 90, 600).astype(float)
    x0, x1 = draw.normal(size=600), draw.normal(size=600)
    y = (x0 + 0.5 * draw.normal(size=600) > 0).astype(int)
    town = np.where(draw.random(600) < 0.7, "Thebes", "Aachen")
    made = {"town": town, "age": age, "x0": x0, "x1": x1, "y": y, "z": 2 * x0 - x1 + 0.1 * draw.normal(size=600)}
    return {column: values[:count] for column, values in made.items()}


TOWN = {"town": {"type": "set", "values": ["Aachen", "Thebes"], "default": "Thebes"}}
INPUTS = {column: {"type": "range", "low": -4.0, "high": 4.0} for column in ("x0", "x1")}

#: a network of one layer over two numbers, and its loss
NETWORK = {
    "model": '{"format":"thebes-graph","inputs":[{"kind":"number","name":"input","shape":[1,2]}],"nodes":[{"arguments":'
    '{"bias":"bias","input":"input","weight":"weight"},"name":"n0","operation":"aten.linear.default"}],"output":"n0",'
    '"version":1,"weights":[{"name":"weight","shape":[1,2],"trained":true},{"name":"bias","shape":[1],"trained":true}'
    "]}\n"
    "eAAAAAAAAAB7ImJpYXMiOnsiZHR5cGUiOiJGMzIiLCJzaGFwZSI6WzFdLCJkYXRhX29mZnNldHMiOlswLDRdfSwid2VpZ2h0Ijp7ImR0eXBlIjoi"
    "RjMyIiwic2hhcGUiOlsxLDJdLCJkYXRhX29mZnNldHMiOls0LDEyXX19ICCx/BS/Inmtu5w2wj4=",
    "loss": '{"format":"thebes-graph","inputs":[{"kind":"number","name":"outputs","shape":[1,1]},{"kind":"number",'
    '"name":"targets","shape":[1,1]}],"nodes":[{"arguments":{"self":"outputs","target":"targets"},"name":"n0",'
    '"operation":"aten.mse_loss.default"}],"output":"n0","version":1,"weights":[]}',
}


PATIENTS: dict[str, Any] = {
    "unit": "person",
    "max_rows_per_unit": 2,
    "columns": {
        "patient": {"type": "string", "key": True},
        "age": {"type": "float", "low": 18, "high": 90},
        "weight": {"type": "float", "low": 30, "high": 200},
        "visits": {"type": "integer", "low": -3, "high": 12},
        "sex": {"type": "string", "values": ["female", "male"]},
        "ill": {"type": "boolean"},
    },
}


@cache
def hospitals(sites: int = 3) -> dict[str, Any]:
    """Make the rows of three or four hospitals up, as `PATIENTS` declares them."""
    draw = np.random.Generator(np.random.PCG64(11))  # made-up patients, not noise
    counts = {"aachen": 120, "bonn": 80, "cologne": 41, "dresden": 60}
    return {site: _patients(counts[site], draw) for site in [*counts][:sites]}


def _patients(count: int, draw: np.random.Generator) -> Any:
    import pandas as pd

    age = draw.normal(50, 15, count)
    return pd.DataFrame(
        {
            "patient": [f"p{place // 2}" for place in range(count)],
            "age": age,
            "weight": 50 + 0.4 * age + draw.normal(0, 8, count),
            "visits": draw.integers(-3, 13, count),
            "sex": draw.choice(["female", "male"], count),
            "ill": draw.random(count) < 0.3,
        }
    )


def of_hospitals(name: str, document: Mapping[str, Any], **schema: Any) -> SiteSample:
    """Make a sample that the three hospitals answer, with these parts of their schema changed. Where totals go in
    shares there are four, so that three answer if one does not."""
    told = {"dataset": "patients", "epsilon": 1.5, **document}
    kept = {field: value for field, value in told.items() if value is not None}
    return SiteSample(name, kept, hospitals(4 if kept.get("noise") == "split" else 3), {**PATIENTS, **schema})
