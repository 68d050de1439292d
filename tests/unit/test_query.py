"""Queries over institutions: their documents, who answers, what is refused, and what a release says."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import thebes
from tests.support.examples import examples
from thebes.cli.simulate import simulate
from thebes.data.engines.source import frame_table
from thebes.data.schema import Schema, schema_of
from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Unit
from thebes.privacy.randomness import seeded_for_simulation
from thebes.tasks import registry
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.contributions import Contributions, read_payloads
from thebes.tasks.document import InvalidDocument
from thebes.tasks.protocols import Ask, Setting, State
from thebes.tasks.query.release import QueryRelease
from thebes.tasks.query.totals import LOWER, TOTALS, UPPER

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
RNG = np.random.default_rng(8)
SCHEMA: dict[str, Any] = {
    "unit": "person",
    "columns": {
        "age": {"type": "float", "low": 0, "high": 100},
        "weight": {"type": "float", "low": 20, "high": 220},
        "sex": {"type": "string", "values": ["female", "male"]},
    },
}


def rows(count: int) -> pd.DataFrame:
    age = RNG.uniform(20, 80, count)
    return pd.DataFrame({"age": age, "weight": 40 + age / 2, "sex": RNG.choice(["female", "male"], count)})


SITES = {"north": rows(300), "south": rows(200), "west": rows(100)}
ALL = pd.concat(SITES.values(), ignore_index=True)


def query(statistic: str = "mean", **more: Any) -> dict[str, Any]:
    body = {"type": "query", "dataset": "patients", "statistic": statistic, "epsilon": 1.0}
    if statistic in ("mean", "sum", "variance") and "column" not in more:
        body["column"] = "age"
    return {**body, **more}


def simulated(document: dict[str, Any], seed: int = 1, **more: Any) -> QueryRelease:
    release = thebes.simulate(document, SITES, schema=more.pop("schema", SCHEMA), seed=seed)
    assert isinstance(release, QueryRelease)
    return release


# --- documents -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": None}, "epsilon"),
        ({"statistic": "median"}, "statistic"),
        ({"column": "age; DROP"}, "column"),
        ({"columns": ["age", "weight"]}, "columns"),
        ({"statistic": "correlation", "column": "age", "columns": ["age", "weight"]}, "column"),
        ({"statistic": "correlation", "column": None, "columns": ["age"]}, "columns"),
        ({"statistic": "count"}, "column"),
        ({"where": "age >"}, "where"),
        ({"where": "age > 3; SELECT 1"}, "where"),
        ({"where": ""}, "where"),
        ({"by": []}, "by"),
        ({"by": ["sex", "sex"]}, "by"),
        ({"bins": 4}, "bins"),
        ({"statistic": "histogram", "bins": [3, "x"]}, "bins"),
        ({"statistic": "histogram", "bins": [4, 3]}, "bins"),
        ({"statistic": "quantile", "quantile": 1.0}, "quantile"),
        ({"statistic": "quantile"}, "quantile"),
        ({"privacy": "none"}, "epsilon"),
        ({"privacy": "some"}, "privacy"),
        ({"privacy": "none", "epsilon": 0, "noise": "coordinator"}, "noise"),
        ({"privacy": "none", "epsilon": 0, "delta": 1e-6}, "epsilon"),
        ({"min_sites": 3, "sites": ["a", "b"]}, "min_sites"),
        ({"min_count": 20}, "min_count"),
        ({"dataset": "Patients!"}, "dataset"),
        ({"noise": "nowhere"}, "noise"),
    ],
    ids=str,
)
def test_a_document_that_cannot_work_names_the_field(more, field) -> None:
    body = {name: value for name, value in {**query(), **more}.items() if value is not None}
    with pytest.raises(InvalidDocument) as refused:
        registry.check(body)
    assert field in {named.split(".")[0] for named, _ in refused.value.problems}


@pytest.mark.parametrize(("epsilon", "told"), [(0, "must be above 0"), (1e-9, "must be above 0"), (None, "is missing")])
def test_a_price_of_nothing_is_not_called_missing(epsilon: float | None, told: str) -> None:
    body = {name: value for name, value in {**query(), "epsilon": epsilon}.items() if value is not None}
    with pytest.raises(InvalidDocument, match=f"^epsilon: {told}"):
        registry.check(body)


@pytest.mark.parametrize(("wrong", "meant"), [("epsilom", "epsilon"), ("Where", "where"), ("colum", "column")])
def test_a_misspelt_field_is_asked_back_before_what_is_missing_for_that(wrong: str, meant: str) -> None:
    body = {name: value for name, value in query().items() if name != meant}
    with pytest.raises(InvalidDocument, match=f"^{wrong}: .*did you mean {meant}?"):
        registry.check({**body, wrong: 1})


def test_what_others_call_a_statistic_is_asked_back_and_columns_are_listed() -> None:
    for statistic, meant in (("median", "quantile"), ("average", "mean"), ("coutn", "count")):
        with pytest.raises(InvalidDocument, match=f"; did you mean {meant}"):
            registry.check({"type": "query", "dataset": "patients", "statistic": statistic, "epsilon": 1})
    with pytest.raises(Mistake, match=r"does not offer; there are age, weight, sex$"):
        schema_of(SCHEMA).column("agee")
    with pytest.raises(Mistake, match="a text stands in single quotes"):
        thebes.simulate(query("count", where='sex = "female"'), SITES, schema=SCHEMA)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = (
    *("statistic", "column", "columns", "where", "by", "bins", "quantile", "privacy", "epsilon", "delta", "noise"),
    *("sites", "dataset", "min_sites", "patience", "expires_at", "name"),
)


@pytest.mark.slow
@examples(60)
@given(
    st.dictionaries(st.sampled_from(FIELDS), json_like, max_size=4),
    st.sampled_from(["count", "mean", "histogram", "quantile", "correlation"]),
)
def test_no_document_ends_in_anything_but_acceptance_or_a_refusal_that_names_a_field(changes, statistic) -> None:
    refused = refusal({**query(statistic), **changes})
    assert refused is None or (refused.argument and len(str(refused)) < 1000)


def refusal(body: dict[str, Any]) -> Mistake | None:
    """Return what is wrong with a document, alone or for the schema of these tests."""
    try:
        document = registry.check(body)
        assert registry.kind("query").explain(document)
        registry.site_kind(document).fits(document, schema_of(SCHEMA))
    except Mistake as refused:
        return refused
    return None


words = ["age", "sex", "weight", "nosuch", "AND", "OR", "NOT", "IN", "IS", "NULL", "SELECT", "1", "'x'", "(", ")", ","]
conditions = st.lists(st.sampled_from([*words, "=", "<", ">=", "--", ";", ".", "%", "\n"]), max_size=12).map(" ".join)


@pytest.mark.slow
@examples(50)
@given(conditions)
def test_no_condition_ends_in_anything_but_acceptance_or_a_refusal_of_where(text) -> None:
    refused = refusal(query("count", where=text))
    assert refused is None or refused.argument == "where"


def test_keys_and_bins_may_be_written_in_the_ways_people_write_them() -> None:
    assert registry.check(query(by="sex")) == registry.check(query(by=["sex"]))
    whole = registry.check(query("histogram", column="age", bins=[30, 60]))
    assert whole.digest == registry.check(query("histogram", column="age", bins=[30.0, 60.0])).digest


# --- answers -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["site", "coordinator"])
def test_answers_over_all_sites_are_near_the_truth_and_say_how_near(noise) -> None:
    by_sex = ALL.groupby("sex")["age"].mean()
    truths: list[tuple[dict[str, Any], Any]] = [
        (query("count", where="age < 50"), (ALL["age"] < 50).sum()),
        (query("sum"), ALL["age"].sum()),
        (query("mean"), ALL["age"].mean()),
        (query("variance"), ALL["age"].var(ddof=0)),
        (query("quantile", column="age", quantile=0.3, bins=128), ALL["age"].quantile(0.3)),
        (query("correlation", columns=["age", "weight"]), 1.0),
        (query("mean", by="sex"), by_sex.to_dict()),
        (query("histogram", column="sex"), ALL["sex"].value_counts().to_dict()),
    ]
    for document, truth in truths:
        release = simulated({**document, "noise": noise, "epsilon": 20.0})
        bar = release.interval(0.99)
        told = release.value if isinstance(truth, dict) else {"": release.value}
        expected = truth if isinstance(truth, dict) else {"": truth}
        assert set(told) == set(expected)
        lows, highs = np.atleast_1d(bar.low), np.atleast_1d(bar.high)
        for place, key in enumerate(told):
            assert lows[place] - 1e-3 <= expected[key] <= highs[place] + 1e-3
            assert lows[place] <= told[key] <= highs[place]


def test_noise_at_each_site_makes_wider_error_bars_than_one_at_the_coordinator() -> None:
    for statistic in ("count", "sum", "mean", "variance"):
        widths = []
        for noise in ("site", "coordinator"):
            bar = simulated(query(statistic, noise=noise)).interval()
            widths.append(bar.high - bar.low)
        assert 1.3 < widths[0] / widths[1] < 3.5  # the root of three, about


def test_a_certificate_says_where_noise_was_added_and_whom_to_trust() -> None:
    site = simulated(query(noise="site", delta=0.01)).certificate
    assert (site.trust, site.guarantee, site.epsilon, site.delta) == ("site", "pure", 1.0, 0.0)
    assert set(site.parameters["noise"]) == set(SITES)
    assert all(noise == {"kind": "laplace", "scale": 1.0} for noise in site.parameters["noise"].values())
    assert site.bounds == {"age": {"type": "range", "low": 0.0, "high": 100.0}}
    assert "m sites pays m times" in site.text
    once = simulated(query(noise="coordinator")).certificate
    assert (once.trust, set(once.parameters["noise"])) == ("server", {"coordinator"})
    assert "exact totals" in once.text
    assert "once at the coordinator" in once.mechanism
    with_delta = simulated(query("quantile", column="age", quantile=0.5, epsilon=0.2, delta=0.1)).certificate
    assert (with_delta.guarantee, with_delta.delta) == ("approximate", 0.1)
    assert "least expected error" in with_delta.text
    assert simulated(query(), schema={**SCHEMA, "unit": "event"}).certificate.unit is Unit.EVENT


def test_with_one_noise_for_all_sites_several_of_them_cost_more_than_as_many_deltas() -> None:
    """Somebody at two sites moves the one noisy total twice as far: more than two deltas, as the certificate says."""
    asked = query("quantile", column="age", quantile=0.5, epsilon=2.0, delta=1e-2, noise="coordinator")
    certificate = simulated(asked).certificate
    (noise,) = certificate.parameters["noise"].values()
    assert noise["kind"] == "gaussian"
    levels = len(certificate.parameters["levels"])

    def delta(sites: int) -> float:
        far = sites * levels**0.5 / noise["scale"]  # in standard deviations
        epsilon = 2.0 * sites
        ends = norm.cdf([far / 2 - epsilon / far, -far / 2 - epsilon / far])
        return float(ends[0] - np.exp(epsilon) * ends[1])

    assert delta(1) <= 1e-2
    assert 4e-2 < delta(2) <= 1e-2 * (np.exp(4) - 1) / (np.exp(2) - 1)
    assert "which is more than m times" in certificate.text
    assert "more than m times" not in simulated({**asked, "noise": "site"}).certificate.text
    assert "more than m times" not in simulated(query(noise="coordinator")).certificate.text


def test_a_release_says_what_it_covers_and_what_it_cost() -> None:
    release = simulated(query(sites=["south", "west"], by="sex"))
    assert release.coverage == {"answered": ["south", "west"], "missing": {}}
    assert release.cost == {"epsilon": 1.0, "delta": 0.0}
    assert release.source == "mechanism"
    assert "answered by: south, west" in str(release)
    assert release.as_json()["by"] == ["sex"]


def test_public_data_sets_are_answered_exactly_and_only_those() -> None:
    document = query("mean", privacy="none")
    del document["epsilon"]
    open_to_all = {**SCHEMA, "public": True}
    release = simulated(document, schema=open_to_all)
    assert release.value == pytest.approx(ALL["age"].mean(), abs=1e-4)
    assert release.certificate.guarantee == "none"
    assert release.interval() is None
    assert "No privacy guarantee" in release.certificate.text
    assert "marked the data set public" in registry.kind("query").explain(registry.check(document))
    for closed in (SCHEMA, {"north": open_to_all, "south": SCHEMA, "west": open_to_all}):
        with pytest.raises(Mistake) as refused:
            simulated(document, schema=closed)
        assert refused.value.argument == "privacy"
    checked = registry.check(document)
    ask = Ask("a", "phase-0", 0)
    table = frame_table(schema_of(SCHEMA), SITES["north"])
    with pytest.raises(Mistake, match="public"):
        registry.site_owner(checked).contribute(
            checked, ask, table, RecordedClaim(), randomness=seeded_for_simulation(1)
        )


# --- who answers ---------------------------------------------------------------------------------------


def aggregator_of(document: Any, schemas: dict[str, Schema] | None = None) -> Any:
    known = schemas or {site: schema_of(SCHEMA) for site in SITES}
    setting = Setting(unit=Unit.PERSON, randomness=seeded_for_simulation(1), simulated=True, sites=known)
    return registry.aggregator(document, setting)


def answer(document: Any, aggregator: Any, site: str, frame: pd.DataFrame | None = None) -> Contributions:
    ask = aggregator.ask(site)
    table = frame_table(aggregator.setting.sites[site], SITES[site] if frame is None else frame)
    return registry.site_owner(document).contribute(
        document, ask, table, RecordedClaim(), randomness=seeded_for_simulation(len(site))
    )


def test_a_release_says_of_which_blocks_it_is_and_what_their_budgets_assume() -> None:
    document = registry.check(query("count", sites=["north"]))
    assumption = "The budget holds for each developer by itself."
    told = {"blocks": 3, "since": "2026-01-01T00:00:00+00:00", "until": "2026-01-04T00:00:00+00:00"}
    aggregator = aggregator_of(document, {"north": schema_of(SCHEMA)})
    aggregator.accept(answer(document, aggregator, "north"))
    aggregator.covers("north", {**told, "assumption": assumption, "rows": 17})
    again = aggregator_of(document, {"north": schema_of(SCHEMA)})
    again.restore(aggregator.snapshot())
    for one in (aggregator, again):
        one.advance(NOON)
        release = one.release()
        assert release.coverage["blocks"] == {"north": told}
        assert f"At north: {assumption}" in release.certificate.notes
        assert assumption in release.certificate.text
    for wrong in (None, 3, {"blocks": True}, {"blocks": -1}, {"since": "x"}):
        silent = aggregator_of(document, {"north": schema_of(SCHEMA)})
        silent.accept(answer(document, silent, "north"))
        silent.covers("north", wrong)
        silent.advance(NOON)
        assert "blocks" not in silent.release().coverage


def test_a_partial_answer_names_who_is_missing_and_why() -> None:
    document = registry.check(query("count", min_sites=2, noise="coordinator", epsilon=1000.0))
    aggregator = aggregator_of(document)
    aggregator.accept(answer(document, aggregator, "north"))
    aggregator.excuse("west", "its budget for this data set is spent")
    aggregator.advance(NOON)
    assert aggregator.state is State.OPEN
    aggregator.accept(answer(document, aggregator, "south"))
    aggregator.advance(NOON)
    release = aggregator.release()
    assert release.value == pytest.approx(500, abs=1)
    assert release.coverage["missing"] == {"west": "its budget for this data set is spent"}
    assert "without west: its budget" in str(release)
    assert set(release.certificate.parameters["rows_of_one_person"]) == {"north", "south"}


def test_sites_that_differ_only_in_rows_of_a_person_are_added_up_each_with_its_own_noise() -> None:
    body = {**SCHEMA, "columns": {**SCHEMA["columns"], "who": {"type": "string", "key": True}}}
    schemas = {"north": schema_of(body), "south": schema_of({**body, "max_rows_per_unit": 4})}
    for noise, scales in (("site", {"north": 1.0, "south": 4.0}), ("coordinator", {"coordinator": 4.0})):
        document = registry.check(query("count", noise=noise))
        aggregator = aggregator_of(document, schemas)
        for site in schemas:
            frame = SITES[site].assign(who=[f"p{i // 5}" for i in range(len(SITES[site]))])
            aggregator.accept(answer(document, aggregator, site, frame))
        aggregator.advance(NOON)
        said = aggregator.release().certificate.parameters["noise"]
        assert {who: each["scale"] for who, each in said.items()} == scales
        assert aggregator.release().value == pytest.approx(60 + 160, abs=60)


def test_what_the_coordinator_was_shown_is_forgotten_once_noise_was_added() -> None:
    document = registry.check(query("count", noise="coordinator"))
    aggregator = aggregator_of(document)
    for site in SITES:
        aggregator.accept(answer(document, aggregator, site))
    assert "totals" in aggregator.memory()[1]
    aggregator.advance(NOON)
    assert aggregator.memory() == ({}, {})


# --- dishonest and broken sites ------------------------------------------------------------------------


def payload(document: Any, aggregator: Any, site: str) -> tuple[Ask, Any, dict[str, Any]]:
    ask = aggregator.ask(site)
    layout = aggregator.layout(ask.part, ask.partition)
    return ask, layout, next(iter(answer(document, aggregator, site).payloads(layout)))


@pytest.mark.parametrize("statistic", ["count", "mean", "variance", "histogram", "quantile", "sum"])
def test_totals_that_no_honest_site_could_send_are_refused_naming_the_field(statistic) -> None:
    more: dict[str, Any] = {
        "histogram": {"column": "age", "bins": 4},
        "quantile": {"column": "age", "quantile": 0.5},
    }.get(statistic, {})
    for noise in ("site", "coordinator"):
        document = registry.check(query(statistic, noise=noise, **more))
        aggregator = aggregator_of(document)
        ask, layout, honest = payload(document, aggregator, "north")
        name = TOTALS if noise == "site" else UPPER
        lies = [[-(2.0**58)] * len(honest[name]), [2.0**62] * len(honest[name])]
        if noise == "coordinator":
            lies = [[-(2**28)] * len(honest[name]), [2**31 + 1] * len(honest[name])]
        elif statistic != "sum":
            lies.append([-1e9 * 2**20] * len(honest[name]))
        lies.append([honest[name][0] + 0.5, *honest[name][1:]])
        for lie in lies:
            with pytest.raises(Mistake) as refused:
                aggregator.accept(read_payloads(layout, ask.part, [{**honest, name: lie}], ask.partition))
            assert refused.value.argument.startswith("payload.")
        assert aggregator.answered == []
        aggregator.accept(read_payloads(layout, ask.part, [honest], ask.partition))


def test_cells_that_do_not_add_up_to_whole_rows_are_refused() -> None:
    document = registry.check(query("mean", noise="coordinator"))
    aggregator = aggregator_of(document)
    ask, layout, honest = payload(document, aggregator, "north")
    lower = [honest[LOWER][0] ^ 1, honest[LOWER][1]]
    with pytest.raises(Mistake, match="cannot be the totals"):
        aggregator.accept(read_payloads(layout, ask.part, [{**honest, LOWER: lower}], ask.partition))


def test_more_rows_than_there_can_be_overflow_nothing() -> None:
    document = registry.check(query("count", noise="coordinator"))
    aggregator = aggregator_of(document)
    most = 2**40
    for site in SITES:
        ask = aggregator.ask(site)
        told = {UPPER: [most >> 30], LOWER: [0]}
        layout = aggregator.layout(ask.part, ask.partition)
        aggregator.accept(read_payloads(layout, ask.part, [told], ask.partition))
    aggregator.advance(NOON)
    assert aggregator.release().value == pytest.approx(3 * most, rel=1e-9)


# --- simulation ----------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_answer_and_another_another() -> None:
    assert simulated(query(), seed=3).as_json() == simulated(query(), seed=3).as_json()
    assert simulated(query(), seed=3).value != simulated(query(), seed=4).value
    assert thebes.simulate(query(), SITES, schema=schema_of(SCHEMA)).certificate.simulated


def test_rows_may_be_columns_and_schemas_may_differ_by_site() -> None:
    columns = {site: {name: frame[name].tolist() for name in frame} for site, frame in SITES.items()}
    one = thebes.simulate(query(), columns, schema=SCHEMA, seed=3)
    assert one.value == simulated(query(), seed=3).value
    odd = {**SCHEMA, "columns": {**SCHEMA["columns"], "age": {"type": "float", "low": 0, "high": 120}}}
    schemas = {"north": SCHEMA, "south": SCHEMA, "west": odd}
    release = thebes.simulate(query(), SITES, schema=schemas, seed=3)
    assert "'age'" in release.coverage["missing"]["west"]
    lacking = {**SCHEMA, "columns": {"weight": SCHEMA["columns"]["weight"]}}
    release = thebes.simulate(query(), SITES, schema={**schemas, "west": lacking}, seed=3)
    assert "column" in release.coverage["missing"]["west"]


@pytest.mark.parametrize(
    ("document", "given_rows", "schema", "argument"),
    [
        (query(), SITES, None, "schema"),
        (query(), SITES["north"], SCHEMA, "rows"),
        (query(), {}, SCHEMA, "rows"),
        (query(sites=["north", "east"]), SITES, SCHEMA, "rows"),
        (query(), SITES, {"north": SCHEMA}, "schema"),
        (query(min_sites=4), SITES, SCHEMA, "sites"),
        (query(), SITES, {"unit": "person", "columns": {}}, "columns"),
    ],
    ids=["no schema", "no sites", "nobody", "absent", "schema absent", "too few", "bad schema"],
)
def test_a_simulation_that_cannot_be_is_refused_in_words(document, given_rows, schema, argument) -> None:
    with pytest.raises(Mistake) as refused:
        thebes.simulate(document, given_rows, schema=schema, seed=1)
    assert refused.value.argument == argument


def test_people_have_no_schema() -> None:
    people = {"type": "basic", "epsilon": 1.0, "featurizer": "SELECT a FROM p.t", "aggregator": "mean"}
    with pytest.raises(Mistake, match="schema"):
        thebes.simulate(people, {"a": [1.0] * 20}, schema=SCHEMA)


def test_the_command_simulates_sites_from_files(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for site, frame in SITES.items():
        frame.to_csv(f"{site}.csv", index=False)
    SITES["west"].to_parquet("west.parquet")
    Path("task.json").write_text(json.dumps(query(epsilon=50.0)))
    Path("schema.json").write_text(json.dumps(SCHEMA))

    files = ["north.csv", "south=south.csv", "west=west.parquet"]
    simulate(Path("task.json"), files, schema=Path("schema.json"), aside=None, seed=1, json="out.json")
    body = json.loads(Path("out.json").read_text())
    assert body["value"] == pytest.approx(ALL["age"].mean(), abs=0.5)
    assert body["coverage"]["answered"] == ["north", "south", "west"]
    assert {path.name for path in tmp_path.iterdir()} == {
        *("north.csv", "south.csv", "west.csv", "west.parquet", "task.json", "schema.json", "out.json")
    }
    for wrong, schema in (
        (files, None),
        (["north.csv", "north=south.csv"], Path("schema.json")),
        (["nosuch.csv"], Path("schema.json")),
        (["No Name=north.csv"], Path("schema.json")),
        (["north=schema.json"], Path("schema.json")),
    ):
        with pytest.raises(Mistake):
            simulate(Path("task.json"), wrong, schema=schema, aside=None, seed=1, json=None)


def test_a_stewards_explanation_says_what_is_asked() -> None:
    words = registry.kind("query").explain(registry.check(query(by="sex", where="weight > 50", name="Trial 7")))
    for said in (
        "Trial 7",
        "patients",
        "the mean of age",
        "for each sex",
        "weight > 50",
        "epsilon 1",
        "age, sex, weight",
    ):
        assert said in words
