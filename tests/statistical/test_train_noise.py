"""The noise of train seen from outside: at every site, at the coordinator, on samples and on what is told beside the
gradients. The scale that the document's (epsilon, delta) asks for fits, 30 % more or less does not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest, chi2

from tests.support.training import NOON, Silent, begun, run, site
from thebes.privacy.accounting.calibration import rho_for, sampled_ratio
from thebes.privacy.randomness import seeded_for_simulation, system
from thebes.tasks import registry
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.contributions import Contributions
from thebes.tasks.protocols import Ask, State
from thebes.testing.statistics import LEVEL, assert_scale, gaussian_cdf

WIDE, DRAWS = 120, 25  # more columns take longer to put into order than more draws
PEOPLE = 50
EPSILON, DELTA, CLIP = 1.0, 1e-5, 0.5
INPUTS = [f"x{i}" for i in range(WIDE)]
SCHEMA = {
    "unit": "person",
    "columns": {name: {"type": "float", "low": -1, "high": 1} for name in [*INPUTS, "y"]},
}
#: nobody's rows have a slope: everybody is predicted rightly by a model of zeros
ROWS = {name: np.zeros(PEOPLE) for name in [*INPUTS, "y"]}
TABLE = site(ROWS, SCHEMA)
DOCUMENT = {
    "type": "train", "dataset": "wide", "model": "LinearRegression", "inputs": INPUTS, "output": "y",
    "epsilon": EPSILON, "delta": DELTA, "clip": CLIP, "size_share": 0.1, "average": "last", "learning_rate": 0.5,
}  # fmt: skip


def asked(**more):
    return registry.check({**DOCUMENT, **more})


def sent(document, seed, *, size=None):
    """Draw what one site sends in a round, at a model of zeros."""
    source = seeded_for_simulation(seed)
    ask = Ask("any", "phase-0", 0, {"weights": np.zeros(WIDE + 1), "size": size})
    return registry.site_owner(document).contribute(document, ask, TABLE, RecordedClaim(), randomness=source).fields


def ratio(steps: int, share: float) -> float:
    """By hand: rho over all steps, and this share of one step's."""
    return math.sqrt(steps / (2 * float(rho_for(EPSILON, DELTA)) * share))


@pytest.mark.slow
def test_a_sites_update_has_the_noise_of_its_share() -> None:
    document = asked(rounds=10)
    noise = np.concatenate([-sent(document, seed, size=1000.0)["update"][0] * 1000 / 0.5 for seed in range(DRAWS)])
    assert_scale(noise, gaussian_cdf, CLIP * ratio(10, 1.0))


@pytest.mark.slow
def test_in_the_round_in_which_the_size_is_bought_the_gradients_have_the_rest() -> None:
    document = asked(rounds=4, size_share=0.05)  # a fifth of the first round
    fields = [sent(document, seed) for seed in range(DRAWS)]
    doubt = ratio(4, 0.2)
    noise = [-f["update"][0] * max(1.0, doubt, f["size"][0]) / 0.5 for f in fields]
    assert_scale(np.concatenate(noise), gaussian_cdf, CLIP * ratio(4, 0.8))


def test_every_local_step_has_noise_of_its_own() -> None:
    """With a step so short that the model stays where it was, three steps have three noises."""
    document = asked(rounds=5, local_steps=3, learning_rate=1e-6)
    noise = np.concatenate([-sent(document, seed, size=1000.0)["update"][0] * 1000 / 1e-6 for seed in range(DRAWS)])
    assert_scale(noise, gaussian_cdf, math.sqrt(3) * CLIP * ratio(15, 1.0))


def test_a_step_over_a_sample_has_the_noise_of_samples() -> None:
    document = asked(rounds=10, batch=0.2)
    noise = np.concatenate([-sent(document, seed, size=1000.0)["update"][0] * 200 / 0.5 for seed in range(DRAWS)])
    own = sampled_ratio(rate=0.2, rounds=10, epsilon=EPSILON, delta=DELTA)
    assert own < 0.5 * ratio(10, 1.0)
    assert_scale(noise, gaussian_cdf, CLIP * own)


@pytest.mark.slow
def test_the_number_of_people_has_the_noise_of_its_share() -> None:
    document = asked(rounds=2, size_share=0.1, inputs=INPUTS[:1])
    table = site({name: ROWS[name] for name in ("x0", "y")}, narrow())
    told = [_size(document, table, seed) for seed in range(3000)]
    assert_scale(np.array(told) - PEOPLE, gaussian_cdf, ratio(2, 0.2))


def narrow():
    return {**SCHEMA, "columns": {name: SCHEMA["columns"][name] for name in ("x0", "y")}}


def _size(document, table, seed):
    source = seeded_for_simulation(seed)
    ask = Ask("any", "phase-0", 0, {"weights": np.zeros(2), "size": None})
    return float(
        registry.site_owner(document)
        .contribute(document, ask, table, RecordedClaim(), randomness=source)
        .fields["size"][0]
    )


