"""Gradient tasks at an owner: the confined child, payment before noise, weights that must fit, transfer learning."""

from __future__ import annotations

import base64
import json
import pwd
import time

import numpy as np
import pandas as pd
import pytest

import thebes
from thebes.data.rows import Rows
from thebes.learning.graph.backbones import Catalogue
from thebes.learning.graph.weights import pack_flat
from thebes.privacy import randomness
from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Unit
from thebes.tasks import registry
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.gradient.network import network
from thebes.tasks.gradient.owner import OWNER, SIMULATED
from thebes.tasks.protocols import Ask, Setting
from thebes.tasks.release_reader import release_from_json

torch = pytest.importorskip("torch")
from thebes.torch import encode  # noqa: E402

DRAW = np.random.default_rng(8)
N = 600
X = DRAW.uniform(-1, 1, (N, 2))
TABLE = {"x0": X[:, 0], "x1": X[:, 1], "z": X @ [1.0, -0.5], "y": (X[:, 0] > 0).astype(int)}


def linear(**more: object):
    torch.manual_seed(0)
    model, loss = encode(torch.nn.Linear(2, 1), torch.nn.MSELoss())
    return {
        "type": "gradient",
        "epsilon": 8.0,
        "featurizer": "SELECT x0, x1, z FROM p.t",
        "inputs": ["x0", "x1"],
        "outputs": ["z"],
        "model": model,
        "loss": loss,
        **more,
    }


@pytest.mark.parametrize("epsilon", [1.0, 8.0, 16.0, 32.0, 64.0])
def test_a_delta_that_buys_no_gaussian_noise_leaves_the_direction(epsilon: float) -> None:
    """The seed's figure 4-4 and its tables 5.1 and 5.4 ask at 16 to 64 with delta 1e-5."""
    document = registry.check(linear(epsilon=epsilon, delta=1e-5))
    choice = registry.choice(document)
    assert document.mechanism == choice.taken == choice.least == "privunit"
    assert set(choice.errors) | set(choice.refused) == {"privunit", "gaussian"}
    for name, error in choice.errors.items():
        named = registry.check(linear(epsilon=epsilon, delta=1e-5, mechanism=name))
        assert registry.choice(named).errors[name] == error
    assert choice.sentence in registry.kind("gradient").explain(document)
    aggregator, _ = asked(document)
    assert aggregator.promise().parameters["choice"] == choice.as_json()


def test_what_a_document_leaves_open_is_settled_when_it_is_first_read() -> None:
    settled = registry.check(linear(delta=1e-5))
    assert registry.check(settled.as_json()).digest == settled.digest
    assert settled.digest == registry.check(linear(delta=1e-5, mechanism="privunit")).digest
    accepted = registry.accepted_earlier(linear(mechanism="auto"))
    assert accepted.mechanism == "auto" != registry.check(linear()).mechanism
    assert accepted.digest == registry.check(linear(mechanism="auto")).digest
    assert network(accepted).mechanism.name == "privunit"


def test_only_where_nothing_is_left_is_it_refused_with_every_reason() -> None:
    with pytest.raises(Mistake) as refused:
        registry.check(linear(epsilon=1e-6))
    assert refused.value.argument == "delta"
    assert all(reason in str(refused.value) for reason in ("privunit: epsilon", "gaussian: delta"))


@pytest.mark.parametrize("kind", ["recurrent", "codes"])
def test_a_network_over_a_sequence_learns_in_a_simulation(kind: str) -> None:
    """The label is whether the last step is up (numbers), or whether the code is an even one."""
    torch.manual_seed(0)
    draw = np.random.default_rng(9)
    if kind == "codes":
        model, steps = torch.nn.Sequential(torch.nn.Embedding(6, 2), torch.nn.Flatten()), 1
        rows = draw.integers(0, 6, (1200, 1)).astype(float)
        label = rows[:, 0].astype(int) % 2
    else:
        model, steps = LastState(), 4
        rows = draw.uniform(-1, 1, (1200, 4))
        label = (rows[:, -1] > 0).astype(int)
    text, loss = encode(model, torch.nn.CrossEntropyLoss(), inputs=1 if kind == "codes" else (steps, 1))
    names = [f"s{step}" for step in range(steps)]
    document = linear(epsilon=20.0, inputs=names, outputs=["y"], model=text, loss=loss, rounds=12, learning_rate=2.0)
    document["featurizer"] = f"SELECT {', '.join(names)}, y FROM p.t"
    release = thebes.simulate(document, {**dict(zip(names, rows.T, strict=True)), "y": label}, seed=3)
    assert release.extra["beside_guess"]["reached"] > 0.9


