"""Documents whose answers nobody can assign: the local epsilon that follows, what is refused, and what is certified."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

import thebes
from tests.support.command import exit_status
from thebes.person.settings import PersonSettings
from thebes.privacy import randomness
from thebes.privacy.accounting.mixing import mixed_epsilon
from thebes.privacy.certificate import Certificate
from thebes.privacy.promise import Adjacency, Unit
from thebes.simulation.rehearsal import rehearsed
from thebes.tasks import form, registry
from thebes.tasks.aggregation.mixed_crowds import MixedCrowds
from thebes.tasks.aggregation.snapshots import packed, unpacked
from thebes.tasks.contributions import Contributions
from thebes.tasks.document import InvalidDocument
from thebes.tasks.mixed_document import planned
from thebes.tasks.mixed_reports import MixedCrowd, local_epsilon, mixed_figure, mixed_words, usual_delta
from thebes.tasks.protocols import Setting, State
from thebes.tasks.release_reader import release_from_json
from thebes.web.person import words

TWO = {"v": {"type": "set", "values": ["a", "b"], "default": "a"}}
ASKED = {
    "type": "bounded",
    "featurizer": "SELECT v FROM t.t",
    "bounds": TWO,
    "anonymity": "token",
    "group": "town",
    "min_count": 10_000,
    "mixed": {"epsilon": 1},
}
ENSEMBLE = {
    **ASKED,
    "type": "ensemble",
    "featurizer": "SELECT v, w, x, y FROM t.t",
    "bounds": {name: {"type": "set", "values": ["a", "b"], "default": "a"} for name in "vwxy"},
    "label": "y",
}


def refused(**changed):
    given = {name: value for name, value in {**ASKED, **changed}.items() if value is not None}
    with pytest.raises(InvalidDocument) as problem:
        registry.check(given)
    return dict(problem.value.problems)


def test_the_largest_local_epsilon_that_keeps_the_promise_is_written_into_the_document():
    document = registry.check(ASKED)
    assert document.epsilon == pytest.approx(4.77, abs=0.03)
    assert document.as_json()["mixed"] == {"epsilon": 1.0, "delta": 1e-6, "colluding": 0.5, "delay_seconds": 120.0}
    assert document.promised["epsilon"] <= 1 < mixed_figure(document.fewest, document.epsilon + 0.01, delta=1e-6)
    assert (document.promised["n"], document.promised["honest"]) == (10_000, 5_000)


def test_the_filled_document_is_read_again_as_it_is():
    document = registry.check(ASKED)
    again = registry.posted(json.loads(json.dumps(document.as_json())))
    assert (again.digest, again.epsilon) == (document.digest, document.epsilon)
    assert registry.accepted_earlier(document.as_json()).digest == document.digest


def test_documents_that_say_nothing_of_it_have_the_digest_that_they_had():
    plain = {**ASKED, "epsilon": 1.0}
    del plain["mixed"]
    assert "mixed" not in registry.check(plain).as_json()


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"anonymity": "none", "group": None}, "mixed"),
        ({"delta": 1e-6}, "mixed"),
        ({"mixed": {"epsilon": 1, "delta": 1e-4}}, "mixed.delta"),
        ({"mixed": {"epsilon": 1, "delta": 0}}, "mixed.delta"),
        ({"mixed": {"epsilon": 1, "colluding": 0.96}}, "mixed.colluding"),
        ({"mixed": {"epsilon": 1, "colluding": -0.1}}, "mixed.colluding"),
        ({"mixed": {"epsilon": 0}}, "mixed.epsilon"),
        ({"mixed": {"epsilon": 9}}, "mixed.epsilon"),
        ({"mixed": {"epsilon": True}}, "mixed.epsilon"),
        ({"mixed": {}}, "mixed.epsilon"),
        ({"mixed": "yes"}, "mixed"),
        ({"mixed": {"epsilon": 1, "delay_seconds": 0}}, "mixed.delay_seconds"),
        ({"quality": True, "predicted": "v", "featurizer": "SELECT v, w FROM t.t"}, "quality"),
        ({"epsilon": 6.0}, "epsilon"),
        ({"type": "basic", "server": "trusted", "aggregator": "count", "epsilon": 1.0}, "mixed"),
    ],
)
def test_what_cannot_be_mixed_is_refused_by_the_name_of_the_field(changed, field):
    if changed.get("quality"):
        changed = {**changed, "bounds": {**TWO, "w": TWO["v"]}}
    found = refused(**changed)
    assert field in found
    assert "epsilon" not in found or field == "epsilon"


def test_a_local_epsilon_that_is_too_large_is_told_which_would_fit():
    assert "4.77 would fit" in refused(epsilon=6.0)["epsilon"]


def test_draw_and_discard_asks_everybody_something_else_so_that_nothing_is_mixed():
    document = {**ASKED, "type": "draw-discard", "server": "untrusted", "inputs": ["v"], "output": "w", "epsilon": 8}
    with pytest.raises(InvalidDocument) as problem:
        registry.check(document)
    assert ("mixed", "is not a field of this document") in problem.value.problems


def test_more_people_and_fewer_colluders_allow_a_larger_local_epsilon():
    def local(**changed):
        return registry.check({**ASKED, **changed}).epsilon

    assert local(min_count=1_000) < local() < local(min_count=100_000)
    assert local(mixed={"epsilon": 1, "colluding": 0.9}) < local() < local(mixed={"epsilon": 1, "colluding": 0})
    assert local(min_count=11) == 1.0  # among so few mixing gains nothing
    assert local(min_count=10**7) == 8.0


def test_of_very_many_people_delta_is_less_than_one_in_ten_times_as_many():
    assert registry.check({**ASKED, "min_count": 10**6}).mixed.delta == usual_delta(10**6) == 1e-7


# --- who is honest, and where ------------------------------------------------------------------------------


def test_the_honest_ones_of_a_drawn_partition_are_fewer_than_their_share():
    assert MixedCrowd(8_000, partitions=8).honest(1e-6, 0.5) == pytest.approx(373, abs=1)
    assert MixedCrowd(1_000).honest(1e-6, 0.5) == 500
    assert MixedCrowd(8_000, partitions=8, smallest=100).honest(1e-6, 0.5) == 50
    assert MixedCrowd(40, partitions=8).honest(1e-6, 0.5) == 1


def test_the_draw_of_partitions_fails_less_often_than_is_kept_back():
    people, parts, delta = 4_000, 4, 1e-2
    least = MixedCrowd(people, partitions=parts).honest(delta, 0.5)
    draws = np.random.default_rng(3).binomial(people // 2, 1 / parts, size=200_000)
    assert (draws < least).mean() <= delta / 10


def test_partitions_and_packets_are_counted_in_the_plan():
    votes = {**ENSEMBLE, "method": "vote", "min_count": 50_000}
    one, more = (registry.check({**votes, "partitions": parts}).epsilon for parts in (1, 3))
    assert more < one
    alone, several = (registry.check({**votes, "partitions": 1, "subsets": packets}) for packets in (1, 3))
    assert several.fewest == [MixedCrowd(50_000, 1, 3)]
    assert several.promised["epsilon"] <= 1
    assert several.epsilon > alone.epsilon  # a third each, mixed apart


def test_a_search_of_thresholds_among_few_leaves_hardly_any_room():
    numbers = {**ENSEMBLE, "bounds": {**ENSEMBLE["bounds"], "x": {"type": "range", "low": 0, "high": 1, "default": 0}}}
    searched = registry.check(numbers)
    given = registry.check({**numbers, "bins": {"x": [0.5]}})
    assert searched.searching
    assert searched.epsilon < given.epsilon


def test_every_round_of_a_network_counts():
    from thebes.torch import encode

    torch = pytest.importorskip("torch")
    model, loss = encode(torch.nn.Linear(2, 1), torch.nn.MSELoss())
    network = {
        **ASKED, "type": "gradient", "featurizer": "SELECT a, b, c FROM t.t", "bounds": None, "model": model,
        "loss": loss, "inputs": ["a", "b"], "outputs": ["c"], "rounds": 6,
    }  # fmt: skip
    network = {name: value for name, value in network.items() if value is not None}
    once, thrice = (registry.check({**network, "rounds_per_owner": times}) for times in (1, 3))
    assert {crowd.packets for crowd in thrice.fewest} == {3}
    assert thrice.promised["epsilon"] <= 1
    assert once.epsilon != thrice.epsilon
    assert once.mechanism == "privunit"


def test_the_search_ends_at_what_mixing_cannot_raise():
    assert local_epsilon(1.0, lambda epsilon: epsilon) == 1.0
    assert local_epsilon(0.015, lambda epsilon: epsilon) == 0.015
    assert local_epsilon(8.0, lambda epsilon: epsilon) == 8.0
    assert local_epsilon(1.0, lambda epsilon: 0.5) == 8.0


# --- certificates ------------------------------------------------------------------------------------------


def heard(document, people, *, simulated=False):
    """Run a document's aggregator over the reports of so many people, as a coordinator does."""
    unit = Unit.PERSON if document.anonymity == "token" else Unit.DEVICE
    aggregator = registry.aggregator(document, Setting(unit=unit, randomness=randomness.system(), simulated=simulated))
    given = np.random.default_rng(5).integers(0, 2, people)
    aggregator.accept(Contributions(aggregator.part, people, {"v": given}))
    return aggregator


