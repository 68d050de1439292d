"""The exact samplers against their stated laws, against exact arithmetic, and against opendp."""

import os
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import chisquare, ks_2samp, kstest

from tests.support.opendp_noise import OpenDP
from thebes.privacy import samplers
from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import Randomness, seeded_for_simulation, system
from thebes.testing.statistics import LEVEL, assert_scale, gaussian_cdf, laplace_cdf

KINDS = {"laplace": samplers.add_laplace, "gaussian": samplers.add_gaussian}
DRAWS = 60_000


def weight(kind, k, scale):
    exponent = np.abs(k) / scale if kind == "laplace" else k.astype(float) ** 2 / (2 * scale**2)
    return np.exp(-exponent)


def pmf_p_value(kind, noise, scale):
    """Chi-square p value under the exact probabilities; the first and the last cell hold as much of a tail as makes 20
    expected draws, since below that a draw or two far out would look like another law."""
    reach = int(60 * scale) + 10
    k = np.arange(-reach, reach + 1)
    expected = weight(kind, k, scale)
    expected *= noise.size / expected.sum()
    first = min(int(np.searchsorted(np.cumsum(expected), 20)), k.size // 2 - 1)
    last = k.size - 1 - first
    edges = k[first + 1 : last]
    observed = np.array([(noise < edges[0]).sum(), *[(noise == e).sum() for e in edges], (noise > edges[-1]).sum()])
    cells = np.array([expected[: first + 1].sum(), *expected[first + 1 : last], expected[last:].sum()])
    return chisquare(observed, cells).pvalue


def drawn(kind, randomness, scale, count=DRAWS):
    return KINDS[kind](randomness, np.zeros(count, dtype=np.int64), scale=scale)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.3, 0.5, 1.0, 1.7, 8.25, 31.9, 33.0])
def test_small_scales_follow_the_exact_probabilities_and_no_others(kind, scale):
    noise = drawn(kind, system(), scale)
    assert pmf_p_value(kind, noise, scale) > LEVEL
    assert pmf_p_value(kind, noise, scale * 0.7) < LEVEL
    assert pmf_p_value(kind, noise, scale * 1.3) < LEVEL


@pytest.mark.parametrize("kind", KINDS)
def test_one_draw_at_a_time_follows_the_same_probabilities(kind):
    """More is proposed than is asked for; which proposal is taken must not depend on its size."""
    noise = np.concatenate([drawn(kind, seeded_for_simulation(seed), 1.7, count=1) for seed in range(4_000)])
    assert pmf_p_value(kind, noise, 1.7) > LEVEL
    assert pmf_p_value(kind, noise, 1.7 * 0.7) < LEVEL
    assert pmf_p_value(kind, noise, 1.7 * 1.3) < LEVEL


@pytest.mark.few(1)
@pytest.mark.parametrize("scale", [100.5, 4096.0, 1e6 / 3, 2.0**30, 2.0**45, 2.0**50])
def test_large_scales_follow_the_continuous_law_and_no_other(scale):
    # Within 1 / scale of the continuous law, far below what this many draws can see.
    assert_scale(drawn("laplace", system(), scale) / scale, laplace_cdf, 1.0)
    assert_scale(drawn("gaussian", system(), scale) / scale, gaussian_cdf, 1.0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [100.5, 2.0**20, 2.0**45])
def test_low_bits_of_large_noise_are_uniform(kind, scale):
    low = drawn(kind, system(), scale) & 7
    assert chisquare(np.bincount(low, minlength=8)).pvalue > LEVEL


@pytest.mark.parametrize("kind", KINDS)
def test_a_tiny_scale_almost_never_moves_a_value(kind):
    assert not drawn(kind, system(), 1e-3).any()
    assert not drawn(kind, system(), samplers.LEAST_SCALE, count=100).any()


