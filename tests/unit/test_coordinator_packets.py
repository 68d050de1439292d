"""A coordinator hears an ensemble: thresholds step by step, then packets, each part and peer partition by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.coordinator import Front
from thebes.data.rows import Rows
from thebes.privacy import randomness
from thebes.tasks import registry
from thebes.tasks.aggregation.packets import slot_of
from thebes.tasks.protocols import Ask
from thebes.tasks.release_reader import release_from_json

DOCUMENT: dict[str, Any] = {
    "type": "ensemble",
    "epsilon": 60.0,  # so much that the classifier is decided by rows, not by luck
    "min_count": 120,
    "featurizer": "SELECT x0, x1, y FROM profile.example",
    "label": "y",
    "bounds": {
        "x0": {"type": "range", "low": -4.0, "high": 4.0, "default": 0.0},
        "x1": {"type": "range", "low": -4.0, "high": 4.0, "default": 0.0},
        "y": {"type": "set", "values": [0, 1], "default": 0},
    },
    "binning_steps": 2,
    "binning_share": 0.5,
    "partitions": 2,
    "subsets": 2,
}


class Claim:
    spent = 0.0

    def consume(self, *, epsilon: Any, delta: Any) -> None:
        self.spent += float(epsilon)


class Peer:
    """One made-up person, with a pseudonym and a claim."""

    def __init__(self, draw: np.random.Generator) -> None:
        x = draw.normal(size=2)
        self.row = {"x0": x[0], "x1": x[1], "y": int(x.sum() > 0)}
        self.name, self.claim = draw.bytes(16).hex(), Claim()  # so that who is called in which phase is no luck
        self.sent: list[str] = []

    def take_part(self, front: Front, task_id: str, document: Any) -> int:
        """Send what is wanted as the next packet; the status code, or 0 where nothing is wanted now."""
        slot, packet = slot_of(self.name, len(self.sent)), len(self.sent)
        answer = front.client.get(f"/api/task/{task_id}/ask", params={"slot": slot, "packet": packet})
        if answer.status_code != 200 or "wait" in answer.json():
            return 0
        told = answer.json()
        if self.sent and not told["part"].startswith(self.sent[0].partition(".")[0]):
            return 0
        ask = Ask(told["ask_id"], told["part"], told["phase"], told["payload"])
        owner, rows = registry.owner(document), Rows.one_each({k: [v] for k, v in self.row.items()})
        made = owner.contribute(document, ask, rows, self.claim, randomness=randomness.system())
        payload = next(iter(made.payloads(owner.layout(document, ask))))
        body = {"ask_id": ask.ask_id, "part": ask.part, "contributor": slot, "payload": payload}
        status = front.submit(task_id, body).status_code
        if status == 202:
            self.sent.append(ask.part)
        return status


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, {"binning_share": 0.3, "scoring_share": 0.2}], ids=["unscored", "scored"])
def test_thresholds_then_packets_then_a_classifier(tmp_path: Path, more: dict[str, Any]) -> None:
    document: Any = registry.check({**DOCUMENT, **more})
    draw = np.random.default_rng(3)
    peers = [Peer(draw) for _ in range(250)]
    with Front(tmp_path) as front:
        task_id = front.post({**DOCUMENT, **more})
        for phase in range(document.phases):
            wanted = document.wanted_in(phase)
            for peer in peers:
                while not (peer.sent and len(peer.sent) >= document.packets(phase)):
                    if peer.sent and not peer.sent[0].startswith(f"phase-{phase}"):
                        break
                    if peer.take_part(front, task_id, document) != 202:
                        break
            told = front.task(task_id)
            assert told["contributions"] == wanted
            front.closing.step()
        body = front.task(task_id)
        assert body["status"] == "done"
    release: Any = release_from_json(body["result"])
    assert release.certificate.contributors == sum(document.wanted_in(phase) for phase in range(document.phases))
    assert (release.certificate.unit, release.certificate.simulated) == ("device", False)
    assert set(release.extra["thresholds"]) == {"x0", "x1"}
    assert all(abs(at) <= 1 for (at,) in release.extra["thresholds"].values())  # the second step undoes a bad first one
    low, high = release.model.predict_proba(np.array([[-3.0, -3.0], [3.0, 3.0]]))[:, 1]
    assert high > low  # how good it is with so few people, and where the thresholds came to lie, is luck
    assert ("scoring" in release.certificate.parameters) == bool(document.scoring)
    in_phases = [{part.partition(".")[0] for part in peer.sent} for peer in peers if peer.sent]
    assert all(len(phases) == 1 for phases in in_phases)  # nobody answers twice
    assert all(peer.claim.spent <= 60.0 for peer in peers)


def test_a_contribution_for_another_partition_is_refused(tmp_path: Path) -> None:
    document: Any = registry.check({**DOCUMENT, "bins": {"x0": [0.0], "x1": [0.0]}, "partitions": 4})
    with Front(tmp_path) as front:
        task_id = front.post(document.as_json())
        slots = [f"{number:032x}" for number in range(40)]  # the same ones in every run: they decide who is asked what
        asked = {s: front.client.get(f"/api/task/{task_id}/ask", params={"slot": s}).json() for s in slots}
        assert len({each["ask_id"] for each in asked.values()}) == 4
        first = slots[0]
        other = next(s for s in slots if asked[s]["ask_id"] != asked[first]["ask_id"])
        body = {**{k: asked[first][k] for k in ("ask_id", "part")}, "contributor": other, "payload": {"report": 0}}
        refused = front.submit(task_id, body)
        assert (refused.status_code, "ask_id" in refused.text) == (422, True)
        assert front.submit(task_id, {**body, "contributor": first}).status_code == 202
        past = {**body, "contributor": first, "part": "phase-0.packet-9"}
        assert front.submit(task_id, past).status_code == 422


def test_a_document_without_noise_is_not_put_up(tmp_path: Path) -> None:
    with Front(tmp_path) as front:
        answer = front.client.post("/api/task", json={**DOCUMENT, "perturbation": "none"}, headers=front.admin)
    assert answer.status_code == 422
    assert "perturbation" in answer.text
