"""Gradients in shares: two servers of which neither sees one make the same step as a server that saw all."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import thebes
from tests.support.split_helper import Led, Ward
from tests.support.training import Silent
from thebes.data.rows import Rows
from thebes.person.tasks.rules import AgreementRule
from thebes.privacy.accounting import gaussian
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import spaced
from thebes.privacy.promise import Unit
from thebes.privacy.randomness import system
from thebes.tasks import registry
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.document import InvalidDocument
from thebes.tasks.gradient.kind import KIND
from thebes.tasks.gradient.scene import LOSS, MODEL
from thebes.tasks.gradient.split import statistic
from thebes.tasks.helped_document import MOST_SPLIT_NUMBERS
from thebes.tasks.protocols import Ask, Setting
from thebes.tasks.split_reports import bytes_of
from thebes.torch import encode

NOON = datetime(2030, 1, 1, tzinfo=UTC)
PEOPLE = {"x0": np.linspace(-1, 1, 12), "x1": np.linspace(2, -1, 12) ** 2, "y": np.arange(12) % 2}


def asked(**more: Any) -> dict[str, Any]:
    return {
        "type": "gradient",
        "server": "split",
        "epsilon": 1.0,
        "min_count": 11,
        "featurizer": "SELECT x0, x1, y FROM p.t",
        "inputs": ["x0", "x1"],
        "outputs": ["y"],
        "model": MODEL,
        "loss": LOSS,
        "clip": 0.5,
        **more,
    }


def mean_of_shortened() -> np.ndarray:
    """The mean gradient of cross entropy at weights of 0: (1/2 - [class]) x for each class, shortened to the clip."""
    x = np.column_stack([PEOPLE["x0"], PEOPLE["x1"]])
    each = np.stack([np.outer(0.5 - np.eye(2)[int(y)], row).ravel() for row, y in zip(x, PEOPLE["y"], strict=True)])
    return (each * np.minimum(1, 0.5 / np.linalg.norm(each, axis=1))[:, None]).mean(axis=0)


def opened(document: dict[str, Any]) -> Any:
    """Release what both servers open where neither adds noise."""
    checked = registry.check(document)
    aggregator = registry.aggregator(checked, Setting(Unit.DEVICE, Silent(), simulated=True))
    aggregator.expect(12)
    ask = aggregator.ask("somebody")
    assert isinstance(ask, Ask)
    rows, owner = Rows.one_each(PEOPLE), registry.owner(checked, simulated=True)
    aggregator.accept(owner.contribute(checked, ask, rows, RecordedClaim(), randomness=Silent()))
    aggregator.advance(NOON)
    return aggregator.release()


def test_the_opened_gradient_is_the_mean_of_shortened_ones() -> None:
    release = opened(asked())
    assert release.gradient == pytest.approx(mean_of_shortened(), abs=0.5 / 2**14)
    assert np.ravel(release.model.weights) == pytest.approx(-release.gradient, abs=1e-6)


@pytest.mark.parametrize(("delta", "kind"), [(0, "laplace"), (1e-2, "gaussian")])
def test_the_certificate_says_whose_noise_hides_and_what_a_liar_could_do(delta: float, kind: str) -> None:
    certificate = opened(asked(delta=delta)).certificate
    assert (certificate.trust, certificate.parameters["noise"], certificate.delta) == ("split", kind, delta)
    assert "at least one of the coordinator and the helper keeps its word" in certificate.text
    assert "that a gradient is short is not proved" in certificate.parameters["influence"]
    assert "by up to 2 times as much" in certificate.parameters["influence"]
    # L1: twice the clip times the root of four weights; L2: twice the clip
    scale = 2 * 0.5 * (2 if not delta else gaussian.ratio_for(1.0, delta))
    assert certificate.parameters["scale"] == pytest.approx(scale, rel=1e-2)


def test_people_are_told_of_shares_what_is_proved_and_how_many_bytes() -> None:
    document = registry.check(asked())
    told = KIND.explain(document)
    prio = statistic(document, system()).make(b"")
    assert "both together could put your value back together" in told
    assert "each of its numbers lies within bounds, though not that it is short as a whole or sent once" in told
    assert f"{spaced(4 * -(-bytes_of(prio) // 3))} bytes in all" in told
    assert KIND.choice(document) is None


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"rounds": 2}, "rounds"),
        ({"mechanism": "gaussian", "delta": 1e-5}, "mechanism"),
        ({"mechanism": "privunit"}, "mechanism"),
        ({"diagnostics": 0.1}, "diagnostics"),
        ({"server": "untrusted", "helper": "ward"}, "helper"),
        ({"helper_key": "0" * 64}, "helper_key"),
        ({"server": "trusted"}, "server"),
    ],
)
def test_what_two_servers_cannot_make_is_refused_by_its_field(more: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidDocument) as refused:
        registry.check(asked(**more))
    assert field in [name for name, _ in refused.value.problems]


def test_no_more_weights_are_taken_than_one_report_holds() -> None:
    torch = pytest.importorskip("torch")

    def of(weights: int) -> dict[str, Any]:
        model, loss = encode(torch.nn.Linear(weights // 2, 2, bias=False), torch.nn.CrossEntropyLoss())
        inputs = [f"x{each}" for each in range(weights // 2)]
        return asked(model=model, loss=loss, inputs=inputs, featurizer=f"SELECT {', '.join(inputs)}, y FROM p.t")

    registry.check(of(MOST_SPLIT_NUMBERS))
    with pytest.raises(InvalidDocument, match=f"at most {MOST_SPLIT_NUMBERS} weights"):
        registry.check(of(MOST_SPLIT_NUMBERS + 2))


def test_it_is_asked_for_by_one_word_more_and_can_be_repeated() -> None:
    more = {"inputs": ["x0", "x1"], "outputs": ["y"], "epsilon": 1.0, "clip": 0.5}
    task = thebes.task.gradient(MODEL, LOSS, "SELECT x0, x1, y FROM p.t", server="split", **more)
    one, other = (thebes.simulate(task, PEOPLE, seed=3) for _ in range(2))
    assert one.as_json() == other.as_json()
    assert one.certificate.trust == "split"


def test_leader_and_helper_make_it_over_their_messages_and_refuse_what_is_out_of_bounds(tmp_path: Path) -> None:
    led = Led(Ward(tmp_path / "ward"), whole=asked())
    assert registry.split(led.document, system()).noises[0].count == 4
    prio = led.leader.splitting.make(led.leader._context)
    top = led.leader.splitting.encode(np.full((12, 4), 1.0))  # as long as may be
    assert np.all(np.linalg.norm(top - 2**14, axis=1) <= 2**14)
    message, nonces = led.numbers(top)
    assert led.step("verify", number=0, reports=message)["counted"] == "1" * 12
    theirs = [int(each, 16) for each in led.close(nonces)["sum"]]
    ours = prio.aggregate(led.sent[1], np.ones(12, dtype=np.bool_)).tolist()
    finer = led.leader.splitting.noise.finer
    whole = [(a * finer + b) % (2**64 - 2**32 + 1) for a, b in zip(ours, theirs, strict=True)]
    assert whole == (top.sum(axis=0) * finer).tolist()
    with pytest.raises(Mistake):
        led.numbers(top + 2**15)


@pytest.mark.parametrize(("server", "covered"), [(None, "untrusted"), ("split", "split"), ("untrusted", "untrusted")])
def test_a_rule_for_noise_at_home_never_agrees_to_shares(server: str | None, covered: str) -> None:
    rule = AgreementRule.read(
        {"type": "gradient", "epsilon_at_most": 10, **({"server": server} if server else {})}, "r"
    )
    for asked_of in ("untrusted", "split"):
        document = registry.check(asked(server=asked_of))
        assert rule.covers(SimpleNamespace(document=document, requestor="ana")) == (asked_of == covered)
