"""The error bar of a quantile holds every sample quantile as often as it says, whatever the rows, and is narrow."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from thebes.privacy import randomness
from thebes.privacy.mechanisms import ladder
from thebes.privacy.mechanisms.additive import Additive, Laplace
from thebes.privacy.mechanisms.ladder import Ladder, rungs_about, upper_end
from thebes.privacy.mechanisms.quantile import quantile
from thebes.privacy.stability import change_of
from thebes.testing.statistics import assert_size
from thebes.testing.transcripts import Repetition, Transcript

BARS_HOLD = 0.95
RARE = 1e-6
LAWS: dict[str, tuple[Callable[[int, np.random.Generator], np.ndarray], float]] = {
    "normal": (lambda n, r: r.normal(50, 15, n), 100),
    "lognormal": (lambda n, r: r.lognormal(3, 1, n), 1000),
    "whole": (lambda n, r: r.binomial(10, 0.4, n).astype(float), 10),
    "two lumps": (lambda n, r: np.where(np.arange(n) % 2 == 0, 10.0, 90.0), 100),
    "all equal": (lambda n, r: np.full(n, 37.0), 100),
    "at both ends": (lambda n, r: np.where(r.random(n) < 0.5, 0.0, 100.0), 100),
}


def rows_of(law: str, n: int, seed: int = 0) -> np.ndarray:
    make, high = LAWS[law]
    return np.clip(make(n, np.random.default_rng(seed)), 0, high)


def sample_quantiles(rows: np.ndarray, alpha: float) -> tuple[float, float]:
    """The lowest and the highest value with at most alpha n rows below it and (1 - alpha) n above."""
    ordered, rank = np.sort(rows), alpha * rows.size
    first, last = int(np.ceil(rank - 1e-9)) - 1, int(np.floor(rank + 1e-9))
    return float(ordered[max(first, 0)]), float(ordered[min(last, rows.size - 1)])


def held(law: str, n: int, epsilon: float, alpha: float, size: str, draws: int, seed: int = 0) -> tuple[int, float]:
    """Count the bars that held all sample quantiles; and the half width of the middle one."""
    rows, source = rows_of(law, n, seed), randomness.seeded_for_simulation(seed)
    low, high = sample_quantiles(rows, alpha)
    hits, widths = 0, []
    for _ in range(draws):
        bar = quantile(
            rows,
            alpha=alpha,
            bounds=(0, LAWS[law][1]),
            epsilon=epsilon,
            adjacency="add-remove-one" if size == "one more or less" else "replace-one",
            n=n if size == "public" else None,
            randomness=source,
            bits=16 if n * epsilon >= 10_000 else 12,
            level=BARS_HOLD,
        ).interval(BARS_HOLD)
        hits += bar.low <= low and high <= bar.high
        widths.append((bar.high - bar.low) / 2)
    return hits, float(np.median(widths))


SIZES = ["public", "private", "one more or less"]


@pytest.mark.few(1, slow=7)
@pytest.mark.parametrize(
    ("law", "n", "epsilon", "alpha"),
    [
        ("normal", 400, 1, 0.5), ("two lumps", 400, 8, 0.5), ("all equal", 50, 1, 0.5), ("at both ends", 200, 1, 0.5),
        ("lognormal", 1, 1, 0.5), ("lognormal", 300, 4, 0.001), ("lognormal", 300, 4, 0.999), ("whole", 400, 8, 0.25),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", SIZES)
def test_the_bar_holds_as_often_as_it_says(law, n, epsilon, alpha, size) -> None:
    draws = 200
    assert binom.cdf(held(law, n, epsilon, alpha, size, draws)[0], draws, BARS_HOLD) > RARE


@pytest.mark.few(0, slow=12)
@pytest.mark.parametrize("draws", [400, pytest.param(1000, marks=pytest.mark.heavy)])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    ("law", "n", "epsilon", "alpha"),
    [
        *product(LAWS, [100, 2000], [0.1, 1, 8], [0.5]),
        *product(["lognormal", "whole", "at both ends"], [1, 400], [1], [0.01, 0.25, 0.99]),
        ("normal", 20_000, 1, 0.5), ("two lumps", 100_000, 8, 0.5),
    ],
)  # fmt: skip
def test_the_bar_holds_in_every_cell(law, n, epsilon, alpha, size, draws) -> None:
    assert binom.cdf(held(law, n, epsilon, alpha, size, draws, seed=1)[0], draws, BARS_HOLD) > RARE


#: half widths of the bar made of two further quantiles, which this one replaced
BEFORE = {
    ("normal", 400, 1): 9.7, ("normal", 2000, 1): 1.84, ("normal", 20_000, 1): 0.18, ("normal", 2000, 0.1): 35,
    ("normal", 20_000, 0.1): 1.83, ("lognormal", 400, 1): 13.7, ("lognormal", 2000, 1): 2.43,
    ("lognormal", 20_000, 1): 0.214, ("lognormal", 400, 8): 1.6, ("lognormal", 2000, 8): 0.31,
}  # fmt: skip


@pytest.mark.few(1, slow=3)
@pytest.mark.parametrize("cell", BEFORE)
def test_the_bar_is_at_most_three_fifths_as_wide_as_it_was(cell) -> None:
    widths = [held(*cell, 0.5, "public", 25, seed)[1] for seed in range(4)]
    assert np.mean(widths) <= 0.6 * BEFORE[cell]


def test_tests_that_allow_for_half_the_noise_would_be_noticed(monkeypatch) -> None:
    """The positive control of coverage, where many values are medians: then no width to spare hides a mistake."""
    monkeypatch.setattr(ladder, "upper_end", lambda *law: upper_end(*law) / 2)
    hits, _ = held("two lumps", 400, 8, 0.5, "public", 300)
    assert binom.cdf(hits, 300, BARS_HOLD) < RARE


# --- the noise ---


@pytest.mark.few(1)
@pytest.mark.parametrize(("size", "moved"), [("public", 2), ("private", 2), ("one more or less", 1)])
def test_the_counts_get_noise_for_half_of_epsilon(size, moved) -> None:
    found: list[np.ndarray] = []
    for seed in range(100):
        said = Transcript(randomness.seeded_for_simulation(seed))
        quantile(
            np.arange(100.0),
            alpha="0.5",
            bounds=(0, 100),
            epsilon="0.05",
            adjacency="add-remove-one" if size == "one more or less" else "replace-one",
            n=100 if size == "public" else None,
            randomness=said,
            bits=12,
            level=0.95,
        )
        (call,) = said.noises
        assert call.before.sum() == 100
        found.append(call.after - call.before)
    assert_size(np.concatenate(found), "laplace", moved / 0.025)


@pytest.mark.parametrize("anchor", [0, 3, 8, 16])
def test_no_row_anywhere_moves_the_counts_further_than_the_noise_hides(anchor) -> None:
    """With the value said, wherever it lies: all places of a row that changes, or comes, on a small grid."""
    bars = Ladder(anchor, 16, 0.5, 0.95)
    others, worst = [2, 5, 5, 11], {"replace-one": 0.0, "add-remove-one": 0.0}
    for adjacency in worst:
        noise = Laplace(1).noise(bars.counts.sensitivity(change_of(adjacency)))
        starts = [[place] for place in range(17)] if adjacency == "replace-one" else [[]]
        for here, there in product(starts, range(17)):
            said = Transcript()
            bars.interval(np.sort([*others, *here]), noise, said, None)
            again = Repetition(said)
            bars.interval(np.sort([*others, there]), noise, again, None)
            worst[adjacency] = max(worst[adjacency], again.loss().epsilon())
    assert worst == {"replace-one": pytest.approx(1), "add-remove-one": pytest.approx(1)}


# --- how far noise reaches ---


@pytest.mark.parametrize("scale", [0.05, 0.5, 4.0, 12.0])
@pytest.mark.parametrize(("cells", "share"), [((1, 1), 0.5), ((1, 6), 6 / 7), ((3, 2), 0.01), ((2, 2), 0.3)])
def test_the_reach_of_noise_is_that_of_its_law(scale, cells, share) -> None:
    """Against the law summed by its definition, one noise after another."""
    reach = int(40 * scale) + 2
    one = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    one /= one.sum()
    sums = []
    for count in cells:
        odds = np.ones(1)
        for _ in range(count):
            odds = np.convolve(odds, one)
        sums.append((np.arange(odds.size) - odds.size // 2, odds))
    (places, here), (others, there) = sums
    end = upper_end(scale, cells, share, 0.975)
    joint = share * places[:, None] - (1 - share) * others[None, :]

    def beyond(c: float) -> float:
        return float((here[:, None] * there[None, :])[joint > c].sum())

    assert beyond(end) <= 0.025
    assert beyond(0.999 * end - 1e-5) > 0.025 or end < 1e-3


@pytest.mark.few(1)
@pytest.mark.parametrize("scale", [129.0, 1000.0, 4e6])
def test_the_reach_of_wide_noise_is_cautious_and_close(scale) -> None:
    cells, share = (12, 15), 15 / 27
    drawn = np.random.default_rng(0).laplace(0, scale, (400_000, 27))
    noise = share * drawn[:, :12].sum(axis=1) - (1 - share) * drawn[:, 12:].sum(axis=1)
    over = int((noise > upper_end(scale, cells, share, 0.975)).sum())
    assert binom.sf(over - 1, noise.size, 0.025) > RARE
    assert binom.cdf(over, noise.size, 0.02) > RARE


def test_rungs_lie_on_the_grid_and_about_the_anchor() -> None:
    assert rungs_about(5, 16).tolist() == [1, 3, 4, 5, 6, 7, 8, 10, 14]
    assert rungs_about(0, 4).tolist() == [1, 2, 3]
    assert rungs_about(4, 4).tolist() == [2, 3, 4]


@pytest.mark.parametrize("anchor", range(17))
def test_without_noise_the_bar_ends_at_the_nearest_rungs(anchor) -> None:
    rows = np.sort(np.random.default_rng(anchor).integers(0, 17, 31))
    low, high = Ladder(anchor, 16, 0.5, 0.95).interval(
        rows, Additive("laplace", 1e-6, 1, None), randomness.system(), 31
    )
    middle, rungs = rows[15], rungs_about(anchor, 16)
    assert low == max([0, *rungs[(rungs <= anchor) & (rungs <= middle)]])
    assert high == min([16, *(rungs[(rungs > anchor) & (rungs > middle)] - 1)])
