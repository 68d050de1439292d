"""Split trust in real processes: a coordinator, a site that helps and has no rows, and people, or three other sites."""

from __future__ import annotations

import secrets
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.scenarios.deployment import SOON, Institution, Institutions, until
from tests.support.shared_totals import ASKED, NAMES, allowing
from thebes.data.rows import Rows
from thebes.database import private_files
from thebes.person.home import Person
from thebes.privacy.randomness import system
from thebes.site.helping.keys import FOLDER, HelperKeys
from thebes.site.home import SiteHome
from thebes.tasks import registry
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.gradient.scene import LOSS, MODEL
from thebes.tasks.protocols import Ask
from thebes.wire import frames
from thebes.wire.client import CoordinatorClient
from thebes.wire.refusals import NotAllowed

HELPS = '[[help]]\nrequestors = ["*"]\nepsilon = 20\nmin_count = 11\n'
AGES = [20.0, 30.0, 40.0, 50.0, 60.0, 20.0, 30.0, 40.0, 50.0, 60.0]


def document() -> dict[str, Any]:
    return {
        "type": "basic",
        "server": "split",
        "helper": "ward",
        "aggregator": "mean",
        "epsilon": 20.0,
        "min_count": 11,
        "featurizer": "SELECT age FROM profile.demographics",
        "bounds": {"age": {"type": "range", "low": 0.0, "high": 100.0, "default": 50.0}},
        "expires_at": (datetime.now(UTC) + timedelta(hours=1)).isoformat(),
    }


def ward_of(institutions: Institutions, policy: str = HELPS) -> Institution:
    """An institution without a row, certified and linked."""
    home = SiteHome(institutions.folder / "ward")
    private_files.write(home.policy, policy)
    institutions.authority.issue("ward", home.folder, days=30)
    ward = institutions.sites["ward"] = Institution("ward", home, f"127.0.0.1:{institutions.site_port}")
    ward.start()

    def look() -> bool | None:
        states = {each["name"]: each["state"] for each in institutions.web.get("/api/site").json()}
        return True if states.get("ward") == "connected" else None

    until(look, SOON)
    return ward


def network() -> dict[str, Any]:
    """A network's gradient, which one of the twelve does not move further than this."""
    columns = {"inputs": ["x0", "x1"], "outputs": ["y"], "featurizer": "SELECT x0, x1, y FROM profile.demographics"}
    kept = {name: value for name, value in document().items() if name not in ("aggregator", "bounds")}
    return {**kept, **columns, "type": "gradient", "model": MODEL, "loss": LOSS, "clip": 0.5}


def put_up(institutions: Institutions, asked: dict[str, Any] | None = None) -> str | None:
    """Put a task up; None while the helper's processes are still being loaded."""
    said = institutions.web.post("/api/task", json=asked or document())
    assert said.status_code == 201 or "within 5 seconds" in said.text, said.text
    return str(said.json()["task_id"]) if said.status_code == 201 else None


def answer(client: CoordinatorClient, task: str, told: dict[str, Any], people: dict[str, list[float]]) -> None:
    """Answer for so many people, each under a slot of their own."""
    checked, rows = registry.check(told), Rows.one_each({name: np.array(values) for name, values in people.items()})
    owner, slots = registry.owner(checked), [secrets.token_hex(16) for _ in range(rows.people)]

    def asked() -> Ask | None:
        found = client.ask(task, slots[0])
        return found if isinstance(found, Ask) else None

    ask = until(asked, SOON)
    made = owner.contribute(checked, ask, rows, RecordedClaim(), randomness=system())
    for slot, payload in zip(slots, made.payloads(owner.layout(checked, ask)), strict=True):
        message = {"ask_id": ask.ask_id, "part": ask.part, "contributor": slot, "payload": payload}
        body, media = frames.encode(message, worth=10**9)
        client.submit(task, body, media_type=media)


