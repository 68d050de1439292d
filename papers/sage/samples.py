"""A sample of a public data set, or the whole of it by a path, or rows that were made up in its place and say so."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from papers import datasets


@dataclass(frozen=True, slots=True)
class Sample:
    """`table` has one row for each of `what`, in the order in which they came."""

    table: pd.DataFrame
    made_up: bool
    source: str
    what: str

    def shuffled(self, seed: int = 0) -> pd.DataFrame:
        """The same rows in an order that says nothing: a split, not noise."""
        order = np.random.default_rng(seed).permutation(len(self.table))
        return self.table.iloc[order].reset_index(drop=True)

    def __str__(self) -> str:
        return f"{self.source}: {len(self.table):,} {self.what}"


@dataclass(frozen=True, slots=True)
class Published:
    """The places where rows of one data set may lie, and how they become a table: the whole (`called`) where the
    environment's `variable` or a path says so, else `sample` below THEBES_DATA, else made-up ones."""

    what: str
    variable: str
    called: str
    sample: str
    whole: Callable[[Path], pd.DataFrame]
    prepared: Callable[[pd.DataFrame], pd.DataFrame]  #: of the sample's own columns
    invented: Callable[[], pd.DataFrame]

    def held(self, path: Path | None) -> Sample:
        named = path or (Path(os.environ[self.variable]) if os.environ.get(self.variable) else None)
        if named is not None:
            return Sample(self.whole(named), False, f"{self.called} ({named.name})", self.what)
        lying = datasets.opened(self.sample)
        if lying is None:
            return Sample(self.invented(), True, f"made-up {self.what} with the columns of {self.called}", self.what)
        return Sample(self.prepared(pd.read_parquet(lying)), False, f"a sample of {self.called}", self.what)