@pytest.mark.slow
def test_a_loss_that_was_bought_has_the_noise_of_its_share() -> None:
    document = asked(rounds=2, loss_share=0.2, inputs=INPUTS[:1], loss_bound=2.0)
    table = site({name: ROWS[name] for name in ("x0", "y")}, narrow())
    found = []
    for seed in range(3000):
        source = seeded_for_simulation(seed)
        ask = Ask("any", "phase-0", 0, {"weights": np.zeros(2), "size": 500.0})
        given = registry.site_owner(document).contribute(document, ask, table, RecordedClaim(), randomness=source)
        found.append(float(given.fields["loss"][0]) * 500)
    assert_scale(np.array(found), gaussian_cdf, 2.0 * ratio(2, 0.2))


NEWTON = {
    "type": "train", "dataset": "wide", "epsilon": EPSILON, "delta": DELTA, "average": "last",
    "model": "LinearRegression", "inputs": INPUTS[:60], "output": "y", "clip": CLIP, "update": "newton", "rounds": 5,
}  # fmt: skip


@pytest.mark.few(1)
@pytest.mark.parametrize("noise", ["site", "coordinator"])
def test_gradient_and_curvature_share_a_step_equally_and_each_has_its_noise(noise) -> None:
    """Nobody's inputs are anything but 0: all curvature there is is that of the intercept."""
    document = registry.check({**NEWTON, "noise": noise})
    width, found = 60, {"gradients": [], "curvature": []}
    people = 1000.0 if noise == "site" else 1.0
    exact = np.zeros((width + 1) * (width + 2) // 2)
    exact[-1] = PEOPLE
    for seed in range(12):
        source = seeded_for_simulation(seed)
        tables = {"a": TABLE}
        aggregator = begun(document, tables, source)
        ask = Ask("any", "phase-1", 1, {"weights": np.zeros(width + 1), "size": people})
        given = (
            registry.site_owner(document).contribute(document, ask, TABLE, RecordedClaim(), randomness=source).fields
        )
        if noise == "site":
            scale = max(people, aggregator.plan.doubt)
            found["gradients"].append(-given["update"][0] * scale)
            found["curvature"].append(given["curvature"][0] * scale - exact)
            continue
        step = aggregator.plan.curvature.step
        assert np.allclose(np.asarray(given["curvature"][0]) * step, exact, atol=1e-3)
        aggregator._sizes["a"] = 1000.0
        aggregator.answered.append("a")
        aggregator.hear("a", Contributions("phase-0", 1, given))
        means = aggregator._noised()
        scale = max(1000.0, aggregator.plan.doubt)
        found["gradients"].append(means.direction * scale)
        found["curvature"].append(means.curvature * scale - exact)
    assert_scale(np.concatenate(found["curvature"]), gaussian_cdf, (width + 1) * ratio(5, 0.5))
    gradients = np.concatenate(found["gradients"])
    scale = CLIP * ratio(5, 0.5)

    def fits(factor: float) -> bool:
        below = chi2.cdf((gradients**2).sum() / (scale * factor) ** 2, len(gradients))
        return bool(2 * min(below, 1 - below) > LEVEL)

    assert (fits(0.7), fits(1.0), fits(1.3)) == (False, True, False)


def _at_the_coordinator(document, seed, sites: int = 3):
    """(the aggregator after one round of sites without a slope, the direction it went)."""
    source = seeded_for_simulation(seed)
    tables = {f"s{i}": TABLE for i in range(sites)}
    aggregator = begun(document, tables, source)
    for name in aggregator.awaited:
        ask = aggregator.ask(name)
        given = registry.site_owner(document).contribute(document, ask, TABLE, RecordedClaim(), randomness=source)
        assert not np.asarray(given.fields["sum"]).any()  # exact
        assert given.fields["size"][0] == PEOPLE
        aggregator.accept(given)
    aggregator.advance(NOON)
    return aggregator


@pytest.mark.slow
def test_the_coordinator_adds_noise_once_to_the_total_and_once_to_every_size() -> None:
    document = asked(rounds=2, size_share=0.25, noise="coordinator")
    doubt, noise, sizes = ratio(2, 0.5), [], []
    for seed in range(DRAWS):
        aggregator = _at_the_coordinator(document, seed)
        told = np.array(list(aggregator.memory()[0]["sizes"].values()))
        sizes.append(told)
        people = np.maximum(np.maximum(1.0, doubt), told).sum()
        noise.append(-aggregator.memory()[1]["weights"] * people / 0.5)
    assert_scale(np.concatenate(noise), gaussian_cdf, CLIP * ratio(2, 0.5))
    assert all(len(set(some)) > 1 for some in sizes)
    assert aggregator.memory()[0]["told"] == {}  # what was exact is gone


@pytest.mark.slow
def test_the_coordinators_sizes_have_the_noise_of_their_share() -> None:
    document = asked(rounds=2, size_share=0.25, noise="coordinator", inputs=INPUTS[:1])
    table = site({name: ROWS[name] for name in ("x0", "y")}, narrow())
    found = []
    for seed in range(1000):
        source = seeded_for_simulation(seed)
        aggregator = begun(document, dict.fromkeys("abc", table), source)
        for name in aggregator.awaited:
            ask = aggregator.ask(name)
            aggregator.accept(
                registry.site_owner(document).contribute(document, ask, table, RecordedClaim(), randomness=source)
            )
        aggregator.advance(NOON)
        found += list(aggregator.memory()[0]["sizes"].values())
    assert_scale(np.array(found) - PEOPLE, gaussian_cdf, ratio(2, 0.5))


@pytest.mark.slow
def test_the_coordinator_noises_a_later_round_too() -> None:
    document = asked(rounds=3, noise="coordinator", learning_rate=1e-6)
    noise = []
    for seed in range(DRAWS):
        source = seeded_for_simulation(seed)
        aggregator = begun(document, {"a": TABLE}, source)
        before = aggregator.memory()[1]["weights"]
        while aggregator.state is State.OPEN:
            before = aggregator.memory()[1]["weights"]
            ask = aggregator.ask("a")
            aggregator.accept(
                registry.site_owner(document).contribute(document, ask, TABLE, RecordedClaim(), randomness=source)
            )
            aggregator.advance(NOON)
        people = aggregator.plan.believed(aggregator.memory()[0]["sizes"]["a"])
        noise.append((before - aggregator.memory()[1]["weights"]) * people / 1e-6)
    assert_scale(np.concatenate(noise), gaussian_cdf, CLIP * ratio(3, 1.0))


def test_a_persons_coin_comes_up_as_often_as_the_batch_says() -> None:
    document = asked(rounds=1, batch=0.3, noise="coordinator", inputs=INPUTS[:1])
    table = site({name: np.zeros(4000) for name in ("x0", "y")}, narrow())
    ask = begun(document, {"a": table}, system()).ask("a")
    owner = registry.site_owner(document)
    seen = sum(
        int(owner.contribute(document, ask, table, RecordedClaim(), randomness=system()).fields["size"][0])
        for _ in range(5)
    )
    for rate, fits in ((0.3, True), (0.21, False), (0.39, False)):
        assert bool(binomtest(seen, 20_000, rate).pvalue > LEVEL) is fits


@pytest.mark.slow
def test_a_census_is_learned_by_three_sites_under_privacy() -> None:
    """Seen: .900 with either noise; the data set's ceiling for such a model is an AUC of .91."""
    from sklearn.metrics import roc_auc_score

    from papers import datasets

    people = datasets.people("adult")
    columns = {
        name: {"type": "float", "low": bound["low"], "high": bound["high"]}
        if bound["type"] == "range"
        else {"type": "string", "values": list(bound["values"])}
        for name, bound in people.bounds.items()
    }
    parts = np.array_split(np.random.default_rng(0).permutation(len(people.train[people.label])), 3)
    tables = {
        name: site({c: values[part] for c, values in people.train.items()}, {"unit": "person", "columns": columns})
        for name, part in zip("abc", parts, strict=True)
    }
    document = {
        "type": "train", "dataset": "adult", "model": "LogisticRegression", "inputs": list(people.features),
        "output": people.label, "epsilon": 1.0, "delta": 1e-6, "clip": 1.0, "learning_rate": 4.0, "rounds": 40,
        "momentum": 0.5,
    }  # fmt: skip
    truth = people.test[people.label] == columns[people.label]["values"][1]
    for noise, floor in (("site", 0.89), ("coordinator", 0.895)):
        release = run({**document, "noise": noise}, tables, seeded_for_simulation(3))[0].release()
        found = roc_auc_score(truth, release.model.predict_proba(people.test)[:, 1])
        assert found > (floor if not people.made_up else 0.6)


@pytest.mark.slow
def test_a_test_gets_the_noise_of_a_round():
    """Whatever the rows: what they make is told beside it exactly."""
    document, cells = asked(quality=True, rounds=4), []
    owner = registry.site_owner(document)
    ask = Ask("any", "phase-4", 4, {"weights": np.zeros(WIDE + 1), "size": None, "trial": True})

    def table(source):
        return owner.contribute(document, ask, TABLE, RecordedClaim(), randomness=source).fields["table"][0]

    exact = table(Silent())
    for seed in range(1000):
        cells.append(table(seeded_for_simulation(seed)) - exact)
    moved = math.sqrt(2) * 2**20  # a loss of 1, and a value's tokens all in one cell
    rho = float(rho_for(EPSILON, DELTA)) / 5
    assert_scale(np.ravel(cells), gaussian_cdf, moved / math.sqrt(2 * rho))
