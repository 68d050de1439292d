"""A coordinator's figures: what they count, in which form, and what they never tell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.support.coordinator import AGES, Front
from thebes.coordinator.auth.accounts import Role
from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.process.metrics import REQUEST_BOUNDS, CoordinatorMetrics
from thebes.wire.exposition import exposed
from thebes.wire.problems import NAMES

PASSWORD, HERE = "correct horse battery", {"origin": "http://testserver", "sec-fetch-site": "same-origin"}
OPEN_METRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    with Front(tmp_path / "home") as made:
        yield made


def told(front: Front) -> dict[str, dict[tuple[str, ...], float]]:
    """Every sample of what is told, by its name and the values of its labels."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for metric in text_string_to_metric_families(front.client.get("/metrics", headers=OPEN_METRICS).text):
        for sample in metric.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def test_figures_are_open_metrics_for_whoever_accepts_that_and_text_for_all_others(front: Front) -> None:
    opened, plain = front.client.get("/metrics", headers=OPEN_METRICS), front.client.get("/metrics")
    assert opened.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert opened.text.endswith("# EOF\n")
    families = {metric.name: metric.type for metric in text_string_to_metric_families(opened.text)}
    assert families == {
        "thebes_requests": "counter",
        "thebes_request_seconds": "histogram",
        "thebes_submissions": "counter",
        "thebes_refusals": "counter",
        "thebes_site_phase_seconds": "histogram",
        "thebes_tasks": "gauge",
        "thebes_sites": "gauge",
        "thebes_queue": "gauge",
    }
    assert plain.headers["content-type"].startswith("text/plain")
    assert "# EOF" not in plain.text
    assert "_created" not in opened.text + plain.text, "when something first happened"


def test_figures_count_tasks_what_waits_and_refusals_by_their_name(front: Front) -> None:
    task_id = front.post({**AGES, "min_count": 12, "max_count": 12})
    front.fill(task_id, 12, {"age": 40.5})
    front.client.post("/api/task", json={"type": "basic"}, headers=front.admin)
    front.client.post("/api/task", json=AGES)
    front.client.get("/api/task/none")
    front.client.get("/nowhere")
    front.client.post("/api/login", content=b"no json")
    found = told(front)
    assert found["thebes_queue"] == {("phases",): 1.0, ("site-tasks",): 0.0}
    assert found["thebes_tasks"][("running",)] == 1.0
    assert found["thebes_sites"] == {(state,): 0.0 for state in ("connected", "away", "revoked", "never")}
    refused = {reason: count for (by, reason), count in found["thebes_refusals_total"].items() if count}
    assert refused["InvalidDocument"] == 1
    assert refused["NotSignedIn"] == 1
    assert refused["NotFound"] == 2
    assert sum(refused.values()) == sum(
        count for (_, status), count in found["thebes_requests_total"].items() if int(status) >= 400
    )
    assert set(refused) <= NAMES


def test_a_duration_is_told_only_as_the_bound_that_it_lay_below(front: Front) -> None:
    metrics = CoordinatorMetrics()
    for seconds in (0.001, 0.0123, 0.3, 4321.0):
        metrics.answered("GET", 200, seconds)
    text = exposed(metrics.registry, "")[0].decode()
    assert 'thebes_request_seconds_sum{method="GET"} 20.535\n' in text, "0.01 + 0.025 + 0.5 + 20"
    assert 'thebes_request_seconds_bucket{le="10.0",method="GET"} 3.0' in text
    assert 'thebes_request_seconds_bucket{le="+Inf",method="GET"} 4.0' in text


def test_the_time_of_99_of_100_is_the_bound_below_which_they_lay() -> None:
    metrics = CoordinatorMetrics()
    assert metrics.request_quantile(0.99) is None
    for seconds in [0.02] * 99 + [3.0]:
        metrics.answered("GET", 200, seconds)
    assert metrics.request_quantile(0.99) == 0.025
    assert metrics.request_quantile(0.995) == 5.0
    metrics.answered("POST", 200, 2 * REQUEST_BOUNDS[-1])
    assert metrics.request_quantile(1.0) == float("inf")
    metrics.phase_took(1.5)
    assert metrics.phase_quantile(0.99) == 2.5


def test_labels_take_no_more_values_than_are_known_beforehand(front: Front) -> None:
    for path in ("/telltale", "/api/task/telltale", "/api/telltale?telltale=telltale"):
        for method in ("GET", "POST", "DELETE", "TELLTALE"):
            front.client.request(method, path, headers={"x-telltale": "telltale"})
    front.client.get("/metrics")  # is counted once it has answered
    before = front.client.get("/metrics").text.splitlines()
    for path in ("/more", "/api/task/more"):
        front.client.request("MORE", path)
    after = front.client.get("/metrics").text
    assert "telltale" not in after.lower()
    assert len(after.splitlines()) == len(before)


def test_how_it_works_is_shown_to_operators_and_auditors(front: Front) -> None:
    def signed_in(**body: str) -> None:
        front.client.cookies.clear()
        assert front.client.post("/sign-in", json=body, headers=HERE).status_code == 200

    assert front.client.get("/operation").status_code == 401
    signed_in(token=front.admin_token)
    assert "/operation" in front.client.get("/").text
    front.client.get("/api/task/none")
    page = front.client.get("/operation").text
    assert "NotFound" in page
    assert "at most" in page
    for role, status in ((Role.AUDITOR, 200), (Role.REQUESTOR, 403)):
        front.service.accounts.add(str(role), PASSWORD, role)
        signed_in(username=str(role), password=PASSWORD)
        assert front.client.get("/operation").status_code == status


def test_figures_kept_for_operators_are_read_with_a_token_that_opens_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "coordinator.toml").write_text('metrics = "operators"\n')
    with Front(tmp_path) as front:
        home = CoordinatorHome(tmp_path)
        bearer = {"Authorization": f"Bearer {home.figures_token}"}
        assert front.client.get("/metrics").status_code == 401
        assert "thebes_tasks" in front.client.get("/metrics", headers=bearer).text
        for path in ("/api/session", "/operation"):
            assert front.client.get(path, headers=bearer).status_code == 401, path
        home.replace("figures.token")
        assert front.client.get("/metrics", headers=bearer).status_code == 401
        assert front.client.get("/metrics", headers=front.admin).status_code == 200
