"""Pull requests and whether they were merged: what was known when each was opened, and whose it was.

GitHub's, as Gousios and Zaidman collected them (MSR 2014): 370,411 requests of 45,446 people to 1,069 projects. Nothing
that came later is a column: not when it was closed, nor what was said about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from papers import datasets

FILE = "github_pullreqs/pullreqs_msr14.parquet"
WHO, MERGED = "who", "merged"
#: what a person's collector writes, with public ranges; of counts it writes the logarithm of one more
RANGES: Mapping[str, tuple[float, float]] = {
    "team": (0, 5),  # people who may merge
    "commits": (0, 4),
    "files": (0, 5),
    "source_files": (0, 5),
    "documents": (0, 4),
    "outsiders": (0, 1),  # share of the project's changes that come from outside
    "lines": (5, 13),  # of the project
    "changed": (0, 8),  # lines
    "tests_changed": (0, 8),
    "known": (0, 1),  # whether anybody worked on these files in the three months before
    "tests": (0, 9),  # lines of tests for 1,000 lines
    "watchers": (0, 10),
    "earlier": (0, 6),  # requests of the same person
    "accepted": (0, 1),  # share of those that were merged
    "followers": (0, 6),
    "inside": (0, 1),  # from a branch of the same repository
    "member": (0, 1),  # of the project's team
    "project": (0, 1),  # share of the project's earlier requests that were merged
}
INPUTS = tuple(RANGES)
#: chosen by hand, on other draws than those that are reported
FEW = ("known", "project", "accepted", "member", "commits")
PEOPLE, LEAST = 100, 10  #: who are drawn, and of how many requests each
OTHERS = 8000  #: requests of other people to test on
_RAW = (
    "project_name", "created_at", "merged_at", "closed_at", "team_size", "num_commits", "files_changed", "src_files",
    "doc_files", "perc_external_contribs", "sloc", "src_churn", "test_churn", "commits_on_files_touched",
    "test_lines_per_kloc", "watchers", "requester", "prev_pullreqs", "requester_succ_rate", "followers",
    "intra_branch", "main_team_member",
)  # fmt: skip
#: a share of nothing yet counts as this, as if it had been seen so many times
_USUAL, _OF_PERSON, _OF_PROJECT = 0.8, 2, 5
Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Drawn:
    """Four of five requests of a hundred people to learn from, their others, and other people's."""

    own: pd.DataFrame
    held_out: pd.DataFrame
    others: pd.DataFrame


@dataclass(frozen=True, slots=True)
class Pulls:
    """Every request, in an order that says nothing."""

    table: pd.DataFrame
    made_up: bool

    def drawn(self, seed: int) -> Drawn:
        """A hundred of those who opened ten or more, at random."""
        draw = np.random.default_rng(seed)  # whose published rows are used; no noise
        places = np.unique(self.table[WHO].to_numpy(), return_inverse=True)[1]
        able = np.flatnonzero(np.bincount(places) >= LEAST)
        chosen = draw.choice(able, PEOPLE, replace=False)
        own, held_out = [], []
        for person in chosen:
            rows = draw.permutation(np.flatnonzero(places == person))
            cut = round(0.8 * len(rows))
            own.append(rows[:cut])
            held_out.append(rows[cut:])
        rest = np.flatnonzero(~np.isin(places, chosen))
        others = draw.choice(rest, min(OTHERS, len(rest)), replace=False)
        parts = np.concatenate(own), np.concatenate(held_out), others
        return Drawn(*(self.table.iloc[part].reset_index(drop=True) for part in parts))

    def __str__(self) -> str:
        whose = "made-up pull requests" if self.made_up else "pull requests on GitHub, 2010 to 2014"
        return f"{whose}: {PEOPLE} random people with {LEAST} or more of {len(self.table):,}"


def pulls() -> Pulls:
    """The published ones, or made-up ones with the same columns where they are absent."""
    held = datasets.opened(FILE)
    if held is None:
        return Pulls(_invented(), made_up=True)
    return Pulls(_tidied(_read(held)), made_up=False)


def schema() -> dict[str, Any]:
    """As the steward of a data set of people would declare the table."""
    ranges = {name: {"type": "float", "low": low, "high": high} for name, (low, high) in RANGES.items()}
    columns = {WHO: {"type": "integer", "key": True}, **ranges, MERGED: {"type": "integer", "values": [0, 1]}}
    return {"unit": "person", "max_rows_per_unit": 1000, "columns": columns}


def _read(held: BytesIO) -> pd.DataFrame:
    return pd.read_parquet(held, columns=list(_RAW))


def _tidied(raw: pd.DataFrame) -> pd.DataFrame:
    """One row of `INPUTS` for each request."""

    def number(name: str) -> Numbers:
        return raw[name].to_numpy(dtype=np.float64)

    merged = raw["merged_at"].notna().to_numpy()
    earlier = number("prev_pullreqs")
    columns = {
        WHO: raw["requester"].to_numpy(dtype=np.int64),
        "team": np.log1p(number("team_size")),
        "commits": np.log1p(number("num_commits")),
        "files": np.log1p(number("files_changed")),
        "source_files": np.log1p(number("src_files")),
        "documents": np.log1p(number("doc_files")),
        "outsiders": number("perc_external_contribs") / 100,
        "lines": np.log1p(number("sloc")),
        "changed": np.log1p(number("src_churn")),
        "tests_changed": np.log1p(number("test_churn")),
        "known": (number("commits_on_files_touched") > 0).astype(np.float64),
        "tests": np.log1p(number("test_lines_per_kloc")),
        "watchers": np.log1p(number("watchers")),
        "earlier": np.log1p(earlier),
        "accepted": (number("requester_succ_rate") * earlier + _USUAL * _OF_PERSON) / (earlier + _OF_PERSON),
        "followers": np.log1p(number("followers")),
        "inside": number("intra_branch"),
        "member": number("main_team_member"),
        "project": _merged_before(raw, merged),
        MERGED: merged.astype(np.int64),
    }
    return pd.DataFrame(columns)


def _merged_before(raw: pd.DataFrame, merged: NDArray[np.bool_]) -> Numbers:
    """The share of a project's requests that were merged, of those closed before this one was opened."""
    opened, closed = (raw[name].to_numpy(dtype=np.int64) for name in ("created_at", "closed_at"))
    found = np.empty(len(raw))
    for rows in raw.groupby("project_name").indices.values():
        order = rows[np.argsort(closed[rows], kind="stable")]
        until = np.searchsorted(closed[order], opened[rows], side="left")
        so_far = np.append(0, np.cumsum(merged[order]))[until]
        found[rows] = (so_far + _USUAL * _OF_PROJECT) / (until + _OF_PROJECT)
    return found


def _invented() -> pd.DataFrame:
    """Requests of nobody to no project: some columns hint at the end. They say nothing about anybody's work."""
    draw = np.random.default_rng(0)  # made-up rows, not noise
    who = np.repeat(np.arange(400), draw.integers(5, 60, 400))
    shares = {name: draw.beta(2, 2, len(who)) for name in INPUTS}
    for name in ("known", "inside", "member"):
        shares[name] = (shares[name] > 0.5).astype(np.float64)
    logit = 2 * shares["known"] + 4 * shares["project"] + shares["member"] - 2 * shares["commits"] - 0.5
    table = {name: low + shares[name] * (high - low) for name, (low, high) in RANGES.items()}
    merged = draw.random(len(who)) < 1 / (1 + np.exp(-logit))
    return pd.DataFrame({WHO: who, **table, MERGED: merged.astype(np.int64)})
