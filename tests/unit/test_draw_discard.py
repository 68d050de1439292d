"""Drawing and discarding: what the instances do, who is refused, what is kept, and that simulating together changes
nothing."""

from __future__ import annotations

import base64
import json
import math
import warnings
from datetime import UTC, datetime

import numpy as np
import pytest

import thebes
from thebes.data.rows import Rows
from thebes.privacy import randomness
from thebes.privacy.faults import Fault, Mistake, Refusal
from thebes.privacy.promise import Unit
from thebes.simulation.featurizer import featurize
from thebes.simulation.tables import people_of
from thebes.tasks import registry
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.contributions import Contributions, read_payloads
from thebes.tasks.document import InvalidDocument
from thebes.tasks.draw_discard import certificate, families, owner
from thebes.tasks.draw_discard.crowd import TrainingCrew
from thebes.tasks.draw_discard.features import PeopleBatch
from thebes.tasks.draw_discard.instances import MOST_POINTS, Instances
from thebes.tasks.draw_discard.outliers import Outliers
from thebes.tasks.draw_discard.plan import weights_of
from thebes.tasks.protocols import Ask, Closed, OutlyingContribution, Setting, StaleContribution, State, TaskClosed
from thebes.tasks.release_reader import release_from_json

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
DOCUMENT = {
    "type": "draw-discard",
    "epsilon": 8.0,
    "min_count": 2,
    "featurizer": "SELECT x, g, y FROM p.t",
    "family": "logistic",
    "inputs": ["x", "g"],
    "output": "y",
    "bounds": {
        "x": {"type": "range", "low": 0.0, "high": 1.0},
        "g": {"type": "set", "values": ["a", "b"]},
        "y": {"type": "set", "values": [0, 1]},
    },
    "instances": 4,
    "learning_rate": 0.1,
}
RNG = np.random.default_rng(3)
PEOPLE = {"x": RNG.random(400), "g": RNG.choice(["a", "b"], 400), "y": RNG.integers(0, 2, 400)}
ONE = Rows.one_each({"x": np.array([0.5]), "g": np.array(["a"]), "y": np.array([1])})


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield


def checked(**more: object):
    return registry.check({k: v for k, v in {**DOCUMENT, **more}.items() if v is not None})


def begun(document, *, simulated: bool = False, seed: int = 1):
    source = randomness.seeded_for_simulation(seed)
    return registry.aggregator(document, Setting(unit=Unit.DEVICE, randomness=source, simulated=simulated))


def answer(document, aggregator, packet: int = 0) -> Contributions:
    ask = aggregator.ask("s", packet)
    assert isinstance(ask, Ask)
    return registry.owner(document).contribute(
        document, ask, ONE, RecordedClaim(), randomness=aggregator.setting.randomness
    )


def changed(given: Contributions, **fields: object) -> Contributions:
    return Contributions(given.part, 1, {**given.fields, **{n: np.array([v]) for n, v in fields.items()}})


# --- instances ---------------------------------------------------------------------------------------------


def test_the_running_mean_and_spread_are_those_of_the_instances() -> None:
    source = randomness.seeded_for_simulation(2)
    instances = Instances.around(np.full(7, 1e3), 9, 1e-3, source)
    for _ in range(2000):
        instances.discard(instances.draw(source).weights + RNG.normal(0, 1e-3, 7), source)
    assert np.allclose(instances.mean(), instances.models.mean(axis=0), rtol=1e-13)
    assert np.allclose(instances.spread(), instances.models.std(axis=0, ddof=1), rtol=1e-6)


def test_a_drawn_model_is_a_copy_with_the_number_of_updates_as_its_version() -> None:
    source = randomness.seeded_for_simulation(2)
    instances = Instances(np.zeros((3, 2)))
    drawn = instances.draw(source)
    place = instances.discard(np.ones(2), source)
    assert (drawn.version, instances.draw(source).version) == (0, 1)
    assert drawn.weights.tolist() == [0.0, 0.0]
    assert instances.models[place].tolist() == [1.0, 1.0]
    assert instances.changed == {place}


def test_every_instance_is_drawn_and_discarded_equally_often() -> None:
    source = randomness.seeded_for_simulation(4)
    instances = Instances(np.arange(5.0)[:, None])
    drawn = np.bincount([instances.draw(source).place for _ in range(5000)], minlength=5)
    discarded = np.bincount([instances.discard(np.zeros(1), source) for _ in range(5000)], minlength=5)
    for counts in (drawn, discarded):
        assert np.abs(counts - 1000).max() < 6 * math.sqrt(800)