def moment():
    return datetime(2026, 1, 1, tzinfo=UTC)


def test_the_certificate_carries_the_second_promise_and_on_what_it_rests():
    document = registry.check({**ASKED, "min_count": 1_000})
    aggregator = heard(document, 1_000)
    aggregator.advance(moment())
    certificate = aggregator.release().certificate
    told = certificate.parameters["mixed"]
    assert certificate.epsilon == document.epsilon  # what the ledger charges
    assert told["epsilon"] <= 1 < document.epsilon
    assert {name: told[name] for name in ("against", "n", "honest", "parts", "as_accepted")} == {
        "against": "collector", "n": 1_000, "honest": 500, "parts": 1, "as_accepted": True
    }  # fmt: skip
    assert "at least 500 of 1,000 followed the rules and hid where they sent from" in certificate.text
    assert certificate.text.index("Nobody has to be trusted") < certificate.text.index("cannot tell whose is whose")
    again = release_from_json(json.loads(json.dumps(aggregator.release().as_json())))
    assert again.certificate.parameters["mixed"] == told


def test_a_mechanism_whose_reports_support_categories_has_a_smaller_figure_of_its_own():
    sixteen = {"v": {"type": "set", "values": [str(n) for n in range(16)], "default": "0"}}
    document = registry.check({**ASKED, "bounds": sixteen, "min_count": 1_000, "epsilon": 0.5, "mixed": None})
    aggregator = heard(document, 1_000)
    aggregator.advance(moment())
    told = aggregator.release().certificate.parameters["mixed"]
    assert told["mechanism"] == "its own"
    assert told["epsilon"] < float(mixed_epsilon(document.epsilon, honest=500, delta=1e-6))
    assert not told["as_accepted"]  # nobody was told of it


