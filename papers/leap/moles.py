"""The table of HAM10000: 10,015 pictures of skin lesions, of which only the words about them are used here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from papers import datasets

_DIAGNOSES = ("nv", "mel", "bkl", "bcc", "akiec", "vasc", "df")
_CONFIRMED = ("histo", "follow_up", "consensus", "confocal")
_PLACES = (
    "back", "lower extremity", "trunk", "upper extremity", "abdomen", "face", "chest", "foot", "unknown", "neck",
    "scalp", "hand", "ear", "genital", "acral",
)  # fmt: skip
#: Who was photographed is not in the table (a lesion is not a person), so what is protected is one row.
SCHEMA: dict[str, Any] = {
    "unit": "event",
    "columns": {
        "dx": {"type": "string", "values": list(_DIAGNOSES)},
        "dx_type": {"type": "string", "values": list(_CONFIRMED)},
        "age": {"type": "integer", "low": 0.0, "high": 90.0},
        "localization": {"type": "string", "values": list(_PLACES)},
        "sex": {"type": "string", "values": ["female", "male"]},
    },
}
INPUTS = ("age", "dx", "dx_type", "localization")
OUTPUT = "sex"
_ROWS = 10_015


@dataclass(frozen=True, slots=True)
class Moles:
    """All rows, in an order that says nothing."""

    table: pd.DataFrame
    made_up: bool

    def shared_out(self, sites: int) -> list[pd.DataFrame]:
        """As many rows for each site as for any other, but for one."""
        places = np.array_split(np.arange(len(self.table)), sites)
        return [self.table.iloc[part].reset_index(drop=True) for part in places]

    def first(self, rows: int) -> pd.DataFrame:
        return self.table.iloc[:rows].reset_index(drop=True)

    def __str__(self) -> str:
        named = "made-up lesions with the columns of HAM10000" if self.made_up else "the metadata of HAM10000"
        return f"{named}: {len(self.table):,} rows"


def moles() -> Moles:
    """The table, or made-up rows with the same columns where it is absent."""
    held = datasets.opened("ham10000/HAM10000_metadata.csv.gz")
    if held is None:
        return Moles(_invented(), made_up=True)
    table = pd.read_csv(held, usecols=list(SCHEMA["columns"]), compression="gzip")
    order = np.random.default_rng(0).permutation(len(table))  # a split, not noise
    shuffled = table.iloc[order].reset_index(drop=True)[list(SCHEMA["columns"])]
    shuffled["age"] = shuffled["age"].astype("Int64")
    return Moles(shuffled, made_up=False)


def _invented() -> pd.DataFrame:
    """Rows of nobody, in which age and place hint at the sex. They say nothing about lesions."""
    draw = np.random.default_rng(0)  # made-up rows, not noise
    place, age = draw.integers(len(_PLACES), size=_ROWS), draw.integers(0, 18, size=_ROWS) * 5
    logit = 0.03 * (age - 45) + 0.15 * (place - 7)
    return pd.DataFrame(
        {
            "dx": draw.choice(_DIAGNOSES, _ROWS),
            "dx_type": draw.choice(_CONFIRMED, _ROWS),
            "age": pd.array(age, dtype="Int64"),
            "localization": np.array(_PLACES)[place],
            "sex": np.where(draw.random(_ROWS) < 1 / (1 + np.exp(-logit)), "male", "female"),
        }
    )