def test_an_instance_and_the_facts_are_kept_one_by_one() -> None:
    source = randomness.seeded_for_simulation(5)
    first = Instances.around(np.zeros(3), 4, 1.0, source)
    for _ in range(50):
        first.discard(RNG.normal(size=3), source)
    second = Instances(np.zeros((4, 3)))
    for place in range(4):
        second.load(place, first.saved(place))
    second.recall(json.loads(json.dumps(first.facts())))
    assert second.models.tolist() == first.models.tolist()
    assert np.allclose(second.spread(), first.spread())
    assert (second.updates, second.history) == (50, first.history)
    with pytest.raises(Mistake, match="instance"):
        second.load(0, first.saved(0)[:-1])


def test_the_history_stays_short_and_keeps_its_ends() -> None:
    source = randomness.seeded_for_simulation(6)
    instances = Instances(np.zeros((3, 1)))
    for _ in range(5000):
        instances.discard(np.ones(1), source)
    updates = [point[0] for point in instances.history]
    assert MOST_POINTS / 2 - 1 <= len(updates) < MOST_POINTS
    assert updates == sorted(updates)
    assert updates[0] <= 100
    assert updates[-1] > 4900


# --- families ----------------------------------------------------------------------------------------------


def _loss(family: str, linear: np.ndarray, y: np.ndarray) -> float:
    """Negative log-likelihood, written out."""
    if family == "linear":
        return float((linear[0] - y) ** 2 / 2)
    if family == "poisson":
        return float(np.exp(linear[0]) - y * linear[0])
    if family == "logistic":
        return float(np.log1p(np.exp(linear[0])) - y * linear[0])
    return float(np.log(np.exp(linear).sum()) - linear[int(y)])


@pytest.mark.parametrize("family", ["linear", "logistic", "poisson", "multinomial"])
def test_gradients_are_those_of_the_likelihood(family) -> None:
    predictors = 3 if family == "multinomial" else 1
    x, share = RNG.random((2, 4, 5)), np.array([[0.5, 0.5, 0, 0], [0.25] * 4])
    y = RNG.integers(0, predictors if predictors > 1 else 2, (2, 4)).astype(float)
    weights = RNG.normal(size=(2, predictors * 5))

    def loss(person: int, flat: np.ndarray) -> float:
        linear = x[person] @ flat.reshape(predictors, 5).T
        rows = range(4)
        return sum(share[person, r] * _loss(family, linear[r], y[person, r]) for r in rows)

    found = families.gradients(family, weights, PeopleBatch(x, y, share))
    step = 1e-6
    for person in range(2):
        for j in range(predictors * 5):
            away = np.eye(predictors * 5)[j] * step
            slope = (loss(person, weights[person] + away) - loss(person, weights[person] - away)) / (2 * step)
            assert found[person, j] == pytest.approx(slope, abs=1e-7)


# --- owner -------------------------------------------------------------------------------------------------


def test_without_noise_an_update_is_one_clipped_step_down_the_gradient() -> None:
    document = checked(mechanism="none", learning_rate=0.5, decay=10.0)
    ask = Ask("a", "phase-0", 0, {"weights": [0.2, -0.4, 0.6], "version": 10, "lane": 0})
    given = registry.owner(document, simulated=True).contribute(
        document, ask, ONE, RecordedClaim(), randomness=randomness.seeded_for_simulation(1)
    )
    x = np.array([1.0, 0.5, 1.0])  # intercept, x, g=a
    predicted = 1 / (1 + math.exp(-(0.2 - 0.4 * 0.5 + 0.6)))
    assert given.fields["weights"][0] == pytest.approx(np.array([0.2, -0.4, 0.6]) - 0.25 * (predicted - 1) * x)
    assert (given.fields["version"][0], given.fields["lane"][0]) == (10, 0)


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"weights": [0.0, 0.0], "version": 0, "lane": 0},
        {"weights": [0.0, 0.0, float("nan")], "version": 0, "lane": 0},
        {"weights": [0.0, 0.0, 1e300], "version": 0, "lane": 0},
        {"weights": "AAAA", "version": 0, "lane": 0},
        {"weights": [0.0] * 3, "version": -1, "lane": 0},
        {"weights": [0.0] * 3, "version": 0, "lane": 1},
        {"weights": [0.0] * 3, "version": True, "lane": 0},
    ],
)
def test_an_owner_answers_no_model_that_is_not_the_tasks_and_pays_nothing(payload) -> None:
    document, claim = checked(), RecordedClaim()
    with pytest.raises(Mistake, match="did not keep to it"):
        registry.owner(document).contribute(
            document, Ask("a", "phase-0", 0, payload), ONE, claim, randomness=randomness.seeded_for_simulation(1)
        )
    assert claim.epsilon == 0


