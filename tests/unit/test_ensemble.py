"""The kind ensemble: what its document may say, who is asked about what, how values become cells, what is released."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import thebes
from thebes.data.rows import Rows
from thebes.privacy import randomness
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.guarantees import Price
from thebes.privacy.promise import Unit
from thebes.requestor.quote import Quote
from thebes.tasks import registry
from thebes.tasks.aggregation.packets import drawn, part_of, partition_of, parts_of, phase_of, slot_of
from thebes.tasks.contributions import Contributions
from thebes.tasks.document import InvalidDocument, Range, Values
from thebes.tasks.ensemble import plan, scouts
from thebes.tasks.ensemble.bin_search import Search, margin
from thebes.tasks.ensemble.cells import FeatureCut, cells_of, given
from thebes.tasks.ensemble.histogram import FOLDS, SupportHistogram
from thebes.tasks.protocols import Ask, Setting, Wait

RANGES = {f"x{i}": {"type": "range", "low": -4.0, "high": 4.0, "default": 0.0} for i in range(4)}
TOWN = {"town": {"type": "set", "values": ["a", "b", "c"], "default": "a"}}
BOUNDS = {**RANGES, **TOWN, "y": {"type": "set", "values": ["no", "yes"], "default": "no"}}
GIVEN = {f"x{i}": [0.0] for i in range(4)}
DOCUMENT = {
    "type": "ensemble",
    "epsilon": 4.0,
    "min_count": 100,
    "featurizer": "SELECT x0, x1, x2, x3, town, y FROM p.t",
    "label": "y",
    "bounds": BOUNDS,
    "method": "vote",
}
N = 6000


@pytest.fixture(scope="module")
def people() -> dict[str, Any]:
    draw = np.random.default_rng(1)
    table: dict[str, Any] = {f"x{i}": np.clip(draw.normal(size=N), -4, 4) for i in range(4)}
    table["town"] = draw.choice(["a", "b", "c"], N)
    table["y"] = np.where(table["x0"] + (table["town"] == "c") + draw.normal(size=N) > 1, "yes", "no")
    return table


def checked(**more: Any) -> Any:
    return registry.check({**DOCUMENT, **more})


def auc(model: Any, people: dict[str, Any]) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(people["y"] == "yes", model.predict_proba(people)[:, 1]))


# --- the document -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"label": "z"}, "label"),
        ({"label": "x0"}, "label"),
        ({"bounds": {k: v for k, v in BOUNDS.items() if k != "x3"}}, "bounds.x3"),
        ({"bins": 1}, "bins"),
        ({"bins": {"x0": [0.0]}}, "bins"),
        ({"bins": {**GIVEN, "x0": [0.0, 0.0]}}, "bins"),
        ({"bins": {**GIVEN, "x0": [-4.0]}}, "bins"),
        ({"groups": {"town": [["a", "b"]]}}, "groups"),
        ({"groups": {"town": [["a"], ["b"], ["c"], ["d"]]}}, "groups"),
        ({"groups": {"x0": [["a"], ["b"]]}}, "groups"),
        ({"subsets": 2, "subset_size": 3}, "subset_size"),
        ({"method": "odds", "subsets": 2}, "subsets"),
        ({"scouting_share": 0.2}, "scouting_share"),
        ({"method": "odds", "scouting_share": 0.2, "feature_subsets": [["x0"]]}, "scouting_share"),
        ({"feature_subsets": [["x0", "y"]]}, "feature_subsets"),
        ({"feature_subsets": [["x0"], ["x0", "x1"]], "subsets": 2}, "feature_subsets"),
        ({"diagnostics": 0.1}, "diagnostics"),
        ({"bins": 32, "subset_size": 4}, "subset_size"),
        ({"perturbation": "noise"}, "perturbation"),
    ],
)
def test_what_cannot_work_is_refused_by_name(more: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidDocument) as refused:
        checked(**more)
    assert field in [name for name, _ in refused.value.problems]


OPEN = {field: value for field, value in DOCUMENT.items() if field != "method"}
BY_HAND = [
    {"partitions": 8},
    {"subset_size": 1},
    {"subsets": 2},
    {"feature_subsets": [["x0", "x1"]]},
    {"scoring_share": 0.2},
    {"votes": "hard"},
    {"classifier": "tree"},
    {"score": "auc"},
    {"training": "sampled"},
]


@pytest.mark.parametrize("auto", [{}, {"method": "auto"}], ids=["unsaid", "auto"])
def test_which_method_is_meant_follows_from_what_else_is_said_and_is_written_down(auto: dict[str, Any]) -> None:
    said = [{}, {"bins": 3}, {"scouting_share": 0.2}, {"feature_subsets": None}, {"perturbation": "krr"}]
    for more, method in [*((each, "odds") for each in said), *((each, "vote") for each in BY_HAND)]:
        document: Any = registry.check({**OPEN, **auto, **more})
        assert document.method == method, more
        assert document.digest == checked(**{"method": method, **more}).digest
        assert registry.check(document.as_json()).digest == document.digest


def test_what_has_no_method_is_refused() -> None:
    for more, field in (({"scouting_share": 0.2, "votes": "hard"}, "scouting_share"), ({"method": None}, "method")):
        with pytest.raises(InvalidDocument) as refused:
            registry.check({**OPEN, **more})
        assert field in [name for name, _ in refused.value.problems]


def test_explanation_quote_and_certificate_say_which_method_is_taken_and_why(people: dict[str, Any]) -> None:
    for more, words in (({}, "log-odds that add up told labels right more often"), ({"votes": "hard"}, "by hand")):
        document: Any = registry.check({**OPEN, **more, "bins": GIVEN})
        choice: Any = registry.choice(document)
        assert words in choice.why
        assert choice.sentence in registry.kind("ensemble").explain(document).splitlines()
        told = choice.as_json()
        assert (told["field"], told["taken"], told["expected_error"]) == ("method", document.method, {})
        release = thebes.simulate(document, people, seed=1)
        assert release.certificate.parameters["choice"] == told
        quoted = str(Quote(Price(1.0, 0.0, Unit.DEVICE), None, choice=told))
        assert quoted.splitlines()[1] == f"method {document.method} ({choice.why})"
    nobody = registry.check({**OPEN, "perturbation": "none"})  # no way protects anybody
    assert "protect you alike" not in registry.kind("ensemble").explain(nobody)


def test_thresholds_and_scouts_have_phases_and_people_of_their_own() -> None:
    document = checked(method="odds", scouting_share=0.2, bins=4, binning_steps=3, min_count=750)
    assert document.phases == 5
    assert [document.least_in(phase) for phase in range(5)] == [36, 36, 36, 215, 750]  # 10 % and 20 % of 1,072
    assert [document.packets(phase) for phase in range(5)] == [1] * 5
    assert checked(bins=GIVEN).phases == 1
    assert checked(subsets=3).packets(6) == 3
    assert checked(max_count=400).wanted_in(6) == 400
    assert checked(max_count=400).wanted_in(0) == checked().least_in(0)


@pytest.mark.slow
def test_an_early_phase_calls_a_few_more_than_it_needs_and_the_last_one_everybody() -> None:
    document = checked(min_count=100_000, binning_steps=4)
    needed = document.least_in(0)
    everybody = sum(map(document.least_in, range(document.phases)))
    assert document.called_in(0) * everybody == pytest.approx(3 * needed)
    assert document.called_in(document.learning) == 1.0
    called = [sum(drawn(f"slot {i}", phase, document.called_in(phase)) for i in range(20_000)) for phase in (0, 1)]
    assert called == pytest.approx([20_000 * document.called_in(0)] * 2, rel=0.15)
    assert checked(min_count=20).called_in(0) == pytest.approx(1.0, abs=0.7)
    setting = Setting(Unit.DEVICE, randomness.seeded_for_simulation(1))
    aggregator = registry.aggregator(document, setting)
    asked = [type(aggregator.ask(f"slot {i}")) for i in range(2000)]
    assert Counter(asked)[Ask] == sum(drawn(f"slot {i}", 0, document.called_in(0)) for i in range(2000))
    assert set(asked) == {Ask, Wait}


def test_packets_share_epsilon_and_a_single_answer_has_all_of_it() -> None:
    document = checked(subsets=3, epsilon=1.0)
    assert (
        plan.share(document, document.learning) * 3
        <= Decimal(1)
        < plan.share(document, document.learning) * 3 + Decimal("1e-8")
    )
    assert plan.share(document, 0) == 1
    packet = plan.mechanism(document, 4, document.learning)
    assert packet.loss().epsilon <= plan.share(document, document.learning)  # type: ignore[union-attr]
    assert plan.question(plan.share(document, 0)).loss().epsilon <= 1  # type: ignore[union-attr]


def test_nobody_but_a_simulation_runs_a_document_without_noise(people: dict[str, Any]) -> None:
    document = checked(perturbation="none", bins=GIVEN)
    rows = Rows.one_each({name: values[:1] for name, values in people.items()})
    ask = Ask("a", "phase-0", 0, {"features": [{"column": "town", "groups": [[0], [1], [2]]}]})
    with pytest.raises(Refusal, match="no noise"):
        registry.owner(document).contribute(document, ask, rows, _Free(), randomness=randomness.system())
    assert "NOT PRIVATE" in registry.kind("ensemble").explain(document)
    told = thebes.simulate(document, people, seed=1).certificate
    assert (told.guarantee, told.mechanism) == ("none", "none")
    assert "NOT PRIVATE" in told.text
    assert "No privacy guarantee" in told.text


class _Free:
    def consume(self, *, epsilon: Any, delta: Any) -> None:
        return None


# --- who is asked about what ----------------------------------------------------------------------------------


def test_parts_slots_and_partitions_are_public_functions_of_names() -> None:
    assert parts_of("phase-2", 1) == ("phase-2",)
    assert [part_of(2, packet, 3) for packet in range(3)] == [f"phase-2.packet-{packet}" for packet in range(3)]
    assert {phase_of(part) for part in parts_of("phase-2", 3)} == {"phase-2"}
    slots = [slot_of("pseudonym", packet) for packet in range(50)]
    assert slots[0] == "pseudonym"
    assert len(set(slots)) == 50
    spread = Counter(partition_of(f"somebody {i}", 20) for i in range(20_000))
    assert sorted(spread) == list(range(20))
    assert all(abs(count - 1000) < 6.2 * 31 for count in spread.values())


def test_no_two_packets_of_one_person_are_about_the_same_feature() -> None:
    document = checked(subsets=2, subset_size=2)
    for partition in range(40):
        asked = [plan.subset(document, packet, partition) for packet in range(2)]
        assert len({feature for subset in asked for feature in subset}) == 4
        assert all(set(asked[packet]) <= set(plan.block(document, packet)) for packet in range(2))


def test_every_feature_is_asked_about_equally_often() -> None:
    document = checked(subset_size=1, partitions=50)
    counted = Counter(plan.subset(document, 0, partition)[0] for partition in range(50))
    assert set(counted.values()) == {10}


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"features": []},
        {"features": [{"column": "y", "groups": [[0], [1]]}]},
        {"features": [{"column": "x0", "thresholds": [1.0, 1.0]}]},
        {"features": [{"column": "x0", "thresholds": [float("inf")]}]},
        {"features": [{"column": "x0", "thresholds": [float(i) for i in range(99)]}]},
        {"features": [{"column": "town", "groups": [[0], [1]]}]},
        {"features": [{"column": "town", "groups": [[0], [1], [2]]}]},  # of the other packet
        {"features": [{"column": "x0", "thresholds": [0.0]}, {"column": "x0", "thresholds": [1.0]}]},
    ],
)
def test_an_ask_that_does_not_keep_to_the_document_is_not_answered(
    payload: dict[str, Any], people: dict[str, Any]
) -> None:
    document = checked(bins=GIVEN, subsets=2)
    rows = Rows.one_each({name: values[:1] for name, values in people.items()})
    ask = Ask("a", "phase-0.packet-0", 0, payload)
    with pytest.raises(Mistake, match="did not keep to the task"):
        registry.owner(document).contribute(document, ask, rows, _Free(), randomness=randomness.system())


TOWNS = {"column": "town", "groups": [[0], [1], [2]]}
TWO = {"groups": {"town": [["a", "b"], ["c"]]}}
PAIRS = {"feature_subsets": [["x0", "x1"], ["x2", "town"]], "bins": GIVEN}
CHOSEN = {"method": "odds", "scouting_share": 0.2, "bins": {**GIVEN, "x0": [-1.0, 1.0]}}


def cut_at(column: str, *thresholds: float) -> dict[str, Any]:
    return {"column": column, "thresholds": list(thresholds)}


@pytest.mark.parametrize(
    ("more", "phase", "asked", "refused"),
    [
        ({"bins": GIVEN, "subset_size": 2}, 0, [cut_at("x0", 0.0), TOWNS], None),
        ({"bins": GIVEN, "subset_size": 2}, 0, [cut_at("x0", 0.0), TOWNS, cut_at("x1", 0.0)], "together"),
        ({"bins": GIVEN}, 0, [cut_at("x0", 0.5)], "cuts"),
        ({"bins": GIVEN}, 0, [cut_at("x0", -1.0, 0.0)], "cuts"),
        ({}, 6, [cut_at("x0", 0.7)], None),
        ({}, 6, [cut_at("x0", 0.7, 0.8)], "cuts"),
        ({"bins": 4}, 6, [cut_at("x0", 0.7, 0.8, 0.9)], None),
        ({"bins": 4}, 6, [cut_at("x0", 0.6, 0.7, 0.8, 0.9)], "cuts"),
        ({"bins": GIVEN, **TWO}, 0, [{"column": "town", "groups": [[0, 1], [2]]}], None),
        ({"bins": GIVEN, **TWO}, 0, [TOWNS], "cuts"),
        ({"bins": GIVEN}, 0, [{"column": "town", "groups": [[0, 1], [2]]}], "cuts"),
        (PAIRS, 0, [cut_at("x1", 0.0), cut_at("x0", 0.0)], None),
        (PAIRS, 0, [cut_at("x0", 0.0), cut_at("x2", 0.0)], "together"),
        (PAIRS, 0, [cut_at("x0", 0.0)], "together"),
        ({**PAIRS, "method": "odds"}, 0, [cut_at("x2", 0.0), TOWNS], None),
        ({**PAIRS, "method": "odds"}, 0, [cut_at("x2", 0.0), cut_at("x0", 0.0)], "together"),
        (CHOSEN, 0, [cut_at("x0", -1.0, 1.0)], None),  # a scout
        (CHOSEN, 0, [cut_at("x0", 1.0)], "cuts"),
        (CHOSEN, 1, [cut_at("x0", 1.0)], None),  # two bins that the scouts could not tell apart
        (CHOSEN, 1, [{"column": "town", "groups": [[0, 2], [1]]}], None),
        (CHOSEN, 1, [cut_at("x0", 0.5)], "cuts"),
        ({**CHOSEN, **TWO}, 1, [{"column": "town", "groups": [[0, 2], [1]]}], "cuts"),
        ({**CHOSEN, "subset_size": 2}, 1, [cut_at("x0", 1.0), TOWNS], "together"),
        ({**CHOSEN, "bins": 3}, 7, [cut_at("x0", 1.0, 2.0)], None),
        ({**CHOSEN, "bins": 3}, 7, [cut_at("x0", 1.0, 2.0, 3.0)], "cuts"),
    ],
)
def test_an_ask_for_more_than_the_document_says_is_not_answered(
    more: dict[str, Any], phase: int, asked: list[Any], refused: str | None, people: dict[str, Any]
) -> None:
    document = checked(**more)
    rows = Rows.one_each({name: values[:1] for name, values in people.items()})
    ask = Ask("a", f"phase-{phase}", phase, {"features": asked})
    owner, claim = registry.owner(document), _Free()
    if refused is None:
        assert owner.contribute(document, ask, rows, claim, randomness=randomness.system()).count == 1
        return
    with pytest.raises(Mistake, match=f"{refused}.*did not keep to the task"):
        owner.contribute(document, ask, rows, claim, randomness=randomness.system())
    with pytest.raises(Mistake, match=refused):
        owner.layout(document, ask)


# --- thresholds -------------------------------------------------------------------------------------------------


def test_a_search_finds_the_median_and_several_quantiles_find_theirs() -> None:
    coin = plan.question(Decimal(6))
    for bins in (2, 4):
        search = Search(Range(low=0.0, high=100.0), bins)
        for _ in range(9):
            answers = {}
            for at in search.questions():
                truth = np.exp(-at / 20)  # the share of an exponential law with mean 20 at or above
                said = float(coin.stray) + truth * float(coin.hold - coin.stray)
                answers[at] = (10**9, round(said * 10**9))
            search.hear(answers, coin)
        expected = [-20 * np.log(1 - i / bins) for i in range(1, bins)]
        assert search.thresholds() == pytest.approx(expected, abs=100 / 2**9)


def test_a_search_starts_in_the_middle_and_stays_where_answers_leave_doubt() -> None:
    coin = plan.question(Decimal(1))
    search = Search(Range(low=10.0, high=30.0), 2)
    assert search.questions() == [20.0]
    gap = float(coin.hold - coin.stray)
    inside = 0.5 + 0.9 * margin(400, coin) * gap
    search.hear({20.0: (400, round(400 * inside))}, coin)
    assert search.thresholds() == (20.0,)
    outside = 0.5 + 1.5 * margin(400, coin) * gap
    search.hear({20.0: (400, round(400 * outside))}, coin)
    assert search.thresholds() == (22.5,)  # a quarter of the half range: the steps halve whether or not it moved
    search.hear({22.5: (0, 0)}, coin)
    assert search.thresholds() == (22.5,)


def test_private_thresholds_come_near_the_true_medians(people: dict[str, Any]) -> None:
    skewed = {**people, "x0": np.exp(people["x0"]) / 4}
    release = thebes.simulate({**DOCUMENT, "binning_share": 0.5}, skewed, seed=3)
    found = release.extra["thresholds"]
    for column in ("x0", "x1", "x2", "x3"):
        at = found[column][0]
        assert 0.3 < np.mean(skewed[column] >= at) < 0.7
    assert "thresholds of x0" in release.certificate.estimated


# --- cells --------------------------------------------------------------------------------------------------------


def test_values_fall_into_bins_with_missing_and_default_where_they_belong() -> None:
    bound = Range(low=0.0, high=10.0)
    cut = FeatureCut("x", bound, (2.0, 5.0))
    rows = Rows.one_each({"x": [1.9, 2.0, 5.0, None, -50.0, 99.0]})
    assert cut.bins(rows).tolist() == [0, 1, 2, 3, 0, 2]
    assert cut.size == 4
    assert cut.names() == ["0 to 2", "2 to 5", "5 to 10", "missing"]
    defaulted = FeatureCut("x", Range(low=0.0, high=10.0, default=3.0), (2.0, 5.0))
    assert defaulted.bins(rows).tolist() == [0, 1, 2, 1, 0, 2]
    document = checked(groups={"town": [["c"], ["a", "b"]]})
    towns = given(document, "town")
    assert towns.bins(Rows.one_each({"town": ["a", "b", "c", "z"]})).tolist() == [1, 1, 0, 1]
    assert towns.names() == ["c", "a or b"]
    assert FeatureCut("wet", Values(values=(True, False)), groups=((0,), (1,))).names() == ["yes", "no", "missing"]


def test_cells_are_every_combination_with_the_label_running_fastest() -> None:
    document = checked(bins=GIVEN)
    cells = cells_of(document, [given(document, "x0"), given(document, "town")])
    assert cells.shape == (2, 3, 2)
    rows = Rows.one_each({"x0": [-1.0, 1.0], "town": ["b", "c"], "y": ["yes", "no"]})
    assert cells.of(rows).tolist() == [0 * 6 + 1 * 2 + 1, 1 * 6 + 2 * 2 + 0]


def test_reports_add_up_alike_however_they_come(people: dict[str, Any]) -> None:
    document = checked(bins=GIVEN, perturbation="pq")
    cells = cells_of(document, [given(document, "town")])
    reporter = plan.mechanism(document, cells.size, 0)
    reports = np.asarray(reporter.perturb(cells.of(Rows.one_each(people)), randomness.seeded_for_simulation(2)))
    whole, pieces = (SupportHistogram.empty(cells, reporter) for _ in range(2))
    whole.hear(reports)
    for start, end in ((0, 1), (1, 7), (7, 1000), (1000, N)):
        pieces.hear(reports[start:end])
    assert (whole.support == pieces.support).all()
    assert whole.told.tolist() == [N // FOLDS] * FOLDS
    assert whole.table().sum() == pytest.approx(N)
    assert (whole.table() >= 0).all()
    assert whole.table([0]).sum() == pytest.approx(N / FOLDS)


def test_bins_that_tell_the_same_are_put_together_and_telling_features_come_first(people: dict[str, Any]) -> None:
    document = checked(bins={**GIVEN, "x0": [-1.0, 0.0, 1.0]}, perturbation="none")
    rows = Rows.one_each(people)
    heard = []
    for feature in document.features:
        cells = cells_of(document, [given(document, feature)])
        histogram = SupportHistogram.empty(cells, plan.mechanism(document, cells.size, 0))
        histogram.hear(cells.of(rows))
        heard.append(histogram)
    heard[4].support = np.array([[40, 10, 40, 10, 20, 30]] * FOLDS) * 8
    towns, _ = scouts.merged(heard[4])
    assert sorted(map(sorted, towns.groups)) == [[0, 1], [2]]
    places = heard[4].cells.cuts[0].within(towns)
    assert places is not None
    assert places[0] == places[1] != places[2]
    assert towns.within(heard[4].cells.cuts[0]) is None  # finer than what it is put into
    assert scouts.merged(heard[0])[0].thresholds == (-1.0, 0.0, 1.0)
    chosen = [cut.column for cut in scouts.chosen(heard, N)]
    assert chosen[:2] == ["x0", "town"]


# --- the release --------------------------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "more",
    [
        {"subsets": 2, "subset_size": 2, "bins": GIVEN},
        {"votes": "probability", "classifier": "tree", "score": "auc"},
        {"training": "sampled", "bins": GIVEN},
        {"method": "odds"},
        {"method": "odds", "scouting_share": 0.2},
        {"method": "odds", "feature_subsets": [["x0", "town"], ["x1"]], "bins": GIVEN},
    ],
    ids=lambda more: more.get("method", "vote") + str(len(more)),
)
def test_every_method_learns_and_its_model_is_plain_data(more: dict[str, Any], people: dict[str, Any]) -> None:
    from thebes.tasks.release_reader import release_from_json

    release = thebes.simulate({**DOCUMENT, "epsilon": 8.0, **more}, people, seed=4)
    model = release.model  # type: ignore[attr-defined]
    assert auc(model, people) > 0.65
    assert model.classes_.tolist() == ["no", "yes"]
    odds = model.predict_proba(people)
    assert odds.shape == (N, 2)
    assert odds.sum(axis=1) == pytest.approx(np.ones(N))
    table = np.column_stack([people[name].astype(object) for name in model.feature_names_in_])
    assert (model.predict_proba(table) == odds).all()
    assert (model.predict(people) == model.classes_[odds.argmax(axis=1)]).all()
    back = release_from_json(json.loads(json.dumps(release.as_json())))
    assert (back.model.predict_proba(people) == odds).all()  # type: ignore[attr-defined]
    truth, told = np.mean(people["y"] == "yes"), release.extra["base_rate"]
    middle = (told["interval"]["low"]["yes"] + told["interval"]["high"]["yes"]) / 2
    half = (told["interval"]["high"]["yes"] - told["interval"]["low"]["yes"]) / 2
    assert abs(truth - middle) < 5 * half
    assert "a classifier of" in str(release)


@pytest.mark.parametrize("more", [{}, {"votes": "probability"}, {"method": "odds"}])
def test_several_labels_are_told_apart(more: dict[str, Any]) -> None:
    draw = np.random.default_rng(2)
    kind = draw.integers(0, 3, 9000)
    table = {"x0": np.clip(kind - 1 + 0.5 * draw.normal(size=9000), -4, 4), "kind": np.array(["a", "b", "c"])[kind]}
    document = {
        "type": "ensemble",
        "epsilon": 6.0,
        "featurizer": "SELECT x0, kind FROM p.t",
        "label": "kind",
        "bounds": {"x0": RANGES["x0"], "kind": {"type": "set", "values": ["a", "b", "c"], "default": "a"}},
        "bins": {"x0": [-0.5, 0.5]},
        **more,
    }
    model = thebes.simulate(document, table, seed=1).model  # type: ignore[attr-defined]
    assert model.score(table, table["kind"]) > 0.7


def test_hard_votes_are_cut_at_the_base_rate() -> None:
    """A label that is never likely would get no vote at one half."""
    draw = np.random.default_rng(3)
    x = draw.uniform(-4, 4, 20_000)
    table = {"x0": x, "y": np.where(draw.random(20_000) < np.where(x > 0, 0.2, 0.05), "yes", "no")}
    document = {**DOCUMENT, "featurizer": "SELECT x0, y FROM p.t", "bounds": {k: BOUNDS[k] for k in ("x0", "y")}}
    model = thebes.simulate({**document, "bins": {"x0": [0.0]}}, table, seed=1).model  # type: ignore[attr-defined]
    assert model.predict({"x0": [-1.0, 1.0]}).tolist() == ["no", "yes"]


def test_a_model_refuses_tables_without_its_features(people: dict[str, Any]) -> None:
    model = thebes.simulate({**DOCUMENT, "bins": GIVEN}, people, seed=1).model  # type: ignore[attr-defined]
    with pytest.raises(Mistake, match="town"):
        model.predict({f"x{i}": [0.0] for i in range(4)})
    with pytest.raises(Mistake, match="the columns x0, x1, x2, x3, town"):
        model.predict(np.zeros((2, 3)))


# --- what peers can do ----------------------------------------------------------------------------------------------


def test_out_of_domain_packets_are_refused_without_being_heard() -> None:
    document = checked(bins=GIVEN, perturbation="subset", epsilon=0.5)
    setting = Setting(Unit.DEVICE, randomness.seeded_for_simulation(1))
    aggregator = registry.aggregator(document, setting)
    ask = aggregator.ask("slot")
    assert isinstance(ask, Ask)
    size = aggregator.layout(ask.part, ask.partition)[plan.REPORT].length
    for bits in (np.ones(size), np.zeros(size), np.full(size, 2)):
        with pytest.raises(Mistake):
            aggregator.accept(Contributions(ask.part, 1, {plan.REPORT: bits.astype(np.int64)[None, :]}, ask.partition))
    with pytest.raises(Mistake):
        aggregator.accept(Contributions(ask.part, 0, {plan.REPORT: np.empty((0, size))}, document.partitions))
    assert aggregator.counts == [0]  # type: ignore[attr-defined]


@pytest.mark.parametrize("share", [0.01, 0.05, 0.1])
def test_colluding_peers_move_a_cell_no_further_than_the_certificate_says(share: float, people: dict[str, Any]) -> None:
    """All of them report the same cell, each under a pseudonym of chance: the whole partition moves by what is
    stated, give or take the honest noise of so many peers."""
    document = checked(bins=GIVEN, feature_subsets=[["town"]], method="odds", perturbation="krr")
    cells = cells_of(document, [given(document, "town")])
    source = randomness.seeded_for_simulation(5)
    reporter: Any = plan.mechanism(document, cells.size, 0)
    reports = reporter.perturb(cells.of(Rows.one_each(people)), source)
    both = []
    for colluding in (0, round(share * N)):
        bent = reports.copy()
        bent[:colluding] = 5
        setting = Setting(Unit.PERSON, source, simulated=True)
        aggregator: Any = registry.aggregator(document, setting)
        aggregator.expect(N)
        aggregator.accept(Contributions("phase-0", N, {plan.REPORT: bent}))
        both.append(aggregator)
    moved = both[1]._histogram(0, 0, 0).shares() - both[0]._histogram(0, 0, 0).shares()
    import datetime

    both[1].advance(datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC))
    stated = both[1].release().certificate.parameters["influence"]["a_cells_share_moves_by_at_most"][f"{share:.0%}"]
    assert abs(moved).max() <= stated
    assert moved[5] > stated / 2  # and it is no idle bound


@pytest.mark.few(1)
@pytest.mark.parametrize("share", [0.01, 0.05, 0.1])
def test_colluding_peers_move_what_lies_above_a_threshold_no_further_than_is_stated(
    share: float, people: dict[str, Any]
) -> None:
    """Many answers, so that only the colluders' shift is seen; all of them say that they lie above."""
    document = checked(binning_steps=20, epsilon=2.0)
    release = thebes.simulate(document, people, seed=1)
    stated = release.certificate.parameters["influence"]["thresholds"]
    most = stated["the_share_above_one_moves_by_at_most"][f"{share:.0%}"]
    assert "not bounded" in stated["where_one_lies_in_its_range"]
    coin = plan.question(plan.share(document, 0))
    told = 10**12
    found = []
    for colluding in (0.0, share):
        search = Search(Range(low=0.0, high=1.0), 2)
        for _ in range(document.binning_steps):
            (at,) = search.questions()  # values spread evenly: the share above is one less where it lies
            honest = float(coin.stray) + (1 - at) * float(coin.hold - coin.stray)
            search.hear({at: (told, round(told * ((1 - colluding) * honest + colluding)))}, coin)
        found.append(search.thresholds()[0])
    moved = abs(found[1] - found[0])
    assert moved <= most + 2 * margin(told, coin) + 0.5**document.binning_steps
    assert moved > most / 3  # and it is no idle bound


