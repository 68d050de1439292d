"""Laws of recurrent layers, attention and embedding: what travels computes torch's own, for each example alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from thebes.learning.graph import GradientWorker, clip_rows, read_loss, read_model
from thebes.learning.graph.interpret import outputs_of, per_example_gradients
from thebes.learning.graph.lanes import gradients_and_losses, outputs
from thebes.privacy.faults import Mistake

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

import thebes.torch  # noqa: E402

EXAMPLES = examples(6)


class OverSteps(nn.Module):
    """Whatever a layer says of a sequence, as one number."""

    def __init__(self, layer, wide, last=False):
        super().__init__()
        self.layer, self.last, self.out = layer, last, nn.Linear(wide, 1)

    def forward(self, steps):
        if not self.layer.batch_first:
            steps = steps.transpose(0, 1)
        states, end = self.layer(steps)
        if self.last:
            return self.out((end[0] if isinstance(end, tuple) else end)[-1])
        return self.out(states.mean(1 if self.layer.batch_first else 0))


class Attending(nn.Module):
    def __init__(self, wide, heads, told):
        super().__init__()
        self.layer, self.told, self.out = nn.MultiheadAttention(wide, heads, batch_first=True), told, nn.Linear(wide, 1)

    def forward(self, steps):
        return self.out(self.layer(steps, steps, steps, need_weights=self.told)[0].mean(1))


class Coded(nn.Module):
    """One column of codes beside columns of numbers."""

    def __init__(self, codes, padding):
        super().__init__()
        self.table, self.out = nn.Embedding(codes, 3, padding_idx=padding), nn.Linear(5, 1)

    def forward(self, row):
        return self.out(torch.cat([self.table(row[:, 2].long()), row[:, :2]], 1))


def alone(module, rows, truths, whole=False):
    """The gradient of each example by torch, as one line each."""
    found = []
    for row, truth in zip(torch.from_numpy(rows), torch.from_numpy(truths), strict=True):
        module.zero_grad()
        nn.functional.mse_loss(module((row.long() if whole else row)[None]), truth[None]).backward()
        found.append(np.concatenate([each.grad.numpy().ravel() for each in module.parameters()]))
    return np.array(found)


def holds(module, rows, whole=False):
    model_text, loss_text = thebes.torch.encode(module, nn.MSELoss(), inputs=rows.shape[1:])
    model = read_model(model_text)
    loss = read_loss(loss_text, model)
    truths = np.linspace(-1, 1, len(rows), dtype=np.float32)[:, None]
    expected = alone(module, rows, truths, whole)
    close = 2e-5 * max(1.0, np.abs(expected).max())
    found = per_example_gradients(model, loss, model.initial, rows, truths)
    assert np.abs(found - expected).max() <= close
    in_lanes = gradients_and_losses(model, loss, model.initial, rows.reshape(len(rows), -1), truths)
    assert np.abs(in_lanes[:, :-1] - expected).max() <= close
    assert (np.linalg.norm(clip_rows(found, 0.1), axis=1) <= 0.1).all()
    said = module(torch.from_numpy(rows).long() if whole else torch.from_numpy(rows)).detach().numpy()
    assert np.abs(outputs_of(model, model.initial, rows) - said).max() <= 1e-5
    apart = outputs(model, loss, model.initial, rows.reshape(len(rows), -1), truths)
    assert np.abs(apart - said.reshape(len(rows), -1)).max() <= 1e-5
    back = thebes.torch.to_module(module, model.initial + 1)
    assert np.allclose(torch.cat([p.detach().ravel() for p in back.parameters()]).numpy(), model.initial + 1)


@given(
    st.sampled_from([nn.LSTM, nn.GRU]),
    st.integers(1, 4),
    st.integers(1, 4),
    st.integers(1, 2),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
@EXAMPLES
def test_a_recurrent_layer_has_torchs_gradients(kind, columns, hidden, layers, both, biased, first, last):
    torch.manual_seed(columns)
    layer = kind(columns, hidden, layers, bias=biased, batch_first=first, bidirectional=both)
    wide = hidden if last or not both else 2 * hidden
    rows = np.random.default_rng(3).normal(size=(5, 6, columns)).astype(np.float32)
    holds(OverSteps(layer, wide, last), rows)


@given(st.integers(1, 2), st.integers(1, 3), st.booleans())
@EXAMPLES
def test_attention_has_torchs_gradients(heads, each, told):
    torch.manual_seed(heads)
    rows = np.random.default_rng(4).normal(size=(5, 4, heads * each)).astype(np.float32)
    holds(Attending(heads * each, heads, told), rows)


def test_a_whole_transformer_layer_travels():
    torch.manual_seed(1)

    class Transformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.out = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), nn.Linear(4, 1)

        def forward(self, steps):
            mask = nn.functional.scaled_dot_product_attention(steps, steps, steps, is_causal=True, scale=0.3)
            return self.out(self.layer(mask).mean(1))

    holds(Transformer(), np.random.default_rng(5).normal(size=(4, 3, 4)).astype(np.float32))


@given(st.integers(1, 9), st.booleans())
@EXAMPLES
def test_embedding_has_torchs_gradients(codes, padded):
    torch.manual_seed(codes)
    draw = np.random.default_rng(6)
    rows = np.column_stack([draw.normal(size=(6, 2)), draw.integers(0, codes, 6)]).astype(np.float32)
    holds(Coded(codes, 0 if padded else None), rows)


def test_an_embedding_as_first_layer_takes_codes():
    torch.manual_seed(2)
    rows = np.random.default_rng(7).integers(0, 9, (6, 4)).astype(np.float32)
    holds(nn.Sequential(nn.Embedding(9, 2), nn.Flatten(), nn.Linear(8, 1)), rows, whole=True)


@pytest.mark.parametrize("code", [-1.0, 9.0, 2.5, 1e30, -1e30, float("inf"), float("nan")])
def test_a_code_that_is_no_place_of_the_table_is_zeros(code):
    torch.manual_seed(2)
    text, loss_text = thebes.torch.encode(nn.Sequential(nn.Embedding(9, 2), nn.Flatten()), nn.MSELoss(), inputs=(3,))
    model = read_model(text)
    rows = np.array([[1, code, 8]], dtype=np.float32)
    found = outputs_of(model, model.initial, rows)[0]
    table = model.values["0.weight"]
    assert (found == np.concatenate([table[1], [0, 0], table[8]])).all()
    slopes = per_example_gradients(model, read_loss(loss_text, model), model.initial, rows, np.ones((1, 6)))
    assert np.isfinite(slopes).all()
    assert not slopes.reshape(9, 2)[[0, 2, 3, 4, 5, 6, 7]].any()


class Given(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.state = nn.GRU(2, 3, batch_first=True), nn.Parameter(torch.zeros(1, 1, 3))

    def forward(self, steps):
        return self.layer(steps, self.state)[0][:, -1]


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(2, 3, batch_first=True)

    def forward(self, steps):
        return self.layer(steps)[1][1][0]


class Projected(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(2, 3, batch_first=True, proj_size=1)

    def forward(self, steps):
        return self.layer(steps)[0][:, -1]


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 1)

    def forward(self, steps):
        return self.table(steps.long()[:, 0] + 3)[..., 0]


@pytest.mark.parametrize(
    ("module", "told"),
    [(Given(), "given state"), (Cell(), "cell of an LSTM"), (Projected(), "proj_size"), (Counting(), "whole numbers")],
)
def test_what_cannot_travel_of_a_layer_is_named(module, told):
    with pytest.raises(Mistake, match=told):
        thebes.torch.encode(module, nn.MSELoss(), inputs=(4, 2))


def test_a_sequence_longer_than_the_limit_is_named():
    with pytest.raises(Mistake, match="128 steps"):
        thebes.torch.encode(OverSteps(nn.GRU(2, 3, batch_first=True), 3), nn.MSELoss(), inputs=(129, 2))


@pytest.mark.slow
def test_a_confined_worker_computes_them():
    torch.manual_seed(3)
    module = OverSteps(nn.LSTM(2, 3, batch_first=True), 3)
    text, loss_text = thebes.torch.encode(module, nn.MSELoss(), inputs=(6, 2))
    rows = np.random.default_rng(8).normal(size=(4, 6, 2)).astype(np.float32)
    truths = np.zeros((4, 1), dtype=np.float32)
    with GradientWorker(text, loss_text) as worker:
        found = worker.gradients(worker.model.initial, rows.reshape(4, -1), truths)
    assert np.abs(found - alone(module, rows, truths)).max() <= 1e-5