def test_a_person_with_no_row_sends_noise_of_the_same_kind() -> None:
    document = checked(mechanism="laplace-l1")
    nobody = Rows(
        {n: np.array([], dtype=object) for n in "xgy"}, np.array([], dtype=np.int64), 1, np.zeros(1, np.uint8)
    )
    ask = Ask("a", "phase-0", 0, {"weights": np.zeros(3), "version": 0, "lane": 0})
    given = registry.owner(document).contribute(
        document, ask, nobody, RecordedClaim(), randomness=randomness.seeded_for_simulation(1)
    )
    assert np.isfinite(given.fields["weights"]).all()
    assert (given.fields["weights"] != 0).all()


@pytest.mark.parametrize("mechanism", ["laplace", "laplace-l1", "gaussian", "privunit"])
def test_each_participation_pays_an_equal_share(mechanism) -> None:
    by_weight = {"epsilon": None, "epsilon_per_weight": 1.0} if mechanism == "laplace" else {}
    document = checked(mechanism=mechanism, delta=1e-6, max_participations=3, **by_weight)
    claim, aggregator = RecordedClaim(), begun(document)
    for packet in range(3):
        ask = aggregator.ask("s", packet)
        assert ask.part == f"phase-0.packet-{packet}"
        registry.owner(document).contribute(
            document, ask, ONE, claim, randomness=randomness.seeded_for_simulation(packet)
        )
    price = registry.kind("draw-discard").price(document)
    assert price.epsilon * (1 - type(price.epsilon)("1e-9")) < claim.epsilon <= price.epsilon
    assert claim.delta <= price.delta


# --- who is heard --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"weights": [0.0, 0.0]},
        {"weights": [0.0, 0.0, float("nan")]},
        {"weights": [0.0, 0.0, float("inf")]},
        {"weights": [0.0, 0.0, 1e13]},
        {"version": 1},
        {"version": -1},
        {"lane": 1},
    ],
)
def test_what_no_honest_owner_sends_is_refused_and_training_is_as_before(fields) -> None:
    document = checked()
    aggregator = begun(document)
    given = answer(document, aggregator)
    before = aggregator.lanes[0].models.copy()
    with pytest.raises(Mistake):
        aggregator.accept(changed(given, **fields))
    payload = {**next(iter(given.payloads(aggregator.layout(given.part)))), **fields}
    with pytest.raises(Mistake):
        aggregator.accept(read_payloads(aggregator.layout(given.part), given.part, [payload]))
    assert aggregator.lanes[0].models.tolist() == before.tolist()
    assert (aggregator.lanes[0].updates, aggregator.accepted) == (0, 0)


def test_an_ask_names_task_lane_and_version_and_only_its_own_are_known() -> None:
    document = checked(learning_rate=[0.1, 0.2])
    aggregator = begun(document)
    asks = {aggregator.ask("s").ask_id for _ in range(40)}
    assert asks == {f"{document.digest[:16]}.{lane}.0" for lane in (0, 1)}
    assert all(aggregator.asked(ask_id, "s") for ask_id in asks)
    ours = document.digest[:16]
    for wrong in ("", "x", f"{'0' * 16}.0.0", f"{ours}.2.0", f"{ours}.0.1", f"{ours}.0.-1", f"{ours}.0", f"{ours}.٠.0"):
        assert not aggregator.asked(wrong, "s")
    assert not aggregator.asked(f"{ours}.0.0", "s", packet=1)
    assert not aggregator.asked(f"{ours}.0.{'9' * 5000}", "s")


def test_an_update_of_a_model_from_too_long_ago_is_stale() -> None:
    document = checked(stale_after=3, false_positives=0.5)
    aggregator = begun(document)
    late, ask_id = answer(document, aggregator), aggregator.ask("s").ask_id
    for _ in range(3):
        aggregator.accept(answer(document, aggregator))
    aggregator.accept(late)
    with pytest.raises(StaleContribution):
        aggregator.accept(late)
    with pytest.raises(StaleContribution):
        aggregator.asked(ask_id, "s")
    assert (aggregator.lanes[0].updates, aggregator.lanes[0].stale) == (4, 2)


