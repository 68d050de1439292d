"""Any listed function of the rows: computed on disjoint random blocks, the blocks' results aggregated privately.

One unit is in one block, so it can change one result by anything and no other result at all; the function needs
no sensitivity. Source: Nissim, Raskhodnikova & Smith 2007, section 4, with disjoint subsets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import ArrayLike, NDArray

from thebes.privacy import exact
from thebes.privacy.events import PureEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.measurement import Measurement, laplace_spread
from thebes.privacy.mechanisms.columns import Floats, grid_of, table, whole
from thebes.privacy.mechanisms.quantile import median
from thebes.privacy.promise import Adjacency, adjacency_of
from thebes.privacy.randomness import Randomness

IN_PARTS = "sample and aggregate"


@dataclass(frozen=True, slots=True)
class SafeFunction:
    """A function of a block of rows that may be asked for by name. It may fail, and NaN is an answer."""

    columns: int
    compute: Callable[[Floats], float]
    sentence: str  #: what it is, for a lay reader


def _central(block: Floats) -> Floats:
    centred = block[:, 0] - block[:, 0].mean()
    return np.asarray(centred / centred.std(), dtype=np.float64)


def _trimmed_mean(block: Floats) -> float:
    ordered = np.sort(block[:, 0])
    cut = ordered.size // 10
    return float(ordered[cut : ordered.size - cut].mean())


def _variance(block: Floats) -> float:
    return float(block.var(ddof=1)) if block.size > 1 else math.nan


def _slope(block: Floats) -> float:
    x, y = block[:, 0] - block[:, 0].mean(), block[:, 1] - block[:, 1].mean()
    return float((x @ y) / (x @ x))


def _ranks(column: Floats) -> Floats:
    _, inverse, counts = np.unique(column, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[inverse], dtype=np.float64)


def _correlation(x: Floats, y: Floats) -> float:
    x, y = x - x.mean(), y - y.mean()
    return float((x @ y) / np.sqrt((x @ x) * (y @ y)))


#: The only functions that may be asked for: no code of a requestor runs.
SAFE_FUNCTIONS: Mapping[str, SafeFunction] = MappingProxyType(
    {
        "mean": SafeFunction(1, lambda b: float(b.mean()), "the average"),
        "median": SafeFunction(1, lambda b: float(np.median(b)), "the middle value"),
        "trimmed_mean": SafeFunction(1, _trimmed_mean, "the average without the lowest and the highest tenth"),
        "variance": SafeFunction(1, _variance, "the variance"),
        "std": SafeFunction(1, lambda b: math.sqrt(_variance(b)), "the standard deviation"),
        "iqr": SafeFunction(
            1, lambda b: float(np.subtract(*np.quantile(b, [0.75, 0.25]))), "the width of the middle half"
        ),
        "mad": SafeFunction(
            1, lambda b: float(np.median(np.abs(b - np.median(b)))), "the middle distance from the middle value"
        ),
        "skewness": SafeFunction(1, lambda b: float((_central(b) ** 3).mean()), "how lopsided the values are"),
        "kurtosis": SafeFunction(1, lambda b: float((_central(b) ** 4).mean() - 3), "how heavy the tails are"),
        "correlation": SafeFunction(2, lambda b: _correlation(b[:, 0], b[:, 1]), "the correlation of two columns"),
        "rank_correlation": SafeFunction(
            2, lambda b: _correlation(_ranks(b[:, 0]), _ranks(b[:, 1])), "the correlation of the ranks of two columns"
        ),
        "slope": SafeFunction(2, _slope, "how much the second column rises when the first rises by one"),
    }
)


def random_blocks(rows: int, blocks: int, *, adjacency: Adjacency, randomness: Randomness) -> list[NDArray[np.int64]]:
    """Disjoint sets of row numbers, chosen without looking at the rows.

    Replace-one: n is public, so a random order is cut into equal parts. Add-remove-one: every row draws its own block,
    so that one row more leaves all other blocks as they were.
    """
    if adjacency is Adjacency.REPLACE_ONE:
        return list(np.array_split(randomness.permutation(rows), blocks))
    home = randomness.below(blocks, rows)
    order = np.argsort(home, kind="stable")
    return np.split(order, np.searchsorted(home[order], np.arange(1, blocks)))


def block_results(rows: Floats, blocks: list[NDArray[np.int64]], function: SafeFunction, midpoint: float) -> Floats:
    """The function on each block; a block where it fails or is no number counts as the midpoint of the bounds."""
    results = np.full(len(blocks), midpoint)
    with np.errstate(all="ignore"):
        for place, members in enumerate(blocks):
            if members.size == 0:
                continue
            try:
                result = float(function.compute(rows[members]))
            except (ValueError, ArithmeticError, IndexError, np.linalg.LinAlgError):
                continue
            if not np.isnan(result):
                results[place] = result
    return results


def sample_and_aggregate(
    values: ArrayLike,
    *,
    function: str,
    blocks: int,
    bounds: tuple[float, float],
    epsilon: exact.Number,
    adjacency: str | Adjacency,
    randomness: Randomness,
    aggregate: str = "median",
    bits: int = 20,
    level: float | None = None,
    there: NDArray[np.bool_] | None = None,
) -> Measurement:
    """A listed function of the rows, as the private median or mean of its results on `blocks` disjoint random blocks.

    `bounds` are those of the *results*. `blocks` is public and fixed beforehand: more blocks mean less noise, but each
    result rests on fewer rows. Adding, removing or replacing one row changes one result among a public number, so the
    aggregation is calibrated for replace-one over results whatever `adjacency` is; pure epsilon-DP. The interval (for
    the median: if `level` is given, bought inside the same budget) holds the aggregate of the blocks' results, not the
    function of all rows: small blocks can bias a function, and that is not covered.

    `there` (replace-one) is for units of a public number some of which have no row: for each unit whether its row
    counts. Blocks are drawn of all units, whatever this says, so a unit that gets or loses a row is in the same block
    as before and changes that block's result alone: it costs no more than another row, and none need be removed and
    added.
    """
    promise, e = adjacency_of(adjacency), exact.epsilon(epsilon)
    if not isinstance(function, str) or function not in SAFE_FUNCTIONS:
        raise Mistake("function", f"must be one of {', '.join(sorted(SAFE_FUNCTIONS))}")
    if aggregate not in ("median", "mean"):
        raise Mistake("aggregate", "must be 'median' or 'mean'")
    known = SAFE_FUNCTIONS[function]
    grid = grid_of(bounds, bits)
    number = whole("blocks", blocks, least=1, most=10**7)
    rows = table(values, columns=known.columns, adjacency=promise)
    if promise is Adjacency.REPLACE_ONE and number > len(rows):
        raise Mistake("blocks", "must not be more than the rows")
    if there is not None and (promise is not Adjacency.REPLACE_ONE or there.shape != (len(rows),)):
        raise Mistake("there", "must say of each row whether it counts, and needs replace-one")
    parts = random_blocks(len(rows), number, adjacency=promise, randomness=randomness)
    if there is not None:
        parts = [members[there[members]] for members in parts]
    results = block_results(rows, parts, known, grid.low + (grid.high - grid.low) / 2)
    parameters = {
        "function": function,
        "aggregate": aggregate,
        "blocks": number,
        "bounds": [grid.low, grid.high],
        "bits": bits,
    }
    if aggregate == "median":
        found = median(
            results,
            bounds=(grid.low, grid.high),
            epsilon=e,
            adjacency=Adjacency.REPLACE_ONE,
            randomness=randomness,
            n=number,
            bits=bits,
            level=level,
        )
        return Measurement(
            value=found.value,
            event=found.event,
            adjacency=promise,
            mechanism=IN_PARTS,
            parameters=parameters,
            simulated=randomness.simulated,
            bought=found.bought,
        )
    scale = exact.scale_of(grid.steps, e)  # one result moves by at most the whole grid
    total = grid.integers(results).sum(dtype=np.int64)
    noisy = int(randomness.laplace(np.array([total], dtype=np.int64), scale=scale)[0])
    return Measurement(
        value=grid.low + noisy / number * grid.step,
        event=PureEvent(e),
        adjacency=promise,
        mechanism=IN_PARTS,
        parameters=parameters | {"noise_scale": scale * grid.step / number},
        spread=_rounded_spread(scale * grid.step / number, grid.step),
        simulated=randomness.simulated,
    )


def _rounded_spread(scale: float, step: float) -> Callable[[float], tuple[float, float]]:
    noise = laplace_spread(scale)  # on top, each result was rounded by up to half a step
    return lambda level: (noise(level)[0] + step, noise(level)[1] + step)
