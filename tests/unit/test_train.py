"""Training over sites: without noise it is plain descent over everybody's rows; whoever is missing, lies or comes back
is told apart; what is paid is never more than what was promised."""

from __future__ import annotations

import dataclasses
import json
import math
from decimal import Decimal

import numpy as np
import pytest

from tests.support.training import DOCUMENT, NOON, SCHEMA, Silent, begun, heard, patients, run, site
from thebes.data.schema import schema_of
from thebes.learning.slopes import LinearSlopes, LogisticSlopes
from thebes.privacy.accounting import concentrated, renyi
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import concentrated_to_approximate, renyi_to_approximate, repeat
from thebes.privacy.promise import Unit
from thebes.privacy.randomness import seeded_for_simulation
from thebes.tasks import registry
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.contributions import Contributions, read_payloads
from thebes.tasks.protocols import Ask, State, TaskClosed
from thebes.tasks.release_reader import release_from_json
from thebes.tasks.train.local import read, totals
from thebes.tasks.train.plan import TrainingPlan

LOUD = {**DOCUMENT, "epsilon": 1e6}  #: so much that sizes are believed as they are
SITES = {name: patients(count, seed) for seed, (name, count) in enumerate({"a": 120, "b": 60, "c": 200}.items())}
TABLES = {name: site(rows) for name, rows in SITES.items()}


def design(rows):
    """The same encoding, written down once more."""
    return np.column_stack(
        [rows["age"] / 50 - 1, (rows["height"] - 100) / 60 - 1, (rows["sex"] == "female").astype(float)]
    )


def mean_gradient(model: str, weights, rows, clip: float):
    """Everybody's clipped gradient, by one row at a time."""
    x, total = design(rows), np.zeros(4)
    for row, ill, dose in zip(x, rows["ill"], rows["dose"], strict=True):
        one = np.append(row, 1.0)
        said = one @ weights
        pull = 1 / (1 + math.exp(-said)) - ill if model == "LogisticRegression" else said - (dose / 5 - 1)
        gradient = pull * one
        total += gradient * min(1.0, clip / np.linalg.norm(gradient))
    return total / len(x)


def everybody():
    return {column: np.concatenate([rows[column] for rows in SITES.values()]) for column in SITES["a"]}


def weights_of(release):
    return np.array(list(release.value["weights"].values()))


# --- what it computes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["site", "coordinator"])
@pytest.mark.parametrize(("model", "output"), [("LogisticRegression", "ill"), ("LinearRegression", "dose")])
def test_without_noise_one_step_a_round_is_descent_over_everybody(noise, model, output) -> None:
    document = {**LOUD, "model": model, "output": output, "noise": noise, "learning_rate": 2.0, "rounds": 12}
    release = run({**document, "clip": 0.7, "average": "last"}, TABLES, Silent())[0].release()
    weights = np.zeros(4)
    for _ in range(12):
        weights = weights - 2.0 * mean_gradient(model, weights, everybody(), 0.7)
    np.testing.assert_allclose(weights_of(release), weights, atol=3e-5)


def test_without_noise_local_steps_are_each_sites_own_descent_averaged_by_size() -> None:
    release = run({**LOUD, "local_steps": 3, "rounds": 4, "average": "last"}, TABLES, Silent())[0].release()
    weights = np.zeros(4)
    for _ in range(4):
        own = {}
        for name, rows in SITES.items():
            own[name] = weights.copy()
            for _ in range(3):
                own[name] -= mean_gradient("LogisticRegression", own[name], rows, 1.0)
        weights = sum(len(SITES[n]["age"]) * w for n, w in own.items()) / sum(len(r["age"]) for r in SITES.values())
    np.testing.assert_allclose(weights_of(release), weights, atol=3e-5)


def test_averaging_after_one_local_step_is_averaging_gradients() -> None:
    both = [
        run({**LOUD, "noise": noise, "average": "last"}, TABLES, Silent())[0].release()
        for noise in ("site", "coordinator")
    ]
    np.testing.assert_allclose(weights_of(both[0]), weights_of(both[1]), atol=1e-6)