def test_an_outlier_is_refused_or_set_aside_and_no_more_than_counted() -> None:
    for outliers in ("refuse", "quarantine"):
        document = checked(outliers=outliers)
        aggregator = begun(document)
        given = answer(document, aggregator)
        limit = aggregator.lanes[0].mean() + aggregator.allowed(0, 0)
        models = aggregator.lanes[0].models.copy()
        if outliers == "refuse":
            with pytest.raises(OutlyingContribution):
                aggregator.accept(changed(given, weights=limit * (1 + 1e-9)))
            assert (aggregator.accepted, aggregator.lanes[0].refused) == (0, 1)
        else:
            aggregator.accept(changed(given, weights=limit * (1 + 1e-9)))
            assert (aggregator.accepted, aggregator.lanes[0].quarantined) == (1, 1)
            _, kept = aggregator.memory()
            assert set(kept) == {"lane-0", "sums-0"}  # nothing is left of it but the count
        assert aggregator.lanes[0].models.tolist() == models.tolist()
        aggregator.accept(changed(given, weights=limit * (1 - 1e-9)))
        assert aggregator.lanes[0].updates == 1


def test_of_two_instances_nobody_is_an_outlier_and_the_certificate_says_so() -> None:
    document = checked(instances=2)
    aggregator = begun(document, simulated=True)
    aggregator.accept(changed(answer(document, aggregator), weights=[1e6, 1e6, 1e6]))
    told = aggregator.release().certificate
    assert told.parameters["filter"]["active"] is False
    assert "Outliers were not looked for" in told.text


def test_the_limit_is_students_over_all_weights() -> None:
    from scipy.stats import t

    for instances, weights, rate in ((20, 33, 0.01), (20, 387, 0.01), (3, 1, 0.3)):
        each = 1 - (1 - rate) ** (1 / weights)
        assert Outliers(instances, weights, rate).multiple == pytest.approx(t.ppf(1 - each / 2, instances - 1))


def test_claiming_a_great_age_widens_the_limits_little() -> None:
    outliers, age = Outliers(20, 33, 0.01), 100.0
    for _ in range(100_000):
        age = outliers.aged(age, 2000 if RNG.random() < 0.1 else 100)
    assert age < 200


def test_several_at_once_are_a_fault() -> None:
    document = checked()
    aggregator = begun(document)
    one = answer(document, aggregator)
    two = Contributions(one.part, 2, {name: np.concatenate([a, a]) for name, a in one.fields.items()})
    with pytest.raises(Fault):
        aggregator.accept(two)


# --- from beginning to end -----------------------------------------------------------------------------------


def test_there_is_a_release_as_soon_as_enough_were_mixed_in_and_it_changes_with_the_next() -> None:
    document = checked()
    aggregator = begun(document)
    aggregator.accept(answer(document, aggregator))
    assert aggregator.release() is None
    aggregator.accept(answer(document, aggregator))
    first = aggregator.release()
    assert first is aggregator.release()
    assert list(first.value["weights"].values()) == aggregator.lanes[0].models.mean(axis=0).tolist()
    aggregator.accept(answer(document, aggregator))
    aggregator.advance(NOON)
    assert aggregator.state is State.OPEN
    assert aggregator.release().value != first.value
    assert (aggregator.endless, aggregator.together) == (True, 1)


def test_a_task_ends_when_it_is_closed_full_or_late() -> None:
    for more, enough in (({}, True), ({"max_count": 3}, True), ({"expires_at": NOON.isoformat()}, True), ({}, False)):
        document = checked(**more)
        aggregator = begun(document)
        for _ in range(3 if enough else 1):
            aggregator.accept(answer(document, aggregator))
        if more:
            aggregator.advance(NOON)
        else:
            aggregator.close()
        assert aggregator.state is (State.DONE if enough else State.EXPIRED)
        assert (aggregator.release() is None) is not enough
        assert isinstance(aggregator.ask("s"), Closed)
    given = answer(document, begun(document))
    with pytest.raises(TaskClosed):
        aggregator.accept(given)


def test_no_more_than_max_count_are_taken() -> None:
    document = checked(max_count=2)
    aggregator = begun(document)
    given = [answer(document, aggregator) for _ in range(3)]
    for each in given[:2]:
        aggregator.accept(each)
    with pytest.raises(TaskClosed):
        aggregator.accept(given[2])


