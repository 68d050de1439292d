"""Weights of a round against the consented graph, targets as classes, and the clip that everything rests on."""

import numpy as np
import pytest
import torch
from torch import nn

import thebes.torch
from thebes.learning.graph import clip_rows, finite, read_loss, read_model
from thebes.learning.graph.document import Weight
from thebes.learning.graph.interpret import per_example_gradients
from thebes.learning.graph.weights import checked, named, pack, pack_flat, unpack, unpack_flat
from thebes.privacy.faults import Mistake


@pytest.fixture(scope="module")
def pair():
    torch.manual_seed(1)
    model_text, loss_text = thebes.torch.encode(nn.Sequential(nn.Linear(2, 3)), nn.CrossEntropyLoss())
    model = read_model(model_text)
    return model, read_loss(loss_text, model)


def test_flat_weights_survive_safetensors(pair):
    graph = pair[0].graph
    flat = np.arange(9, dtype=np.float32)
    raw = pack_flat(graph, flat)
    assert np.array_equal(unpack_flat(graph, raw), flat)
    assert named(graph, flat)["0.weight"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert thebes.torch.decode_weights(raw)["0.bias"].tolist() == [6, 7, 8]


def test_a_single_number_is_a_weight_too():
    weights = (Weight("scale", ()), Weight("bias", (2,)))
    values = {"scale": np.array(2.0, np.float32), "bias": np.array([1, 2], np.float32)}
    read = unpack(pack(values, weights), weights, argument="weights")
    assert read["scale"].shape == ()
    assert read["scale"] == 2
    assert read["bias"].tolist() == [1, 2]


@pytest.mark.parametrize(
    "wrong",
    [
        np.zeros(8),
        np.zeros((9, 1)),
        np.full(9, np.nan),
        np.full(9, np.inf),
        np.full(9, 1e39),
        ["a"] * 9,
        None,
        [10**400] * 9,
        3.0,
        [[1], [2, 3]],
    ],
)
def test_weights_that_do_not_fit_the_consented_graph_are_refused(pair, wrong):
    with pytest.raises(Mistake, match=r"^weights"):
        checked(pair[0].graph, wrong)


def test_safetensors_of_another_graph_are_refused(pair):
    other = read_model(thebes.torch.encode(nn.Sequential(nn.Linear(3, 2), nn.Tanh()), nn.MSELoss())[0])
    for raw in (pack_flat(other.graph, other.initial), b"", b"\0" * 200, pack_flat(pair[0].graph, np.zeros(9))[:-1]):
        with pytest.raises(Mistake, match=r"^weights"):
            unpack_flat(pair[0].graph, raw)


def test_row_without_a_declared_class_has_a_zero_gradient(pair):
    model, loss = pair
    targets = np.array([0.0, 2.0, 3.0, -1.0, 0.5, np.nan, np.inf, 1e300])
    found = per_example_gradients(model, loss, model.initial, np.ones((8, 2)), targets)
    assert np.abs(found[:2]).max(axis=1).min() > 0
    assert not found[2:].any()


def test_gradient_of_a_row_does_not_depend_on_the_others(pair):
    model, loss = pair
    rows = np.random.default_rng(0).normal(size=(6, 2))
    rows[3] = np.nan
    together = per_example_gradients(model, loss, model.initial, rows, np.zeros(6))
    for index in (0, 1, 2, 4, 5):
        alone = per_example_gradients(model, loss, model.initial, rows[index : index + 1], np.zeros(1))
        assert np.array_equal(together[index], alone[0])
    assert np.isnan(together[3]).any()


def test_no_rows_give_no_gradients(pair):
    model, loss = pair
    assert per_example_gradients(model, loss, model.initial, np.zeros((0, 2)), np.zeros(0)).shape == (0, 9)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_becomes_zero_before_the_clip(value):
    rows = np.array([[value, 3.0, 4.0], [0.1, value, 0.0], [value] * 3], dtype=np.float32)
    clipped = clip_rows(rows, 1.0)
    assert np.allclose(clipped, [[0, 0.6, 0.8], [0.1, 0, 0], [0, 0, 0]])


@pytest.mark.few(6)
@pytest.mark.parametrize("size", [1e-306, 1e-170, 1e-30, 1.0, 1e30, 3.4e38, 1e200, 1e306])
@pytest.mark.parametrize("norm", [1e-200, 1e-160, 1e-3, 1.0, 50.0])
def test_no_row_is_longer_than_the_norm(size, norm):
    rows = np.random.default_rng(2).normal(size=(50, 1000)) * size / 10
    from fractions import Fraction

    for row in clip_rows(rows, norm)[:5]:
        assert sum(Fraction(x) ** 2 for x in row.tolist()) <= Fraction(norm) ** 2


def test_short_rows_are_left_as_they_are():
    rows = np.array([[0.3, 0.4], [0.0, 0.0]])
    assert np.array_equal(clip_rows(rows, 1.0), rows)
    assert np.array_equal(finite(rows), rows)


@pytest.mark.parametrize("norm", [0, -1, 1e-310, float("nan"), float("inf"), True, "1", None])
def test_clip_needs_a_positive_norm(norm):
    with pytest.raises(Mistake, match=r"^norm"):
        clip_rows(np.zeros((1, 2)), norm)


def test_clip_needs_rows():
    with pytest.raises(Mistake, match=r"^gradients"):
        clip_rows(np.zeros(3), 1.0)