class LastState(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.out = torch.nn.GRU(1, 3, batch_first=True), torch.nn.Linear(3, 2)

    def forward(self, steps):
        return self.out(self.layer(steps)[0][:, -1])


def asked(document, seed: int = 1):
    setting = Setting(unit=Unit.DEVICE, randomness=randomness.seeded_for_simulation(seed), simulated=True)
    aggregator = registry.aggregator(document, setting)
    ask = aggregator.ask("slot")
    assert isinstance(ask, Ask)
    return aggregator, ask


def rows(count: int) -> Rows:
    return Rows.one_each({name: values[:count] for name, values in TABLE.items()})


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"delta": 1e-5, "mechanism": "gaussian", "diagnostics": 0.1}])
def test_an_owners_confined_child_gives_what_a_simulation_gives(more) -> None:
    document = registry.check(linear(**more))
    aggregator, ask = asked(document)
    confined, simulated = (
        half.contribute(document, ask, rows(20), RecordedClaim(), randomness=randomness.seeded_for_simulation(5))
        for half in (OWNER, SIMULATED)
    )
    assert set(confined.fields) == set(aggregator.layout(ask.part))
    for name, reports in confined.fields.items():
        other = simulated.fields[name].astype(float)
        # The same chance: what differs is the last bit of a float.
        assert np.abs(reports.astype(float) - other).max() <= max(2.0, 1e-4 * np.abs(other).max())
    aggregator.examine(confined)


@pytest.mark.slow
def test_what_is_not_there_in_time_is_as_if_there_were_no_rows_and_nothing_leaves_earlier(monkeypatch) -> None:
    from thebes.tasks.gradient import owner

    class Held(RecordedClaim):
        until = 0.0

        def hold(self, moment: float) -> None:
            self.until = moment

    document = registry.check(linear())
    _, ask = asked(document)
    nobody = Rows({name: np.empty(0) for name in TABLE}, np.empty(0, dtype=np.int64), 1, np.zeros(1, dtype=np.uint8))
    mine = Rows(dict(rows(5).columns), np.zeros(5, dtype=np.int64), 1, np.zeros(1, dtype=np.uint8))
    reports = []
    for given, seconds in ((mine, 0.0), (nobody, 20.0), (mine, 20.0)):
        monkeypatch.setattr(owner, "GRADIENT_SECONDS", seconds)
        claim, began = Held(), time.monotonic()
        made = OWNER.contribute(document, ask, given, claim, randomness=randomness.seeded_for_simulation(5))
        reports.append(made.fields["report"])
        assert claim.until >= began + seconds
    assert np.array_equal(reports[0], reports[1])
    assert not np.array_equal(reports[1], reports[2])


class _Broke:
    def consume(self, *, epsilon, delta) -> None:
        raise RuntimeError("no budget")


def test_nothing_is_computed_or_drawn_before_the_claim_has_paid(monkeypatch) -> None:
    from thebes.tasks.gradient import owner

    document = registry.check(linear())
    _, ask = asked(document)
    happened: list[str] = []

    class Worker:
        def __init__(self, *args: object, **kwargs: object) -> None:
            happened.append("child")

    class Watched(type(randomness.seeded_for_simulation(1))):  # type: ignore[misc]
        def words(self, count: int):
            happened.append("noise")
            return super().words(count)

    monkeypatch.setattr(owner, "GradientWorker", Worker)
    with pytest.raises(RuntimeError, match="no budget"):
        OWNER.contribute(document, ask, rows(1), _Broke(), randomness=Watched(1))
    assert happened == []


def _packed(values) -> str:
    document = registry.check(linear())
    return base64.b64encode(pack_flat(network(document).model.graph, values)).decode()


@pytest.mark.parametrize(
    "weights",
    [
        None,
        "",
        "!!!",
        "AAAA",
        base64.b64encode(b"\x80\x04pickle").decode(),
        base64.b64encode(b"x" * 10_000).decode(),
        lambda: _packed([1.0, 2.0, 3.0])[:-8],
        lambda: base64.b64encode(base64.b64decode(_packed([1.0, 2.0, 3.0])).replace(b"weight", b"weighs")).decode(),
        lambda: base64.b64encode(base64.b64decode(_packed([1.0, 2.0, 3.0]))[:-4] + b"\x00\x00\xc0\x7f").decode(),
    ],
)
def test_weights_that_do_not_fit_the_consented_graph_are_refused_and_nothing_is_paid(weights) -> None:
    document, claim = registry.check(linear()), RecordedClaim()
    ask = Ask("a", "phase-0", 0, {"round": 0, "weights": weights() if callable(weights) else weights})
    with pytest.raises(Mistake, match="weights"):
        OWNER.contribute(document, ask, rows(1), claim, randomness=randomness.seeded_for_simulation(1))
    assert claim.epsilon == 0