def test_a_target_ends_it_once_the_average_came_to_rest() -> None:
    rest = checked(mechanism="none", learning_rate=1e-6, target={"moved": 1e-3, "over": 50})
    release = thebes.simulate(rest, PEOPLE, seed=1)
    assert release.updates == 100
    restless = checked(mechanism="none", learning_rate=1.0, target={"moved": 1e-9, "over": 50})
    assert thebes.simulate(restless, PEOPLE, seed=1).updates > 390


@pytest.mark.parametrize("lanes", [0.1, [0.1, 0.3]])
def test_a_restored_aggregator_goes_on_with_the_same_models(lanes) -> None:
    document = checked(learning_rate=lanes, outliers="quarantine", target={"moved": 1e-9, "over": 2})
    first = begun(document)
    for _ in range(5):
        first.accept(answer(document, first))
    first.accept(changed(answer(document, first), weights=[1e6] * 3))
    second = begun(document, seed=9)
    second.restore(first.snapshot())
    assert second.accepted == 6
    assert [lane.models.tolist() for lane in second.lanes] == [lane.models.tolist() for lane in first.lanes]
    assert second.release().as_json() == first.release().as_json()
    assert [lane.quarantined for lane in second.lanes] == [lane.quarantined for lane in first.lanes]
    assert second.snapshot() == first.snapshot()


@pytest.mark.slow
def test_every_learning_rate_has_a_lane_and_the_requestors_own_rows_choose_the_best() -> None:
    rng = np.random.default_rng(1)
    x = rng.random(6000)
    people = {"x": x, "g": rng.choice(["a", "b"], 6000), "y": (x > 0.5).astype(int)}
    document = checked(learning_rate=[1e-6, 0.5], mechanism="none", epsilon=100.0)
    release = thebes.simulate(document, people, seed=1)
    lanes = release.extra["lanes"]
    assert abs(lanes[0]["updates"] - 3000) < 300
    assert sum(lane["updates"] for lane in lanes) == release.updates
    assert release.extra["kept"] == 1e-6
    assert set(release.spreads) == set(release.value["weights"])
    assert np.mean(np.square(list(release.spreads.values()))) ** 0.5 == pytest.approx(release.spread)
    assert release.spreads != release.lane(0.5).spreads
    public = {name: values[:500] for name, values in people.items()}
    best = release.best(public)
    assert best.extra["kept"] == 0.5
    assert (
        (best.model.predict(public) == public["y"]).mean() > 0.9 > (release.model.predict(public) == public["y"]).mean()
    )
    assert best.value == release.lane(0.5).value
    assert thebes.simulate(checked(**{**document.as_json(), "keep": 0.5}), people, seed=1).extra["kept"] == 0.5


def test_predictions_may_be_averaged_instead_of_weights() -> None:
    document = checked(average="predictions", learning_rate=3.0)
    release = release_from_json(json.loads(json.dumps(thebes.simulate(document, PEOPLE, seed=1).as_json())))
    models = np.frombuffer(base64.b64decode(release.extra["lanes"][0]["instances"])).reshape(4, 3)
    rows = {"x": [0.1, 0.9], "g": ["a", "b"]}
    design = np.array([[1, 0.1, 1], [1, 0.9, 0]])
    each = 1 / (1 + np.exp(-design @ models.T))
    assert release.model.predict_proba(rows)[:, 1] == pytest.approx(each.mean(axis=1))


def test_a_model_predicts_in_the_outputs_own_units() -> None:
    rng = np.random.default_rng(2)
    x = rng.random(400)
    people = {"x": x, "g": rng.choice(["a", "b"], 400), "y": 50 + 20 * x}
    bounds = {**DOCUMENT["bounds"], "y": {"type": "range", "low": 40.0, "high": 80.0}}
    document = checked(
        family="linear", bounds=bounds, mechanism="none", epsilon=100.0, learning_rate=0.5, max_participations=20
    )
    release = thebes.simulate(document, people, seed=1)
    assert release.model.predict({"x": [0.0, 1.0], "g": ["a", "b"]}) == pytest.approx([50, 70], abs=0.5)
    with pytest.raises(Mistake, match="family"):
        release.model.predict_proba({"x": [0.0], "g": ["a"]})


