"""Gradients of many people's rows: right, and of each row a function of that row alone."""

from __future__ import annotations

import numpy as np
import pytest

from thebes.learning.slopes import LinearSlopes, LogisticSlopes
from thebes.learning.updates import Sgd

ROWS = 150
FAMILIES = [(LinearSlopes(7), None), (LogisticSlopes(7, 2), 2), (LogisticSlopes(7, 4), 4)]


@pytest.fixture
def draw():
    return np.random.default_rng(0)


def _some(draw, classes):
    targets = draw.normal(size=ROWS) if classes is None else draw.integers(0, classes, ROWS).astype(float)
    return draw.normal(size=(ROWS, 7)), targets


@pytest.mark.parametrize(("slopes", "classes"), FAMILIES)
def test_a_familys_gradient_is_the_slope_of_its_loss(slopes, classes, draw) -> None:
    inputs, targets = _some(draw, classes)
    weights = draw.normal(size=slopes.count)
    gradients, _ = slopes.of(weights, inputs, targets)
    for place in range(slopes.count):
        step = np.zeros(slopes.count)
        step[place] = 1e-6
        up, down = (slopes.of(weights + sign * step, inputs, targets)[1] for sign in (1, -1))
        np.testing.assert_allclose(gradients[:, place], (up - down) / 2e-6, atol=1e-7)


@pytest.mark.parametrize(("slopes", "classes"), FAMILIES)
def test_a_row_has_the_same_gradient_in_any_company(slopes, classes, draw) -> None:
    inputs, targets = _some(draw, classes)
    weights = draw.normal(size=slopes.count)
    gradients, losses = slopes.of(weights, inputs, targets)
    order = draw.permutation(ROWS)
    for some in (slice(1, None), slice(77, 78), order):
        again, lost = slopes.of(weights, inputs[some], targets[some])
        assert np.array_equal(again, gradients[some])
        assert np.array_equal(lost, losses[some])
    assert slopes.of(weights, inputs[:0], targets[:0])[0].shape == (0, slopes.count)


def test_far_weights_give_no_error(draw) -> None:
    for slopes, classes in FAMILIES:
        inputs, targets = _some(draw, classes)
        gradients, losses = slopes.of(np.full(slopes.count, 1e200), inputs, targets)
        assert gradients.shape == (ROWS, slopes.count)
        assert losses.shape == (ROWS,)


def test_momentum_adds_up_directions_and_is_remembered() -> None:
    rule = Sgd(0.5, 0.5)
    first = rule.step(np.zeros(2), np.array([1.0, 2.0]))
    again = Sgd(0.5, 0.5)
    again.remember(rule.memory())
    for one in (rule, again):
        np.testing.assert_allclose(one.step(first, np.array([1.0, 0.0])), [-1.25, -1.5])
    assert Sgd(1.0).memory() == {}


# --- networks -------------------------------------------------------------------------------------------------


def _texts(name: str) -> tuple[str, str]:
    torch = pytest.importorskip("torch")
    from torch import nn

    from thebes.torch import encode

    torch.manual_seed(1)
    module, shape = {
        "narrow": (nn.Sequential(nn.Linear(20, 50), nn.ReLU(), nn.Linear(50, 3)), 20),
        "normed": (nn.Sequential(nn.Linear(7, 33), nn.LayerNorm(33), nn.Tanh(), nn.Linear(33, 3)), 7),
        "picture": (
            nn.Sequential(
                nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.ReLU(), nn.Flatten(), nn.Linear(512, 3)
            ),
            (3, 8, 8),
        ),
        "wide": (nn.Sequential(nn.Linear(600, 2000), nn.ReLU(), nn.Linear(2000, 3)), 600),
    }[name]
    return encode(module, nn.CrossEntropyLoss(), inputs=shape)


def _network(name: str):
    from thebes.learning.graph import read_loss, read_model

    text, loss = _texts(name)
    model = read_model(text)
    return model, read_loss(loss, model)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["narrow", "normed", "picture", "wide"])