def test_momentum_and_the_tail_are_the_coordinators() -> None:
    document = {**LOUD, "momentum": 0.5, "rounds": 6}
    weights, velocity, tail = np.zeros(4), np.zeros(4), []
    for _ in range(6):
        velocity = 0.5 * velocity + mean_gradient("LogisticRegression", weights, everybody(), 1.0)
        weights = weights - velocity
        tail.append(weights)
    for average, expected in (("last", tail[-1]), ("tail", np.mean(tail[3:], axis=0))):
        release = run({**document, "average": average}, TABLES, Silent())[0].release()
        np.testing.assert_allclose(weights_of(release), expected, atol=3e-5)


@pytest.mark.slow
def test_the_model_predicts_in_the_data_sets_own_units() -> None:
    test = patients(3000, 9)
    linear = run({**LOUD, "model": "LinearRegression", "output": "dose", "rounds": 150, "clip": 4.0}, TABLES, Silent())[
        0
    ].release()
    guess = linear.model.predict(test)
    assert 1 - np.mean((guess - test["dose"]) ** 2) / np.var(test["dose"]) > 0.9
    with pytest.raises(Mistake, match="has no classes"):
        linear.model.predict_proba(test)
    logistic = run({**LOUD, "rounds": 60, "learning_rate": 4.0}, TABLES, Silent())[0].release()
    odds = logistic.model.predict_proba(test)
    assert odds.shape == (3000, 2)
    assert np.array_equal(logistic.model.predict(test), odds[:, 1] > 0.5)
    assert np.mean(logistic.model.predict(test) == test["ill"]) > 0.8
    assert set(logistic.model.named) == {"age", "height", "sex=female", "intercept"}
    unknown = {"age": [None, 50.0], "height": [None, 160.0], "sex": ["?", "male"]}
    assert np.allclose(*logistic.model.predict_proba(unknown)[:, 1])
    with pytest.raises(Mistake, match="height"):
        logistic.model.predict({"age": [1.0]})


def test_more_than_two_classes_have_a_score_each() -> None:
    draw = np.random.default_rng(0)
    columns = {"x": draw.uniform(-1, 1, 600), "y": draw.uniform(-1, 1, 600)}
    columns["kind"] = np.array(["west", "east", "north"])[
        np.where(columns["y"] > 0.3, 2, (columns["x"] > 0).astype(int))
    ]
    schema = {
        "unit": "person",
        "columns": {
            "x": {"type": "float", "low": -1, "high": 1},
            "y": {"type": "float", "low": -1, "high": 1},
            "kind": {"type": "string", "values": ["west", "east", "north"]},
        },
    }
    document = {**LOUD, "inputs": ["x", "y"], "output": "kind", "rounds": 80, "learning_rate": 4.0}
    release = run(document, {"a": site(columns, schema)}, Silent())[0].release()
    assert len(release.value["weights"]) == 9
    assert np.mean(release.model.predict(columns) == columns["kind"]) > 0.93
    again = release_from_json(json.loads(json.dumps(release.as_json())))
    np.testing.assert_allclose(again.model.predict_proba(columns), release.model.predict_proba(columns))
    assert str(again) == str(release)


def test_the_loss_of_every_round_is_told_where_it_was_bought() -> None:
    document = {**LOUD, "loss_share": 0.1, "rounds": 8, "learning_rate": 3.0}
    for noise in ("site", "coordinator"):
        told = [r["loss"] for r in run({**document, "noise": noise}, TABLES)[0].release().rounds]
        assert told[0] == pytest.approx(math.log(2), abs=1e-3)
        assert told == sorted(told, reverse=True)
        assert told[-1] < 0.5
    assert "loss" not in run({**DOCUMENT, "rounds": 1}, TABLES)[0].release().rounds[0]