@pytest.mark.slow
def test_a_small_network_is_trained_and_predicts() -> None:
    torch = pytest.importorskip("torch")
    from thebes.torch import encode

    torch.manual_seed(0)
    model, loss = encode(torch.nn.Linear(2, 2), torch.nn.CrossEntropyLoss())
    document = checked(family=None, model=model, loss=loss, mechanism="none", epsilon=100.0, learning_rate=0.5)
    x = RNG.random(200)
    people = {"x": x, "g": ["a"] * 200, "y": (x > 0.5).astype(int)}
    release = release_from_json(json.loads(json.dumps(thebes.simulate(document, people, seed=1).as_json())))
    assert release.updates + release.extra["refused"] == 200
    seen = release.model.predict_proba(np.array([[0.0, 1.0], [1.0, 1.0]]))[:, 1]
    assert seen[1] > seen[0] + 0.1
    with pytest.raises(InvalidDocument, match="inputs"):
        checked(family=None, model=model, loss=loss, inputs=["x"])


def test_many_weights_are_released_packed_and_still_predict() -> None:
    values = [f"v{i}" for i in range(1200)]
    bounds = {**DOCUMENT["bounds"], "g": {"type": "set", "values": values}}
    document = checked(bounds=bounds, mechanism="laplace-l1")
    people = {"x": [0.5] * 30, "g": values[:30], "y": [1] * 30}
    release = thebes.simulate(document, people, seed=1)
    assert isinstance(release.value["weights"], str)
    assert release.model.coefficients.shape == (1201,)
    assert release.model.predict_proba(people).shape == (30, 2)
    assert "1201 weights" in str(release)


def test_the_certificate_says_what_is_proved_and_labels_what_is_estimated() -> None:
    document = checked(mechanism="laplace", epsilon=None, epsilon_per_weight=1.0, max_participations=2)
    release = thebes.simulate(document, PEOPLE, seed=1)
    told = release.certificate
    assert (told.epsilon, told.delta, told.guarantee, told.unit) == (3.0, 0.0, "pure", "person")
    assert told.parameters["per_weight"] == {"unit": "weight", "epsilon": 1.0}
    assert told.contributors == release.updates <= 800
    assert "not a guarantee" in told.parameters["estimates"]["says"]
    internal = told.parameters["estimates"]["internal"]
    which, unknown = internal["chance_to_know_which"], 3 / 4 * 1.5 / 2
    assert 0 < which < 1
    assert internal["expected_epsilon"] == pytest.approx(unknown + which * (1.5 - unknown))
    assert "not a guarantee" in told.parameters["filter"]["influence"]["says"]
    assert "no error bar" in told.text
    assert release.interval() is None
    bare = thebes.simulate(checked(mechanism="none"), PEOPLE, seed=1).certificate
    assert bare.guarantee == "none"
    assert "NOT PRIVATE" in bare.text
    assert registry.check({**DOCUMENT, "mechanism": "none"}).only_simulated == "mechanism"


def test_an_update_may_lie_as_far_as_noise_and_one_gradient_can_bring_it() -> None:
    """The instances lie together, lie as they do, and were driven apart by somebody."""
    outliers, deviation, reach = Outliers(4, 3, 0.01), 0.5, 0.2
    turns, most = (4 + 6) / 2, 4.0 * (4 + 6) / 2 * (deviation**2 + reach**2)
    for seen, counted in ((0.0, turns * deviation**2), (2.0, 2.0), (1e6, most)):
        (found,) = outliers.allowed(np.array([seen]), deviation, reach, age=6.0)
        assert found == pytest.approx(outliers.multiple * math.sqrt(counted + deviation**2) + reach)


def test_what_one_contribution_moves_is_told_for_whoever_names_the_oldest_model_they_may() -> None:
    document = checked(decay=10.0, stale_after=100)
    aggregator = begun(document, simulated=True)
    aggregator.lanes[0].jump(aggregator.lanes[0].models, 150)
    (told,) = list(aggregator.release().certificate.parameters["filter"]["influence"].values())[1:]
    by_version = [aggregator.allowed(0, version).max() / 4 for version in range(50, 151)]
    assert told == pytest.approx(max(by_version))
    assert max(by_version) > 1.5 * by_version[-1]


def test_a_certificate_says_who_may_be_many_and_whose_instances_a_release_holds() -> None:
    many, held = "one machine may have been any share", "Every release holds all instances"
    group, setting = {"anonymity": "token", "group": "friends"}, Setting(Unit.DEVICE, randomness.system())
    for more, said in (({}, (True, False)), ({"average": "predictions"}, (True, True)), (group, (False, False))):
        document = checked(**more)
        told = certificate.certificate(document, setting, 12, {"active": True}, []).text
        assert (many in told, held in told) == said
    assert many not in thebes.simulate(checked(), PEOPLE, seed=1).certificate.text


