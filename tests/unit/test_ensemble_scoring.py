"""The second private round of an ensemble: who scores, what they are asked, what they say, what becomes of it."""

from __future__ import annotations

import datetime
import itertools
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import thebes
from thebes.data.rows import Rows
from thebes.privacy import randomness
from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Unit
from thebes.tasks import registry
from thebes.tasks.contributions import Contributions
from thebes.tasks.document import InvalidDocument
from thebes.tasks.ensemble import plan, voters
from thebes.tasks.ensemble.ballot import Ballot, outcomes
from thebes.tasks.ensemble.cells import cells_of, given
from thebes.tasks.ensemble.model import EnsembleMember
from thebes.tasks.protocols import Ask, Closed, Setting

BOUNDS = {
    "x0": {"type": "range", "low": -4.0, "high": 4.0, "default": 0.0},
    "x1": {"type": "range", "low": -4.0, "high": 4.0, "default": 0.0},
    "town": {"type": "set", "values": ["a", "b", "c"], "default": "a"},
    "y": {"type": "set", "values": ["no", "yes"], "default": "no"},
}
DOCUMENT = {
    "type": "ensemble",
    "epsilon": 2.0,
    "min_count": 60,
    "featurizer": "SELECT x0, x1, town, y FROM p.t",
    "label": "y",
    "bounds": BOUNDS,
    "bins": {"x0": [0.0], "x1": [0.0]},
    "partitions": 3,
    "scoring_share": 0.25,
}
ONE_BY_ONE = {"feature_subsets": [["x0"], ["x1"], ["town"]]}  #: which does not depend on the digest
TOWNS = {"column": "town", "groups": [[0], [1], [2]]}
NOON = datetime.datetime(2030, 1, 1, tzinfo=datetime.UTC)
N = 4000


@pytest.fixture(scope="module")
def people() -> dict[str, Any]:
    draw = np.random.default_rng(1)
    table: dict[str, Any] = {name: np.clip(draw.normal(size=N), -4, 4) for name in ("x0", "x1")}
    table["town"] = draw.choice(["a", "b", "c"], N)
    table["y"] = np.where(table["x0"] + 2 * (table["town"] == "c") + draw.normal(size=N) > 1, "yes", "no")
    return table


def checked(**more: Any) -> Any:
    return registry.check({**DOCUMENT, **more})


def select(people: dict[str, Any], start: int, end: int) -> Rows:
    return Rows.one_each({name: values[start:end] for name, values in people.items()})


class Free:
    def consume(self, *, epsilon: Any, delta: Any) -> None:
        return None


# --- the document -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"scoring_share": 0.0}, "scoring_share"),
        ({"scoring_share": 0.6}, "scoring_share"),
        ({"method": "odds"}, "scoring_share"),
        ({"max_count": 100}, "max_count"),
        ({"bounds": {**BOUNDS, "y": {"type": "set", "values": list(range(80))}}}, "scoring_share"),
    ],
)
def test_a_second_round_that_cannot_work_is_refused_by_name(more: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidDocument) as refused:
        checked(**more)
    assert field in [name for name, _ in refused.value.problems]


def test_a_document_without_a_second_round_is_the_document_it_was() -> None:
    """Its digest is that of the time before there was one: tasks that run go on."""
    plain: Any = registry.check({name: value for name, value in DOCUMENT.items() if name != "scoring_share"})
    assert "scoring_share" not in plain.as_json()
    assert plain.phases == 1
    assert checked().digest != plain.digest


def test_who_scores_is_somebody_else_than_who_sends_packets_and_pays_the_whole_of_epsilon() -> None:
    document = checked(bins="median", binning_steps=2, subsets=3, min_count=650)
    assert (document.phases, document.learning) == (4, 2)
    assert [document.least_in(phase) for phase in range(4)] == [50, 50, 650, 250]  # 10 % and 25 % of 1,000
    assert [document.wanted_in(phase) for phase in range(4)] == [50, 50, 650, 250]
    assert [document.packets(phase) for phase in range(4)] == [1, 1, 3, 1]
    assert document.called_in(0) < document.called_in(3) == 1.0
    assert plan.share(document, 3) == Decimal(2)
    assert plan.share(document, 2) * 3 <= Decimal(2)
    assert document.participations == 1


def test_the_explanation_tells_of_the_second_round_where_there_is_one() -> None:
    kind = registry.kind("ensemble")
    assert "how one of the rules would name their y" in kind.explain(checked())
    assert "one of the rules" not in kind.explain(checked(scoring_share=None))


# --- what is asked --------------------------------------------------------------------------------------------