@pytest.mark.slow
def test_people_answer_to_two_institutions_of_which_one_is_killed_meanwhile(tmp_path: Path) -> None:
    with Institutions(tmp_path) as institutions:
        ward = ward_of(institutions)
        fingerprint = HelperKeys(ward.home.folder).identity().fingerprint
        task = until(lambda: put_up(institutions), SOON)
        url = f"http://127.0.0.1:{institutions.port}"
        with Person(tmp_path / "me", coordinator=url, delay=False) as me, CoordinatorClient(url) as client:
            me.register("profile", {"tables": {"demographics": {"columns": {"age": {"type": "float"}}}}})
            me.insert("profile", "demographics", [{"age": 41.0}])
            offered = me.task(task)
            assert offered["trust"] == "split"
            assert offered["document"]["helper_key"] == fingerprint
            with pytest.raises(NotAllowed, match="ward, whom you have not confirmed"):
                me.accept(task)
            me.confirm_helper(task, fingerprint)
            answer(client, task, offered["document"], {"age": AGES})
            ward.kill(1)  # its processes come back by themselves, over what is on the disk
            ward.kill(2)
            me.accept(task)

            def sent() -> bool | None:
                me.turn()
                return True if me.task(task)["state"] == "sent" else None

            until(sent, SOON)
            over = institutions.ended(task)
            assert over["status"] == "done"
            certificate = over["result"]["certificate"]
            assert certificate["trust"] == "split"
            assert certificate["contributors"] == 11
            assert certificate["parameters"]["servers"] == ["the coordinator", "the helper ward"]
            assert abs(over["result"]["value"] - (sum(AGES) + 41) / 11) < 40
            # spent where somebody has to be trusted, and nowhere else
            ledger = me.ledger()
            assert ledger["split"]["period"]["spent"]["epsilon"] == 20.0
            assert ledger["trusted"]["period"]["spent"]["epsilon"] == 20.0, "of which that is a part"
            assert ledger["local"]["period"]["spent"]["epsilon"] == 0.0
            trained = until(lambda: put_up(institutions, network()), SOON)
            everybody = {"x0": [1.0] * 11, "x1": [0.0] * 11, "y": [1.0] * 11}
            answer(client, trained, me.task(trained)["document"], everybody)
            over = institutions.ended(trained)
            assert (over["status"], over["result"]["certificate"]["trust"]) == ("done", "split")
            # half a clip up and down at the one input; of two noises of scale 2 clips / 20 each over eleven people
            assert np.abs(np.array(over["result"]["gradient"]) - [0.35, 0, -0.35, 0]).max() < 0.3
        until(lambda: None if [*(ward.home.folder / FOLDER).iterdir()] else True, SOON)
        kinds = {entry.event for entry in ward.audited()}
        assert {"help open", "help verify", "help close"} <= kinds


ROUNDS = 30
TRAIN: dict[str, Any] = {
    **{name: value for name, value in ASKED.items() if name != "statistic"},
    "type": "train",
    "model": "LinearRegression",
    "inputs": ["age"],
    "output": "share",
    "features": {"share": {"divide": ["age", 100]}},
    "rounds": ROUNDS,
    "epsilon": 8.0,
    "delta": 1e-5,
    "patience": SOON,
}


def answers(site: Institution, task: str) -> int:
    """Return to how many parts of a task a site has an answer."""
    with closing(sqlite3.connect(f"file:{site.home.folder / 'outbox.db'}?mode=ro", uri=True)) as outbox:
        return int(outbox.execute("SELECT count(*) FROM answer WHERE task = ?", (task,)).fetchone()[0])


@pytest.mark.slow
def test_sites_train_with_two_servers_though_everybody_is_killed_meanwhile(tmp_path: Path) -> None:
    """The helper, a site and the coordinator, in the middle, one after another: each round is paid and told once."""
    with Institutions(tmp_path) as institutions:
        ward = ward_of(institutions, HELPS.replace("epsilon = 20", "epsilon = 20\ndelta = 1e-4\nsites = true"))
        fingerprint = HelperKeys(ward.home.folder).identity().fingerprint
        rows = pd.DataFrame({"age": [20 + n % 60 for n in range(100)]})
        budget = {"epsilon": 10.0, "delta": 1e-3, "filter": "basic"}
        for name in NAMES:
            institutions.add(name, rows, policy=allowing(fingerprint), **budget).start()
        institutions.connected(*NAMES)
        task = until(lambda: put_up(institutions, TRAIN), SOON)

        def reached(phase: int) -> None:
            until(lambda: True if institutions.phase(task) >= phase else None, SOON)

        reached(3)
        ward.kill()
        ward.start()
        reached(8)
        institutions.sites["north"].kill()
        institutions.sites["north"].start()
        reached(13)
        institutions.kill()
        institutions.start()
        over = institutions.ended(task)
        assert over["status"] == "done"
        assert over["result"]["coverage"]["rounds"] == dict.fromkeys(NAMES, ROUNDS)
        certificate = over["result"]["certificate"]
        assert (certificate["trust"], certificate["epsilon"]) == ("split", 8.0)
        assert certificate["parameters"]["helper_key"] == fingerprint
        until(lambda: None if [*(ward.home.folder / FOLDER).iterdir()] else True, SOON)
        institutions.kill()  # what was said once is what is said
        institutions.start()
        assert institutions.task(task)["result"] == over["result"]
        for name in NAMES:
            assert answers(institutions.sites[name], task) == ROUNDS
            assert 10 - institutions.sites[name].block().remaining.epsilon == 8
        added = [entry for entry in ward.audited() if entry.event == "help add"]
        assert ROUNDS <= len(added) <= ROUNDS + 3  # a round may have been asked for again after each kill