def test_a_site_without_rows_answers_like_any_other() -> None:
    empty = {**TABLES, "d": site({column: values[:0] for column, values in SITES["a"].items()})}
    aggregator, budgets = run(LOUD, empty, Silent())
    assert aggregator.release().extra["coverage"]["answered"] == ["a", "b", "c", "d"]
    assert budgets["d"].epsilon == budgets["a"].epsilon
    alone = run(DOCUMENT, {"d": empty["d"]})[0].release()
    assert np.isfinite(weights_of(alone)).all()


# --- whose gradient is clipped -------------------------------------------------------------------------------

SEVERAL = {**SCHEMA, "max_rows_per_unit": 50, "columns": {**SCHEMA["columns"], "who": {"type": "integer", "key": True}}}


@pytest.mark.parametrize("reduce", ["mean", "sum"])
def test_a_person_with_many_rows_counts_once(reduce) -> None:
    """Thirty people of one row each, and one of thirty rows: everybody's gradient is as long as `clip` at most."""
    few = patients(30, 5)
    same = {column: np.append(values, np.repeat(values[:1], 30)) for column, values in patients(30, 5).items()}
    table = site({**same, "who": np.append(np.arange(30), np.full(30, 99))}, SEVERAL)
    checked = registry.check({**LOUD, "clip": 0.1, "reduce": reduce})
    plan = TrainingPlan(checked.descent, table.schema)
    slopes, weights = LogisticSlopes(3, 2), np.zeros(4)
    found = totals(plan, list(read(plan, table)), slopes, weights, None, Silent())
    once = {column: np.append(values, values[:1]) for column, values in few.items()}
    alone = totals(plan, list(read(plan, site(once))), slopes, weights, None, Silent())
    assert found.people == alone.people == 31
    np.testing.assert_allclose(found.sums, alone.sums, atol=2)
    gradient, _ = slopes.of(weights, design(few)[:1], few["ill"][:1].astype(float))
    assert np.linalg.norm(gradient) > 0.1  # so that it is clipped with one row already


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("unit", ["person", "event"])
def test_leaving_one_unit_out_moves_a_sum_by_no_more_than_its_sensitivity(seed, unit) -> None:
    draw = np.random.default_rng(seed)
    rows = patients(70, seed)
    rows = {**rows, "who": draw.integers(0, 20, 70)}
    schema = SEVERAL if unit == "person" else {**SEVERAL, "unit": "event", "max_rows_per_unit": 1}
    document = registry.check({**LOUD, "clip": 0.3, "reduce": "sum", "loss_share": 0.1})
    plan = TrainingPlan(document.descent, schema_of(schema))
    weights = draw.normal(0, 3, 4)

    def all_of(keep):
        table = site({column: values[keep] for column, values in rows.items()}, schema)
        return totals(plan, list(read(plan, table)), LogisticSlopes(3, 2), weights, None, Silent())

    whole = all_of(np.ones(70, dtype=bool))
    for left in range(8):
        gone = rows["who"] == left if unit == "person" else np.arange(70) == left
        part = all_of(~gone)
        assert whole.people - part.people == int(gone.any())
        assert math.isqrt(int(((whole.sums - part.sums).astype(object) ** 2).sum())) <= 2**plan.sums.bits
        assert 0 <= whole.loss - part.loss <= plan.losses.reach.l1


def test_only_those_whose_coin_comes_up_are_added_up() -> None:
    plan = TrainingPlan(registry.check({**LOUD, "batch": 0.3}).descent, TABLES["c"].schema)
    rows = list(read(plan, TABLES["c"]))
    coin = plan.budget.coin
    found = totals(plan, rows, LogisticSlopes(3, 2), np.zeros(4), coin, Silent(4))
    (people,) = rows
    chosen = seeded_for_simulation(4).toss(coin, 200)
    assert found.people == chosen.sum() == pytest.approx(60, abs=25)
    some = dataclasses.replace(
        people, inputs=people.inputs[chosen], targets=people.targets[chosen], starts=np.arange(chosen.sum())
    )
    expected = totals(plan, [some], LogisticSlopes(3, 2), np.zeros(4), None, Silent())
    assert np.array_equal(found.sums, expected.sums)