@pytest.mark.few(1, slow=11)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.3, 1.0, 7.7, 50.0, 1000.1, 2.0**45])
@pytest.mark.parametrize("safety", [0.3, 30.0])
def test_exact_arithmetic_decides_every_draw_as_the_fast_path_did(monkeypatch, kind, scale, safety):
    """A band this wide sends a part (.3) or all (30) of the draws to the arbitrary precision path."""
    fast = drawn(kind, seeded_for_simulation(5), scale, count=800)
    calls = []
    ends = samplers._LazyExponential._ends
    monkeypatch.setattr(samplers._LazyExponential, "_ends", lambda self: calls.append(1) or ends(self))
    monkeypatch.setattr(samplers, "_SAFETY", safety)
    exact = drawn(kind, seeded_for_simulation(5), scale, count=800)
    assert len(calls) > (800 if safety > 1 else 25)
    np.testing.assert_array_equal(fast, exact)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_exact_path_alone_follows_the_exact_probabilities(monkeypatch, kind):
    monkeypatch.setattr(samplers, "_SAFETY", 100.0)
    noise = drawn(kind, system(), 1.2, count=4_000)
    assert pmf_p_value(kind, noise, 1.2) > LEVEL
    assert pmf_p_value(kind, noise, 1.2 * 0.7) < LEVEL
    assert pmf_p_value(kind, noise, 1.2 * 1.3) < LEVEL


class Few(Randomness):
    """Words with only their `bits` topmost bits free: doubt is common and must be settled by further words."""

    def __init__(self, bits: int) -> None:
        self.bits = bits

    def words(self, count):
        return system().words(count) >> np.uint64(64 - self.bits) << np.uint64(64 - self.bits)

    laplace = gaussian = None


@pytest.mark.slow
def test_a_doubtful_exponential_draws_more_bits_until_it_is_decided():
    """With U known to 2 bits only, P(floor(4 E) = m) still comes out right, because later words refine it."""
    outcome = []
    for word in system().words(4_000):
        lazy = samplers._LazyExponential(system(), int(word >> np.uint64(62)))
        lazy._bits = 2
        outcome.append(lazy.whole(Fraction(4)))
    m = np.arange(16)
    expected = np.exp(-m / 4) - np.exp(-(m + 1) / 4)
    observed = np.bincount(np.minimum(outcome, 16), minlength=17)
    assert chisquare(observed, 4_000 * np.append(expected, np.exp(-4))).pvalue > LEVEL


def test_the_smallest_word_is_refined_instead_of_trusted():
    class Zeros(Few):
        def __init__(self):
            self.answers = [0, 2**63]

        def words(self, count):
            return np.array([self.answers.pop(0)], dtype=np.uint64)

    # U = 0.000... (63 zeros), then 64 more zeros, then a half: E = 128 ln 2.
    exponentials = samplers._Exponentials(Zeros(), np.zeros(1, dtype=np.uint64))
    assert exponentials.whole(1.0)[0] == 88
    assert np.isinf(exponentials.band[0])


@pytest.mark.parametrize("word", [0, 1, 2, 3, 1000, 2**20 + 1, 2**40 + 7, 2**62 - 1, 2**62, 2**63 - 2, 2**63 - 1])
def test_the_error_band_holds_both_ends_of_every_word(word):
    """The proof's claim, on the words where it is tightest and on the ends of the range."""
    exponentials = samplers._Exponentials(system(), np.array([word], dtype=np.uint64))
    low, high = samplers._LazyExponential(system(), word)._ends()
    value, band = exponentials.value[0], exponentials.band[0]
    assert value - band < low
    assert (high is None and np.isinf(band)) or high < value + band


def test_the_error_band_holds_for_random_words():
    words = system().words(2_000) >> np.uint64(1) >> (system().words(2_000) % np.uint64(63))
    words = np.maximum(words, 1)
    exponentials = samplers._Exponentials(system(), words)
    for word, value, band in zip(words.tolist(), exponentials.value, exponentials.band, strict=True):
        low, high = samplers._LazyExponential(system(), word)._ends()
        assert value - band < low
        assert high < value + band


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [0.7, 20.0, 3000.0, 2.0**40])
def test_own_draws_and_opendp_draws_look_alike_and_neither_looks_30_percent_off(kind, scale):
    ours = drawn(kind, system(), scale, count=20_000) / scale
    theirs = getattr(OpenDP(), kind)(np.zeros(20_000, dtype=np.int64), scale=scale) / scale
    if scale < 10:
        table = np.array([[np.sum(x * scale == k) for k in range(-2, 3)] for x in (ours, theirs)])
        from scipy.stats import chi2_contingency

        assert chi2_contingency(table).pvalue > LEVEL
    assert ks_2samp(ours, theirs).pvalue > LEVEL
    if scale >= 10:
        assert ks_2samp(ours, theirs * 1.3).pvalue < LEVEL
        assert ks_2samp(ours, theirs * 0.7).pvalue < LEVEL