def test_a_networks_row_has_the_same_gradient_in_any_company(name, draw) -> None:
    model, loss = _network(name)
    from thebes.learning.graph.interpret import per_example_gradients
    from thebes.learning.graph.lanes import gradients_and_losses, lanes

    count = 12 if name == "wide" else 90
    inputs = draw.normal(size=(count, model.input.columns)).astype(np.float32)
    inputs[3] = inputs[7]  # equal rows are computed once
    targets = draw.integers(0, 3, (count, 1)).astype(np.float32)
    targets[5] = 9  # none of the classes
    weights = model.initial
    whole = gradients_and_losses(model, loss, weights, inputs, targets)
    assert (lanes(model, loss) == 1) == (name == "wide")
    np.testing.assert_allclose(whole[:, :-1], per_example_gradients(model, loss, weights, inputs, targets), atol=2e-6)
    assert not whole[5].any()
    order = draw.permutation(count)
    for some in (slice(1, None), slice(4, 5), order):
        assert np.array_equal(gradients_and_losses(model, loss, weights, inputs[some], targets[some]), whole[some])
    assert gradients_and_losses(model, loss, weights, inputs[:0], targets[:0]).shape == (0, whole.shape[1])


def test_a_row_is_computed_where_its_own_numbers_say_because_its_place_does_change_its_last_bits(draw) -> None:
    """The reason for the lanes, seen on this machine's kernels; where no kernel behaves so they only cost time."""
    model, loss = _network("narrow")
    from thebes.learning.graph.interpret import per_example_gradients
    from thebes.learning.graph.lanes import _batches, gradients_and_losses

    inputs = draw.normal(size=(200, 20)).astype(np.float32)
    targets = draw.integers(0, 3, (200, 1)).astype(np.float32)
    careless = [per_example_gradients(model, loss, model.initial, inputs[s:], targets[s:]) for s in (0, 1)]
    careful = [gradients_and_losses(model, loss, model.initial, inputs[s:], targets[s:]) for s in (0, 1)]
    assert np.array_equal(careful[0][1:], careful[1])
    if np.array_equal(careless[0][1:], careless[1]):
        pytest.skip("here a row's place changes nothing")
    hashes = np.array([3, 11, 3, 64, 0], dtype=np.uint64)
    assert _batches(hashes, 8).tolist() == [[3, -1, -1, 0, -1, -1, -1, -1], [4, -1, -1, 1, -1, -1, -1, -1],
                                            [-1, -1, -1, 2, -1, -1, -1, -1]]  # fmt: skip


@pytest.mark.parametrize("name", ["narrow", "normed", "picture"])
def test_kernels_that_are_noted_once_give_what_torch_gives_through_all_its_layers_bit_for_bit(name, draw) -> None:
    model, loss = _network(name)
    import torch
    from torch.func import grad_and_value, vmap

    from thebes.learning.graph.interpret import evaluate
    from thebes.learning.graph.steps import Steps
    from thebes.learning.graph.weights import named

    def loss_of(trained, row, truth):
        said = evaluate(model.graph, {**trained, model.input.name: row})
        return evaluate(loss.graph, {loss.outputs.name: said, loss.targets.name: truth}).reshape(())

    steps = Steps(model, loss, 16)
    for far in (0.1, 1.0):  # other weights and other rows than those the kernels were found with
        flat = (model.initial + draw.normal(0, far, model.initial.shape)).astype(np.float32)
        trained = {key: torch.from_numpy(value) for key, value in named(model.graph, flat).items()}
        rows = torch.from_numpy(draw.normal(size=(16, *model.input.shape)).astype(np.float32))
        truths = torch.eye(3)[torch.from_numpy(draw.integers(0, 3, 16))].reshape(16, *loss.targets.shape)
        slopes, losses = vmap(grad_and_value(loss_of), in_dims=(None, 0, 0))(trained, rows, truths)
        with torch.no_grad():
            found = steps(*trained.values(), rows, truths)
        assert all(torch.equal(one, other) for one, other in zip(found, [*slopes.values(), losses], strict=True))


@pytest.mark.slow
def test_the_child_gives_gradients_and_losses_apart(draw) -> None:
    texts = _texts("narrow")
    from thebes.learning.graph import GradientWorker

    inputs, targets = draw.normal(size=(30, 20)), draw.integers(0, 3, (30, 1))
    with GradientWorker(*texts) as worker, GradientWorker(*texts, trusted=True) as trusted:
        weights = worker.model.initial
        found = worker.apart(weights, inputs, targets)
        assert found.shape == (30, worker.parameter_count + 1)
        np.testing.assert_allclose(found, trusted.apart(weights, inputs, targets), atol=1e-6)
        worker.finish_by(0.0)
        assert worker.apart(weights, inputs, targets) is None