@pytest.mark.slow
def test_a_step_over_samples_is_one_over_everybody_on_average() -> None:
    document = {**LOUD, "rounds": 1, "average": "last", "min_sites": 1}
    whole = weights_of(run(document, {"c": TABLES["c"]}, Silent())[0].release())
    some = [
        weights_of(run({**document, "batch": 0.5, "name": str(i)}, {"c": TABLES["c"]}, Silent(i))[0].release())
        for i in range(200)
    ]
    np.testing.assert_allclose(np.mean(some, axis=0), whole, atol=4 * np.std(some, axis=0).max() / math.sqrt(200))


def test_rows_that_do_not_meet_the_condition_do_not_count() -> None:
    women = {
        name: site({column: values[rows["sex"] == "female"] for column, values in rows.items()})
        for name, rows in SITES.items()
    }
    document = {**LOUD, "average": "last"}
    some = run({**document, "where": "sex = 'female'"}, TABLES, Silent())[0].release()
    np.testing.assert_allclose(weights_of(some), weights_of(run(document, women, Silent())[0].release()), atol=1e-6)


def test_many_rows_are_read_again_instead_of_held(monkeypatch) -> None:
    held = weights_of(run(LOUD, TABLES, Silent())[0].release())
    monkeypatch.setattr("thebes.tasks.train.local._HELD", 10)
    monkeypatch.setattr("thebes.tasks.train.local._AT_ONCE", 40)
    again = weights_of(run({**LOUD, "name": "again"}, TABLES, Silent())[0].release())
    np.testing.assert_allclose(again, held, atol=1e-6)


def test_one_persons_many_rows_are_taken_a_few_at_a_time(monkeypatch) -> None:
    rows = {**patients(80, 3), "who": np.repeat([1, 2], 40)}
    whole = weights_of(run(LOUD, {"a": site(rows, SEVERAL)}, Silent())[0].release())
    monkeypatch.setattr("thebes.tasks.train.local._AT_ONCE", 28)
    few = weights_of(run({**LOUD, "name": "few"}, {"a": site(rows, SEVERAL)}, Silent())[0].release())
    np.testing.assert_allclose(few, whole, atol=1e-6)


# --- what is paid ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [{}, {"rounds": 1}, {"rounds": 100, "local_steps": 10}, {"batch": 0.1, "rounds": 30}, {"epsilon": 1e-3},
     {"epsilon": 1e6}, {"loss_share": 0.4, "size_share": 0.5}, {"batch": 1.0}],
)  # fmt: skip
def test_all_rounds_together_cost_no_more_than_the_document_says(more) -> None:
    document = registry.check({**DOCUMENT, **more})
    schema = TABLES["a"].schema
    event = registry.kind("train").event(document, schema)
    delta = Decimal(str(document.delta))
    if document.batch is None or document.batch == 1:
        rho = concentrated.price(event, adjacency="add-remove-one")
        whole = concentrated_to_approximate(repeat(rho, document.phases), delta)
    else:
        whole = renyi_to_approximate(repeat(renyi.price(event, adjacency="add-remove-one"), document.phases), delta)
    assert whole.epsilon <= Decimal(str(document.epsilon))
    assert whole.epsilon > Decimal(str(document.epsilon)) * Decimal("0.98")
    for buying in (True, False):
        shares = TrainingPlan(document.descent, schema).budget.shares(buying=buying)
        assert shares.sums + shares.size + shares.loss + shares.curvature == 1
        assert shares.sums > 0


def test_a_site_pays_for_the_rounds_it_answered_and_never_more_than_the_price() -> None:
    document = {**DOCUMENT, "min_sites": 2, "rounds": 6}
    aggregator, budgets = run(document, TABLES, absent={1: {"b"}, 4: {"b"}})
    assert budgets["a"].epsilon <= Decimal("2.0")
    assert budgets["a"].epsilon == pytest.approx(Decimal("2.0"), abs=Decimal("1e-9"))
    assert budgets["b"].epsilon * 6 == budgets["a"].epsilon * 4
    parameters = aggregator.release().certificate.parameters
    assert parameters["charged"]["epsilon"] == pytest.approx(2.0, rel=1e-3)
    assert parameters["reserved"]["rounds"] == 6