def test_an_epsilon_so_large_that_no_noise_is_left_still_has_a_certificate() -> None:
    told = thebes.simulate(checked(epsilon=200.0, inputs=["x"]), PEOPLE, seed=1).certificate
    assert told.epsilon == 200.0
    assert (
        max(told.parameters["estimates"]["opportunistic"]["epsilon_after_updates_of_that_instance"].values()) <= 200.0
    )


def test_lemma_three_holds_at_the_estimated_epsilon() -> None:
    document = checked(mechanism="laplace", epsilon=None, epsilon_per_weight=1.0)
    told = thebes.simulate(document, PEOPLE, seed=1).certificate.parameters["estimates"]["opportunistic"]
    assert told["updates_of_the_task_for_one_of_an_instance_about"] == document.instances
    found = told["epsilon_after_updates_of_that_instance"]["10000"]
    deviation, distance = math.sqrt(10_000 * 2 * 2.0**2), 2 * math.sqrt(3)  # scale 2 clip / epsilon; 2 clip sqrt(p)
    needed = distance * math.sqrt(2 * (math.log(1 / (2 * 1e-8)) + found)) / found
    assert deviation == pytest.approx(needed, rel=1e-6)


# --- a simulated crowd -----------------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("in_flight", [1, 2, 7, 50])
@pytest.mark.parametrize("false_positives", [0.01, 0.5])
def test_a_crowd_computed_together_gives_what_one_after_another_gives(in_flight, false_positives) -> None:
    """The same people, the same places drawn and discarded; every other chance is left out."""
    document = checked(
        mechanism="none", decay=50.0, learning_rate=2.0, epsilon=20.0, instances=5, false_positives=false_positives
    )
    rows = featurize(document.featurizer, people_of(PEOPLE))
    prepared = registry.owner(document, simulated=True).prepared(document, rows)
    places = np.random.default_rng(8).integers(0, 5, (2, 1000))
    order = np.random.default_rng(9).permutation(400)

    together = begun(document, simulated=True)
    crew = TrainingCrew(document, together, 0, prepared, together.setting.randomness, in_flight)
    crew._draws._ready, crew._discards._ready = places[0].tolist(), places[1].tolist()
    taken = crew.work(order)

    alone = begun(document, simulated=True)
    lane, under_way, draws, discards = alone.lanes[0], [], iter(places[0]), iter(places[1])

    def deliver() -> None:
        weights, version = under_way.pop(0)
        place, far = next(discards), np.abs(weights - lane.mean()) > alone.allowed(0, version)
        if far.any():
            lane.refused += 1
            return
        lane.age = alone.outliers.aged(lane.age, lane.updates - version)
        lane.replace(int(place), weights)

    for person in order:
        drawn, batch = lane.models[next(draws)].copy(), prepared.batch(np.array([person]))
        gradient = np.clip(families.gradients("logistic", drawn[None, :], batch)[0], -1, 1)
        under_way.append((drawn - 2.0 / (1 + lane.updates / 50.0) * gradient, lane.updates))
        if len(under_way) == in_flight:
            deliver()
    while under_way:
        deliver()

    found = together.lanes[0]
    assert np.allclose(found.models, lane.models, rtol=1e-9, atol=1e-12)
    assert (found.updates, found.refused) == (lane.updates, lane.refused)
    assert found.age == pytest.approx(lane.age)
    assert taken == lane.updates
    if false_positives == 0.5 and in_flight > 1:
        assert lane.refused > 0


@pytest.mark.slow
def test_everybody_takes_part_as_often_as_the_document_allows_and_pays_no_more() -> None:
    release = thebes.simulate(checked(max_participations=3, outliers="quarantine"), PEOPLE, seed=1)
    assert release.certificate.contributors == 1200
    with_diagnostics = thebes.simulate(checked(diagnostics=0.2), {k: v[:60] for k, v in PEOPLE.items()}, seed=1)
    assert sum(with_diagnostics.extra["diagnostics"].values()) == pytest.approx(with_diagnostics.updates)


def test_the_same_seed_gives_the_same_release() -> None:
    first, second = (thebes.simulate(checked(), PEOPLE, seed=4, in_flight=10) for _ in range(2))
    assert first.as_json() == second.as_json()
    with pytest.raises(Mistake, match="in_flight"):
        thebes.simulate(checked(), PEOPLE, in_flight=0)


