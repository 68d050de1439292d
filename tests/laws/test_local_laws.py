"""Laws of every local mechanism, whatever its size, its epsilon and its values."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from thebes.privacy.mechanisms.local import (
    AsymmetricUnaryEncoding,
    HadamardResponse,
    Hybrid,
    LocalLaplace,
    Piecewise,
    PrivUnit,
    RandomizedResponse,
    SubsetSelection,
    SymmetricUnaryEncoding,
    TwoPoint,
    choose_categorical,
)
from thebes.privacy.randomness import seeded_for_simulation

epsilons = st.decimals("0.0001", "60", places=6)
sizes = st.integers(2, 300)
CATEGORICAL = (RandomizedResponse, SymmetricUnaryEncoding, AsymmetricUnaryEncoding, SubsetSelection, HadamardResponse)


@given(kind=st.sampled_from(CATEGORICAL), size=sizes, epsilon=epsilons)
def test_no_loss_exceeds_what_was_declared(kind, size, epsilon):
    mechanism = kind(size, epsilon)
    assert 0 < mechanism.loss().epsilon <= epsilon
    assert 0 < mechanism.stray < mechanism.hold < 1


@given(size=sizes, epsilon=epsilons, delta=st.decimals("0.000000001", "0.9", places=9))
def test_no_approximate_loss_exceeds_what_was_declared(size, epsilon, delta):
    loss = RandomizedResponse(size, epsilon, delta).loss()
    assert loss.epsilon <= epsilon
    assert loss.delta <= delta


@given(kind=st.sampled_from((LocalLaplace, TwoPoint, Piecewise, Hybrid)), epsilon=epsilons, bits=st.integers(1, 24))
@examples(20)
def test_no_loss_of_a_number_exceeds_what_was_declared(kind, epsilon, bits):
    assert 0 < kind(0, 1, epsilon, bits=bits).loss().epsilon <= epsilon


@given(dimension=st.integers(1, 2000), epsilon=st.decimals("0.5", "200", places=3))
@examples(15)
def test_no_loss_of_a_row_exceeds_what_was_declared(dimension, epsilon):
    mechanism = PrivUnit(dimension, epsilon)
    assert epsilon * Decimal("0.5") < mechanism.loss().epsilon <= epsilon
    assert mechanism.m**2 <= mechanism.s * (1 + 1e-12)


@given(size=sizes, epsilon=epsilons)
def test_more_epsilon_never_makes_the_choice_worse(size, epsilon):
    less, more = choose_categorical(size, epsilon, 10), choose_categorical(size, epsilon * 2, 10)
    assert more.expected_error(10) <= less.expected_error(10)


@given(
    kind=st.sampled_from(CATEGORICAL),
    size=st.integers(2, 70),
    epsilon=epsilons,
    picks=st.lists(st.integers(0, 10**6), min_size=1, max_size=40),
    seed=st.integers(0, 2**32),
)
def test_every_report_can_be_checked_and_estimated(kind, size, epsilon, picks, seed):
    mechanism = kind(size, epsilon)
    reports = mechanism.perturb([pick % size for pick in picks], seeded_for_simulation(seed))
    assert np.array_equal(mechanism.check(reports.tolist()), reports)
    assert mechanism.estimate(reports).value.shape == (size,)


@given(
    kind=st.sampled_from((LocalLaplace, TwoPoint, Piecewise, Hybrid)),
    epsilon=epsilons,
    values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30),
    seed=st.integers(0, 2**32),
)
@examples(20)
def test_every_number_gives_a_report_of_the_public_set(kind, epsilon, values, seed):
    mechanism = kind(-2, 5, epsilon)
    reports = mechanism.perturb(values, seeded_for_simulation(seed))
    assert np.array_equal(mechanism.check(reports.tolist()), reports)


@given(
    dimension=st.integers(1, 30),
    rows=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=10),
    seed=st.integers(0, 2**32),
)
@examples(20)
def test_every_row_gives_a_report_of_the_public_grid(dimension, rows, seed):
    mechanism = PrivUnit(dimension, 2, radius=1.5)
    reports = mechanism.perturb([[value] * dimension for value in rows], seeded_for_simulation(seed))
    assert np.array_equal(mechanism.check(reports.tolist()), reports)