def ask_of(document: Any, **payload: Any) -> Ask:
    return Ask("a", f"phase-{document.learning + 1}", document.learning + 1, payload)


def test_an_outcome_is_the_vote_with_the_truth(people: dict[str, Any]) -> None:
    document = checked()
    cells = cells_of(document, [given(document, "town")])
    ballot = Ballot(cells, (0, 0, 1))
    rows = Rows.one_each({"town": ["a", "b", "c", "c", None], "y": ["no", "yes", "no", "yes", "yes"]})
    assert ballot.of(rows).tolist() == [0, 1, 2, 3, 1]
    assert outcomes(document).shape == (2, 2)
    assert Ballot.asked(cells, json.loads(json.dumps(ballot.as_json()))) == ballot
    unsure: Any = registry.check(
        {**DOCUMENT, "bounds": {**BOUNDS, "y": {"type": "set", "values": ["no", "yes"]}}}
    )  # a label may be missing, a vote is not
    assert outcomes(unsure).shape == (2, 3)


@pytest.mark.parametrize(
    ("payload", "refused"),
    [
        ({"features": [TOWNS], "votes": [0, 1, 1]}, None),
        ({"features": [TOWNS]}, "one vote"),
        ({"features": [TOWNS], "votes": [0, 1]}, "one vote"),
        ({"features": [TOWNS], "votes": [0, 1, 1, 0]}, "one vote"),
        ({"features": [TOWNS], "votes": "011"}, "one vote"),
        ({"features": [TOWNS], "votes": {"0": 1}}, "one vote"),
        ({"features": [TOWNS], "votes": [0, 1, 2]}, "no label"),
        ({"features": [TOWNS], "votes": [0, 1, -1]}, "no label"),
        ({"features": [TOWNS], "votes": [0, 1, 0.5]}, "no label"),
        ({"features": [TOWNS], "votes": [0, 1, float("nan")]}, "no label"),
        ({"features": [TOWNS], "votes": [0, 1, True]}, "no label"),
        ({"features": [TOWNS], "votes": [0, 1, "1"]}, "no label"),
        ({"features": [TOWNS], "votes": [0, 1, None]}, "no label"),
        ({"votes": [0, 1, 1]}, "names no features"),
        ({"features": [{"column": "town", "groups": [[0, 1], [2]]}], "votes": [0, 1]}, "cuts"),
        ({"features": [{"column": "x0", "thresholds": [0.5]}], "votes": [0, 1]}, "cuts"),
        ({"features": [{"column": "y", "groups": [[0], [1]]}], "votes": [0, 1]}, "not among the features"),
        ({"features": [TOWNS, {"column": "x0", "thresholds": [0.0]}], "votes": [0] * 6}, "another packet"),
        (
            {
                "features": [{"column": "x0", "thresholds": [0.0]}, {"column": "x1", "thresholds": [0.0]}],
                "votes": [0] * 4,
            },
            "together",
        ),
    ],
)
def test_a_classifier_that_does_not_keep_to_the_document_is_not_scored(
    payload: dict[str, Any], refused: str | None, people: dict[str, Any]
) -> None:
    document = checked(subsets=2)  # x0 and x1 belong to the first packet, town to the second
    owner, ask = registry.owner(document), ask_of(document, **payload)
    if refused is None:
        assert owner.contribute(document, ask, select(people, 0, 1), Free(), randomness=randomness.system()).count == 1
        return
    with pytest.raises(Mistake, match=f"{refused}.*did not keep to the task"):
        owner.contribute(document, ask, select(people, 0, 1), Free(), randomness=randomness.system())
    with pytest.raises(Mistake, match=refused):
        owner.layout(document, ask)


def test_no_classifier_an_attacker_could_choose_tells_rows_apart_by_more_than_epsilon(people: dict[str, Any]) -> None:
    """Exact odds of every report, for every ballot there is about a feature and every pair of rows."""
    document = checked(perturbation="krr")
    mechanism: Any = plan.mechanism(document, outcomes(document).size, document.learning + 1)
    cells = cells_of(document, [given(document, "town")])
    rows = Rows.one_each({"town": ["a", "b", "c"] * 2, "y": ["no"] * 3 + ["yes"] * 3})
    worst = 0.0
    for votes in itertools.product((0, 1), repeat=3):
        told = Ballot(cells, votes).of(rows)
        odds = np.full((6, mechanism.size), float(mechanism.stray))
        odds[np.arange(6), told] = float(mechanism.hold)
        worst = max(worst, float((odds[:, None] / odds[None]).max()))
    assert 0.99 * np.exp(2.0) < worst <= np.exp(2.0) * (1 + 1e-12)


# --- what becomes of it ------------------------------------------------------------------------------------------


