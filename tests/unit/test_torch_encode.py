"""A requestor's module becomes text that computes the same gradients, or a sentence that says what cannot travel."""

import hashlib

import numpy as np
import pytest
import torch
from torch import nn

import thebes.torch
from thebes.learning.graph import read_loss, read_model
from thebes.learning.graph.interpret import outputs_of, per_example_gradients
from thebes.privacy.faults import Mistake


def mlp() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Dropout(0.0), nn.Linear(8, 3))


def cnn() -> nn.Module:
    torch.manual_seed(4)
    return nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 6, 3, padding=1),
        nn.GroupNorm(2, 6),
        nn.SiLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 8, 3, padding="same"),
        nn.LayerNorm([8, 4, 4]),
        nn.GELU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 3),
    )


class Residual(nn.Module):
    """Overwrites in place, views, reuses a weight, branches: what real modules do."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.last = nn.Linear(4, 3)
        self.again = self.first

    def forward(self, x):
        out = torch.relu_(self.first(x))
        out = self.again(out)
        out += x
        return self.last(torch.cat([out, x], 1).view(x.size(0), 2, 4).mean(1))


def eager(module, loss, rows, truths):
    gradients = []
    trained = [p for p in module.parameters() if p.requires_grad]
    for row, truth in zip(rows, truths, strict=True):
        value = loss(module(row[None]), truth)
        parts = torch.autograd.grad(value, trained)
        gradients.append(torch.cat([part.reshape(-1) for part in parts]))
    return torch.stack(gradients).numpy()


LOSSES = {
    "mse": (nn.MSELoss(), "number"),
    "mse by sum": (nn.MSELoss(reduction="sum"), "number"),
    "l1": (nn.L1Loss(), "number"),
    "huber": (nn.HuberLoss(delta=0.5), "number"),
    "smooth l1": (nn.SmoothL1Loss(), "number"),
    "poisson": (nn.PoissonNLLLoss(), "number"),
    "logits": (nn.BCEWithLogitsLoss(), "number"),
    "cross entropy": (nn.CrossEntropyLoss(label_smoothing=0.1), "class"),
    "a function": (lambda outputs, targets: ((outputs - targets) ** 2).mean() + 0.1 * outputs.abs().sum(), "number"),
}


@pytest.mark.few(4)
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize(("build", "columns"), [(mlp, 4), (cnn, 64), (Residual, 4)], ids=["mlp", "cnn", "residual"])
def test_gradients_of_the_text_are_those_of_the_module(build, columns, name):
    module, (loss, kind) = build(), LOSSES[name]
    model_text, loss_text = thebes.torch.encode(module, loss)
    model = read_model(model_text)
    rows = torch.randn(7, columns)
    if kind == "class":
        targets = np.array([0, 1, 2, 2, 1, 0, 1])
        truths = [torch.tensor([c]) for c in targets]
    else:
        targets = np.random.default_rng(1).uniform(0, 1, (7, 3)).astype(np.float32)
        truths = [torch.from_numpy(t[None]) for t in targets]
    found = per_example_gradients(model, read_loss(loss_text, model), model.initial, rows.numpy(), targets)
    assert np.abs(found - eager(module, loss, rows, truths)).max() < 1e-5
    assert np.abs(outputs_of(model, model.initial, rows.numpy()) - module(rows).detach().numpy()).max() < 1e-5


def test_flat_order_is_that_of_named_parameters():
    module = mlp()
    model = read_model(thebes.torch.encode(module, nn.CrossEntropyLoss())[0])
    expected = torch.cat([p.detach().reshape(-1) for p in module.parameters()]).numpy()
    assert np.array_equal(model.initial, expected)
    assert [w.name for w in model.graph.weights] == [n for n, _ in module.named_parameters()]


def test_parameters_without_gradient_travel_and_are_not_trained():
    module = mlp()
    module[0].requires_grad_(False)
    model_text, loss_text = thebes.torch.encode(module, nn.MSELoss())
    model = read_model(model_text)
    assert model.graph.parameter_count == 8 * 3 + 3
    rows = torch.randn(3, 4)
    found = per_example_gradients(
        model, read_loss(loss_text, model), model.initial, rows.numpy(), np.zeros((3, 3), np.float32)
    )
    assert np.abs(found - eager(module, nn.MSELoss(), rows, torch.zeros(3, 1, 3))).max() < 1e-5


def test_digest_is_of_the_graph_and_not_of_the_weights():
    first, second, other = mlp(), mlp(), cnn()
    with torch.no_grad():
        second[0].weight.add_(1)
    texts = [thebes.torch.encode(module, nn.MSELoss())[0] for module in (first, second, other)]
    digests = [read_model(text).graph.digest for text in texts]
    assert texts[0] != texts[1]
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4)), "GroupNorm"),
        (nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.5)), "p=0"),
        (nn.Sequential(nn.Linear(2, 4), nn.RReLU()), "aten.rrelu"),
        (nn.Linear(2, 4, dtype=torch.float64), "float32"),
        (nn.Sequential(nn.Linear(2, 4), nn.Bilinear(1, 1, 1)), "trace"),
        ("a string", "Module"),
        (nn.Linear(2, 2).requires_grad_(False), "nothing to train"),
        (nn.Sequential(nn.Linear(3000, 3000), nn.Linear(3000, 3800)), "20,000,000"),
    ],
)
def test_what_cannot_travel_is_named(module, words):
    with pytest.raises(Mistake, match=words) as caught:
        thebes.torch.encode(module, nn.MSELoss(), inputs=3000 if words == "20,000,000" else 2)
    assert caught.value.argument == "model"


def test_constants_and_buffers_and_several_results_are_refused():
    class Constant(nn.Linear):
        def forward(self, x):
            return super().forward(x) + torch.tensor([1.0, 2.0])

    class Two(nn.Linear):
        def forward(self, x):
            return super().forward(x), x

    buffered = nn.Linear(2, 2)
    buffered.register_buffer("mean", torch.zeros(2))
    overwrites = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(2, 2))
    for module, words in ((Constant(2, 2), "constant"), (Two(2, 2), "one tensor"), (buffered, "buffer 'mean'")):
        with pytest.raises(Mistake, match=words):
            thebes.torch.encode(module, nn.MSELoss())
    with pytest.raises(Mistake, match="inplace=False"):
        thebes.torch.encode(overwrites, nn.MSELoss())


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (nn.BCELoss(), "BCEWithLogitsLoss"),
        (nn.MSELoss(reduction="none"), "'mean' or 'sum'"),
        (nn.CrossEntropyLoss(weight=torch.ones(3)), "class weights"),
        (nn.BCEWithLogitsLoss(pos_weight=torch.ones(3)), "pos_weight"),
        (nn.Linear(3, 1), "cannot"),
        (7, "function"),
        (lambda outputs, targets: outputs * 2, "one number"),
        (lambda outputs, targets: (outputs * torch.rand(3)).sum(), "rand"),
    ],
)
def test_a_loss_that_cannot_travel_is_named(loss, words):
    with pytest.raises(Mistake, match=words) as caught:
        thebes.torch.encode(mlp(), loss)
    assert caught.value.argument == "loss"


def test_shape_of_pictures_must_be_said():
    with pytest.raises(Mistake, match=r"inputs: .*shape"):
        thebes.torch.encode(nn.Conv2d(3, 2, 3), nn.MSELoss())
    text, _ = thebes.torch.encode(
        nn.Sequential(nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(72, 2)), nn.CrossEntropyLoss(), inputs=(3, 8, 8)
    )
    assert read_model(text).input.columns == 192
    for wrong in (0, -1, (), (3, 0), (1.5,), True):
        with pytest.raises(Mistake, match="inputs"):
            thebes.torch.encode(mlp(), nn.MSELoss(), inputs=wrong)


def test_trained_weights_come_back_into_the_module():
    source, goal = mlp(), mlp()
    with torch.no_grad():
        for parameter in source.parameters():
            parameter.mul_(3)
    text, _ = thebes.torch.encode(source, nn.MSELoss())
    flat = read_model(text).initial
    for form in (text, thebes.torch.encode_weights(source), flat, thebes.torch.decode_weights(text)):
        goal = thebes.torch.to_module(mlp(), form)
        assert all(torch.equal(a, b) for a, b in zip(goal.parameters(), source.parameters(), strict=True))


def test_weights_that_do_not_fit_the_module_change_nothing():
    module = mlp()
    before = [p.detach().clone() for p in module.parameters()]
    state = thebes.torch.decode_weights(thebes.torch.encode_weights(module))
    for wrong in (
        b"\x80\x04pickle",
        np.zeros(3),
        {**state, "extra": torch.zeros(1)},
        {"0.weight": state["0.weight"]},
        {**{n: v + 1 for n, v in state.items()}, "3.bias": torch.zeros(4)},
    ):
        with pytest.raises(Mistake, match="weights"):
            thebes.torch.to_module(module, wrong)
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))


def test_published_weight_file_is_converted_only_under_its_digest(tmp_path):
    from thebes.learning.graph.architectures import architecture

    torch.manual_seed(1)
    source = architecture("squeezenet1_1")
    state = {**source.state_dict(), "classifier.1.weight": torch.zeros(10, 512, 1, 1)}
    path = tmp_path / "squeezenet.pth"
    torch.save(state, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    raw = thebes.torch.convert_state_dict(path, digest=digest, backbone="squeezenet1_1")
    goal = thebes.torch.to_module(architecture("squeezenet1_1"), raw)
    assert all(torch.equal(a, b) for a, b in zip(goal.parameters(), source.parameters(), strict=True))
    with pytest.raises(Mistake, match="digest"):
        thebes.torch.convert_state_dict(path, digest="0" * 64, backbone="squeezenet1_1")
    with pytest.raises(Mistake, match="vgg11 needs"):
        thebes.torch.convert_state_dict(path, digest=digest, backbone="vgg11")


def test_without_a_digest_only_the_file_that_torchvision_publishes_is_converted(tmp_path, monkeypatch):
    from thebes.learning.graph import published_weights
    from thebes.learning.graph.architectures import ARCHITECTURES, architecture

    for name, one in published_weights.PUBLISHED.items():
        assert name in ARCHITECTURES
        assert len(one.sha256) == 64
        assert one.file == f"{name}-{one.sha256[:8]}.pth"
    path = tmp_path / "small.pth"
    source = architecture("small")
    torch.save(source.state_dict(), path)
    with pytest.raises(Mistake, match="not the one with this SHA-256"):
        thebes.torch.convert_state_dict(path, backbone="squeezenet1_1")
    with pytest.raises(Mistake, match="no published one is known for small"):
        thebes.torch.convert_state_dict(path, backbone="small")
    known = published_weights.Weights("small.pth", hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_size)
    monkeypatch.setattr(published_weights, "PUBLISHED", {"small": known})
    goal = thebes.torch.to_module(architecture("small"), thebes.torch.convert_state_dict(path, backbone="small"))
    assert all(torch.equal(a, b) for a, b in zip(goal.parameters(), source.parameters(), strict=True))


def test_weight_file_that_runs_code_is_refused(tmp_path):
    import os
    import pickle

    class Hostile:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "ran"),))

    path = tmp_path / "hostile.pth"
    for content in (Hostile(), {"features.0.weight": Hostile()}):
        path.write_bytes(pickle.dumps(content, protocol=2))
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        with pytest.raises(Mistake, match="path"):
            thebes.torch.convert_state_dict(path, digest=digest, backbone="small")
        torch.save(content, path)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        with pytest.raises(Mistake, match="path"):
            thebes.torch.convert_state_dict(path, digest=digest, backbone="small")
    assert not (tmp_path / "ran").exists()


def test_torch_is_imported_on_use_only():
    import subprocess
    import sys

    modules = "thebes.torch, thebes.learning.graph, thebes.learning.graph.backbones"
    code = f"import sys, {modules}; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