def test_without_tokens_it_holds_against_readers_if_the_server_keeps_its_word():
    document = registry.check(
        {**ASKED, "anonymity": "none", "group": None, "mixed": None, "epsilon": 1.0, "min_count": 1_000}
    )
    aggregator = heard(document, 1_000)
    aggregator.advance(moment())
    certificate = aggregator.release().certificate
    assert certificate.parameters["mixed"]["against"] == "readers"
    assert "if the server tells nobody whose answer is whose" in certificate.text


def test_nothing_is_said_where_nothing_is_gained_or_the_promise_is_not_pure():
    few = registry.check({**ASKED, "mixed": None, "epsilon": 4.0, "min_count": 20})
    aggregator = heard(few, 20)
    aggregator.advance(moment())
    assert "mixed" not in aggregator.release().certificate.parameters
    document = registry.check({**ASKED, "mixed": None, "epsilon": 1.0, "min_count": 1_000})
    aggregator = heard(document, 1_000)
    aggregator.advance(moment())
    release = aggregator.release()
    certificate = replace(release.certificate, guarantee="approximate", delta=1e-6, parameters={})
    crowds = MixedCrowds(document)
    crowds.hear(0, 0, 1_000)
    crowds.close(0, people=1_000, packets=1, partitions=1)
    assert crowds.on(replace(release, certificate=certificate), None).certificate == certificate


