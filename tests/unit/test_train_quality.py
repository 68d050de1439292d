"""The last phase of a training that is tested: on people that no round was made from, for the price of one more."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.support.training import DOCUMENT, Silent, patients, run, site
from thebes.data.schema import schema_of
from thebes.privacy.model_quality import NOT_CHECKED, Worth
from thebes.privacy.randomness import seeded_for_simulation
from thebes.tasks import registry
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.protocols import Ask, State
from thebes.tasks.release_reader import release_from_json
from thebes.tasks.train.local import read
from thebes.tasks.train.owner import OWNER
from thebes.tasks.train.plan import TrainingPlan

TESTED = {**DOCUMENT, "quality": True, "epsilon": 16.0, "rounds": 4, "learning_rate": 4.0}
TABLES = {name: site(patients(count, seed)) for seed, (name, count) in enumerate({"a": 4000, "b": 2500}.items())}
NOISES = ("site", "coordinator")


def plan_of(document, table):
    return TrainingPlan(registry.check(document).descent, table.schema)


def people(pieces):
    return sum(piece.count for piece in pieces)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("restarted", [False, True])
def test_a_trained_model_carries_its_figure(noise, restarted) -> None:
    aggregator, _ = run({**TESTED, "noise": noise}, TABLES, restarted=restarted)
    release = aggregator.release()
    assert release.quality.verdict is Worth.BETTER
    assert release.quality.of == "people that it was not made from"
    assert abs(release.quality.people - 650) < 200
    assert len(release.rounds) == 4
    assert "one more round" in release.certificate.text
    assert release_from_json(json.loads(json.dumps(release.as_json()))).quality == release.quality


def test_numbers_are_tested_beside_one_number() -> None:
    document = {**TESTED, "model": "LinearRegression", "output": "dose", "epsilon": 200.0, "learning_rate": 0.5}
    release = run({**document, "rounds": 20}, TABLES)[0].release()
    assert release.quality.metric == "mse"
    assert release.quality.value < release.quality.guessing


def test_the_figure_is_of_the_model_that_is_released() -> None:
    """Without noise, and told over by hand."""
    release = run(TESTED, TABLES, Silent())[0].release()
    right = tested = 0
    for table in TABLES.values():
        plan = plan_of(TESTED, table)
        for some in read(plan, table, aside=True):
            inputs, targets = some.one_each()
            said = inputs @ release.model.weights[:-1] + release.model.weights[-1] > 0
            right, tested = right + int((said == (targets > 0)).sum()), tested + len(targets)
    assert (release.quality.people, release.quality.value) == (tested, pytest.approx(right / tested))


def test_a_person_is_trained_on_or_tested_and_always_in_the_same_part() -> None:
    plan, table = plan_of(TESTED, TABLES["a"]), TABLES["a"]
    trained, tested = people(read(plan, table)), people(read(plan, table, aside=True))
    assert trained + tested == 4000
    assert 300 < tested < 500
    rows = patients(4000)
    turned = site({name: column[::-1] for name, column in rows.items()})
    same = {tuple(row) for piece in read(plan, table, aside=True) for row in piece.inputs}
    assert {tuple(row) for piece in read(plan, turned, aside=True) for row in piece.inputs} == same


def test_a_person_of_several_rows_is_in_one_part_and_tested_on_one_row() -> None:
    keyed = {
        "unit": "person",
        "max_rows_per_unit": 3,
        "columns": {"who": {"type": "string", "key": True}, **dict(TABLES["a"].schema.columns)},
    }
    schema = schema_of(json.loads(json.dumps(keyed, default=lambda c: c.model_dump(mode="json", exclude_none=True))))
    rows = patients(900)
    table = site({"who": np.repeat([f"p{i}" for i in range(300)], 3), **rows}, schema.model_dump(exclude_none=True))
    plan = plan_of(TESTED, table)
    pieces = list(read(plan, table, aside=True))
    assert people(pieces) + people(read(plan, table)) == 300
    for piece in pieces:
        assert len(piece.inputs) == 3 * piece.count
        inputs, targets = piece.one_each()
        assert len(inputs) == len(targets) == piece.count


def test_everybody_pays_for_the_test_as_for_a_round() -> None:
    document = registry.check(TESTED)
    assert document.phases == 5
    aggregator, budgets = run(TESTED, TABLES)
    assert aggregator.state is State.DONE
    for claim in budgets.values():
        assert float(claim.epsilon) <= TESTED["epsilon"]
        assert float(claim.epsilon) > 0.99 * TESTED["epsilon"]


def test_a_model_that_is_not_tested_says_so() -> None:
    release = run(DOCUMENT, TABLES)[0].release()
    assert release.quality is None
    assert NOT_CHECKED in str(release)
    assert "quality" not in registry.check(DOCUMENT).as_json()


def test_where_too_few_answer_the_test_the_model_is_released_without() -> None:
    release = run(TESTED, TABLES, absent={4: {"a", "b"}})[0].release()
    assert release.quality is None
    assert len(release.rounds) == 4


def test_a_training_that_ends_early_is_tested_then() -> None:
    release = run({**TESTED, "tolerance": 1e6}, TABLES)[0].release()
    assert len(release.rounds) == 1
    assert release.quality is not None


def layers(outputs):
    torch = pytest.importorskip("torch")
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(3, 6), torch.nn.Tanh(), torch.nn.Linear(6, outputs))


def network(loss, outputs, **more):
    made = layers(outputs)
    from torch import nn

    from thebes.torch import encode

    model, text = encode(made, getattr(nn, loss)())
    return {**TESTED, "model": model, "loss": text, "learning_rate": 1.0, "epsilon": 200.0, **more}


@pytest.fixture
def confined():
    yield
    OWNER.close()


@pytest.mark.usefixtures("confined")
@pytest.mark.parametrize("noise", NOISES)
def test_a_network_carries_its_figure(noise) -> None:
    release = run(network("CrossEntropyLoss", 2, noise=noise, rounds=8), TABLES)[0].release()
    people = patients(20_000, 7)
    truth = people.pop("ill")
    accuracy = float((release.model.predict(people) == truth).mean())
    assert release.quality.verdict is Worth.BETTER
    assert release.quality.interval.low < accuracy < release.quality.interval.high
    assert "one more round" in release.certificate.text
    assert release_from_json(json.loads(json.dumps(release.as_json()))).quality == release.quality


@pytest.mark.usefixtures("confined")
def test_a_network_of_a_number_carries_its_figure() -> None:
    document = network("MSELoss", 1, output="dose", rounds=12, learning_rate=0.5)
    release = run(document, TABLES)[0].release()
    assert release.quality.metric == "mse"
    assert release.quality.value < release.quality.guessing


@pytest.mark.usefixtures("confined")
def test_a_network_s_figure_is_of_the_model_that_is_released() -> None:
    document = network("CrossEntropyLoss", 2)
    release = run(document, TABLES, Silent())[0].release()
    import torch

    from thebes.torch import to_module

    module, right, tested = to_module(layers(2), release.model.weights), 0, 0
    for table in TABLES.values():
        for some in read(plan_of(document, table), table, aside=True):
            inputs, targets = some.one_each()
            said = module(torch.tensor(inputs, dtype=torch.float32)).detach().numpy().argmax(axis=1)
            right, tested = right + int((said == targets).sum()), tested + len(targets)
    assert (release.quality.people, release.quality.value) == (tested, pytest.approx(right / tested))


def test_a_site_that_was_not_asked_for_a_test_by_the_document_tells_none() -> None:
    document = registry.check({**TESTED, "quality": None})
    ask = Ask("any", "phase-0", 0, {"weights": np.zeros(4), "size": None, "trial": True})
    owner = registry.site_owner(document)
    told = owner.contribute(document, ask, TABLES["a"], RecordedClaim(), randomness=seeded_for_simulation(1)).fields
    assert "table" not in told