def test_it_ends_early_where_a_round_hardly_moves_the_weights() -> None:
    aggregator, budgets = run({**LOUD, "rounds": 500, "tolerance": 0.02, "learning_rate": 3.0}, TABLES)
    release = aggregator.release()
    assert aggregator.state is State.DONE
    assert 5 < len(release.rounds) < 200
    assert release.rounds[-1]["update"] <= 0.02 < release.rounds[-2]["update"]
    share = len(release.rounds) / 500
    assert float(budgets["a"].epsilon) == pytest.approx(1e6 * share, rel=1e-6)
    assert release.certificate.parameters["charged"]["epsilon"] < 1e6 * math.sqrt(share)
    assert release.certificate.epsilon == 1e6  # nothing less was promised
    assert "ended after" in release.certificate.text


def test_charged_comes_before_noise() -> None:
    class Broke(RecordedClaim):
        def consume(self, **_) -> None:
            raise RuntimeError("nothing is left")

    class Untouched(Silent):
        def words(self, count):
            raise AssertionError("a coin was tossed before anything was paid")

        def gaussian(self, values, *, scale):
            raise AssertionError("noise was drawn before anything was paid")

    document = registry.check({**DOCUMENT, "batch": 0.5})
    ask = begun(document, TABLES, Silent()).ask("a")
    owner = registry.site_owner(document)
    with pytest.raises(RuntimeError, match="nothing is left"):
        owner.contribute(document, ask, TABLES["a"], Broke(), randomness=Untouched())


# --- who is there -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"noise": "coordinator"}, {"momentum": 0.5, "local_steps": 2, "loss_share": 0.2}])
def test_starting_anew_after_every_round_changes_nothing(more) -> None:
    document = {**DOCUMENT, **more, "rounds": 7, "min_sites": 2}
    away = {0: {"b"}, 3: {"c"}}
    plain, _ = run(document, TABLES, absent=away)
    again, _ = run(document, TABLES, absent=away, restarted=True)
    assert json.dumps(plain.release().as_json()) == json.dumps(again.release().as_json())
    assert again.snapshot() == plain.snapshot()


def test_starting_anew_in_the_middle_of_a_round_keeps_what_was_heard() -> None:
    for noise in ("site", "coordinator"):
        document = registry.check({**DOCUMENT, "noise": noise, "rounds": 1})
        source = seeded_for_simulation(3)
        aggregator = begun(document, TABLES, source)
        for name in ("a", "b"):
            heard(document, aggregator, name, TABLES[name], RecordedClaim(), source)
        again = begun(document, TABLES, source)
        again.restore(aggregator.snapshot())
        assert again.awaited == ("c",)
        heard(document, again, "c", TABLES["c"], RecordedClaim(), source)
        again.advance(NOON)
        assert again.state is State.DONE
        with pytest.raises(Mistake):
            begun(registry.check(DOCUMENT), TABLES, source).restore(aggregator.snapshot())


def test_a_site_that_missed_rounds_joins_again_and_tells_its_size_then() -> None:
    document = {**LOUD, "rounds": 4, "min_sites": 1, "average": "last"}
    aggregator, _ = run(document, TABLES, Silent(), absent={0: {"b"}, 2: {"a", "c"}})
    release = aggregator.release()
    assert release.extra["coverage"] == {
        "answered": ["a", "b", "c"],
        "missing": {},
        "rounds": {"a": 3, "b": 3, "c": 3},
        "missed": {name: {"rounds": 1, "why": "was away"} for name in "abc"},
    }
    assert [r["sites"] for r in release.rounds] == [2, 3, 1, 3]
    weights = np.zeros(4)
    for there in ("ac", "abc", "b", "abc"):
        rows = {c: np.concatenate([SITES[n][c] for n in there]) for c in SITES["a"]}
        weights = weights - mean_gradient("LogisticRegression", weights, rows, 1.0)
    np.testing.assert_allclose(weights_of(release), weights, atol=3e-5)