def test_a_later_phase_of_too_few_takes_the_figure_of_the_earlier_ones_off():
    document = registry.check({**ASKED, "mixed": None, "epsilon": 1.0, "min_count": 1_000})
    aggregator, crowds = heard(document, 1_000), MixedCrowds(document)
    aggregator.advance(moment())
    release = aggregator.release()
    assert "mixed" in release.certificate.parameters
    crowds.hear(0, 0, 1_000)
    crowds.close(0, people=1_000, packets=1, partitions=1)
    assert "mixed" in crowds.on(release, None).certificate.parameters
    crowds.hear(0, 0, 1)
    crowds.close(1, people=1, packets=1, partitions=1)  # as where one alone checked a model
    assert "mixed" not in crowds.on(release, None).certificate.parameters


def test_a_part_below_two_has_no_figure():
    document = registry.check({**ASKED, "mixed": None, "epsilon": 1.0, "min_count": 1})
    aggregator = heard(document, 1)
    aggregator.advance(moment())
    assert aggregator.release().certificate.parameters.get("mixed") is None


def test_a_task_that_expired_says_nothing():
    document = registry.check({**ASKED, "min_count": 1_000, "expires_at": "2026-01-01T00:00:00+00:00"})
    aggregator = heard(document, 999)
    aggregator.advance(moment())
    assert aggregator.state is State.EXPIRED
    assert aggregator.release() is None


def test_every_closed_phase_is_remembered_across_a_restart_with_its_smallest_partition():
    votes = registry.check(
        {**ENSEMBLE, "method": "vote", "partitions": 3, "min_count": 900, "epsilon": 1.0, "mixed": None}
    )
    made = registry.aggregator(votes, Setting(unit=Unit.PERSON, randomness=randomness.system()))
    sizes = {0: 500, 1: 300, 2: 100}
    for partition, count in sizes.items():
        layout = made.layout(made.part, partition)
        slot = layout["report"]
        shape = (count, slot.length) if slot.length else count
        given = np.zeros(shape, dtype=np.int64)
        if slot.length:
            given[:, 0] = 1
        made.accept(Contributions(made.part, count, {"report": given}, partition))
    again = registry.aggregator(votes, Setting(unit=Unit.PERSON, randomness=randomness.system()))
    again.restore(made.snapshot())
    for each in (made, again):
        each.advance(moment())
        told = each.release().certificate.parameters["mixed"]
        assert told["n"] == 100
        assert (told["partitions"], told["honest"]) == (3, 50)
        assert "of each partition" in each.release().certificate.text


def test_a_snapshot_from_before_is_still_read():
    document = registry.check({**ASKED, "min_count": 1_000})
    aggregator = heard(document, 500)
    header, arrays = unpacked(aggregator.snapshot(), document.digest)
    del header["mixed"]
    again = registry.aggregator(document, Setting(unit=Unit.PERSON, randomness=randomness.system()))
    again.restore(packed(header, arrays))
    again.accept(Contributions(again.part, 500, {"v": np.zeros(500, dtype=np.int64)}))
    again.advance(moment())
    assert "mixed" not in again.release().certificate.parameters  # how many came before is not known


@pytest.mark.parametrize("told", ["yes", {}, {"epsilon": "x", "delta": 0, "n": 1, "honest": 1}, {"epsilon": 1}])
def test_a_certificate_that_somebody_else_wrote_is_read_without_a_second_promise(told):
    certificate = Certificate(
        unit=Unit.PERSON, adjacency=Adjacency.REPLACE_ONE, epsilon=1.0, delta=0.0, guarantee="pure", mechanism="m",
        parameters={"mixed": told},
    )  # fmt: skip
    assert "followed the rules" not in certificate.text


# --- words, plans, simulations -----------------------------------------------------------------------------


def test_people_are_told_both_odds_and_that_the_first_is_charged():
    document = registry.check(ASKED)
    told = registry.kind("bounded").explain(document)
    alone, mixed = (next(line for line in told.splitlines() if begun in line) for begun in ("Price: ", "Mixed with"))
    assert "at most 99.2 % of the time" in alone
    assert "5 000 of 10 000" in mixed.replace("\u00a0", " ").replace("\u202f", " ")
    assert "at most 73.2 % of the time" in mixed
    assert "charges the price above" in mixed
    assert float(registry.kind("bounded").price(document).epsilon) == document.epsilon


