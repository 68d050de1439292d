"""Homes that released versions left behind are opened by this one, hold what they held, and go on.

Each release adds its own by `python -m tests.homes.make`; none is ever made again by a later version.
"""

from __future__ import annotations

import json
import lzma
import math
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.homes.make import COUNT, PASSWORD
from tests.support.kept_homes import KEPT, ROLES, Homes, opened, told, unpack, verify
from tests.support.site_home import ask
from thebes.cli.homes import copy
from thebes.cli.homes.examination import Surroundings, examined
from thebes.cli.homes.findings import How
from thebes.ledger import Frozen, Ledger, NoKeeper
from thebes.privacy.losses import Pure, pure_to_concentrated
from tools.changelog import Changelog

VERSIONS = sorted(path.name for path in KEPT.iterdir() if (path / "facts.json").exists())


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def facts(version: str) -> dict[str, Any]:
    return dict(json.loads((KEPT / version / "facts.json").read_text(encoding="utf-8")))


@pytest.fixture
def folder(version: str, tmp_path: Path) -> Path:
    return unpack(version, tmp_path / "homes")


@pytest.fixture
def homes(folder: Path, facts: dict[str, Any]) -> Iterator[Homes]:
    with opened(folder, datetime.fromisoformat(facts["moment"])) as found:
        yield found


def as_then(told: dict[str, Any]) -> dict[str, Any]:
    """Return what is told of a site, with what its blocks of visits have left as 0.1.0 read it: a pure epsilon cost
    epsilon^2 / 2 of their rho then, and costs epsilon tanh(epsilon / 2) now."""
    left = dict(told["left"])
    for block, (epsilon, delta) in left.items():
        if block.startswith("visits/"):
            rho = float(pure_to_concentrated(Pure(epsilon)).rho)
            left[block] = [pytest.approx(math.sqrt(2 * rho), rel=1e-9), delta]
    return {**told, "left": left}


def test_every_version_of_the_changelog_left_homes() -> None:
    assert set(VERSIONS) == set(Changelog().versions)


def test_homes_hold_what_their_version_saw_in_them(homes: Homes, facts: dict[str, Any]) -> None:
    found = told(homes)
    assert {**found, "site": as_then(found["site"])} == facts["told"]
    verify(homes, facts["heads"])
    login = {"username": "ana", "password": PASSWORD}
    assert homes.front.client.post("/api/login", json=login).status_code == 200


@pytest.mark.slow
def test_a_person_goes_on_with_what_was_agreed_to_and_agrees_to_more(homes: Homes) -> None:
    ids = {name: task_id for task_id, name in homes.names.items()}
    assert homes.me.wait(ids["agreed to"])["state"] == "sent"
    homes.me.accept(ids["not decided"])
    assert homes.me.wait(ids["not decided"])["state"] == "sent"
    assert homes.me.ledger()["trusted"]["overall"]["spent"]["epsilon"] == 1.75
    assert homes.me.withdraw(ids["sent"])["state"] == "withdrawn"
    assert homes.front.task(ids["sent"])["contributions"] == 0
    assert homes.me.verify()["whole"]


def test_a_coordinator_goes_on_with_its_open_tasks(homes: Homes) -> None:
    task = homes.tasks["agreed to"]["task_id"]
    homes.me.wait(task)
    homes.front.fill(task, 11, {"age": 41})
    homes.front.closing.step()
    ended = homes.front.task(task)
    assert (ended["status"], ended["result"]["certificate"]["contributors"]) == ("done", 12)


def test_a_site_says_again_what_it_had_said_for_nothing_and_is_paid_for_what_is_new(
    homes: Homes, facts: dict[str, Any]
) -> None:
    office = homes.office
    assert office.answer(ask(COUNT, task="kept", requestor="ana")) == facts["answer"]
    assert as_then(told(homes)["site"]) == facts["told"]["site"]
    new = office.answer(ask({**COUNT, "epsilon": 0.75}, task="new", requestor="ana"))
    assert (new["kind"], new["cost"]["epsilon"]) == ("contribution", 0.75)
    before, _ = facts["told"]["site"]["left"]["patients"]
    assert float(office.ledger.remaining("patients").epsilon) == before - 0.75
    office.ledger.verify()


@pytest.mark.parametrize("role", ROLES)
def test_nothing_in_a_home_is_broken(folder: Path, facts: dict[str, Any], role: str) -> None:
    around = Surroundings(passphrase=facts["passphrase"], clock=datetime.fromisoformat(facts["moment"]).timestamp)
    broken = [finding.what for finding in examined(folder / role, around) if finding.how is How.BROKEN]
    assert broken == []


def test_copies_come_back(version: str, facts: dict[str, Any], tmp_path: Path) -> None:
    """One as it is, whose ledger spends nothing yet, and one that a passphrase seals."""
    kept = KEPT / version
    (tmp_path / "site.copy").write_bytes(lzma.decompress((kept / "site.copy.xz").read_bytes()))
    copy.restore(tmp_path / "site.copy", tmp_path / "site", passphrase=None)
    with Ledger(f"sqlite:///{tmp_path}/site/ledger.db", keeper=NoKeeper()) as ledger:
        ledger.verify()
        with pytest.raises(Frozen):
            ledger.reserve(["patients"], spender="ana", purpose="query", epsilon=0.5)
        ledger.thaw()
        left, _ = facts["told"]["site"]["left"]["patients"]
        assert float(ledger.remaining("patients").epsilon) == left
    copy.restore(kept / "sealed.copy", tmp_path / "sealed", passphrase=facts["passphrase"])
    assert "policy.toml" in {path.name for path in (tmp_path / "sealed").iterdir()}