def test_members_that_vote_alike_are_scored_as_one() -> None:
    document = checked()
    towns, x0 = (cells_of(document, [given(document, column)]) for column in ("town", "x0"))
    base = np.array([0.7, 0.3])
    members = [
        EnsembleMember(towns, 0.5, np.array([[0.8, 0.2], [0.9, 0.1], [0.5, 0.5]])),
        EnsembleMember(x0, 0.5, np.array([[0.8, 0.2], [0.6, 0.4]])),
        EnsembleMember(towns, 0.1, np.array([[0.71, 0.29], [1.0, 0.0], [0.0, 1.0]])),
        EnsembleMember(towns, 0.1, np.array([[0.71, 0.29], [0.0, 1.0], [0.0, 1.0]])),
    ]
    found, cast = voters.ballots(members, base)
    assert [ballot.votes for ballot in found] == [(0, 0, 1), (0, 1), (0, 1, 1)]  # cut at the base rate, as in the vote
    assert cast == [0, 1, 0, 2]


def run(document: Any, people: dict[str, Any], *, seed: int = 2, bend: Any = None) -> tuple[Any, Any]:
    """The first half sends packets, the second scores; (aggregator, release)."""
    source = randomness.seeded_for_simulation(seed)
    aggregator: Any = registry.aggregator(document, Setting(Unit.PERSON, source, simulated=True))
    owner = registry.owner(document, simulated=True)
    for phase, (start, end) in enumerate(((0, N // 2), (N // 2, N))):
        aggregator.expect(end - start)
        places = np.arange(start, end) % aggregator.partitions
        for partition in range(aggregator.partitions):
            slot = next(f"s{i}" for i in itertools.count() if aggregator.partition(f"s{i}") == partition)
            ask = aggregator.ask(slot)
            rows = select(people, start, end).select(np.flatnonzero(places == partition))
            given = owner.contribute(document, ask, rows, Free(), randomness=source)
            if bend is not None and phase == 1:
                given = bend(given)
            aggregator.accept(given)
        aggregator.advance(NOON)
    return aggregator, aggregator.release()


@pytest.mark.parametrize("score", ["f1", "auc"])
def test_without_noise_a_vote_weighs_exactly_its_score_among_those_who_scored_it(
    score: str, people: dict[str, Any]
) -> None:
    from sklearn.metrics import f1_score, roc_auc_score

    document = checked(perturbation="none", score=score)
    aggregator, release = run(document, people)
    ballots, cast = aggregator._ballots
    truth, places = people["y"] == "yes", np.arange(N) % len(ballots)
    assert len(release.model.members) == 3
    for member, ballot in zip(release.model.members, cast, strict=True):
        mine = (np.arange(N) >= N // 2) & (places == ballot)
        opinion = member.table[member.cells.places(Rows.one_each({k: v[mine] for k, v in people.items()}))]
        votes = np.argmax(opinion / release.model.base_rate, axis=1)
        expected = f1_score(truth[mine], votes) if score == "f1" else roc_auc_score(truth[mine], votes)
        assert member.weight == pytest.approx(expected)


def test_with_noise_a_weight_is_the_score_give_or_take_its_noise(people: dict[str, Any]) -> None:
    exact = run(checked(perturbation="none", **ONE_BY_ONE), people)[1].model.members
    noisy = run(checked(epsilon=8.0, **ONE_BY_ONE), people)[1].model.members
    assert [m.weight for m in noisy] == pytest.approx([m.weight for m in exact], abs=0.05)


def test_a_classifier_that_nobody_scored_keeps_the_score_of_the_histograms(people: dict[str, Any]) -> None:
    document = checked(epsilon=8.0, **ONE_BY_ONE)
    plain = registry.check({name: value for name, value in document.as_json().items() if name != "scoring_share"})
    source = randomness.seeded_for_simulation(2)
    first: Any = registry.aggregator(plain, Setting(Unit.PERSON, source, simulated=True))
    second: Any = registry.aggregator(document, Setting(Unit.PERSON, source, simulated=True))
    owner, rows = registry.owner(document), select(people, 0, N // 2)
    for aggregator in (first, second):
        aggregator.expect(N // 2)
    reports: dict[int, Any] = {}
    for partition in range(3):
        slot = next(f"s{i}" for i in itertools.count() if second.partition(f"s{i}") == partition)
        mine = rows.select(np.flatnonzero(np.arange(N // 2) % 3 == partition))
        reports[partition] = owner.contribute(document, second.ask(slot), mine, Free(), randomness=source)
        first.accept(reports[partition])
        second.accept(reports[partition])
    first.advance(NOON)
    second.advance(NOON)
    assert second.release() is None
    second.expect(0)
    second.advance(NOON)
    weights = [[m.weight for m in each.release().model.members] for each in (first, second)]
    assert weights[0] == weights[1]
    told = second.release().certificate.parameters["scoring"]
    assert told["classifiers_without_a_report"] == told["classifiers"] > 0


def test_the_certificate_tells_of_the_second_round(people: dict[str, Any]) -> None:
    told = thebes.simulate(DOCUMENT, people, seed=1).certificate
    assert (told.epsilon, told.contributors) == (2.0, N)
    scoring = told.parameters["scoring"]
    assert scoring["epsilon_of_a_report"] == 2.0
    assert scoring["reports"] == pytest.approx(N / 4, abs=2)
    assert scoring["mechanisms"][0]["categories"] == 4
    assert told.parameters["per_feature"]["epsilon"] == 2.0
    assert "How much each vote weighs was said by people who sent no packet" in told.text
    assert "can answer in every phase" in told.text
    influence = told.parameters["influence"]["scorers"]
    gap = scoring["mechanisms"][0]["p"] - scoring["mechanisms"][0]["q"]
    assert influence["an_outcomes_share_moves_by_at_most"]["5%"] == pytest.approx(0.05 / gap)
    spread = influence["in_one_partition_they_all_choose"]["5%"]
    assert spread == pytest.approx(min(1.0, 0.05 * scoring["classifiers"] / gap))


@pytest.mark.few(1)
@pytest.mark.parametrize("share", [0.01, 0.05, 0.1])
def test_colluding_scorers_move_an_outcome_no_further_than_the_certificate_says(
    share: float, people: dict[str, Any]
) -> None:
    """All of them say that the vote was wrong."""

    def bend(given: Contributions) -> Contributions:
        reports = np.asarray(given.fields[plan.REPORT]).copy()
        reports[: int(share * len(reports))] = 1
        return Contributions(given.part, given.count, {plan.REPORT: reports}, given.partition)

    document = checked(perturbation="krr")
    honest, bent = run(document, people), run(document, people, bend=bend)
    stated = bent[1].certificate.parameters["influence"]["scorers"]["an_outcomes_share_moves_by_at_most"][
        f"{share:.0%}"
    ]
    moved = [np.abs(b.shares() - h.shares()).max() for h, b in zip(honest[0]._scored(), bent[0]._scored(), strict=True)]
    assert max(moved) <= stated
    assert min(moved) > stated / 2  # and it is no idle bound
    weights = [member.weight for member in bent[1].model.members]
    assert all(0 <= weight <= 1 for weight in weights)
    assert sum(weights) < sum(member.weight for member in honest[1].model.members)


def test_a_further_packet_is_not_wanted_once_the_packets_are_there(people: dict[str, Any]) -> None:
    document = checked(subsets=2, min_count=1)
    aggregator: Any = registry.aggregator(document, Setting(Unit.DEVICE, randomness.system()))
    owner = registry.owner(document)
    for packet in range(2):
        ask = aggregator.ask("s", packet)
        aggregator.accept(owner.contribute(document, ask, select(people, 0, 1), Free(), randomness=randomness.system()))
    aggregator.advance(NOON)
    assert isinstance(aggregator.ask("t", 1), Closed)
    ask = aggregator.ask("t")
    assert (ask.part, set(ask.payload)) == ("phase-1", {"features", "votes"})


def test_scoring_again_after_a_restart_asks_the_same_and_ends_alike(people: dict[str, Any]) -> None:
    document = checked()
    source = randomness.seeded_for_simulation(3)
    setting = Setting(Unit.PERSON, source, simulated=True)
    first: Any = registry.aggregator(document, setting)
    first.expect(N // 2)
    owner = registry.owner(document)
    for partition in range(3):
        slot = next(f"s{i}" for i in itertools.count() if first.partition(f"s{i}") == partition)
        mine = select(people, 0, N // 2).select(np.flatnonzero(np.arange(N // 2) % 3 == partition))
        first.accept(owner.contribute(document, first.ask(slot), mine, Free(), randomness=source))
    first.advance(NOON)
    second: Any = registry.aggregator(document, setting)
    second.restore(first.snapshot())
    assert second.partitions == first.partitions
    asked = [[each.ask(f"s{i}").payload for i in range(20)] for each in (first, second)]
    assert asked[0] == asked[1]
    ends = []
    report = owner.contribute(document, first.ask("s0"), select(people, N // 2, N), Free(), randomness=source)
    for each in (first, second):
        each.expect(N // 2)
        each.accept(report)
        each.advance(NOON)
        ends.append(json.dumps(each.release().as_json()))
    assert ends[0] == ends[1]
