"""Private histograms over public keys and over keys that only the data knows, and what may be done to one after."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise, repeat
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy import exact
from thebes.privacy.events import ApproximateEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.privacy.measurement import Floats, Measurement
from thebes.privacy.mechanisms.additive import Additive, Laplace, LeastNoise, spread_of, stated
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import Randomness
from thebes.privacy.stability import Change, change_of
from thebes.privacy.transformations.counts import Count, HistogramCounts

Cells = NDArray[np.int64]


def histogram(
    values: Sequence[Hashable] | ArrayLike,
    *,
    keys: Sequence[Hashable],
    epsilon: exact.Number,
    delta: exact.Number = 0,
    adjacency: str | Adjacency | Change,
    randomness: Randomness,
    complete: bool = False,
) -> Measurement:
    """Count how many of `values` equal each of the public `keys`, in their order; rows with any other value count
    nowhere.

    Each count is unbiased, whole under Laplace noise, and may come out below 0 (`not_negative` and `on_simplex` mend
    that afterwards, at the price of a bias). One row moves one count by 1 under add-remove-one, two under
    replace-one. The interval holds for each key by itself. `value` is an array; `parameters["keys"]` names it.
    Source: Dwork, McSherry, Nissim & Smith 2006; `additive`.

    `complete`: the number of rows is public (replace-one with one row a unit only), and a row with any other value
    counts for the last key. Of two keys the second count is then the number of rows less the first, so one count is
    noised, which a replaced row moves by 1, instead of two: half the noise. Proof: the second follows from the first
    and from what is public.
    """
    known = _known(keys)
    change = change_of(adjacency, public_size=True) if complete else change_of(adjacency)
    cells = _cells(values, known)
    if complete:
        cells = np.where(cells < 0, len(known) - 1, cells)
    if complete and len(known) == 2:
        noise = LeastNoise(epsilon, delta).noise(Count().sensitivity(change))
        first = noise.add(Count().total(cells == 0), randomness)
        noised = np.concatenate([first, cells.size - first])
    else:
        transformation = HistogramCounts(len(known))
        noise = LeastNoise(epsilon, delta).noise(transformation.sensitivity(change))
        noised = noise.add(transformation.total(cells), randomness)
    return Measurement(
        value=noised,
        event=noise.event,
        adjacency=change.adjacency,
        mechanism=f"histogram with {noise.kind} noise",
        parameters={**stated(noise, randomness), "keys": tuple(known)},
        spread=spread_of(noise),
        simulated=randomness.simulated,
    )


@dataclass(frozen=True, slots=True)
class Threshold:
    """The least noisy count that may be shown, and the odds that a count of one is shown."""

    noise: Additive
    least: int
    delta: Decimal

    @classmethod
    def calibrated(cls, *, epsilon: exact.Number, delta: exact.Number, change: Change) -> Threshold:
        """The lowest threshold for which those odds are at most `delta`.

        P(1 + noise >= least) = q^(least - 1) / (1 + q) with q = exp(-1 / scale), for least >= 2.
        """
        if change.rows != 1:
            raise Mistake("adjacency", "unknown keys need one row for each unit; bound the rows of a unit first")
        allowed = exact.delta(delta)
        if allowed < exact.DELTA_STEP:
            raise Mistake("delta", "must be at least 1e-18: keys that only the data knows cost a delta")
        # Adding a key is the same as under a public list, so the histogram's own map gives the scale.
        noise = Laplace(epsilon).noise(HistogramCounts(2).sensitivity(change))
        rate = 1 / noise.scale
        one_count = -math.log1p(math.exp(-rate))
        least = 1 + max(1, math.ceil((one_count - exact.ln(allowed) + 1e-9) / rate))
        odds = math.exp(one_count - (least - 1) * rate) * (1 + 1e-9)
        return cls(noise, least, min(allowed, exact.loss_of(odds, exact.DELTA_STEP)))


def histogram_of_unknown_keys(
    values: Sequence[str] | ArrayLike,
    *,
    epsilon: exact.Number,
    delta: exact.Number,
    adjacency: str | Adjacency | Change,
    randomness: Randomness,
) -> Measurement:
    """Counts of the texts that occur in `values`, of those whose noisy count reaches a threshold; others stay unsaid.

    `value` is an array, `parameters["keys"]` names it in sorted order. A shown count is biased upward, because low ones
    are not shown. The interval statement: for every key, the odds of being shown with an interval that misses are
    at most 1 - level.

    Proof (stability-based histogram: Bun, Nissim & Stemmer 2016, theorem 3.5; Korolova et al. 2009). Let D and D'
    differ by one row and d = P(1 + noise >= threshold). *Add-remove-one*, D has one more row, of key u: if u occurs
    in D', both worlds noise the same keys and one count differs by 1: epsilon at scale 1 / epsilon. Otherwise D shows
    u with odds d and else looks like D' exactly, so P(S) <= P'(S) + d and P'(S) <= e^epsilon P(S) + d, as
    1 - e^epsilon (1 - d) <= d. *Replace-one*, scale 2 / epsilon, a row of u becomes one of v. If u and v occur in both
    worlds, two counts differ by 1: epsilon. If u occurs in D only and v in D' only: apart from u and v the worlds are
    equal, each shows its own with odds d: delta = d. If u occurs in D only and v in both: apart from u the worlds are
    within e^(epsilon/2) =: x of each other (call them Q, Q'); P <= d + (1-d) Q <= d + x Q', and
    Q' - x^2 P <= Q' - x^2 (1-d) Q <= x - x^2 (1-d) <= d for x >= 1, as d <= 1/2. Hence (epsilon, d) in every case.
    """
    change = change_of(adjacency)
    threshold = Threshold.calibrated(epsilon=epsilon, delta=delta, change=change)
    occurring, counts = np.unique(_texts(values), return_counts=True)
    noisy = threshold.noise.add(counts.astype(np.int64), randomness)
    shown = noisy >= threshold.least
    return Measurement(
        value=noisy[shown],
        event=ApproximateEvent(exact.epsilon(epsilon), threshold.delta),
        adjacency=change.adjacency,
        mechanism="thresholded histogram with laplace noise",
        parameters={
            **stated(threshold.noise, randomness),
            "threshold": threshold.least,
            "keys": tuple(occurring[shown].tolist()),
        },
        spread=spread_of(threshold.noise),
        simulated=randomness.simulated,
    )


def names_of_bins(edges: Sequence[float]) -> list[str]:
    """Name the bins between these rising edges, with as few digits as tell the edges apart."""
    written: list[str] = []
    for digits in (6, 9, 12, 17):
        # names of a released mapping: without an exponent, and without commas, which would be read as ends of names
        written = [figure(edge, digits).replace(",", "") for edge in edges]
        if len(set(written)) == len(written):
            break
    return [f"{a} to {b}" for a, b in pairwise(written)]


def by_key(measured: Measurement) -> dict[Any, float]:
    """{key: noisy count} of a histogram of either kind."""
    return dict(zip(measured.parameters["keys"], measured.value.tolist(), strict=True))


def not_negative(counts: Floats) -> Floats:
    """Counts below 0 raised to 0: post-processing. Small counts are then too high on average."""
    return np.asarray(np.maximum(np.asarray(counts, dtype=np.float64), 0.0))


def on_simplex(counts: Floats, *, total: float) -> Floats:
    """The nearest counts (least squares) that are not negative and sum to `total`: post-processing.

    `total` must be public or released by itself. Source: Duchi, Shalev-Shwartz, Singer & Chandra 2008, figure 1.
    """
    array = np.asarray(counts, dtype=np.float64)
    if array.ndim != 1 or array.size == 0 or not np.isfinite(array).all():
        raise Mistake("counts", "must be a list of at least one finite number")
    if not (math.isfinite(total) and total >= 0):
        raise Mistake("total", "must be a finite number that is not negative")
    descending = np.sort(array)[::-1]
    excess = (np.cumsum(descending) - total) / np.arange(1, array.size + 1)
    kept = np.flatnonzero(descending - excess > 0)
    return np.asarray(np.maximum(array - excess[kept[-1] if kept.size else 0], 0.0))


def _known(keys: Sequence[Hashable]) -> Mapping[Hashable, int]:
    if isinstance(keys, (str, bytes)) or not isinstance(keys, (list, tuple, np.ndarray)):
        raise Mistake("keys", "must be a list of keys that does not come from the data")
    listed = keys.tolist() if isinstance(keys, np.ndarray) else list(keys)
    try:
        known = {key: cell for cell, key in enumerate(listed)}
    except TypeError:
        raise Mistake("keys", "must be texts or numbers") from None
    if any(key != key for key in listed):  # NaN
        raise Mistake("keys", "must not hold missing numbers (NaN)")
    if len(known) != len(listed):
        raise Mistake("keys", "must not name a key twice")
    if len(known) < 2:
        raise Mistake("keys", "must be at least two")
    return known


def _texts(values: Sequence[str] | ArrayLike) -> NDArray[np.str_]:
    try:
        texts = np.asarray(values)
    except ValueError:
        raise Mistake("values", "must be one column of text") from None
    if texts.size and (texts.ndim != 1 or any(not isinstance(text, str) for text in texts.tolist())):
        raise Mistake("values", "must be one column of text")
    return texts.reshape(-1).astype(np.str_)


def _cells(values: Sequence[Hashable] | ArrayLike, known: Mapping[Hashable, int]) -> Cells:
    if isinstance(values, (str, bytes)):
        raise Mistake("values", "must be one column")
    if isinstance(values, np.ndarray) and values.dtype.kind == "i" and all(type(key) is int for key in known):
        return _cells_of_numbers(values, {int(cast("int", key)): cell for key, cell in known.items()})
    try:
        listed = values.tolist() if hasattr(values, "tolist") else list(cast("Sequence[Hashable]", values))
        return np.fromiter(map(known.get, listed, repeat(-1)), dtype=np.int64, count=len(listed))
    except TypeError:
        raise Mistake("values", "must be one column of texts or numbers") from None


def _cells_of_numbers(values: NDArray[Any], known: Mapping[int, int]) -> Cells:
    ordered = np.array(sorted(key for key in known if -(2**63) <= key < 2**63), dtype=np.int64)
    cells = np.array([known[key] for key in ordered.tolist()], dtype=np.int64)
    if ordered.size == 0:
        return np.full(values.shape, -1, dtype=np.int64)
    span = int(ordered[-1]) - int(ordered[0])
    if span < 2**16:  # a table from value to cell, its last entry for every other value
        table = np.full(span + 2, -1, dtype=np.int64)
        table[ordered - ordered[0]] = cells
        place = (values.astype(np.int64, copy=False) - ordered[0]).view(np.uint64)  # wraps, so far values stay far
        found: Cells = table[np.minimum(place, np.uint64(span + 1))]
        return found
    place = np.minimum(np.searchsorted(ordered, values), ordered.size - 1)
    return np.where(ordered[place] == values, cells[place], -1)