def test_the_certificate_says_what_bending_peers_can_do_in_every_phase(people: dict[str, Any]) -> None:
    alone = thebes.simulate({**DOCUMENT, "bins": GIVEN}, people, seed=1).certificate
    assert set(alone.parameters["influence"]) == {
        "a_cells_share_moves_by_at_most",
        "in_one_partition_they_all_choose",
    }
    assert "in every phase" not in alone.text
    told = thebes.simulate({**DOCUMENT, "method": "odds", "scouting_share": 0.2, "bins": 3}, people, seed=1).certificate
    influence = told.parameters["influence"]
    coin = plan.question(plan.share(checked(method="odds", bins=3), 0))
    each = 1 / float(coin.hold - coin.stray)
    assert influence["thresholds"]["the_share_above_one_moves_by_at_most"]["5%"] == pytest.approx(0.05 * each)
    assert influence["thresholds"]["in_one_partition_they_all_choose"]["5%"] == pytest.approx(0.05 * 8 * each)
    assert influence["scouts"]["a_cells_share_moves_by_at_most"]["5%"] >= 0.05
    assert "not bounded" in influence["scouts"]["which_features_and_bins_are_chosen"]
    assert "can answer in every phase, under as many pseudonyms as it likes." in told.text
    token = {**DOCUMENT, "method": "odds", "bins": 3, "anonymity": "token", "group": "city"}
    told = thebes.simulate(token, people, seed=1).certificate
    assert "can answer in every phase, once in each." in told.text
    assert "in_one_partition_they_all_choose" not in told.parameters["influence"]["thresholds"]


def test_what_protects_nobody_cannot_be_posted_however_it_is_checked() -> None:
    from datetime import UTC, datetime

    from thebes.tasks.posting_rules import check_postable

    with pytest.raises(InvalidDocument, match="NOT PRIVATE") as refused:
        check_postable(checked(perturbation="none"), datetime.now(UTC))
    assert refused.value.argument == "perturbation"
    check_postable(checked(), datetime.now(UTC))
