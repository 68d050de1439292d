"""Two published tables, avocado prices and a bank's calls, as data sets with a declared domain; and made-up rows with
the same columns, which stand in for them where they are absent and say so.

Bounds and bins are constants that whoever knows such data would write down; nothing of them is read off the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from papers.datasets import opened
from thebes.data.schema import Schema, schema_of

if TYPE_CHECKING:
    import pandas as pd

Bins = dict[str, int | tuple[float, ...]]


@dataclass(frozen=True, eq=False)
class Asked:
    """A data set that is asked about: `bins` cut its ranges; `attributes` tell rows apart, `summed` is added up."""

    name: str
    schema: Schema
    frame: pd.DataFrame = field(repr=False)
    bins: Bins
    attributes: tuple[str, ...]
    summed: tuple[str, ...]
    made_up: bool = False

    @property
    def rows(self) -> int:
        return len(self.frame)

    def cells(self, name: str) -> list[Any]:
        """Return what a column is told apart by: its values, or the edges of its bins."""
        column = self.schema.columns[name]
        if column.values is not None:
            return list(column.values)
        cut, low, high = self.bins[name], column.low or 0.0, column.high or 0.0
        return list(np.linspace(low, high, cut + 1).tolist()) if isinstance(cut, int) else [low, *cut, high]


@lru_cache(maxsize=4)
def table(name: str) -> Asked:
    """`avocado` or `bank`, each row one unit."""
    schema, bins, summed = _DECLARED[name]
    frame = {"avocado": _avocado, "bank": _bank}[name]()
    return made_up(name) if frame is None else Asked(name, schema, frame, bins, tuple(schema.columns), summed)


def made_up(name: str, rows: int = 0) -> Asked:
    """Rows that stand in for one of them: by default as many as it has."""
    schema, bins, summed = _DECLARED[name]
    frame = _stand_in(schema, rows or _ROWS[name])
    return Asked(name, schema, frame, bins, tuple(schema.columns), summed, made_up=True)


def about(asked: Asked) -> str:
    """Say in words which data these are."""
    if asked.made_up:
        return f"made-up rows with the columns of {_NAMES[asked.name]}"
    return f"{_NAMES[asked.name]}: {asked.rows:,} rows"


def _avocado() -> pd.DataFrame | None:
    held = opened("avocado/avocado.csv.gz")
    if held is None:
        return None
    import pandas as pd

    raw = pd.read_csv(held, compression="gzip", index_col=0)
    places = {region: number for number, region in enumerate(sorted(raw["region"].unique()))}
    return pd.DataFrame(
        {
            "type": raw["type"],
            "year": raw["year"].astype(np.int64),
            "region": raw["region"].map(places).astype(np.int64) // 6,
            "quarter": (raw["Date"].str.slice(5, 7).astype(np.int64) + 2) // 3,
            "volume": np.log10(raw["Total Volume"]),
            "price": raw["AveragePrice"],
        }
    )


def _bank() -> pd.DataFrame | None:
    held = opened("bank/bank-full.csv.gz")
    if held is None:
        return None
    import pandas as pd

    raw = pd.read_csv(held, compression="gzip", sep=";")
    return raw[list(_DECLARED["bank"][0].columns)]


def _stand_in(schema: Schema, rows: int) -> pd.DataFrame:
    """Rows of five kinds, each with a leaning of its own in every column."""
    import pandas as pd

    draw = np.random.default_rng(0)  # made-up rows, not noise
    kind = draw.integers(5, size=rows)
    columns: dict[str, Any] = {}
    for name, column in schema.columns.items():
        if column.values is not None:
            odds = draw.dirichlet(np.full(len(column.values), 0.7), size=5).cumsum(axis=1)
            place = (draw.random(rows)[:, None] > odds[kind]).sum(axis=1).clip(max=len(column.values) - 1)
            columns[name] = np.array(column.values)[place]
        else:
            low, high = column.low or 0.0, column.high or 0.0
            shares = draw.beta(draw.uniform(1, 4, 5)[kind], draw.uniform(1, 8, 5)[kind])
            values = low + (high - low) * shares
            columns[name] = np.rint(values).astype(np.int64) if column.type == "integer" else values
    return pd.DataFrame(columns)


def _values(*values: Any) -> dict[str, Any]:
    kind = "integer" if isinstance(values[0], int) else "string"
    return {"type": kind, "values": list(values)}


_YES_NO = _values("no", "yes")
_DECLARED: dict[str, tuple[Schema, Bins, tuple[str, ...]]] = {
    "avocado": (
        schema_of(
            {
                "unit": "event",
                "columns": {
                    "type": _values("conventional", "organic"),
                    "year": _values(2015, 2016, 2017, 2018),
                    "region": _values(*range(9)),
                    "quarter": _values(1, 2, 3, 4),
                    "volume": {"type": "float", "low": 1.0, "high": 8.0},
                    "price": {"type": "float", "low": 0.0, "high": 3.5},
                },
            }
        ),
        {"volume": 7, "price": 10},
        ("price", "volume"),
    ),
    "bank": (
        schema_of(
            {
                "unit": "event",
                "columns": {
                    "age": {"type": "integer", "low": 15, "high": 105},
                    "job": _values(
                        "admin.", "blue-collar", "entrepreneur", "housemaid", "management", "retired",
                        "self-employed", "services", "student", "technician", "unemployed", "unknown",
                    ),
                    "marital": _values("divorced", "married", "single"),
                    "education": _values("primary", "secondary", "tertiary", "unknown"),
                    "balance": {"type": "integer", "low": -10_000, "high": 110_000},
                    "housing": _YES_NO,
                    "loan": _YES_NO,
                    "y": _YES_NO,
                },
            }
        ),
        {"age": 9, "balance": (0.0, 100.0, 500.0, 1500.0, 5000.0, 20_000.0)},
        ("age", "balance"),
    ),
}  # fmt: skip
_ROWS = {"avocado": 18_249, "bank": 45_211}
_NAMES = {"avocado": "avocado prices in the United States", "bank": "calls of a Portuguese bank"}