def test_everybody_is_told_that_only_those_count_who_hid_where_they_sent_from():
    document = registry.check(ASKED)
    told = registry.kind("bounded").explain(document)
    assert "followed the rules and hid where they sent from, as a machine without a proxy does not" in told
    assert "up to 120 seconds, from one range for everybody: your own setting, which may be longer" in told
    assert "hide where they send from, which no machine without a proxy does" in mixed_words(document.promised)
    assert "every machine without a proxy" in form.EVERYWHERE["mixed.colluding"].help


@pytest.mark.parametrize(
    ("proxy", "hidden"), [("none", False), ("tor", True), ("socks5h://127.0.0.1:9150?isolation=none", False)]
)
def test_the_second_promise_counts_for_nothing_where_a_proxy_links_all_that_is_sent(proxy, hidden):
    settings = PersonSettings().changed({"proxy": proxy})
    assert settings.hides_sender == hidden
    task = {
        "price": {"epsilon": 1.0, "delta": 0.0},
        "trust": "none",
        "explanation": registry.kind("bounded").explain(registry.check(ASKED)),
        "hides_sender": settings.hides_sender,
    }
    (_, _), (_, second) = words.both_odds(task)
    assert ("against them count on the first alone" in second) != hidden


def test_the_builders_find_the_local_epsilon():
    options = {name: ASKED[name] for name in ("anonymity", "group", "min_count", "mixed")}
    assert thebes.task.bounded("SELECT v FROM t.t", bounds=TWO, **options)["epsilon"] == registry.check(ASKED).epsilon


def test_a_plan_works_from_the_promise_to_the_local_epsilon():
    plain = {name: value for name, value in ASKED.items() if name not in ("mixed", "anonymity", "group", "min_count")}
    assert planned(plain, mixed=1, people=10_000).epsilon == registry.check(ASKED).epsilon
    assert planned({**plain, "mixed": {"epsilon": 3, "colluding": 0.9}}, mixed=1, people=10_000).mixed.colluding == 0.9


def test_the_command_line_plans_and_checks(tmp_path, capsys):
    file = tmp_path / "asked.json"
    file.write_text(json.dumps(ASKED))
    assert exit_status("task", "plan", file, "--mixed", 1, "--people", 10_000) == 0
    assert "epsilon 4.77 for each" in capsys.readouterr().out
    assert exit_status("task", "plan", file, "--mixed", 1, "--people", 10_000, "--json", "-") == 0
    assert json.loads(capsys.readouterr().out)["epsilon"] == registry.check(ASKED).epsilon
    assert exit_status("task", "check", file) == 0
    assert "mixed: epsilon" in capsys.readouterr().out
    assert exit_status("task", "plan", file, "--people", 10_000) != 0
    assert "--mixed" in capsys.readouterr().err


def test_a_simulation_reaches_far_closer_than_without_mixing():
    rows = {"v": np.array(["a"] * 3_000 + ["b"] * 7_000)}
    mixed = thebes.simulate(ASKED, rows, seed=1)
    plain = thebes.simulate({**{n: v for n, v in ASKED.items() if n != "mixed"}, "epsilon": 1.0}, rows, seed=1)
    widths = [
        float(np.ptp([r.frequency_interval("v").low[0], r.frequency_interval("v").high[0]])) for r in (mixed, plain)
    ]
    assert widths[0] < widths[1] / 5
    assert mixed.certificate.parameters["mixed"]["as_accepted"]
    few = thebes.simulate(ASKED, {"v": ["a", "b"] * 50}, seed=1)
    assert not few.certificate.parameters["mixed"]["as_accepted"]  # fewer than were promised


def test_rehearsals_sweeps_and_curves_choose_their_own_epsilon():
    small = {**ASKED, "min_count": 200}
    document = registry.check(small)
    rehearsal = registry.rehearsal("bounded")
    assert rehearsed(document, rehearsal, repeats=3, seconds=60)["people"] == 200
    assert rehearsed(document, rehearsal, repeats=3, seconds=60, rows_about=50)["people"] == 50