def test_without_min_sites_everybody_must_answer_every_round() -> None:
    aggregator, _ = run({**DOCUMENT, "rounds": 5}, TABLES, absent={0: {"b"}})
    assert aggregator.state is State.EXPIRED
    assert aggregator.release() is None
    aggregator, budgets = run({**DOCUMENT, "rounds": 5}, TABLES, absent={3: {"b"}})
    assert aggregator.state is State.EXPIRED
    release = aggregator.release()
    assert len(release.rounds) == 3
    assert "ended after 3 of 5 rounds" in release.certificate.text
    assert budgets["b"].epsilon < budgets["a"].epsilon
    assert (len(release.rounds), release.certificate.parameters["charged"]["at_most"]) == (3, 4)  # the fourth was paid
    assert "charged for 4 at most" in release.certificate.text


def test_sites_that_cannot_answer_are_named_and_the_rest_goes_on() -> None:
    wrong = {**SCHEMA, "columns": {**SCHEMA["columns"], "age": {"type": "float", "low": 0, "high": 120}}}
    lacking = {**SCHEMA, "columns": {c: d for c, d in SCHEMA["columns"].items() if c != "sex"}}
    tables = {**TABLES, "d": site(SITES["a"], wrong), "e": site(SITES["a"], lacking)}
    release = run({**LOUD, "min_sites": 3}, tables)[0].release()
    missing = release.extra["coverage"]["missing"]
    assert "declared differently" in missing["d"]
    assert "'sex'" in missing["e"]
    assert "without e" in str(release)
    nobody, _ = run({**LOUD, "min_sites": 1}, {"e": tables["e"]})
    assert nobody.state is State.EXPIRED


def test_progress_is_in_public_figures() -> None:
    document = registry.check({**DOCUMENT, "loss_share": 0.1})
    source = seeded_for_simulation(1)
    aggregator = begun(document, TABLES, source)
    assert aggregator.progress()["last"] is None
    for name, table in TABLES.items():
        heard(document, aggregator, name, table, RecordedClaim(), source)
    aggregator.advance(NOON)
    progress = aggregator.progress()
    assert (progress["phase"], progress["phases"], progress["last"]["sites"]) == (1, 5, 3)
    assert set(progress["rounds"][0]) == {"round", "update", "loss", "sites"}
    json.dumps(progress)


def test_the_certificate_says_who_must_be_trusted_and_what_was_noised() -> None:
    local = run({**DOCUMENT, "epsilon": 3.0}, TABLES)[0].release().certificate
    assert (local.epsilon, local.delta, local.trust, str(local.adjacency)) == (3.0, 1e-6, "site", "add-remove-one")
    assert local.unit is Unit.PERSON
    assert local.contributors is None
    central = run({**DOCUMENT, "noise": "coordinator"}, TABLES)[0].release().certificate
    assert central.trust == "server"
    assert "exact totals" in central.text
    rows = {**SCHEMA, "unit": "event"}
    mixed = run(DOCUMENT, {**TABLES, "c": site(SITES["c"], rows)})[0].release().certificate
    assert mixed.unit is Unit.EVENT


# --- who lies ------------------------------------------------------------------------------------------------------


def _answer(document, aggregator, name="a"):
    ask = aggregator.ask(name)
    owner = registry.site_owner(document)
    given = owner.contribute(document, ask, TABLES[name], RecordedClaim(), randomness=seeded_for_simulation(5))
    return ask, next(iter(given.payloads(owner.layout(document, ask, TABLES[name].schema))))


