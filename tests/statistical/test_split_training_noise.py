"""The noise of training in two shares: that of each server suffices alone in every round and in the test, and what
either server has of a site is chance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import ks_1samp, uniform

from tests.statistical.test_train_noise import CLIP, INPUTS, PEOPLE, ROWS, SCHEMA, TABLE, asked, ratio
from tests.support.training import DOCUMENT, Silent, patients, site
from thebes.data.table import Table
from thebes.privacy.accounting.calibration import sampled_ratio
from thebes.privacy.randomness import Randomness, system
from thebes.sharing import SealingKey
from thebes.sharing.field import ORDER
from thebes.sharing.site_totals import helper_share
from thebes.tasks import registry
from thebes.tasks.aggregation.site_shares import (
    LeaderShares,
    SealedShare,
    context_at,
    declaration_of,
    helper_sum,
    shared_totals,
)
from thebes.tasks.aggregation.split_servers import noised, totals
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.protocols import Ask
from thebes.tasks.train.noises import FIRST, LATER, TEST
from thebes.tasks.train.plan import TrainingPlan
from thebes.testing.statistics import LEVEL, assert_size

EPSILON, DELTA = 1.0, 1e-5
SITES = ("a", "b", "c")
STEPS = 10


def training(**more: Any) -> Any:
    return registry.check({**asked(rounds=STEPS, size_share=0.02).as_json(), "noise": "split", **more})


def wide(inputs: int) -> dict[str, Any]:
    """Return the schema of so many inputs."""
    return {**SCHEMA, "columns": {name: SCHEMA["columns"][name] for name in [*INPUTS[:inputs], "y"]}}


def alone(server: str) -> tuple[Randomness, Randomness]:
    return (system(), Silent()) if server == "leader" else (Silent(), system())


def opened(
    document: Any, sorts: dict[str, str], size: int, leader: Randomness, helper: Randomness, rows: Table = TABLE
) -> np.ndarray:
    """Return what both servers open of sites without a slope, each of which shares what it says."""
    key, mine, context = SealingKey.generate(), LeaderShares(size), context_at(document, "phase-0", "t")
    for name, sort in sorts.items():
        sent = shared_totals(
            document, context, rows.schema, np.zeros(size, dtype=np.int64), key.public, system(), sort=sort
        )
        mine.sites[name], mine.sorts[name] = mine.read(sent), sort
    shares = mine.shown(dict.fromkeys(sorts, rows.schema))
    noises = registry.noises(document, shares)
    said = helper_sum(document, context, shares, noises, key, helper)
    assert all(said.counted)
    mine.hear(said)
    return np.asarray(mine.opened(noises, leader))


@pytest.mark.few(2, slow=4)
@pytest.mark.parametrize("server", ["leader", "helper"])
@pytest.mark.parametrize("sorts", [(LATER, LATER, LATER), (FIRST, FIRST, FIRST), (LATER, FIRST, LATER)])
def test_each_server_alone_adds_the_noise_of_a_round(sorts: tuple[str, ...], server: str) -> None:
    """More where one site alone told how many people it has: its people have less of the round left for the rest."""
    document = training()
    plan = TrainingPlan(document.descent, TABLE.schema)
    told = dict(zip(SITES, sorts, strict=True))
    noise = np.concatenate([opened(document, told, plan.numbers, *alone(server)) for _ in range(6)])
    assert_size(noise * plan.sums.step, "gaussian", CLIP * ratio(STEPS, 0.8 if FIRST in sorts else 1.0))


@pytest.mark.parametrize("server", ["leader", "helper"])
def test_each_server_alone_adds_the_noise_of_a_step_over_a_sample(server: str) -> None:
    document = training(batch=0.2)
    plan = TrainingPlan(document.descent, TABLE.schema)
    own = sampled_ratio(rate=0.2, rounds=STEPS, epsilon=EPSILON, delta=DELTA)
    told = dict.fromkeys(SITES, LATER)
    noise = np.concatenate([opened(document, told, plan.numbers, *alone(server)) for _ in range(6)])
    assert_size(noise * plan.sums.step, "gaussian", CLIP * own)


def test_curvature_and_loss_have_each_the_noise_of_their_share() -> None:
    """As either server draws it on its sum."""
    document = training(inputs=INPUTS[:3], update="newton", loss_share=0.2, loss_bound=2.0)
    plan = TrainingPlan(document.descent, TABLE.schema)
    chosen = registry.noises(document, [SealedShare(b"", b"", TABLE.schema, LATER)])
    nothing = np.zeros(plan.numbers, dtype=np.uint64)
    rows = np.array([totals([noised(nothing, chosen, system())], chosen) for _ in range(700)])
    sums, bent, lost = np.split(rows, [plan.weights, plan.weights + plan.curvature.coordinates], axis=1)
    assert_size(sums * plan.sums.step, "gaussian", CLIP * ratio(STEPS, 0.4))
    assert_size(bent * plan.curvature.step, "gaussian", 4 * ratio(STEPS, 0.4))
    assert_size(lost * plan.losses.step, "gaussian", 2.0 * ratio(STEPS, 0.2))


@pytest.mark.slow
@pytest.mark.parametrize("server", ["leader", "helper"])
def test_each_server_alone_adds_the_noise_of_a_test(server: str) -> None:
    """In people, as much as in a round: there is one round more."""
    asked = {"inputs": ["age"], "output": "ill", "rounds": STEPS, "quality": True, "epsilon": EPSILON, "delta": DELTA}
    document = registry.check({**DOCUMENT, **asked, "noise": "split"})
    told, rows = dict.fromkeys(SITES, TEST), site(patients(10))
    noise = np.concatenate([opened(document, told, 4, *alone(server), rows) for _ in range(175)])
    assert_size(noise, "gaussian", ratio(STEPS + 1, 1.0))


@pytest.mark.slow
def test_a_site_tells_its_people_with_noise_of_its_own() -> None:
    document = training(rounds=2, size_share=0.1, inputs=INPUTS[:1])
    table = site({name: np.zeros(PEOPLE) for name in ("x0", "y")}, wide(1))
    owner = registry.site_owner(document, simulated=True)
    payload = {"weights": np.zeros(2), "size": None, "helper_key": SealingKey.generate().public.hex()}
    ask, told = Ask("a", "phase-0", 0, payload), list[float]()
    for _ in range(700):
        fields = owner.contribute(document, ask, table, RecordedClaim(), randomness=system()).fields
        told.append(float(fields["size"][0]))
    assert_size(np.array(told) - PEOPLE, "gaussian", ratio(2, 0.2))


@pytest.mark.slow
def test_what_either_server_has_of_a_round_is_that_of_a_simulator_without_the_sites_rows() -> None:
    """The simulator draws uniform numbers; it is held against shares of nobody and of people who all pull one way."""
    document, own = training(inputs=INPUTS[:2]), wide(2)
    owner, key = registry.site_owner(document, simulated=True), SealingKey.generate()
    context, tests = context_at(document, "phase-1", ""), 2 * 2 * 3
    payload = {"weights": np.zeros(3), "size": 900.0, "helper_key": key.public.hex()}
    ask = Ask("a", "phase-1", 1, payload)
    for pull in (0.0, 1.0):
        table = site({name: np.full(PEOPLE, pull) for name in ("x0", "x1", "y")}, own)
        both: dict[str, list[Any]] = {"leader": [], "helper": []}
        for _ in range(400):
            fields = owner.contribute(document, ask, table, RecordedClaim(), randomness=system()).fields
            sent = LeaderShares(3).read(fields)
            declaration = declaration_of(document, table.schema, LATER)
            told = {"nonce": sent.nonce, "sealed": sent.sealed, "declaration": declaration, "context": context}
            both["leader"].append(sent.share)
            both["helper"].append(helper_share(key, **told, size=3))
        for numbers in both.values():
            for column in (np.array(numbers) / float(ORDER)).T:
                assert ks_1samp(column, uniform.cdf).pvalue > LEVEL / tests


def test_both_servers_draw_apart_and_error_is_that_of_two_noises() -> None:
    document = training(inputs=INPUTS[:100])
    told, plan = dict.fromkeys(SITES, LATER), TrainingPlan(document.descent, site(ROWS, SCHEMA).schema)
    noise = np.concatenate([opened(document, told, plan.numbers, system(), system()) for _ in range(6)])
    assert_size(noise * plan.sums.step, "gaussian", np.sqrt(2) * CLIP * ratio(STEPS, 1.0))