def test_a_person_with_many_rows_sends_one_mean_gradient_of_at_most_a_thousand() -> None:
    document = registry.check(linear(epsilon=1e5, clip=100.0))
    _, ask = asked(document)
    mechanism = network(document).mechanism
    many = {name: np.concatenate([np.tile(v[:500], 2), np.full(50, 1e3)]) for name, v in TABLE.items()}
    person = np.zeros(1050, dtype=np.int64)
    hoarder = Rows(many, person, 2, np.zeros(2, dtype=np.uint8))
    given = SIMULATED.contribute(
        document, ask, hoarder, RecordedClaim(), randomness=randomness.seeded_for_simulation(1)
    )
    once = SIMULATED.contribute(
        document,
        ask,
        Rows({n: v[:500] for n, v in TABLE.items()}, person[:500], 2, hoarder.failures),
        RecordedClaim(),
        randomness=randomness.seeded_for_simulation(1),
    )
    first, same = (mechanism.decode(g.fields["report"]) for g in (given, once))
    assert np.allclose(first[0], same[0], atol=1)  # the rows beyond a thousand did not count
    assert np.linalg.norm(first[1]) < 5  # nobody's rows: the noise around nothing


@pytest.mark.slow
def test_missing_and_huge_values_never_leave_or_break_a_gradient() -> None:
    document = registry.check(linear())
    aggregator, ask = asked(document)
    odd = Rows.one_each(
        {
            "x0": np.array([np.nan, np.inf, 1e300, None, "text", -1e30], dtype=object),
            "x1": np.array([1.0, -np.inf, 1e308, None, 2, 1e38], dtype=object),
            "z": np.array([1.0, 2.0, np.nan, None, np.inf, -1e308], dtype=object),
        }
    )
    for half in (OWNER, SIMULATED):
        given = half.contribute(document, ask, odd, RecordedClaim(), randomness=randomness.system())
        aggregator.examine(given)


def test_sets_are_one_hot_with_the_last_value_as_the_reference() -> None:
    torch.manual_seed(0)
    model, loss = encode(torch.nn.Linear(3, 2), torch.nn.CrossEntropyLoss())
    town = np.array(["a", "b", "c"] * 200)
    document = {
        **linear(),
        "featurizer": "SELECT town, x0, y FROM p.t",
        "inputs": ["town", "x0"],
        "outputs": ["y"],
        "model": model,
        "loss": loss,
        "bounds": {"town": {"type": "set", "values": ["a", "b", "c"]}, "y": {"type": "set", "values": ["no", "yes"]}},
        "rounds": 3,
        "learning_rate": 2.0,
    }
    labels = np.where(town == "b", "yes", "no")
    release = thebes.simulate(document, {"town": town, "x0": X[:, 0], "y": labels}, seed=1)
    hot = np.column_stack([town == "a", town == "b", X[:, 0]]).astype(float)
    assert np.mean(release.model.predict(hot) == (town == "b")) > 0.9
    raw = {"x0": X[:, 0], "town": town}  # as its owners have it: spread in the same way, whatever the order
    read = release_from_json(json.loads(json.dumps(release.as_json())))
    for model in (release.model, read.model):
        for table in (raw, pd.DataFrame(raw)):
            assert np.array_equal(model.predict(table), release.model.predict(hot))
    with pytest.raises(Mistake, match="no column 'x0'"):
        release.model.predict({"town": town})
    with pytest.raises(Mistake, match="inputs"):
        registry.check({**document, "inputs": ["x0"]})


def test_training_over_rounds_releases_a_network_that_predicts() -> None:
    document = linear(rounds=6, rounds_per_owner=2, learning_rate=1.0, epsilon=20.0)
    release = thebes.simulate(document, TABLE, seed=1)
    back = release_from_json(json.loads(json.dumps(release.as_json())))
    for found in (release, back):
        guess = found.model.predict(X)
        assert 1 - np.var(guess - TABLE["z"]) / np.var(TABLE["z"]) > 0.7
    assert release.certificate.epsilon == 20
    assert release.certificate.parameters["epsilon_per_round"] == 10
    assert release.certificate.contributors == 2 * N
    assert release.certificate.trust == "none"
    module = torch.nn.Linear(2, 1)
    from thebes.torch import to_module

    trained = to_module(module, base64.b64decode(release.value["weights"]))
    with torch.no_grad():
        assert np.allclose(
            trained(torch.tensor(X, dtype=torch.float32)).numpy()[:, 0], release.model.predict(X), atol=1e-4
        )


# --- transfer learning ------------------------------------------------------------------------------------