LIES = {
    "nan": lambda f: {**f, "update": np.full(4, np.nan, dtype="<f4")},
    "infinite": lambda f: {**f, "update": np.full(4, np.inf, dtype="<f4")},
    "huge": lambda f: {**f, "update": np.full(4, 1e20, dtype="<f4")},
    "short": lambda f: {**f, "update": np.zeros(3, dtype="<f4")},
    "size huge": lambda f: {**f, "size": 1e30},
    "size text": lambda f: {**f, "size": "many"},
    "size missing": lambda f: {k: v for k, v in f.items() if k != "size"},
    "more": lambda f: {**f, "surprise": 1},
    "empty": lambda f: {},
}


def _packed(payload):
    import base64

    return {
        name: base64.b64encode(value.tobytes()).decode() if isinstance(value, np.ndarray) else value
        for name, value in payload.items()
    }


@pytest.mark.parametrize("lie", LIES)
def test_an_update_that_no_honest_site_sends_is_refused_naming_the_field(lie) -> None:
    document = registry.check(DOCUMENT)
    aggregator = begun(document, TABLES, Silent())
    ask, honest = _answer(document, aggregator)
    before = aggregator.snapshot()
    payload = _packed(LIES[lie](honest))
    with pytest.raises(Mistake) as refused:
        aggregator.accept(read_payloads(aggregator.layout(ask.part, ask.partition), ask.part, [payload], ask.partition))
    assert refused.value.argument.startswith("payload")
    assert "nan" not in str(refused.value).lower().split()
    assert aggregator.snapshot() == before
    aggregator.accept(read_payloads(aggregator.layout(ask.part, ask.partition), ask.part, [honest], ask.partition))
    with pytest.raises(TaskClosed):
        aggregator.accept(read_payloads(aggregator.layout(ask.part, ask.partition), ask.part, [honest], ask.partition))


@pytest.mark.parametrize(
    "lie",
    [
        lambda f: {**f, "size": -1},
        lambda f: {**f, "size": 1.5},
        lambda f: {**f, "size": 3},  # the sum is longer than three clipped gradients
        lambda f: {**f, "sum": [2**60] * 4},
        lambda f: {**f, "sum": [0.5] * 4},
        lambda f: {**f, "sum": [1] * 5},
        lambda f: {**f, "loss": -1},
    ],
)
def test_totals_that_no_honest_site_sends_are_refused_naming_the_field(lie) -> None:
    document = registry.check({**DOCUMENT, "noise": "coordinator", "loss_share": 0.1})
    aggregator = begun(document, TABLES, Silent())
    ask, honest = _answer(document, aggregator)
    with pytest.raises(Mistake, match="payload"):
        aggregator.accept(
            read_payloads(aggregator.layout(ask.part, ask.partition), ask.part, [lie(honest)], ask.partition)
        )
    aggregator.accept(read_payloads(aggregator.layout(ask.part, ask.partition), ask.part, [honest], ask.partition))


@pytest.mark.few(2)
@pytest.mark.parametrize("noise", ["site", "coordinator"])
@pytest.mark.parametrize("epsilon", [0.1, 2.0, 1e4])
def test_honest_answers_are_never_refused(noise, epsilon) -> None:
    for more in ({}, {"batch": 0.05}, {"local_steps": 3} if noise == "site" else {"loss_share": 0.3}):
        document = {**DOCUMENT, "noise": noise, "epsilon": epsilon, "rounds": 3, **more}
        assert run(document, TABLES, seeded_for_simulation(8))[0].state is State.DONE


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"weights": [0.0] * 3, "size": None},
        {"weights": [0.0] * 5, "size": None},
        {"weights": [float("nan")] * 4, "size": None},
        {"weights": [1e300] * 4, "size": None},
        {"weights": "AAAA", "size": None},
        {"weights": [0.0] * 4, "size": True},
        {"weights": [0.0] * 4, "size": -5},
        {"weights": [0.0] * 4, "size": float("nan")},
        {"weights": [0.0] * 4, "size": "10"},
    ],
)
def test_a_model_that_is_not_the_tasks_is_refused_before_anything_is_paid(payload) -> None:
    document = registry.check(DOCUMENT)
    claim = RecordedClaim()
    with pytest.raises(Mistake, match="did not keep to"):
        registry.site_owner(document).contribute(
            document, Ask("x", "phase-0", 0, payload), TABLES["a"], claim, randomness=Silent()
        )
    assert claim.epsilon == 0