@pytest.mark.parametrize("kind", KINDS)
def test_a_seeded_stream_repeats_itself_and_another_seed_differs(kind):
    one, again, other = (drawn(kind, seeded_for_simulation(s), 100.0, count=50) for s in (3, 3, 4))
    np.testing.assert_array_equal(one, again)
    assert (one != other).any()


@pytest.mark.parametrize("kind", KINDS)
def test_neighbouring_draws_are_uncorrelated(kind):
    noise = drawn(kind, system(), 200.0) / 200.0
    for lag in (1, 2, 17):
        product = noise[:-lag] * noise[lag:]
        assert abs(product.mean()) < 6.5 * product.std() / np.sqrt(product.size)


@pytest.mark.parametrize("kind", KINDS)
def test_forked_children_draw_differently(kind):
    randomness, zeros = system(), np.zeros(20, dtype=np.int64)
    getattr(randomness, kind)(zeros, scale=1e9)  # everything is warm before the fork
    answers = []
    for _ in range(3):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(write, getattr(randomness, kind)(zeros, scale=1e9).tobytes())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        answers.append(os.read(read, 4096))
        os.close(read)
        os.close(write)
    answers.append(getattr(randomness, kind)(zeros, scale=1e9).tobytes())
    assert all(len(a) == 160 for a in answers)
    assert len(set(answers)) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_noise_is_added_and_the_argument_left_alone(kind):
    values = np.arange(12, dtype=np.int64).reshape(3, 4)
    noised = KINDS[kind](system(), values, scale=1e-3)
    np.testing.assert_array_equal(noised, values)
    assert KINDS[kind](system(), values, scale=5.0).shape == (3, 4)
    np.testing.assert_array_equal(values, np.arange(12).reshape(3, 4))


@pytest.mark.parametrize("kind", KINDS)
def test_scale_zero_and_empty_arrays_draw_nothing(kind):
    class Dry(Few):
        def words(self, count):
            raise AssertionError("no word may be drawn")

    values = np.array([1, 2], dtype=np.int64)
    noised = KINDS[kind](Dry(1), values, scale=0.0)
    np.testing.assert_array_equal(noised, values)
    assert noised is not values
    assert KINDS[kind](Dry(1), values[:0], scale=3.0).size == 0


@pytest.mark.parametrize("kind", KINDS)
def test_results_at_the_end_of_the_range_are_clamped_and_never_wrap(kind):
    ends = np.array([2**63 - 1, -(2**63), 2**61, -(2**61)] * 200, dtype=np.int64)
    noised = KINDS[kind](system(), ends, scale=2.0**50)
    assert (np.sign(noised) == np.sign(ends)).all()
    assert np.abs(noised).max() == samplers.FARTHEST


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [-1.0, float("nan"), float("inf"), 2.0**51, 1e-12, "1", None, True])
def test_an_impossible_scale_is_refused_by_name(kind, scale):
    with pytest.raises(Mistake) as caught:
        KINDS[kind](system(), np.zeros(2, dtype=np.int64), scale=scale)
    assert caught.value.argument == "scale"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("values", [[0.5], ["a"], np.zeros(2), np.zeros(2, dtype=np.int32)])
def test_values_that_are_no_64_bit_integers_are_refused_by_name(kind, values):
    with pytest.raises(Mistake) as caught:
        KINDS[kind](system(), values, scale=1.0)
    assert caught.value.argument == "values"


def test_blocks_meet_without_a_seam():
    """The scale at which the draw changes from one part to two parts, and a count over several blocks."""
    for scale in (31.999, 32.0, 32.001, 63.999, 64.0):
        noise = drawn("laplace", system(), scale, count=samplers._BLOCK + 5_000)
        assert (
            kstest((noise + np.random.default_rng(0).uniform(-0.5, 0.5, noise.size)) / scale, "laplace").pvalue > LEVEL
        )
    parts = pairwise(np.array_split(drawn("laplace", system(), 50.0, count=2 * samplers._BLOCK), 4))
    assert all(ks_2samp(a, b).pvalue > LEVEL for a, b in parts)
