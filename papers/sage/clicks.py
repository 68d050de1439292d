"""Advertisements of Criteo: will somebody click? A sample of 137,139, or the whole published file.

Numbers are cut into bins and words fall into 255 boxes by a rule that is public and knows no row; what is missing has
a box of its own. So every column is a category with declared values; for networks bins are numbers, too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from papers.sage.samples import Published, Sample
from thebes.privacy.faults import Mistake

SAMPLE = "criteo/criteo_kaggle_sample_137k.parquet"
NUMBERS = tuple(f"I{place}" for place in range(1, 14))
WORDS = tuple(f"C{place}" for place in range(1, 27))
BINS = tuple(f"{name}_bin" for name in NUMBERS)
SIZES, BOXES = 64, 256  #: of each column of numbers, and of words; the first is for what is missing
LABEL = "click"
_CHUNK = 1_000_000

SCHEMA: dict[str, Any] = {
    "unit": "event",
    "columns": {
        LABEL: {"type": "integer", "values": [0, 1]},
        **{name: {"type": "integer", "values": list(range(SIZES))} for name in NUMBERS},
        **{name: {"type": "integer", "values": list(range(BOXES))} for name in WORDS},
        **{name: {"type": "integer", "low": 0, "high": SIZES - 1} for name in BINS},
    },
}


def clicks(path: Path | None = None) -> Sample:
    """Read what lies at `path` or THEBES_CRITEO (the published `train.txt`, also as .gz), else the sample or made-up
    ones: one row for each advertisement that was shown, in the order of the file."""
    return Published(
        what="advertisements",
        variable="THEBES_CRITEO",
        called="Criteo's display advertisements",
        sample=SAMPLE,
        whole=_whole,
        prepared=_boxed,
        invented=lambda: _invented(40_000),
    ).held(path)


def _whole(path: Path) -> pd.DataFrame:
    if not path.is_file():
        raise Mistake("THEBES_CRITEO", "names no file of advertisements")
    try:
        parts = pd.read_csv(path, sep="\t", header=None, names=["label", *NUMBERS, *WORDS], chunksize=_CHUNK)
        return pd.concat([_boxed(part) for part in parts], ignore_index=True)
    except (ValueError, TypeError):
        raise Mistake("THEBES_CRITEO", "holds something else than a label, 13 numbers and 26 words by row") from None


def _boxed(raw: pd.DataFrame) -> pd.DataFrame:
    columns: dict[str, NDArray[Any]] = {LABEL: raw["label"].to_numpy(dtype=np.int8)}
    columns |= {name: _by_size(raw[name].to_numpy(dtype=np.float64, na_value=np.nan)) for name in NUMBERS}
    columns |= {name: _by_word(raw[name]) for name in WORDS}
    return _with_bins(pd.DataFrame(columns))


def _with_bins(table: pd.DataFrame) -> pd.DataFrame:
    return table.assign(**{name: table[own] for name, own in zip(BINS, NUMBERS, strict=True)})


def _by_size(values: NDArray[np.float64]) -> NDArray[np.int8]:
    """0 for what is missing, 1 below 0, then one bin for 0, 1, 2, ... and ever wider ones: three for each doubling."""
    there = ~np.isnan(values)
    size = np.floor(3 * np.log2(np.maximum(np.where(there, values, 0.0), 0.0) + 1))
    box = np.where(values < 0, 1, np.minimum(size + 2, SIZES - 1))
    return np.where(there, box, 0).astype(np.int8)


def _by_word(values: pd.Series) -> NDArray[np.int16]:
    """0 for what is missing, else a box by the word's own eight hexadecimal digits, stirred."""
    codes, words = pd.factorize(values)
    numbers = np.array([int(str(word), 16) for word in words], dtype=np.uint64)
    stirred = (numbers * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(40)
    boxes = (stirred % np.uint64(BOXES - 1) + np.uint64(1)).astype(np.int16)
    return np.where(codes >= 0, boxes[codes] if len(boxes) else np.int16(0), np.int16(0)).astype(np.int16)


def _invented(count: int) -> pd.DataFrame:
    """Rows of nobody, in which a few boxes make a click likelier. They say nothing about advertisements."""
    draw = np.random.default_rng(0)  # made-up rows, not noise
    columns = {name: np.minimum(draw.geometric(0.15, count), SIZES - 1) for name in (*NUMBERS, *WORDS)}
    logit = -1.4 + sum(0.6 * ((columns[name] % 3 == 0) - 0.3) for name in (*NUMBERS[:4], *WORDS[:6]))
    label = draw.random(count) < 1 / (1 + np.exp(-logit))
    return _with_bins(pd.DataFrame({LABEL: label, **columns}).astype(np.int16))