def test_a_contribution_of_the_wrong_site_or_round_is_closed_or_refused() -> None:
    document = registry.check(DOCUMENT)
    aggregator = begun(document, TABLES, Silent())
    with pytest.raises(TaskClosed):
        aggregator.accept(Contributions("phase-1", 1, {}, 0))
    with pytest.raises(Mistake, match="partition"):
        aggregator.accept(Contributions("phase-0", 1, {}, 7))


# --- which documents there are ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"delta": 0}, "delta"),
        ({"noise": "coordinator", "local_steps": 2}, "local_steps"),
        ({"model": "Ridge"}, "loss"),
        ({"loss": "x"}, "loss"),
        ({"model": "x", "loss": "y"}, "model"),
        ({"inputs": []}, "inputs"),
        ({"inputs": ["age", "age"]}, "output"),
        ({"output": "age"}, "output"),
        ({"rounds": 0}, "rounds"),
        ({"rounds": 10_000, "local_steps": 1000}, "local_steps"),
        ({"clip": 0}, "clip"),
        ({"clip": 5e-324}, "clip"),
        ({"batch": 1.5}, "batch"),
        ({"batch": 1e-300}, "batch"),
        ({"learning_rate": "fast"}, "learning_rate"),
        ({"size_share": 0.9}, "size_share"),
        ({"loss_share": 0.9}, "loss_share"),
        ({"epsilon": 1e-6, "rounds": 10_000, "local_steps": 100}, "epsilon"),
        ({"epsilon": 1e-6, "batch": 0.5}, "epsilon"),
        ({"sites": []}, "sites"),
        ({"sites": ["a"], "min_sites": 2}, "min_sites"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_document_that_cannot_work_is_refused_naming_the_field(change, field) -> None:
    with pytest.raises(Mistake) as refused:
        registry.check({**DOCUMENT, **change})
    assert refused.value.argument == field


@pytest.mark.parametrize(
    ("change", "field", "column"),
    [
        ({"inputs": ["age", "shoe"]}, "inputs", "shoe"),
        ({"inputs": ["age", "name"]}, "inputs", "name"),
        ({"inputs": ["age", "who"]}, "inputs", "who"),
        ({"output": "shoe"}, "output", "shoe"),
        ({"output": "dose"}, "output", "dose"),
        ({"model": "LinearRegression"}, "output", "ill"),
        ({"where": "shoe > 3"}, "where", "shoe"),
    ],
)
def test_a_schema_that_does_not_fit_is_refused_naming_field_and_column(change, field, column) -> None:
    more = {"name": {"type": "string"}, "who": {"type": "integer", "key": True}}
    schema = schema_of({**SCHEMA, "columns": {**SCHEMA["columns"], **more}})
    kind = registry.kind("train")
    with pytest.raises(Mistake, match=column) as refused:
        kind.fits(registry.check({**DOCUMENT, **change}), schema)
    assert refused.value.argument == field
    kind.fits(registry.check(DOCUMENT), schema)


def test_the_explanation_says_what_leaves_and_what_it_costs() -> None:
    kind = registry.kind("train")
    document = registry.check(
        {**DOCUMENT, "sites": ["a", "b"], "local_steps": 7, "batch": 0.25, "purpose": "To learn."}
    )
    said = kind.explain(document)
    for words in ("patients", "a, b", "age, height, sex, ill", "7 steps", "0.25", "epsilon 2", "1e-06", "To learn."):
        assert words in said
    central = kind.explain(registry.check({**DOCUMENT, "noise": "coordinator"}))
    assert "trust the coordinator" in central
    assert kind.price(document).epsilon == 2


def test_linear_slopes_serve_a_linear_model() -> None:
    plan = TrainingPlan(
        registry.check({**LOUD, "model": "LinearRegression", "output": "dose"}).descent, TABLES["a"].schema
    )
    assert plan.weights == LinearSlopes(3).count
