"""Networks at sites: in a confined child that stays warm, like the live module without noise, refused where unfit."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest

from tests.support.children import Children
from tests.support.training import DOCUMENT, Silent, begun, heard, patients, run, site
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.randomness import seeded_for_simulation
from thebes.tasks import registry
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.release_reader import release_from_json
from thebes.tasks.train import owner as half

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from thebes.torch import encode  # noqa: E402

SITES = {"a": patients(50, 1), "b": patients(30, 2)}
TABLES = {name: site(rows) for name, rows in SITES.items()}


def _module():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2))


def _document(**more):
    model, loss = encode(_module(), nn.CrossEntropyLoss())
    return {**DOCUMENT, "model": model, "loss": loss, "epsilon": 1e6, "rounds": 4, "average": "last", **more}


@pytest.fixture
def children() -> Children:
    return Children("thebes.learning.graph.child_server", forked=True)


@pytest.fixture(autouse=True)
def _nobody_left():
    yield
    half.OWNER.close()


def _trained_here(rounds: int, clip: float, rate: float):
    """The same by torch's own gradients on the live module."""
    module = _module()
    rows = {column: np.concatenate([one[column] for one in SITES.values()]) for column in SITES["a"]}
    x = np.column_stack([rows["age"] / 50 - 1, (rows["height"] - 100) / 60 - 1, rows["sex"] == "female"])
    inputs, truths = torch.tensor(x, dtype=torch.float32), torch.tensor(rows["ill"].astype(int))
    for _ in range(rounds):
        total = [torch.zeros_like(p) for p in module.parameters()]
        for one, truth in zip(inputs, truths, strict=True):
            module.zero_grad()
            nn.functional.cross_entropy(module(one[None]), truth[None]).backward()
            length = float(torch.sqrt(sum((p.grad**2).sum() for p in module.parameters())))
            for sums, p in zip(total, module.parameters(), strict=True):
                sums += p.grad * min(1.0, clip / length)
        with torch.no_grad():
            for sums, p in zip(total, module.parameters(), strict=True):
                p -= rate * sums / len(inputs)
    return module, inputs


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["site", "coordinator"])
def test_without_noise_a_network_is_trained_like_the_live_module(noise) -> None:
    document = _document(noise=noise, clip=0.5, learning_rate=2.0)
    release = run(document, TABLES, Silent())[0].release()
    module, inputs = _trained_here(4, 0.5, 2.0)
    expected = torch.cat([p.detach().reshape(-1) for p in module.parameters()]).numpy()
    np.testing.assert_allclose(release.model.weights, expected, atol=2e-5)
    rows = {column: np.concatenate([one[column] for one in SITES.values()]) for column in SITES["a"]}
    np.testing.assert_allclose(release.model.scores(rows), module(inputs).detach().numpy(), atol=1e-4)
    assert set(release.model.predict(rows)) <= {False, True}
    again = release_from_json(json.loads(json.dumps(release.as_json())))
    np.testing.assert_allclose(again.model.predict_proba(rows), release.model.predict_proba(rows))
    assert "a network" in str(release)


@pytest.mark.slow
def test_a_child_stays_warm_between_rounds_and_ends_when_it_is_told(children) -> None:
    document, owner = registry.check(_document()), half.TrainOwner()
    aggregator, source = begun(document, TABLES, Silent()), Silent()
    heard(document, aggregator, "a", TABLES["a"], RecordedClaim(), source, owner)
    first = children()
    assert len(first) == 1
    heard(document, aggregator, "b", TABLES["b"], RecordedClaim(), source, owner)
    assert children() == first
    owner.close()
    assert not children()


@pytest.mark.slow
def test_a_child_ends_when_nobody_comes_back(children) -> None:
    document, owner = registry.check(_document()), half.TrainOwner(warm_seconds=0.0)
    heard(document, begun(document, TABLES, Silent()), "a", TABLES["a"], RecordedClaim(), Silent(), owner)
    until = time.monotonic() + 60
    while children() and time.monotonic() < until:
        time.sleep(0.05)
    assert not children()


@pytest.mark.slow
@pytest.mark.parametrize("people", [0, 50])
def test_a_network_that_cannot_be_computed_says_nothing_of_whether_there_are_rows(
    monkeypatch, people, children
) -> None:
    document = registry.check(_document())
    tables = {**TABLES, "a": site({name: values[:people] for name, values in SITES["a"].items()})}
    aggregator = begun(document, tables, Silent())
    monkeypatch.setattr("thebes.learning.graph.sandbox.GradientWorker.apart", lambda *_: None)
    claim = RecordedClaim()
    with pytest.raises(Fault, match="nothing was sent"):
        heard(document, aggregator, "a", tables["a"], claim, Silent())
    assert claim.epsilon == 0  # no row was looked at
    assert not children()


@pytest.mark.slow
def test_a_network_that_fails_over_the_rows_sends_nothing(monkeypatch, children) -> None:
    document = registry.check(_document())
    aggregator = begun(document, TABLES, Silent())
    real = half.GradientWorker.apart
    monkeypatch.setattr(half.GradientWorker, "apart", lambda own, w, x, y: real(own, w, x, y) if len(x) == 1 else None)
    claim = RecordedClaim()
    with pytest.raises(Fault, match="nothing was sent"):
        heard(document, aggregator, "a", TABLES["a"], claim, Silent())
    assert claim.epsilon > 0  # it was begun, and how it ended may say something of the rows
    assert not children()