@pytest.mark.parametrize("mechanism", ["laplace", "laplace-l1", "gaussian"])
def test_a_clip_too_small_for_its_digits_is_refused(mechanism: str) -> None:
    """At 1e-200 squares of gradients are 0, so that nothing would be shortened; at 1e-316 steps are rounded."""
    more = {"epsilon": None, "epsilon_per_weight": 1.0} if mechanism == "laplace" else {}
    more |= {"delta": 1e-6} if mechanism == "gaussian" else {}
    asked = {name: value for name, value in {**DOCUMENT, **more, "mechanism": mechanism}.items() if value is not None}
    registry.check({**asked, "clip": 1e-90})
    for clip in (1e-101, 1e-200, 1e-316, 5e-324):
        with pytest.raises(InvalidDocument, match="clip"):
            registry.check({**asked, "clip": clip})


def test_only_a_simulation_answers_what_adds_no_noise() -> None:
    """A server that puts such a task up all the same learns nothing, whatever price it names."""
    document, claim = checked(mechanism="none", epsilon=0.001), RecordedClaim()
    weights = [0.0] * 3
    ask = Ask("a", "phase-0", 0, {"weights": weights, "version": 0, "lane": 0})
    with pytest.raises(Refusal, match="adds no noise"):
        registry.owner(document).contribute(document, ask, ONE, claim, randomness=randomness.system())


@pytest.mark.parametrize("rows", [0, 3, 900])
def test_how_many_rows_a_person_has_does_not_show_in_when_a_large_model_leaves(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand rows of a hundred thousand weights take longer than reading them may."""

    class Holding(RecordedClaim):
        moment: float | None = None

        def hold(self, moment: float) -> None:
            self.moment = moment

    monkeypatch.setattr(owner.time, "monotonic", lambda: 100.0)
    sizes = {"x": {"type": "set", "values": list(range(60))}, "g": {"type": "set", "values": list(range(60))}}
    bounds = {**sizes, "y": {"type": "set", "values": [0, 1]}}
    columns = {name: np.zeros(rows, dtype=np.int64) for name in ("x", "g", "y")}
    mine = Rows(columns, np.zeros(rows, dtype=np.int64), 1, np.zeros(1, dtype=np.uint8))
    for crosses, moment in (("pairwise", 100.0 + owner.GRADIENT_SECONDS), (None, None)):
        document, claim = checked(bounds=bounds, crosses=crosses, mechanism="laplace-l1"), Holding()
        ask = Ask("a", "phase-0", 0, {"weights": [0.0] * weights_of(document), "version": 0, "lane": 0})
        owner.OWNER.contribute(document, ask, mine, claim, randomness=randomness.system())
        assert claim.moment == moment


def test_rows_that_take_too_long_count_as_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    document = checked(mechanism="laplace-l1", epsilon=1e5)
    ask = Ask("a", "phase-0", 0, {"weights": [0.0] * 3, "version": 0, "lane": 0})
    monkeypatch.setattr(owner, "_QUICK", 2)
    for seconds, moved in ((0.0, True), (owner.GRADIENT_SECONDS, False)):
        moments = iter([0.0, seconds])
        monkeypatch.setattr(owner.time, "monotonic", lambda moments=moments: next(moments))
        given = owner.OWNER.contribute(document, ask, ONE, RecordedClaim(), randomness=randomness.system())
        assert (np.abs(given.fields["weights"]).max() > 0.01) == moved


@pytest.mark.parametrize(("instances", "weights"), [(20, 1), (20, 5), (20, 33), (4, 3)])
def test_the_instance_that_was_drawn_is_found_no_more_often_than_the_certificate_says(
    instances: int, weights: int
) -> None:
    """Of 33 weights it is found every time, and lemma 1, which says that it cannot be, would halve epsilon."""
    chance, found = np.random.default_rng(4), 0
    for _ in range(1000):
        models = chance.normal(size=(instances, weights)) * math.sqrt(instances / 2)
        update = models[0] + chance.normal(size=weights)
        found += int(np.square(models - update).sum(axis=1).argmin() == 0)
    said = certificate._found(instances, weights)
    assert found / 1000 <= said + 0.03
    assert (said > 0.999) == (weights == 33)


def test_an_instance_descends_from_a_kth_of_the_updates() -> None:
    source, lengths = randomness.seeded_for_simulation(8), np.zeros(20, dtype=int)
    for drawn, discarded in zip(source.below(20, 40_000), source.below(20, 40_000), strict=True):
        lengths[discarded] = lengths[drawn] + 1
    assert lengths.mean() == pytest.approx(40_000 / certificate.each_of(checked(instances=20)), rel=0.1)
    assert certificate.each_of(checked(instances=20, learning_rate=[0.1, 0.2])) == 40
