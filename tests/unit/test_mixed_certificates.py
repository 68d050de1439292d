"""The second promise on certificates: every honest one follows from what it rests on, and no better one is believed."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

import thebes
from thebes.privacy import randomness
from thebes.privacy.certificate import Certificate
from thebes.privacy.promise import Unit
from thebes.requestor import mixed_check
from thebes.tasks import registry
from thebes.tasks.contributions import Contributions
from thebes.tasks.document import Document
from thebes.tasks.mixed_reports import MixedCrowd, deciding, mixed_figure
from thebes.tasks.protocols import Setting
from thebes.wire.refusals import BrokenRecord

ASKED: dict[str, Any] = {
    "type": "bounded",
    "featurizer": "SELECT v FROM t.t",
    "bounds": {"v": {"type": "set", "values": [str(n) for n in range(16)], "default": "0"}},
    "anonymity": "token",
    "group": "town",
    "min_count": 1_000,
    "mixed": {"epsilon": 0.5},
}
PLAIN: dict[str, Any] = {**{name: value for name, value in ASKED.items() if name != "mixed"}, "epsilon": 0.5}
TWO = {name: {"type": "set", "values": ["a", "b"], "default": "a"} for name in "vwxy"}
VOTES: dict[str, Any] = {
    **ASKED, "type": "ensemble", "featurizer": "SELECT v, w, x, y FROM t.t", "bounds": TWO, "label": "y",
}  # fmt: skip


def certified(asked: dict[str, Any], people: int) -> tuple[Certificate, Document]:
    """Return what a coordinator certifies of so many answers to one column."""
    document = registry.check(asked)
    unit = Unit.PERSON if asked["anonymity"] == "token" else Unit.DEVICE
    aggregator: Any = registry.aggregator(document, Setting(unit=unit, randomness=randomness.system()))
    aggregator.accept(Contributions(aggregator.part, people, {"v": np.random.default_rng(5).integers(0, 16, people)}))
    aggregator.advance(datetime(2026, 1, 1, tzinfo=UTC))
    return aggregator.release().certificate, document


def changed(certificate: Certificate, **other: Any) -> Certificate:
    mixed = {**certificate.parameters["mixed"], **other}
    return replace(certificate, parameters={**certificate.parameters, "mixed": mixed})


@pytest.mark.parametrize(
    "asked",
    [ASKED, PLAIN, {**PLAIN, "anonymity": "none", "group": None}, {**ASKED, "mixed": {"epsilon": 0.5, "colluding": 0}}],
    ids=["as accepted", "of its own", "against readers", "nobody colludes"],
)
def test_an_honest_figure_follows_from_what_it_rests_on(asked: dict[str, Any]) -> None:
    certificate, document = certified({k: v for k, v in asked.items() if v is not None}, 1_000)
    assert certificate.parameters["mixed"]["mechanism"] == "its own"
    mixed_check.held(certificate, document)


@pytest.mark.parametrize(
    "more",
    [
        {"partitions": 1, "subsets": 3},
        {"method": "vote", "partitions": 3},
        {"bounds": {**TWO, "w": {"type": "range", "low": 0, "high": 1, "default": 0}}},
    ],
    ids=["packets", "partitions", "searched"],
)
def test_honest_figures_of_packets_partitions_and_phases_follow_too(more: dict[str, Any]) -> None:
    asked = {**VOTES, **more, "mixed": {"epsilon": 1}, "min_count": 3_000}
    draw = np.random.default_rng(3)
    rows: dict[str, Any] = {name: np.array(["a", "b"])[draw.integers(0, 2, 4_000)] for name in "vwxy"}
    if "bounds" in more:
        rows["w"] = draw.random(4_000)
    certificate, document = thebes.simulate(asked, rows, seed=1).certificate, registry.check(asked)
    assert "mixed" in certificate.parameters
    mixed_check.held(certificate, document)
    told = certificate.parameters["mixed"]
    if told["epsilon"] < document.epsilon:
        with pytest.raises(BrokenRecord, match="its epsilon is"):
            mixed_check.held(changed(certificate, epsilon=told["epsilon"] * 0.99), document)


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        ({"epsilon": 0.01}, "its epsilon is 0.01"),
        ({"n": 1_001}, "more answers than there were contributors"),
        ({"partitions": 2}, "fewer partitions than 2"),
        ({"parts": 2}, "another number of packets"),
        ({"honest": 1_001}, "1001 honest answers"),
        ({"honest": 501}, "501 honest answers, and of 1000 there are 500 at most"),
        ({"delta": 1e-4}, "its delta is 0.0001"),
        ({"delta": 0.0}, "cannot be read"),
        ({"n": 1.5}, "cannot be read"),
        ({"honest": True}, "cannot be read"),
        ({"epsilon": float("nan")}, "cannot be read"),
        ({"mechanism": "another"}, "cannot be read"),
        ({"against": "everybody"}, "cannot be read"),
        ({"epsilon": 0.6}, "nobody accepted"),
        ({"as_accepted": 1}, "cannot be read"),
    ],
)
def test_a_lie_about_mixing_that_anybody_can_reckon_is_refused(lie: dict[str, Any], why: str) -> None:
    certificate, document = certified(ASKED, 1_000)
    with pytest.raises(BrokenRecord, match=why):
        mixed_check.held(changed(certificate, **lie), document)


def test_a_figure_a_little_better_than_proved_is_refused_and_a_worse_one_is_not() -> None:
    certificate, document = certified(ASKED, 1_000)
    proved = certificate.parameters["mixed"]["epsilon"]
    with pytest.raises(BrokenRecord, match="rests on gives"):
        mixed_check.held(changed(certificate, epsilon=proved * 0.99), document)
    mixed_check.held(changed(certificate, epsilon=proved * 1.01, as_accepted=False), document)


def test_what_no_document_allows_is_refused() -> None:
    certificate, _ = certified(PLAIN, 1_000)
    open_ = registry.check({name: value for name, value in PLAIN.items() if name != "group"} | {"anonymity": "none"})
    with pytest.raises(BrokenRecord, match="could see whose is whose"):
        mixed_check.held(certificate, open_)
    with pytest.raises(BrokenRecord, match="nobody accepted"):
        mixed_check.held(changed(certificate, as_accepted=True), registry.check(PLAIN))
    trusted = registry.check({"type": "basic", "server": "trusted", "aggregator": "count", "epsilon": 0.5,
                              "missing": "count", "featurizer": "SELECT v FROM t.t"})  # fmt: skip
    with pytest.raises(BrokenRecord, match="these are not mixed"):
        mixed_check.held(certificate, trusted)


def test_the_crowd_that_is_told_is_the_one_that_the_figure_comes_from() -> None:
    few, sharing = MixedCrowd(1_000), MixedCrowd(1_100, packets=6)
    whole = mixed_figure([few, sharing], 2.0, delta=1e-6)
    for crowds in ([few, sharing], [sharing, few]):
        crowd = deciding(crowds, 2.0, delta=1e-6)
        assert mixed_figure([crowd], 2.0, delta=1e-6) == whole
    assert mixed_figure([few], 2.0, delta=1e-6) != mixed_figure([sharing], 2.0, delta=1e-6)