PIXELS = [f"p{i}" for i in range(3 * 32 * 32)]
PICTURES = 60
LIGHT = DRAW.integers(0, 2, PICTURES)
IMAGES = np.clip(DRAW.normal(0, 0.3, (PICTURES, len(PIXELS))) + np.where(LIGHT, 1.0, -1.0)[:, None], -2, 2)


def pictures(model: str, loss: str, **more: object) -> dict:
    return {
        "type": "gradient",
        "epsilon": 50.0,
        "featurizer": f"SELECT {','.join(PIXELS)},label FROM p.t",
        "inputs": PIXELS,
        "outputs": ["label"],
        "model": model,
        "loss": loss,
        "rounds": 3,
        "learning_rate": 4.0,
        **more,
    }


PICTURE_TABLE = {**{name: IMAGES[:, i] for i, name in enumerate(PIXELS)}, "label": LIGHT}


@pytest.mark.slow
def test_feature_extraction_trains_a_head_on_the_features_of_an_installed_backbone(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("THEBES_BACKBONES", str(tmp_path))
    (digest,) = Catalogue(tmp_path).digests()  # the one that comes with Thebes
    torch.manual_seed(0)
    model, loss = encode(torch.nn.Linear(128, 2), torch.nn.CrossEntropyLoss())
    document = pictures(model, loss, backbone=digest)
    release = thebes.simulate(document, PICTURE_TABLE, seed=1)
    back = release_from_json(json.loads(json.dumps(release.as_json())))
    assert np.mean(back.model.predict(IMAGES) == LIGHT) > 0.8
    assert back.value["backbone"] == digest
    assert len(release.gradient) == 128 * 2 + 2  # the backbone itself is not trained
    with pytest.raises(Mistake, match="backbone"):
        registry.check({**document, "backbone": "f" * 64})
    model, _ = encode(torch.nn.Linear(64, 2), torch.nn.CrossEntropyLoss())
    with pytest.raises(Mistake, match="features"):
        registry.check({**document, "model": model})


@pytest.mark.parametrize("named", [True, False])
def test_a_backbone_that_comes_with_thebes_is_found_by_a_user_without_any_home(tmp_path, monkeypatch, named) -> None:
    """As in a container whose user is only a number."""
    (digest,) = Catalogue(tmp_path).digests()
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("THEBES_BACKBONES", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    if named:
        monkeypatch.setenv("THEBES_BACKBONES", str(tmp_path))
    model, loss = encode(torch.nn.Linear(128, 2), torch.nn.CrossEntropyLoss())
    assert registry.check(pictures(model, loss, backbone=digest)).backbone == digest


@pytest.mark.slow
def test_an_owner_computes_features_in_the_same_confined_child(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("THEBES_BACKBONES", str(tmp_path))
    (digest,) = Catalogue(tmp_path).digests()
    torch.manual_seed(0)
    model, loss = encode(torch.nn.Linear(128, 2), torch.nn.CrossEntropyLoss())
    document = registry.check(pictures(model, loss, backbone=digest))
    aggregator, ask = asked(document)
    one = Rows.one_each({name: values[:1] for name, values in PICTURE_TABLE.items()})
    confined, simulated = (
        half.contribute(document, ask, one, RecordedClaim(), randomness=randomness.seeded_for_simulation(5)).fields[
            "report"
        ]
        for half in (OWNER, SIMULATED)
    )
    assert np.abs(confined.astype(int) - simulated.astype(int)).max() <= 2
    assert aggregator.layout(ask.part)["report"].length == confined.shape[1] == 128 * 2 + 3


@pytest.mark.slow
@pytest.mark.parametrize("frozen", [True, False], ids=["frozen", "fine-tuned"])
def test_a_backbone_inside_the_graph_may_be_frozen_or_fine_tuned(frozen) -> None:
    torch.manual_seed(0)
    backbone = torch.nn.Sequential(
        torch.nn.Unflatten(1, (3, 32, 32)), torch.nn.Conv2d(3, 2, 8, stride=8), torch.nn.ReLU(), torch.nn.Flatten()
    ).requires_grad_(not frozen)
    module = torch.nn.Sequential(backbone, torch.nn.Linear(32, 2))
    model, loss = encode(module, torch.nn.CrossEntropyLoss(), inputs=len(PIXELS))
    # An epsilon that protects nobody: whether the graph trains is asked here, not how well under noise.
    document = pictures(model, loss, rounds=3, rounds_per_owner=3, epsilon=15_000.0, learning_rate=0.5, average="last")
    release = thebes.simulate(document, PICTURE_TABLE, seed=1)
    head = 32 * 2 + 2
    assert len(release.gradient) == (head if frozen else head + 2 * 3 * 64 + 2)
    assert np.mean(release.model.predict(IMAGES) == LIGHT) > 0.9
