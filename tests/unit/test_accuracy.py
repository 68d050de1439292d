"""Questions by accuracy: what they cost, how that is split over sites, and what an answer of several sources says."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import thebes
from tests.support.federation import Gathering
from tests.support.site_home import ask, site_home
from thebes.coordinator.auth.accounts import Role, Somebody
from thebes.curator.cache.answer import Answered, AnswerSource
from thebes.curator.cache.purchase import Purchase
from thebes.curator.questions.noise import noise_for, noise_made
from thebes.data.engines.source import frame_table
from thebes.data.schema import Schema, schema_of
from thebes.privacy.accounting import concentrated
from thebes.privacy.faults import Mistake
from thebes.privacy.mechanisms.summed_noise import together
from thebes.privacy.promise import Adjacency, Unit
from thebes.privacy.randomness import seeded_for_simulation
from thebes.site.algorithm_process import Office
from thebes.tasks import registry
from thebes.tasks.contributions import Contributions
from thebes.tasks.document import InvalidDocument
from thebes.tasks.protocols import Setting
from thebes.tasks.query.accuracy import alone as alone_at
from thebes.tasks.query.accuracy import expected, priced, split
from thebes.tasks.query.totals import halves, noised
from thebes.tasks.query.view import sections
from thebes.tasks.release_reader import release_from_json
from thebes.web.coordinator.result import _covered

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
BODY: dict[str, Any] = {
    "unit": "person",
    "columns": {
        "who": {"type": "string", "key": True},
        "age": {"type": "float", "low": 0, "high": 100},
        "sex": {"type": "string", "values": ["f", "m"]},
    },
}
ONE, FOUR = schema_of(BODY), schema_of({**BODY, "max_rows_per_unit": 4})
SITES = {"north": ONE, "south": ONE, "west": ONE}
ASKED: dict[str, Any] = {"type": "query", "dataset": "patients", "statistic": "count"}
ANA = Somebody("ana", Role.REQUESTOR)


def by_accuracy(alpha: float = 20.0, beta: float = 0.05, **more: Any) -> Any:
    return registry.check({**ASKED, "accuracy": {"alpha": alpha, "beta": beta}, **more})


# --- documents -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"accuracy": {"alpha": 0.0, "beta": 0.05}}, "accuracy.alpha"),
        ({"accuracy": {"alpha": 1.0, "beta": 0.0}}, "accuracy.beta"),
        ({"accuracy": {"alpha": 1.0}}, "accuracy.beta"),
        ({"accuracy": {"alpha": 1.0, "beta": 0.05, "gamma": 1}}, "accuracy.gamma"),
        ({"accuracy": 5}, "accuracy"),
        ({"statistic": "mean", "column": "age"}, "accuracy"),
        ({"statistic": "quantile", "column": "age", "quantile": 0.5}, "accuracy"),
        ({"privacy": "none"}, "accuracy"),
        ({"max_epsilon": 0.0}, "max_epsilon"),
        ({"max_epsilon": 0.5, "epsilon": 1.0}, "max_epsilon"),
        ({"accuracy": None, "max_epsilon": 1.0, "epsilon": 1.0}, "max_epsilon"),
        ({"accuracy": None}, "epsilon"),
    ],
    ids=str,
)
def test_a_document_by_accuracy_that_cannot_work_names_the_field(more, field) -> None:
    body = {**ASKED, "accuracy": {"alpha": 5.0, "beta": 0.05}, **more}
    with pytest.raises(InvalidDocument) as refused:
        registry.check({name: value for name, value in body.items() if value is not None})
    assert field in [named for named, _ in refused.value.problems]


def test_what_has_no_price_yet_says_so_and_is_answered_by_nobody() -> None:
    document, kind = by_accuracy(), registry.site_kind(by_accuracy())
    with pytest.raises(Mistake, match="quote"):
        kind.price(document)
    assert kind.price(by_accuracy(max_epsilon=0.5)).epsilon == 0.5
    for work in (lambda: kind.event(document, ONE), lambda: document.wanted({})):
        with pytest.raises(Mistake, match="no price yet"):
            work()
    told = kind.explain(by_accuracy(beta=0.1, max_epsilon=2.0))
    assert "within 20 of the exact one 90 % of the time" in told
    assert "at most epsilon 2" in told
    assert "at most epsilon 0.25" in kind.explain(by_accuracy(epsilon=0.25))
    with pytest.raises(Mistake, match="too small a beta"):
        kind.fits(by_accuracy(beta=1e-6, statistic="histogram", column="age", bins=200), ONE)


# --- the price, and how it is split --------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"by": "sex"},
        {"statistic": "histogram", "column": "age", "bins": 20},
        {"statistic": "sum", "column": "age", "alpha": 3000.0},
        {"delta": 0.02},
        {"noise": "coordinator"},
    ],
    ids=str,
)
@pytest.mark.parametrize("sites", [{"north": ONE}, SITES, {"north": ONE, "south": FOUR}], ids=["one", "three", "rows"])
def test_the_price_is_the_least_epsilon_whose_noises_together_are_within_the_accuracy(more, sites) -> None:
    found = priced(by_accuracy(**more), sites)

    def width(epsilon: float) -> float:
        document = registry.check({**found.as_json(), "epsilon": epsilon})
        made = {
            site: noise_for(document.plan(own), own, epsilon=epsilon, delta=document.delta)
            for site, own in sites.items()
        }
        told = {site: (epsilon, document.delta if noise.kind == "gaussian" else 0.0) for site, noise in made.items()}
        return float(answered(document, sites, told).extra["accuracy"]["reached"])

    assert width(found.epsilon) <= found.accuracy.alpha * (1 + 1e-12)
    assert width(found.epsilon * 0.97) > found.accuracy.alpha
    assert priced(found, sites).digest == found.digest


def test_the_accuracy_is_met_as_often_as_it_says_and_not_much_more_often() -> None:
    """20,000 seeded answers of three sites in four groups. Groups may miss together at most 5 % of the time: as each is
    given a quarter of that, and groups are independent, it is 4.9 %."""
    document = priced(by_accuracy(30.5, statistic="histogram", column="age", bins=4), SITES)
    plan, source, total = document.plan(ONE), seeded_for_simulation(5), np.zeros((20_000, 4))
    for site in SITES:
        noise = noise_for(plan, SITES[site], epsilon=document.epsilon, delta=0)
        total += noise.drawn(total.shape, source) / noise.finer
    missed = float((np.abs(total).max(axis=1) > 30.5).mean())
    assert 0.038 < missed <= 0.05


def test_an_answer_that_is_there_already_is_used_and_leaves_the_others_more_room() -> None:
    document = by_accuracy()
    without = priced(document, SITES).epsilon
    better = split(document, SITES, {"north": {"made": (1.0, 0.0)}})
    assert better.epsilon < without
    assert better.free == ("north",)
    told = expected(document, SITES, {"north": {"made": (1.0, 0.0)}})
    assert told == {
        "north": (0.0, "cache"),
        "south": (better.epsilon, "mechanism"),
        "west": (better.epsilon, "mechanism"),
    }
    # One with a little more noise than its share saves a site's payment, and costs the others a little more.
    weaker = split(document, SITES, {"north": {"made": (0.9 * without, 0.0)}})
    assert weaker.free == ("north",)
    assert without < weaker.epsilon < 1.5 * without
    assert weaker.payloads["north"]["epsilon"] <= 0.91 * without
    # One with far more is of no use; nor is one that would make the others pay more than may be paid.
    assert split(document, SITES, {"north": {"made": (0.05, 0.0)}}).free == ()
    assert split(by_accuracy(max_epsilon=without), SITES, {"north": {"made": (0.9 * without, 0.0)}}).free == ()
    everywhere = split(document, SITES, {site: {"made": (1.0, 0.0)} for site in SITES})
    assert everywhere.free == tuple(SITES)
    assert 0 < everywhere.epsilon <= without
    for odd in ({"made": None}, {"made": (1e-9, 0.0)}, {"made": "x"}, {"made": (1.0, 2.0)}, {}):
        assert split(document, SITES, {"north": odd}).epsilon == without


def test_what_is_used_of_other_sites_keeps_the_whole_within_the_accuracy() -> None:
    document = by_accuracy(statistic="histogram", column="age", bins=5)
    for made in (0.3, 0.5, 0.7, 1.0, 4.0):
        found = split(document, SITES, {"north": {"made": (made, 0.0)}})
        ready = registry.check({**document.as_json(), "epsilon": found.epsilon})
        told = dict.fromkeys(SITES, (found.epsilon, 0.0)) | dict.fromkeys(found.free, (made, 0.0))
        assert answered(ready, SITES, told).extra["accuracy"]["reached"] <= 20 * (1 + 1e-12)


def test_a_site_with_a_synopsis_has_a_width_of_its_own() -> None:
    roomy = by_accuracy(30.0, max_epsilon=2.0)
    found = split(roomy, SITES, {"west": {"synopsis": (1.5, 0.0)}})
    own = {"width": 10.0, "beta": pytest.approx(0.05 / 3)}
    assert found.epsilon == 1.5  # what it may cost; the others pay less, as each says
    assert found.payloads["west"] == own == pytest.approx(alone_at(roomy, SITES))
    assert found.payloads["north"] == found.payloads["south"]
    assert found.payloads["north"]["epsilon"] < 0.7
    assert expected(roomy, SITES, {"west": {"synopsis": (1.5, 0.0)}})["west"] == (1.5, "synopsis")
    dear = split(by_accuracy(30.0, max_epsilon=1.0), SITES, {"west": {"synopsis": (1.5, 0.0)}})
    assert dear == split(by_accuracy(30.0, max_epsilon=1.0), SITES, {})
    assert alone_at(by_accuracy(30.0), SITES) == {}  # without room nobody is asked for one
    assert "west" in split(by_accuracy(30.0), SITES, {"west": {"synopsis": (0.0, 0.0)}}).free
    alone = split(by_accuracy(30.0), {"west": ONE}, {})
    assert alone.payloads == {"west": {"width": 30.0, "beta": 0.05}}
    wanted = by_accuracy(30.0, epsilon=alone.epsilon).wanted(alone.payloads["west"])
    noise, bought = wanted.calibrated(by_accuracy().plan(ONE), ONE)
    assert float(bought.epsilon) <= alone.epsilon
    assert noise.width(0.95) <= 30


def test_where_every_budget_counts_in_rho_noise_is_gaussian_and_costs_less_of_it() -> None:
    document, counted = by_accuracy(delta=1e-6), {site: {"filter": "zcdp"} for site in SITES}
    smooth, rough = split(document, SITES, counted), split(document, SITES, {**counted, "west": {}})
    assert smooth.payloads == {site: {"epsilon": smooth.epsilon, "smooth": 1.0} for site in SITES}
    assert rough.payloads == {}
    assert rough.epsilon < smooth.epsilon < 3 * rough.epsilon
    told = document.model_copy(update={"epsilon": smooth.epsilon}).wanted(smooth.payloads["north"])
    noise, bought = told.calibrated(document.plan(ONE), ONE)
    assert (noise.kind, bought.delta) == ("gaussian", Decimal("1e-6"))
    assert together([noise] * 3).width(0.95) <= 20
    laplace = noise_for(document.plan(ONE), ONE, epsilon=rough.epsilon, delta=1e-6)
    assert laplace.kind == "laplace"
    rho = [float(concentrated.price(each.event, adjacency=Adjacency.ADD_REMOVE_ONE).rho) for each in (noise, laplace)]
    assert 2 * rho[0] < rho[1]  # rarer errors: more
    filled = priced(document, SITES, counted)
    assert split(filled, SITES, counted) == smooth
    # Whoever may not pay so large an epsilon gets what costs less of it; without a delta there is no Gaussian noise.
    between = by_accuracy(delta=1e-6, max_epsilon=(rough.epsilon + smooth.epsilon) / 2)
    assert split(between, SITES, counted) == rough
    assert split(by_accuracy(), SITES, counted) == split(by_accuracy(), SITES, {})
    one = split(document, {"north": ONE}, counted)
    assert one.payloads == {"north": {"width": 20.0, "beta": 0.05}}
    assert one.epsilon > split(document, {"north": ONE}, {}).epsilon
    with pytest.raises(Mistake, match="needs a delta"):
        by_accuracy(epsilon=1.0).wanted({"smooth": 1.0})


def test_more_than_may_be_paid_is_refused_and_says_what_it_costs() -> None:
    needed = priced(by_accuracy(), SITES).epsilon
    assert priced(by_accuracy(max_epsilon=1.0), SITES).epsilon == needed
    for more, field in (({"max_epsilon": 0.1}, "max_epsilon"), ({"epsilon": 0.1}, "epsilon")):
        with pytest.raises(InvalidDocument, match=f"costs epsilon {needed:g} at a site") as refused:
            priced(by_accuracy(**more), SITES)
        assert refused.value.argument == field
    with pytest.raises(InvalidDocument, match="finer than any noise"):
        priced(by_accuracy(1e-9, statistic="sum", column="age"), SITES)


@pytest.mark.parametrize("alpha", [1e-300, 1e-30, 1e15])
@pytest.mark.parametrize("beta", [1e-8, 0.5])
@pytest.mark.parametrize("delta", [0.0, 1e-15, 0.5])
@pytest.mark.parametrize("asked", [{}, {"statistic": "sum", "column": "age"}, {"by": "sex"}])
def test_every_accuracy_has_a_price_or_is_refused_by_name(alpha: float, beta: float, delta: float, asked: Any) -> None:
    asking = by_accuracy(alpha, beta, delta=delta, **asked)
    if asked.get("statistic") == "sum" and alpha < 1:
        with pytest.raises(InvalidDocument, match="finer than any noise") as refused:
            priced(asking, SITES)
        assert refused.value.argument == "accuracy"
    else:
        assert 0 < priced(asking, SITES).epsilon <= 1e6


# --- what an answer of several sources says ------------------------------------------------------------


def aggregator_of(document: Any, sites: Mapping[str, Schema]) -> Any:
    return registry.aggregator(document, Setting(unit=Unit.PERSON, randomness=seeded_for_simulation(1), sites=sites))


def answered(
    document: Any,
    sites: Mapping[str, Schema],
    made: Mapping[str, Any],
    paid: Mapping[str, tuple[float, str]] | None = None,
) -> Any:
    """A release over sites whose totals are 100 each: `made` is (epsilon, delta) of their noise or a bound."""
    aggregator = aggregator_of(document, sites)
    size = document.plan(next(iter(sites.values()))).size
    for site, told in made.items():
        if document.exact:
            fields = halves(np.full(size, 100))
        else:
            bound = told if isinstance(told, Bound) else None
            fields = noised(np.full(size, 100.0), made=None if bound else told, bound=bound)
        aggregator.accept(Contributions("phase-0", 1, fields, aggregator.partition(site)))
        if paid is not None and site in paid:
            aggregator.paid(site, {"epsilon": paid[site][0], "delta": 0.0}, paid[site][1])
        saved = aggregator.snapshot()
        aggregator = aggregator_of(document, sites)  # as after a restart
        aggregator.restore(saved)
    aggregator.advance(NOON)
    again = release_from_json(aggregator.release().as_json())
    assert again.as_json() == aggregator.release().as_json()
    return again


class Bound(tuple[float, float]):
    """A bound as (width, beta)."""


def test_error_bars_are_those_of_the_noises_that_were_drawn() -> None:
    """Each for another epsilon and of another kind, at sites whose people have one row or four."""
    sites = {"north": ONE, "south": FOUR, "west": ONE}
    made = {"north": (0.5, 0.0), "south": (2.0, 0.0), "west": (0.9, 1e-5)}
    document = registry.check({**ASKED, "epsilon": 1.0, "delta": 1e-5})
    release = answered(document, sites, made)
    hidden = together([noise_made(document.plan(sites[s]), sites[s], epsilon=e, delta=d) for s, (e, d) in made.items()])
    for level in (0.5, 0.95, 0.99):
        assert release.interval(level).high - 300 == pytest.approx(hidden.width(level))
    said = release.certificate.parameters["noise"]
    assert {site: told["kind"] for site, told in said.items()} == {
        "north": "laplace",
        "south": "laplace",
        "west": "gaussian",
    }
    assert said["north"]["made_for"] == {"epsilon": 0.5, "delta": 0.0}
    assert (release.certificate.epsilon, release.certificate.delta) == (1.0, 1e-5)


def test_a_bound_widens_the_error_bar_and_takes_its_odds_from_the_levels() -> None:
    document = registry.check({**ASKED, "epsilon": 1.0})
    mixed = answered(document, SITES, {"north": (1.0, 0.0), "south": (1.0, 0.0), "west": Bound((7.0, 0.03))})
    two = together([noise_made(document.plan(ONE), ONE, epsilon=1.0, delta=0.0)] * 2)
    assert mixed.interval(0.95).high - 300 == pytest.approx(7 + two.width(0.98))
    assert max(mixed.intervals) == 0.95
    alone = answered(document, {"west": ONE}, {"west": Bound((7.0, 0.05))})
    assert (alone.interval(0.95).low, alone.interval(0.95).high) == (93.0, 107.0)
    assert alone.certificate.parameters["bound"] == {"west": {"within": 7.0, "odds": 0.05}}
    without = answered(document, SITES, {"north": (1.0, 0.0), "south": (1.0, 0.0), "west": Bound((0.0, 0.0))})
    assert without.interval() is None  # a synopsis that promises nothing


@pytest.mark.parametrize("statistic", ["mean", "variance", "quantile", "correlation", "sum"])
def test_every_statistic_has_an_error_bar_where_a_site_gives_a_bound(statistic) -> None:
    """The same totals with a small bound, or with noise: the bar of the bound is the narrower one."""
    body = {**BODY, "columns": {**BODY["columns"], "other": BODY["columns"]["age"]}}
    schema, more = schema_of(body), {"column": "age"}
    more = {"columns": ["age", "other"]} if statistic == "correlation" else more
    more |= {"quantile": 0.5, "bins": 16} if statistic == "quantile" else {}
    document = registry.check({**ASKED, "statistic": statistic, "epsilon": 1.0, **more})
    rows = pd.DataFrame(
        {"who": range(500), "age": np.linspace(1, 99, 500), "other": np.linspace(99, 1, 500) ** 1.1 / 2, "sex": "f"}
    )
    totals = document.plan(schema).totals(frame_table(schema, rows)).astype(float)
    found = {}
    for name, told in (
        ("noise", {"made": (1.0, 0.0), "bound": None}),
        ("bound", {"made": None, "bound": (0.25, 0.05)}),
    ):
        aggregator = aggregator_of(document, {"north": schema})
        aggregator.accept(Contributions("phase-0", 1, noised(totals, **told), 0))
        aggregator.advance(NOON)
        release = aggregator.release()
        bar = release.interval(0.95)
        assert bar.low <= release.value <= bar.high
        found[name] = bar.high - bar.low
    assert 0 < found["bound"] <= found["noise"]


def test_a_release_says_where_each_answer_came_from_and_what_it_cost() -> None:
    document = priced(by_accuracy(), SITES)
    made = {"north": (2.0, 0.0), "south": (document.epsilon, 0.0), "west": Bound((3.0, 0.01))}
    paid = {"north": (0.0, "cache"), "south": (document.epsilon, "mechanism"), "west": (0.1, "synopsis")}
    release = answered(document, SITES, made, paid)
    assert (release.source, release.cost["epsilon"]) == ("mixed", document.epsilon)
    assert release.sites["north"] == {"cost": {"epsilon": 0.0, "delta": 0.0}, "source": "cache"}
    assert release.certificate.parameters["paid"]["west"] == {"epsilon": 0.1, "delta": 0.0, "source": "synopsis"}
    assert release.certificate.epsilon == document.epsilon
    for said in (
        "What north answered had been released before",
        "What north answered was made at epsilon 2:",
        "What west answered follows",
        "20 of the exact one 95 %",
    ):
        assert said in release.certificate.text
    assert "What south answered was made" not in release.certificate.text
    assert release.certificate.beside_earlier
    assert release.certificate.text.startswith(
        "For somebody who had seen the earlier releases on which this rests: if "
    )
    assert release.certificate.as_json()["beside_earlier"] is True
    assert "from: north cache, epsilon 0; south mechanism" in str(release)
    free = answered(document, SITES, dict.fromkeys(SITES, (2.0, 0.0)), dict.fromkeys(SITES, (0.0, "cache")))
    assert "What north, south and west answered had been released before" in free.certificate.text
    assert free.certificate.text.count("was made at epsilon 2:") == 1  # once for all of them
    assert (free.source, free.cost) == ("cache", {"epsilon": 0.0, "delta": 0.0})
    assert free.certificate.epsilon == document.epsilon  # the most; what was paid stands beside
    worse = answered(document, SITES, dict.fromkeys(SITES, (0.1, 0.0)))
    assert not worse.certificate.beside_earlier
    assert "beside_earlier" not in worse.certificate.as_json()
    assert worse.extra["accuracy"]["reached"] > 20
    assert "does not" in worse.certificate.text
    for cost, source in (
        ({"epsilon": 99.0}, "cache"),
        ({"epsilon": -1.0}, "cache"),
        ({}, "cache"),
        (None, "cache"),
        ({"epsilon": 0.0}, "moon"),
    ):
        aggregator = aggregator_of(document, SITES)
        aggregator.paid("north", cost if cost is None else {"delta": 0.0, **cost}, source)
        assert aggregator._paid == {}


@pytest.mark.parametrize(
    ("lie", "field"),
    [
        ({"made_epsilon": 1e-9}, "made_epsilon"),
        ({"made_epsilon": 0.0, "made_delta": 0.1}, "made_delta"),
        ({"made_delta": 1.0}, "made_delta"),
        ({"made_delta": 1e-17}, "made_delta"),
        ({"width": 3.0}, "width"),
        ({"beta": 0.5}, "width"),
        ({"made_epsilon": 0.0, "width": 3.0}, "beta"),
        ({"made_epsilon": 0.0, "width": 3.0, "beta": 1.0}, "beta"),
        ({"totals": 0.5}, "totals"),
        ({"made_epsilon": 0.0, "width": 3.0, "beta": 0.1, "totals": 2.0**50}, "totals"),
    ],
    ids=str,
)
def test_an_error_that_no_totals_have_is_refused_naming_the_field(lie, field) -> None:
    document = registry.check({**ASKED, "epsilon": 1.0})
    aggregator = aggregator_of(document, SITES)
    honest = noised(np.array([5.0]), made=(1.0, 0.0), bound=None)
    fields = {name: np.array([[lie[name]]]) if name == "totals" else np.array([lie[name]]) for name in lie}
    with pytest.raises(Mistake) as refused:
        aggregator.accept(Contributions("phase-0", 1, {**honest, **fields}, 0))
    assert refused.value.argument == f"payload.{field}"
    aggregator.accept(Contributions("phase-0", 1, honest, 0))


# --- all the way ---------------------------------------------------------------------------------------


def test_in_simulation_an_accuracy_costs_what_it_costs_sites_that_have_answered_nothing_before() -> None:
    rows = {site: pd.DataFrame({"who": range(500), "age": 40.0, "sex": "f"}) for site in SITES}
    document = {**ASKED, "accuracy": {"alpha": 20.0, "beta": 0.05}}
    release = thebes.simulate(document, rows, schema=BODY, seed=2)
    assert release.certificate.epsilon == priced(registry.check(document), SITES).epsilon
    assert abs(release.value - 1500) <= 40
    assert release.extra["accuracy"]["reached"] <= 20


def office_at(folder: Path, name: str) -> Office:
    return Office(site_home(folder, rows=400), name)


def at(office: Office) -> Any:
    async def answer(message: dict[str, Any]) -> dict[str, Any]:
        return office.answer(message)

    return answer


def test_two_sites_of_which_one_has_the_answer_already(tmp_path: Path) -> None:
    """A quote asks both; the task runs at its price, of which the site that has the answer pays nothing."""
    north, south = office_at(tmp_path / "north", "north"), office_at(tmp_path / "south", "south")

    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            sites = await world.near(north=at(north), south=at(south))
            before = await world.service.quote({**ASKED, "epsilon": 2.0}, ANA)
            assert before["price"]["epsilon"] == 2.0
            assert {told["source"] for told in before["sites"].values()} == {"mechanism"}
            first = await world.asked({**ASKED, "sites": ["north"], "epsilon": 2.0})
            assert first["result"]["cost"]["epsilon"] == 2.0
            known = await world.service.quote({**ASKED, "epsilon": 2.0}, ANA)
            assert known["sites"]["north"] == {"epsilon": 0.0, "delta": 0.0, "source": "cache"}

            asked = {**ASKED, "accuracy": {"alpha": 10.0, "beta": 0.05}}
            quote, stranger = await world.service.quote(asked, ANA), await world.service.quote(asked)
            assert quote["price"]["epsilon"] < stranger["price"]["epsilon"]
            assert quote["sites"]["north"]["source"] == "cache"
            assert set(stranger["missing"]) == {"north", "south"}
            spent = {name: office.ledger.remaining("patients").epsilon for name, office in (("n", north), ("s", south))}
            done = await world.asked(asked)
            release = release_from_json(done["result"])
            assert done["document"]["epsilon"] == quote["price"]["epsilon"] == release.certificate.epsilon
            assert done["price"]["epsilon"] == quote["price"]["epsilon"]
            assert (release.source, release.sites["north"]["source"]) == ("mixed", "cache")
            assert release.sites["south"]["cost"]["epsilon"] == quote["price"]["epsilon"]
            assert release.extra["accuracy"]["reached"] <= 10
            assert abs(release.value - 800) <= 80  # noise of about 3.3: farther off less than once in 10^10
            assert north.ledger.remaining("patients").epsilon == spent["n"]
            left = spent["s"] - south.ledger.remaining("patients").epsilon
            assert float(left) == quote["price"]["epsilon"]

            for most, field in ((0.01, "max_epsilon"),):
                with pytest.raises(InvalidDocument) as refused:
                    await world.service.post({**asked, "max_epsilon": most, "where": "age < 50"}, ANA)
                assert refused.value.argument == field
            south_link = sites["south"]
            south_link.leave()
            away = await world.service.quote({**asked, "where": "age < 40"}, ANA)
            assert away["missing"] == {"south": "is not linked"}
            assert set(away["sites"]) == {"north"}

    asyncio.run(scenario())
    heard = [entry.event for entry in north.audit.entries()]
    assert heard.count("quote") == heard.count("quoted") == 8, "a quote by accuracy asks twice"


def test_sites_whose_budgets_count_in_rho_are_asked_for_gaussian_noise(tmp_path: Path) -> None:
    offices = {name: Office(site_home(tmp_path / name, rows=400, delta="1e-5"), name) for name in ("north", "south")}

    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            await world.near(**{name: at(office) for name, office in offices.items()})
            for sites in (["north"], ["north", "south"]):
                asked = {**ASKED, "sites": sites, "accuracy": {"alpha": 40.0, "beta": 0.05}, "delta": 1e-7}
                quote = await world.service.quote(asked, ANA)
                before = {name: rho_spent(office) for name, office in offices.items()}
                release = release_from_json((await world.asked(asked))["result"])
                assert "gaussian noise at each site" in release.certificate.mechanism
                assert "laplace" not in release.certificate.mechanism
                assert release.certificate.epsilon == quote["price"]["epsilon"]
                assert release.extra["accuracy"]["reached"] <= 40
                most = 0.6 * float(quote["price"]["epsilon"]) ** 2 / 2  # what noise of a pure epsilon would cost
                for site in sites:
                    assert 0 < rho_spent(offices[site]) - before[site] < most
                again = await world.service.quote(asked, ANA)
                assert {told["source"] for told in again["sites"].values()} == {"cache"}

    asyncio.run(scenario())


def rho_spent(office: Office) -> float:
    return office.ledger.block("patients").meters["rho"].spent * 1e-12


class Guessing:
    """A synopsis that is right, and says that it may cost 0.3 to know."""

    def __init__(self, dear: Any) -> None:
        self.dear = dear

    def covers(self, plan: Any) -> bool:
        return True

    def preparation(self, view: Any) -> list[Any]:
        return []

    def most(self, plan: Any, wanted: Any, view: Any) -> Any:
        return None if wanted.width is None else [self.dear, self.dear]

    def answer(self, plan: Any, wanted: Any, rows: Any, pay: Any, randomness: Any) -> Answered:
        pay(self.dear)
        bound = (wanted.width, wanted.beta)
        return Answered(rows.totals(plan).astype(float), None, bound, AnswerSource.SYNOPSIS)

    def heard(self, plan: Any, answered: Any, view: Any) -> None: ...

    def changed(self) -> dict[str, Any]:
        return {}

    def restore(self, pieces: Any) -> None: ...


def test_a_synopsis_at_one_site_leaves_the_others_their_own_share(tmp_path: Path) -> None:
    north, south = office_at(tmp_path / "north", "north"), office_at(tmp_path / "south", "south")
    dataset = north.datasets.get("patients")
    for planner in (north.caches(dataset), north.caches.looking(dataset)):  # who answers, and who says for how much
        planner._synopsis = Guessing(Purchase.pure("0.15"))

    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            await world.near(north=at(north), south=at(south))
            asked = {**ASKED, "accuracy": {"alpha": 40.0, "beta": 0.05}, "max_epsilon": 1.0}
            quote = await world.service.quote(asked, ANA)
            assert quote["price"]["epsilon"] == 0.3
            assert quote["sites"]["north"] == {"epsilon": 0.3, "delta": 0.0, "source": "synopsis"}
            assert 0 < quote["sites"]["south"]["epsilon"] < 0.3
            done = await world.asked(asked)
            release = release_from_json(done["result"])
            assert done["document"]["epsilon"] == 0.3
            assert release.sites["north"] == {"cost": {"epsilon": 0.15, "delta": 0.0}, "source": "synopsis"}
            assert release.sites["south"]["cost"]["epsilon"] == quote["sites"]["south"]["epsilon"]
            assert release.extra["accuracy"]["reached"] <= 40
            assert float(north.ledger.remaining("patients").epsilon) == 9.85  # the rest was given back
            without = await world.service.quote({**asked, "max_epsilon": 0.25, "where": "age < 50"}, ANA)
            assert without["sites"]["north"]["source"] == "mechanism"

    asyncio.run(scenario())


def test_a_quote_is_refused_to_whom_the_policy_allows_nothing_and_reads_no_row(tmp_path: Path, monkeypatch) -> None:
    office = office_at(tmp_path / "north", "north")
    monkeypatch.setattr(office.contributing, "_tables", lambda *_: pytest.fail("a row was read"))
    question = {"kind": "quote", "id": "1", "requestor": "ana", "document": {**ASKED, "epsilon": 1.0}}
    told = office.answer(question)
    assert told == {"kind": "quoted", "filter": "basic", "cost": [1.0, 0.0], "source": "mechanism", "allowed": True}
    assert office.answer({**question, "document": by_accuracy().as_json()}) == {"kind": "quoted", "filter": "basic"}
    for message, code in (
        ({**question, "document": {**ASKED, "epsilon": 1.0, "dataset": "else"}}, "dataset"),
        ({**question, "document": {**ASKED, "epsilon": 1.0, "sites": ["south"]}}, "document"),
        ({**question, "document": {**ASKED, "epsilon": 1.0, "statistic": "sum", "column": "none"}}, "schema"),
        ({**question, "document": 3}, "document"),
        ({**question, "requestor": ""}, "document"),
        ({**question, "payload": {"width": -1.0, "beta": 0.1}}, "document"),
        ({**question, "payload": {"width": 3.0}}, "document"),
        (ask(by_accuracy().as_json()), "document"),  # nobody said yet what it costs
        (ask(by_accuracy(max_epsilon=1.0).as_json()), "document"),
    ):
        assert office.answer(message)["code"] == code
    (tmp_path / "north" / "policy.toml").write_text("")
    assert office.answer(question)["code"] == "policy"
    assert [entry.event for entry in office.audit.entries()][-2:] == ["quote", "refused"]
    assert office.ledger.remaining("patients").epsilon == 10


def test_a_page_says_how_exact_an_answer_is_and_where_it_came_from() -> None:
    document = priced(by_accuracy(), SITES)
    made = {"north": (2.0, 0.0), "south": (document.epsilon, 0.0)}
    release = answered(document, SITES, {**made, "west": Bound((3.0, 0.01))}, {"north": (0.0, "cache")})
    shown = {section.title: section for section in sections(release, document)}
    assert shown["How exact it is"].words.startswith(
        "Asked for: within 20, but for the odds 0.05. As it was answered: "
    )
    rows = [row[2] for row in _covered(release).table.rows]
    assert rows[0] == "epsilon 0: it had released the same before"
    assert rows[1] == f"epsilon {document.epsilon:g}"
    plain = answered(registry.check({**ASKED, "epsilon": 1.0}), SITES, dict.fromkeys(SITES, (1.0, 0.0)))
    assert "How exact it is" not in {s.title for s in sections(plain, registry.check({**ASKED, "epsilon": 1.0}))}