def test_how_many_rows_there_are_does_not_decide_whether_the_child_has_enough_memory(monkeypatch) -> None:
    """One request makes of the rows, their targets spread over all classes too, less than it may hold."""
    classes = 4000
    model, loss = encode(nn.Linear(1, classes, bias=False), nn.CrossEntropyLoss())
    asked = []

    def computed(own, flat, rows, truths, deadline, wanted):
        asked.append(len(rows))
        return np.zeros((len(rows), classes + 1), dtype=np.float32)

    monkeypatch.setattr(half.GradientWorker, "_computed", computed)
    with half.GradientWorker(model, loss, trusted=True) as worker:
        worker.apart(np.zeros(classes), np.zeros((5000, 1)), np.zeros((5000, 1)))
    assert sum(asked) == 5000
    assert max(asked) * 2 * classes <= 2**24


@pytest.mark.slow
def test_gradients_that_are_no_numbers_count_as_none() -> None:
    class Wild(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.score = nn.Linear(3, 2)

        def forward(self, x):
            return self.score(x / (x[:, :1] * 0))

    model, loss = encode(Wild(), nn.CrossEntropyLoss(), inputs=3)
    release = run(_document(model=model, loss=loss, loss_share=0.1, rounds=1), TABLES, Silent())[0].release()
    assert np.isfinite(release.model.weights).all()
    assert release.rounds[0]["update"] == 0
    assert release.rounds[0]["loss"] == pytest.approx(4.0, rel=1e-3)  # the worst that one person's may be


@pytest.mark.parametrize(
    ("module", "loss", "output", "field"),
    [
        (nn.Linear(4, 2), nn.CrossEntropyLoss(), "ill", "inputs"),
        (nn.Linear(3, 3), nn.CrossEntropyLoss(), "ill", "output"),
        (nn.Linear(3, 2), nn.CrossEntropyLoss(), "dose", "output"),
        (nn.Linear(3, 1), nn.MSELoss(), "ill", "output"),
    ],
)
def test_a_network_that_does_not_fit_the_columns_is_refused(module, loss, output, field) -> None:
    model, text = encode(module, loss)
    document = registry.check(_document(model=model, loss=text, output=output))
    with pytest.raises(Mistake) as refused:
        registry.kind("train").fits(document, TABLES["a"].schema)
    assert refused.value.argument == field


def test_a_network_with_several_outputs_is_refused_as_only_one_column_is_predicted() -> None:
    model, text = encode(nn.Linear(3, 2), nn.MSELoss())
    with pytest.raises(Mistake) as refused:
        registry.check(_document(model=model, loss=text))
    assert refused.value.argument == "loss"


@pytest.mark.slow
def test_a_networks_numbers_are_in_the_outputs_own_units() -> None:
    torch.manual_seed(0)
    model, loss = encode(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)), nn.MSELoss())
    document = _document(model=model, loss=loss, output="dose", rounds=60, learning_rate=0.3, clip=4.0)
    release = run(document, TABLES, seeded_for_simulation(2))[0].release()
    test = patients(500, 8)
    guess = release.model.predict(test)
    assert 1 - np.mean((guess - test["dose"]) ** 2) / np.var(test["dose"]) > 0.8


@pytest.mark.slow
def test_a_small_network_learns_pictures_under_privacy() -> None:
    """Stripes of 12 x 12 numbers, upright or lying, at three sites; each picture is one person's."""
    draw = np.random.default_rng(0)

    def pictures(count: int):
        upright = draw.random(count) < 0.5
        wave = np.sin(np.arange(12) * 1.3 + draw.uniform(0, 6, (count, 1)))[:, :, None] * np.ones(12)
        shown = np.where(upright[:, None, None], wave.transpose(0, 2, 1), wave) + draw.normal(0, 0.5, (count, 12, 12))
        columns = {f"p{i}": values for i, values in enumerate(np.clip(shown, -2, 2).reshape(count, -1).T)}
        return {**columns, "way": np.where(upright, "up", "flat")}

    pixels = [f"p{i}" for i in range(144)]
    schema = {
        "unit": "person",
        "columns": {
            **{pixel: {"type": "float", "low": -2, "high": 2} for pixel in pixels},
            "way": {"type": "string", "values": ["up", "flat"]},
        },
    }
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Unflatten(1, (1, 12, 12)), nn.Conv2d(1, 6, 3, stride=2, padding=1), nn.GroupNorm(2, 6), nn.ReLU(),
        nn.Conv2d(6, 8, 3, stride=2, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2),
    )  # fmt: skip
    model, loss = encode(module, nn.CrossEntropyLoss(), inputs=144)
    tables = {name: site(pictures(300), schema) for name in "abc"}
    document = {
        **DOCUMENT, "model": model, "loss": loss, "inputs": pixels, "output": "way", "rounds": 8, "local_steps": 3,
        "epsilon": 8.0, "delta": 1e-5, "clip": 1.0, "learning_rate": 3.0, "average": "last",
    }  # fmt: skip
    release = run(document, tables, seeded_for_simulation(1))[0].release()
    test = pictures(500)
    assert np.mean(release.model.predict(test) == test["way"]) > 0.85
