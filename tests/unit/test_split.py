"""Split trust: two servers of which neither sees a value make the same statistics, in simulations."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

import thebes
from tests.support.training import Silent
from thebes.data.rows import Rows
from thebes.privacy.certificate import Certificate
from thebes.privacy.faults import Fault, Mistake
from thebes.privacy.mechanisms.additive import Laplace
from thebes.privacy.promise import Adjacency, Unit
from thebes.privacy.randomness import system
from thebes.privacy.stability import Sensitivity
from thebes.sharing import Prio3, SealRefused, StrangeHelper, context_of
from thebes.tasks import registry
from thebes.tasks.aggregation.split_servers import CoordinateNoise, SplitServer
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.basic.kind import STATISTICS
from thebes.tasks.basic.quantile_of_bins import QuantileOfBins
from thebes.tasks.basic.split import statistic
from thebes.tasks.basic.split_answer import SplitAggregator
from thebes.tasks.contributions import Contributions
from thebes.tasks.document import Document, InvalidDocument
from thebes.tasks.posting_rules import check_postable
from thebes.tasks.protocols import Ask, Setting
from thebes.tasks.split_reports import REPORT, bytes_of

NOON = datetime(2030, 1, 1, tzinfo=UTC)
AGES = np.array([0.0, 20.0, 30.5, 40.0, 40.0, 55.25, 70.0, 100.0, 130.0, -5.0])
CUT = np.clip(AGES, 0, 100)
RANGE = {"age": {"type": "range", "low": 0.0, "high": 100.0}}
EVERYBODY = {"age": {**RANGE["age"], "default": 50.0}}
TOWNS = {"age": {"type": "set", "values": ["a", "b", "c"]}}


def asked(aggregator: str, **more: Any) -> dict[str, Any]:
    document = {
        "type": "basic",
        "server": "split",
        "epsilon": 1.0,
        "min_count": 10,
        "featurizer": "SELECT age FROM p.t",
        "bounds": RANGE,
        "aggregator": aggregator,
        **more,
    }
    return {name: value for name, value in document.items() if value is not None}


def heard(document: dict[str, Any], values: Any, randomness: Any = None) -> tuple[Any, Any, Ask]:
    """Return the aggregator, what everybody sends, and the ask."""
    checked = registry.check(document)
    source = Silent() if randomness is None else randomness
    aggregator = registry.aggregator(checked, Setting(Unit.DEVICE, source, simulated=True))
    aggregator.expect(len(values))
    ask = aggregator.ask("somebody")
    owner = registry.owner(checked, simulated=True)
    rows = Rows.one_each({"age": np.asarray(values)})
    return aggregator, owner.contribute(checked, ask, rows, RecordedClaim(), randomness=source), ask


def exact(document: dict[str, Any], values: Any = AGES) -> Any:
    """Release what both servers open where neither adds noise."""
    aggregator, sent, _ = heard(document, values)
    aggregator.accept(sent)
    aggregator.advance(NOON)
    return aggregator.release()


NAN = np.array([np.nan, *AGES[1:]])


@pytest.mark.parametrize(
    ("document", "values", "expected"),
    [
        (asked("mean"), AGES, CUT.mean()),
        (asked("mean", bounds=EVERYBODY), NAN, (50 + CUT[1:].sum()) / 10),
        (asked("sum"), NAN, CUT[1:].sum()),
        (asked("sum", bounds=EVERYBODY), NAN, 50 + CUT[1:].sum()),
        (asked("sum", bounds={"age": {"type": "range", "low": -10, "high": -1}}), NAN, -13.0),
        (asked("sum", bounds={"age": {"type": "range", "low": 10, "high": 90, "default": 10}}), NAN, 455.75),
        (asked("variance"), AGES, CUT.var()),
        (asked("count", missing="count", bounds=None), NAN, 9),
        (asked("median", bins=100), AGES, 40.5),
        (asked("quantile", quantile=0.85, bins=100), AGES, 99.5),
    ],
)
def test_the_opened_answer_is_that_of_the_values_cut_to_their_bounds(document, values, expected) -> None:
    release = exact(document, values)
    near = 1.01 if "bins" in document else 1e-3
    assert release.value == pytest.approx(expected, abs=near)
    bar = release.interval()
    assert bar.low <= expected <= bar.high


@pytest.mark.parametrize(
    ("document", "values", "counts", "missing"),
    [
        (asked("histogram", bins=4), NAN, [2, 3, 2, 2], 1),
        (asked("histogram", bins=4, bounds=EVERYBODY), NAN, [2, 3, 3, 2], None),
        (asked("histogram", bins=2, bounds=EVERYBODY), NAN, [5, 5], None),
        (asked("histogram", bounds=TOWNS), np.array(["a", "c", "c", None, "d"], dtype=object), [1, 0, 2], 2),
    ],
)
def test_a_histogram_opens_to_its_counts(document, values, counts, missing) -> None:
    release = exact(document, values)
    assert list(release.value.values()) == counts
    told = release.extra.get("missing")
    assert (told and told["value"]) == missing


def test_everything_that_can_be_split_is_tried_here() -> None:
    assert set(STATISTICS) == {"count", "sum", "mean", "median", "variance", "quantile", "histogram"}


@pytest.mark.parametrize("delta", [0, 1e-2])
def test_the_noise_of_each_server_is_that_of_one_trusted_server(delta) -> None:
    for document in (asked("mean"), asked("histogram", bins=4), asked("sum"), asked("variance")):
        two = exact({**document, "delta": delta, "bounds": EVERYBODY}).certificate.parameters
        values = AGES
        alone = thebes.simulate(
            {**document, "server": "trusted", "delta": delta, "bounds": EVERYBODY}, {"age": values.tolist()}, seed=1
        ).certificate.parameters
        assert (two["noise"], two["scale"]) == (alone["noise"], alone["scale"])


def test_the_certificate_says_who_would_have_to_break_their_word() -> None:
    certificate = exact(asked("mean")).certificate
    assert certificate.trust == "split"
    assert certificate.parameters["servers"] == ["the coordinator", "the helper"]
    assert "at least one of the coordinator and the helper keeps its word" in certificate.text
    assert certificate.parameters["influence"] == "by no more than one honest person"
    assert (certificate.epsilon, certificate.delta, certificate.guarantee) == (1.0, 0.0, "pure")
    unnamed = Certificate(Unit.DEVICE, Adjacency.REPLACE_ONE, 1, 0, "pure", "x", {"servers": 3}, trust="split")
    assert "at least one of two servers keeps" in unnamed.text


def test_people_are_told_that_both_together_could_read_their_value() -> None:
    told = registry.kind("basic").explain(registry.check(asked("mean")))
    assert "both together could put your value back together" in told
    assert "unchanged" not in told
    assert "keeps its share to itself and adds its noise" in told


@pytest.mark.parametrize(
    ("document", "proved"),
    [
        (asked("mean"), "it lies within bounds, though not that it is sent once"),
        (asked("variance"), "each of its two numbers lies within bounds, though not that they belong together"),
        (asked("sum", missing="count"), "it and the mark that it is missing lie within bounds"),
    ],
)
def test_people_are_told_no_more_of_the_proof_than_it_shows(document, proved) -> None:
    told = registry.kind("basic").explain(registry.check(document))
    assert f"with a proof that {proved}" in told
    assert "once" in told[told.index(proved) :].split(".")[0]


def test_a_simulation_with_two_servers_is_repeatable() -> None:
    document, people = asked("median", bins=10), {"age": AGES.tolist()}
    one, other = (thebes.simulate(document, people, seed=7) for _ in range(2))
    assert one.as_json() == other.as_json()
    assert one.certificate.simulated


def test_it_is_asked_for_by_one_word_more() -> None:
    task = thebes.task.mean("SELECT age FROM p.t", epsilon=1, bounds={"age": (0, 100)}, server="split")
    release = thebes.simulate(task, {"age": AGES.tolist()}, seed=1)
    assert release.certificate.trust == "split"


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (asked("std"), "server"),
        (asked("iqr"), "server"),
        (asked("mean", bounds=None), "bounds"),
        (asked("histogram", bounds=None, delta=1e-5), "bounds"),
        (asked("mean", missing="count"), "missing"),
        (asked("median", bins=10, missing="count"), "missing"),
        (asked("median"), "bins"),
        (asked("quantile", quantile=0.5), "bins"),
        (asked("median", bins=513), "bins"),
        (asked("histogram", bins=513), "bins"),
        (asked("histogram", bounds={"age": {"type": "set", "values": list(range(513))}}), "bounds.age"),
        (asked("mean", bins=10), "bins"),
        (asked("median", bins=10, server="trusted"), "bins"),
        (asked("mean", diagnostics=0.1), "diagnostics"),
        (asked("mean", server="shared"), "server"),
        ({**asked("mean"), "type": "integrated", "model": "LinearRegression", "output": "age"}, "server"),
    ],
)
def test_what_two_servers_cannot_make_is_refused_by_its_field(document, field) -> None:
    with pytest.raises(InvalidDocument) as refused:
        registry.check(document)
    assert field in [name for name, _ in refused.value.problems]


def test_a_document_that_says_trusted_is_what_it_was() -> None:
    given = {**asked("mean"), "server": "trusted"}
    unsaid = {name: value for name, value in given.items() if name != "server"}
    assert registry.check(given).digest == registry.check(unsaid).digest
    assert registry.check(given).digest != registry.check(asked("mean")).digest


def checked() -> Document:
    return registry.check(asked("mean"))


def test_no_coordinator_puts_it_up_without_a_helper_and_says_so() -> None:
    with pytest.raises(InvalidDocument) as refused:
        check_postable(checked(), NOON)
    ((field, words),) = refused.value.problems
    assert field == "helper"
    assert "name the site of a second institution" in words
    check_postable(registry.check({**asked("mean"), "helper": "ward"}), NOON)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"server": "trusted", "helper": "ward"}, "helper"),
        ({"helper_key": "0" * 64}, "helper_key"),
        ({"helper": "Ward of Mercy"}, "helper"),
        ({"helper": "ward", "helper_key": "none"}, "helper_key"),
    ],
)
def test_a_helper_goes_with_two_servers_and_its_key_with_a_helper(more: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidDocument) as refused:
        registry.check({**asked("mean"), **more})
    assert refused.value.problems[0][0] == field


def test_no_process_of_a_real_task_plays_both_servers() -> None:
    real = Setting(Unit.DEVICE, system())
    assert not isinstance(registry.aggregator(checked(), real), SplitAggregator)
    with pytest.raises(Fault):
        SplitAggregator(checked(), real)


def test_no_persons_machine_answers_without_a_helpers_signature() -> None:
    _, _, ask = heard(asked("mean"), AGES)
    rows = Rows.one_each({"age": AGES})
    with pytest.raises(StrangeHelper):
        registry.owner(checked()).contribute(checked(), ask, rows, RecordedClaim(), randomness=system())


def changed(sent: Contributions, row: int, change: Any) -> Contributions:
    texts = sent.fields[REPORT].tolist()
    raw = bytearray(base64.b64decode(texts[row]))
    texts[row] = base64.b64encode(bytes(change(raw))).decode()
    return Contributions(sent.part, sent.count, {REPORT: np.array(texts)})


def flipped(place: int) -> Any:
    def change(raw: bytearray) -> bytearray:
        raw[place] ^= 1
        return raw

    return change


def large(raw: bytearray) -> bytearray:
    raw[16:24] = b"\xff" * 8
    return raw


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (flipped(20), "does not prove"),
        (flipped(100), "does not prove"),
        (large, "does not prove"),
        (lambda raw: raw[:-1], "must hold"),
    ],
    ids=["value", "proof", "no element", "length"],
)
def test_a_report_that_proves_nothing_is_refused_and_nothing_was_heard(change, words) -> None:
    aggregator, sent, _ = heard(asked("mean"), AGES)
    with pytest.raises(Mistake, match=words):
        aggregator.accept(changed(sent, 3, change))
    aggregator.accept(sent)
    aggregator.advance(NOON)
    assert aggregator.release().value == pytest.approx(CUT.mean(), abs=1e-3)


@pytest.mark.parametrize("place", [0, -1, -40])
def test_a_sealed_share_that_was_changed_or_moved_does_not_open(place) -> None:
    aggregator, sent, _ = heard(asked("mean"), AGES)
    with pytest.raises(SealRefused):
        aggregator.accept(changed(sent, 3, flipped(place)))


def test_a_report_of_another_task_is_refused() -> None:
    aggregator, _, _ = heard(asked("mean"), AGES)
    _, elsewhere, _ = heard(asked("mean", epsilon=2.0), AGES)
    with pytest.raises(SealRefused):
        aggregator.accept(elsewhere)


def test_a_report_counts_once() -> None:
    aggregator, sent, _ = heard(asked("mean"), AGES)
    half = Contributions(sent.part, 5, {REPORT: sent.fields[REPORT][:5]})
    aggregator.accept(half)
    with pytest.raises(Mistake, match="was sent before"):
        aggregator.accept(half)
    with pytest.raises(Mistake, match="was sent before"):
        aggregator.accept(Contributions(sent.part, 2, {REPORT: np.repeat(sent.fields[REPORT][6:7], 2)}))
    aggregator.accept(Contributions(sent.part, 5, {REPORT: sent.fields[REPORT][5:]}))
    aggregator.advance(NOON)
    assert aggregator.release().value == pytest.approx(CUT.mean(), abs=1e-3)


def test_every_report_is_as_long_as_any_other_whatever_it_says() -> None:
    for document in (asked("sum"), asked("histogram", bins=7), asked("variance")):
        _, sent, ask = heard(document, AGES)
        prio = statistic(registry.check(document), system()).make(context_of(bytes(32), ask.part))
        assert {len(base64.b64decode(text)) for text in sent.fields[REPORT].tolist()} == {bytes_of(prio)}


def test_a_server_gives_its_sum_once() -> None:
    noise = CoordinateNoise(Laplace(1).noise(Sensitivity(1, 1)), 1)
    server = SplitServer(0, Prio3.count(b""), [noise], verify_key=bytes(32), randomness=system())
    server.close()
    with pytest.raises(Fault, match="twice"):
        server.close()


def test_a_quantile_of_noise_alone_stays_within_its_range() -> None:
    noise = Laplace(1).noise(Sensitivity(2, 2))
    edges = np.linspace(0, 10, 6)
    for counts in (np.full(5, -100.0), np.full(5, 100.0), np.array([0, 0, -50, 0, 0.0])):
        found = QuantileOfBins(counts, 3, edges, 0.5, noise)
        low, high = found.ends(0.95)
        assert 0 <= low <= found.value <= high <= 10
