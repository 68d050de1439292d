"""Our own quantiles beside scipy's, over every size that a mechanism or a bar asks for, to a relative 1e-12."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import special

from thebes.privacy import distributions as own

NEAR = {"rtol": 1e-12, "atol": 0}
SHARES = np.concatenate(
    [10.0 ** -np.arange(1, 300, 7.0), np.linspace(0.001, 0.999, 101), 1 - 10.0 ** -np.arange(1, 16)]
)
SHAPES = [0.5, 1, 1.5, 7, 9.99, 10, 123.25, 5_000, 250_000]


def test_normal_quantiles_are_scipys():
    np.testing.assert_allclose(own.normal_quantile(SHARES), special.ndtri(SHARES), **NEAR)
    assert own.normal_quantile(0.5) == 0
    np.testing.assert_array_equal(own.normal_quantile([0.0, 1.0]), [-np.inf, np.inf])


@pytest.mark.parametrize("x", [-37.0, -20.5, -20.0, -19.5, -8.0, -1.0, -1e-9, 0.0, 0.7, 3.0, 9.0, 38.0])
def test_normal_probabilities_are_scipys(x):
    assert own.normal_cdf(x) == pytest.approx(special.ndtr(x), rel=1e-12, abs=0)
    assert own.log_normal_cdf(x) == pytest.approx(special.log_ndtr(x), rel=1e-12, abs=1e-300)


def test_the_logarithm_of_a_normal_tail_goes_on_where_the_tail_is_no_float_any_more():
    for x in (-50.0, -1e4, -1e8):
        assert own.log_normal_cdf(x) == pytest.approx(special.log_ndtr(x), rel=1e-12)
    assert own.log_normal_cdf(-math.inf) == -math.inf


def test_expit_is_as_exact_far_out_on_either_side():
    x = np.linspace(-700, 700, 141)
    np.testing.assert_allclose(own.expit(x), special.expit(x), **NEAR)


@pytest.mark.parametrize("a", SHAPES)
@pytest.mark.parametrize("b", SHAPES)
def test_beta_probabilities_and_quantiles_are_scipys(a, b):
    shares = SHARES[(SHARES > 1e-60)]
    near = 1e-11 if max(a, b) > 10_000 else 1e-12  # scipy's own lose digits there, as is shown below
    found, theirs = own.beta_quantile(a, b, shares), special.betaincinv(a, b, shares)
    np.testing.assert_allclose(found, theirs, rtol=near, atol=1e-300)
    places = np.concatenate([theirs, [0.0, 1.0, 0.5, 1e-9]])
    theirs = special.betainc(a, b, places)
    # how far the place itself is known: its last bit moves a steep tail by more than 1e-12
    steep = np.exp(special.xlogy(a, places) + special.xlog1py(b, -places) - special.betaln(a, b))
    steep = np.nan_to_num(steep / np.maximum(np.minimum(places, 1 - places), 1e-300) * places * 2.0**-50)
    assert (np.abs(own.beta_cdf(a, b, places) - theirs) <= near * theirs + steep + 1e-300).all()
    with mpmath.workdps(40):  # scipy's own errs by 1e-11 for large ones
        assert own.log_beta(a, b) == pytest.approx(float(mpmath.log(mpmath.beta(a, b))), rel=1e-13)


def test_a_beta_probability_of_whole_numbers_is_the_exact_sum():
    """I_x(a, b) is the chance of a heads or more of a + b - 1 coins: added up in fractions, without scipy."""
    for a, b, x in ((3, 5, Fraction(1, 4)), (40, 2, Fraction(15, 16)), (1, 60, Fraction(1, 64))):
        n = a + b - 1
        exactly = sum(math.comb(n, k) * x**k * (1 - x) ** (n - k) for k in range(a, n + 1))
        assert own.beta_cdf(a, b, float(x)) == pytest.approx(float(exactly), rel=1e-13)


@pytest.mark.parametrize("share", [1e-6, 0.3, 0.7])
def test_lopsided_beta_quantiles_are_exact_where_scipys_lose_digits(share):
    a, b = 10, 250_000
    with mpmath.workdps(40):
        x, n = mpmath.mpf(float(own.beta_quantile(a, b, share))), a + b - 1
        fewer = mpmath.fsum(mpmath.binomial(n, k) * x**k * (1 - x) ** (n - k) for k in range(a))
        assert float(1 - fewer) == pytest.approx(share, rel=1e-13)


@pytest.mark.parametrize("share", [1e-6, 0.3])
def test_gamma_quantiles_of_large_shapes_are_exact_where_scipys_lose_digits(share):
    a, x = 1_000_000, own.gamma_quantile(1_000_000, share)
    with mpmath.workdps(30):
        place = mpmath.mpf(x)
        term = total = mpmath.mpf(1) / a
        for n in range(1, 20_000):
            term *= place / (a + n)
            total += term
        assert float(total * mpmath.exp(a * mpmath.log(place) - place - mpmath.loggamma(a))) == pytest.approx(
            share, rel=1e-11
        )


@pytest.mark.parametrize("a", SHAPES)
def test_gamma_quantiles_are_scipys(a):
    for share in (1e-30, 1e-6, 0.01, 0.3, 0.5, 0.9, 0.95, 0.99, 1 - 1e-9, 1 - 1e-13):
        assert own.gamma_quantile(a, share) == pytest.approx(special.gammaincinv(a, share), rel=1e-12, abs=0)
    assert (own.gamma_quantile(a, 0.0), own.gamma_quantile(a, 1.0)) == (0.0, math.inf)


@pytest.mark.parametrize("degrees", [1, 2, 3, 10, 49, 1_000, 999_999, 1_000_001, 10**9])
def test_students_quantiles_are_scipys(degrees):
    for share in (1e-15, 1e-6, 0.025, 0.4, 0.5, 0.75, 0.975, 1 - 1e-9):
        theirs = special.stdtrit(degrees, share)
        assert own.student_quantile(degrees, share) == pytest.approx(theirs, rel=1e-10, abs=1e-15)


@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (1.5, 200.0), (40.0, 3.0)])
def test_a_beta_probability_and_quantile_are_the_same_alone_and_in_any_company(a, b):
    places = np.linspace(0.001, 0.999, 500)
    together = own.beta_cdf(a, b, places)
    assert together.tolist() == [float(own.beta_cdf(a, b, place)) for place in places]
    assert together[:20].tolist() == own.beta_cdf(a, b, places[:20]).tolist()
    quantiles = own.beta_quantile(a, b, places)
    assert quantiles.tolist() == [float(own.beta_quantile(a, b, place)) for place in places]


def test_shapes_of_next_to_nothing_have_their_quantiles_at_an_end():
    assert own.beta_quantile(5e-324, 3.0, 0.05) == own.beta_quantile(1e-10, 3.0, 0.95) == 0
    assert own.beta_quantile(3.0, 5e-324, 0.05) == 1
    assert 0 <= own.beta_quantile(2e-9, 1.0, 0.05) < 1e-300
    assert own.beta_quantile(0.01, 2.0, 0.05) == pytest.approx(special.betaincinv(0.01, 2.0, 0.05), rel=1e-11)


@pytest.mark.parametrize("trials", [1, 2, 16, 1_000, 10_000_000])
@pytest.mark.parametrize("p", [0.5, 0.01, 0.9])
def test_binomial_probabilities_are_scipys_and_add_up(trials, p):
    from scipy.stats import binom

    middle, spread = trials * p, math.sqrt(trials * p * (1 - p))
    counts = np.unique(np.clip(np.round(middle + spread * np.linspace(-9, 9, 300)), 0, trials))
    assert own.binomial_pmf(counts, trials, p) == pytest.approx(binom.pmf(counts, trials, p), rel=1e-11, abs=1e-300)
    assert own.binomial_pmf([-1, trials + 1], trials, p).tolist() == [0, 0]
    if trials <= 1_000:
        assert own.binomial_pmf(np.arange(trials + 1), trials, p).sum() == pytest.approx(1, abs=1e-12)
