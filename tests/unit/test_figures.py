"""Figures for Prometheus: who may read a coordinator's, and what a site's say, which is nothing about anybody."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from thebes.coordinator.accounts import Role
from thebes.coordinator.settings import FILE
from thebes.privacy.faults import Mistake
from thebes.site.figures import figures_of
from thebes.testing.coordinator import Front

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("whom", "statuses"),
    [
        (None, [200, 200, 200, 200]),
        ("everybody", [200, 200, 200, 200]),
        ("operators", [401, 403, 200, 200]),
        ("nobody", [404, 404, 404, 404]),
    ],
)
def test_figures_are_for_those_whom_the_operator_names(tmp_path: Path, whom: str | None, statuses: list[int]) -> None:
    if whom is not None:
        (tmp_path / FILE).write_text(f'metrics = "{whom}"')
    with Front(tmp_path) as front:
        asking: list[dict[str, str]] = [{}]
        for role in (Role.REQUESTOR, Role.AUDITOR):
            front.reception.lobby.accounts.add(str(role), "a long password", role)
            told = {"username": str(role), "password": "a long password"}
            token = front.client.post("/api/login", json=told).json()["token"]
            asking.append({"Authorization": f"Bearer {token}"})
        asking.append(front.admin)
        assert [front.client.get("/metrics", headers=who).status_code for who in asking] == statuses


def test_who_may_read_figures_is_one_of_three(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text('metrics = "friends"')
    with pytest.raises(Mistake, match="metrics"):
        Front(tmp_path)


def test_a_sites_figures_say_how_it_stands_and_nothing_else() -> None:
    shown = {
        "name": "telltale",
        "coordinator": "telltale.example:8443",
        "state": "connected",
        "reason": "telltale",
        "since": "2026-11-22T01:00:00+00:00",
        "certificate_ends": (NOW + timedelta(days=9, hours=23)).isoformat(),
        "algorithm": "down",
    }
    text = figures_of(shown, True, NOW).decode()
    assert "telltale" not in text
    said = dict(line.split() for line in text.splitlines() if not line.startswith("#"))
    assert said == {
        "thebes_site_linked": "1.0",
        "thebes_site_algorithm_up": "0.0",
        "thebes_site_confined": "1.0",
        "thebes_site_certificate_days": "9.0",
    }
    over = figures_of({**shown, "state": "refused", "certificate_ends": None}, False, NOW).decode()
    assert "thebes_site_linked 0.0" in over
    assert "thebes_site_certificate_days 0.0" in over
