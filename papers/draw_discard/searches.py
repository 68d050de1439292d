"""Made-up searches: three words, ten items shown, one taken. Words and what they are next to are hashed into buckets.

The real searches of the paper are not public, and these say nothing about anybody's. Each item has one tag of eighty;
some tags are sought more often than others, and words of a tag are likelier in a search for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Table = dict[str, NDArray[Any]]

TAGS, BUCKETS, SHOWN, WORDS = 80, 105, 10, 1000
GRAMS = ("word1", "word2", "word3", "pair12", "pair23", "triple")
_OF_A_TAG, _OWN = 8, 0.75  #: words that a tag has, and how often a word of a search is one of them
_ITEMS, _INTENDED = 7000, 0.9

FEATURIZER = f"SELECT {', '.join(GRAMS)}, tag, taken FROM app.search"  # noqa: S608, our own names
_BUCKET = {"type": "set", "values": list(range(BUCKETS))}
DOCUMENT: Mapping[str, Any] = {
    "type": "draw-discard",
    "min_count": 100,
    "featurizer": FEATURIZER,
    "family": "logistic",
    "inputs": [*GRAMS, "tag"],
    "crosses": [[gram, "tag"] for gram in GRAMS],
    "output": "taken",
    "bounds": {
        **dict.fromkeys(GRAMS, _BUCKET),
        "tag": {"type": "set", "values": list(range(TAGS))},
        "taken": {"type": "set", "values": [0, 1]},
    },
    "instances": 20,
    "reduce": "sum",
}
WEIGHTS = 50_000  #: (6 * 104 + 1) * 80


@dataclass(frozen=True, slots=True)
class Searches:
    """`table` has a row for each item that was shown; `best` is the score of each by how searches are made up."""

    table: Table
    best: Floats


def searches(count: int, seed: int) -> Searches:
    """So many people with one search each."""
    world, draw = np.random.default_rng(7), np.random.default_rng(seed)  # made-up people, not noise
    popular = 1 / (np.arange(TAGS) + 5.0)
    own = world.integers(WORDS, size=(TAGS, _OF_A_TAG))
    of_items = world.integers(TAGS, size=_ITEMS)
    meant = draw.choice(TAGS, size=count, p=popular / popular.sum())
    words = draw.integers(WORDS, size=(count, 3))
    its = own[meant[:, None], draw.integers(_OF_A_TAG, size=words.shape)]
    words = np.where(draw.random(words.shape) < _OWN, its, words)
    shown = of_items[draw.integers(_ITEMS, size=(count, SHOWN))]
    place = draw.integers(SHOWN, size=count)
    there = draw.random(count) < _INTENDED
    shown[np.arange(count)[there], place[there]] = meant[there]
    taken = np.zeros((count, SHOWN), dtype=np.int64)
    taken[np.arange(count), place] = 1
    fits = (own[shown][:, :, None, :] == words[:, None, :, None]).any(axis=3)  # by search, item, word
    odds = np.log(np.where(fits, (1 - _OWN) / WORDS + _OWN / _OF_A_TAG, (1 - _OWN) / WORDS)).sum(axis=2)
    grams = {
        **{f"word{n + 1}": hashed(words[:, n]) for n in range(3)},
        "pair12": hashed(words[:, 0] * WORDS + words[:, 1]),
        "pair23": hashed(words[:, 1] * WORDS + words[:, 2]),
        "triple": hashed((words[:, 0] * WORDS + words[:, 1]) * WORDS + words[:, 2]),
    }
    table = {gram: np.repeat(buckets, SHOWN) for gram, buckets in grams.items()}
    table |= {"tag": shown.ravel(), "taken": taken.ravel(), "person_id": np.repeat(np.arange(count), SHOWN)}
    return Searches(table, (odds + np.log(popular)[shown]).ravel())


def hashed(grams: NDArray[np.int64]) -> NDArray[np.int64]:
    """The bucket of each word, pair or triple: by multiplication, as anybody can do it again."""
    mixed = (grams.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    return ((mixed >> np.uint64(32)) % np.uint64(BUCKETS)).astype(np.int64)


def ranked(searches: Searches, score: Floats) -> dict[str, float]:
    """Measure how far up the item that was taken stands when those shown are ordered by a score; ties count half."""
    by_search = score.reshape(-1, SHOWN)
    taken = searches.table["taken"].reshape(-1, SHOWN) == 1
    its = by_search[taken][:, None]
    above, beside = (by_search > its).sum(axis=1), (by_search == its).sum(axis=1) - 1
    rank = 1 + above + beside / 2
    return {"MRR": float(np.mean(1 / rank)), "NDCG": float(np.mean(1 / np.log2(1 + rank)))}
