"""Mixed answers, browser and real processes: somebody asks, a person reads both odds, twelve answer with tokens."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scenarios"))
from processes import PersonProcess, coordinator, stopped

from tests.support.browser import PHONE, Visitor
from tests.support.peers import Peer, enrolment
from thebes.testing.command import typed
from thebes.tokens import GroupParameters

pytestmark = pytest.mark.slow
OTHERS = 11
ASKED: dict[str, Any] = {
    "type": "bounded",
    "name": "Cats and dogs of the city",
    "purpose": "To know which animals live in the city.",
    "featurizer": "SELECT species FROM profile.pets",
    "bounds": {"species": {"type": "set", "values": ["cat", "dog"], "default": "dog"}},
    "anonymity": "token",
    "group": "city",
    "min_count": OTHERS + 1,
    "mixed": {"epsilon": 0.5, "delta": 0.008, "colluding": 0, "delay_seconds": 30},
}


@pytest.fixture
def me(chromium: Any, tmp_path: Path) -> Iterator[PersonProcess]:
    """A person's process beside a coordinator's; both stop after the browser, whose pages go on asking."""
    process = coordinator(tmp_path / "coordinator")
    made = PersonProcess(tmp_path / "me", str(process.ready()["url"]), "--example")
    made.ready()
    yield made
    assert stopped([made.process, process]) == [0, 0]


def test_mixed_answers_from_the_question_to_the_certificate(
    me: PersonProcess, tmp_path: Path, visit: Callable[..., Visitor]
) -> None:
    home, url = tmp_path / "coordinator", str(me.get("/api/settings")["coordinator"])
    operator = {"Authorization": f"Bearer {(home / 'admin.token').read_text().strip()}"}
    with httpx.Client(base_url=url, timeout=120, headers=operator) as client:
        names = ["me", *(f"member {number}" for number in range(OTHERS))]
        members = tmp_path / "members.txt"
        members.write_text("\n".join(names) + "\n")
        made = typed("group", "create", "city", "--minimum", "3", "--members", members, "--home", home, "--json")
        assert made.returncode == 0, made.stderr
        codes = json.loads(made.stdout)["codes"]
        begun = [enrolment(client, "city", codes[name]) for name in names[1:]]
        assert me.http.post("/api/groups/city/enrol", json={"code": codes["me"]}).status_code == 200
        frozen = typed("group", "publish", "city", "--home", home)
        assert frozen.returncode == 0, frozen.stderr
        published = GroupParameters.from_json(client.get("/api/group/city").json()["parameters"])
        peers = [Peer(one.finish(answer.json()["response"]), published) for one, answer in begun]

        quoted = client.post("/api/quote", json=ASKED).json()
        assert quoted["mixed"]["epsilon"] <= 0.5 < quoted["price"]["epsilon"]
        task = client.post("/api/task", json=ASKED).json()
        task_id = task["task_id"]

        desk = visit(me.process.facts["address"])
        desk.open(str(me.http.post("/api/session", json={}).json()["url"]))
        for visitor, look in ((desk, "wide"), (visit(me.process.facts["address"], viewport=PHONE), "phone")):
            if look == "phone":
                visitor.open(str(me.http.post("/api/session", json={}).json()["url"]))
            visitor.open(f"/tasks/{task_id}")
            visitor.page.get_by_role("heading", name="What it costs").wait_for()
            text = visitor.page.inner_text("main")
            assert "Whatever anybody does" in text
            assert "If nobody can tell whose answer is whose" in text
            assert "12 of 12 followed the rules" in text
            assert "uses no proxy" in text  # the second one is worth nothing against whoever runs the server
            visitor.picture(f"mixed-person-{look}")
        assert me.accept(task_id) == 202
        me.wait(task_id, "sent")
        paid = me.get(f"/api/tasks/{task_id}")["paid"]
        assert paid["epsilon"] == quoted["price"]["epsilon"]  # the local loss, and nothing less

        asked = client.get(f"/api/task/{task_id}/ask", params={"slot": "0" * 32}).json()
        for peer in peers:
            sent = client.post(f"/api/task/{task_id}/submit", json=peer.body(task, asked, {"species": 0}))
            assert sent.status_code == 202, sent.text
        me.wait(task_id, "done")
        certificate = client.get(f"/api/task/{task_id}").json()["result"]["certificate"]
        told = certificate["parameters"]["mixed"]
        assert (told["n"], told["honest"], told["as_accepted"]) == (OTHERS + 1, OTHERS + 1, True)
        assert told["epsilon"] <= 0.5 < certificate["epsilon"]
        assert "cannot tell whose is whose" in certificate["text"]
