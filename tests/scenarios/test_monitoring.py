"""Figures, alerts and board of `deploy/monitoring` in a real Prometheus that asks a real coordinator and two sites."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.prometheus import Prometheus, program

sys.path.insert(0, str(Path(__file__).parent))
from institutions import Institutions

from thebes.requestor.refusals import SitesRefused
from thebes.tasks.document import InvalidDocument

pytestmark = pytest.mark.slow
MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
ALERTS = yaml.safe_load((MONITORING / "alerts.yml").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
BOARD = json.loads((MONITORING / "board.json").read_text())
QUERIES = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]


def promtool(*words: str) -> str:
    done = subprocess.run([program("promtool"), *words], cwd=MONITORING, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_finds_nothing_wrong_and_every_alert_is_seen_firing_and_silent() -> None:
    assert f"{len(RULES)} rules found" in promtool("check", "rules", "alerts.yml")
    promtool("test", "rules", "alerts.test.yml")
    tried = yaml.safe_load((MONITORING / "alerts.test.yml").read_text())["tests"]
    each = [(test["alertname"], bool(test["exp_alerts"])) for case in tried for test in case["alert_rule_test"]]
    assert sorted(each) == sorted((rule["alert"], fires) for rule in RULES for fires in (True, False))


def configured(folder: Path, coordinator: str, sites: dict[str, str]) -> Path:
    """The configuration of `deploy/monitoring` with the machines of this test, asked every second."""
    told = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
    told["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    told["rule_files"] = [str(MONITORING / name) for name in told["rule_files"]]
    front, site = told["scrape_configs"]
    assert (front["job_name"], site["job_name"]) == ("thebes-coordinator", "thebes-site")
    front["static_configs"] = [{"targets": [coordinator]}]
    told["scrape_configs"] = [front]
    for name, address in sites.items():
        token = folder / f"site-{name}" / "figures.token"
        one = {**site, "job_name": f"site-{name}", "static_configs": [{"targets": [address]}]}
        one["authorization"] = {"credentials_file": str(token)}
        one["relabel_configs"] = [{"target_label": "job", "replacement": "thebes-site"}]
        told["scrape_configs"].append(one)
    config = folder / "prometheus.yml"
    config.write_text(yaml.safe_dump(told))
    return config


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A coordinator that was asked what is answered and what is refused, watched for some scrapes."""
    program("prometheus")
    folder = tmp_path_factory.mktemp("watched")
    there = Institutions(folder)
    try:
        sites = {name.removeprefix("site "): url.split("/")[2] for name, url in there.pages.items()}
        config = configured(folder, there.url.split("/")[2], sites)
        promtool("check", "config", str(config))
        with Prometheus(folder, config) as prometheus:
            prometheus.until('up{job="thebes-site"} == 1', 2)
            one: dict[str, Any] = {"type": "query", "dataset": "patients", "statistic": "count", "epsilon": 0.5}
            there.server.submit(one).wait(120)
            strict = {**one, "noise": "coordinator", "sites": [str(there.hospitals.strict)]}
            with pytest.raises(SitesRefused):
                there.server.submit(strict).wait(120)
            with pytest.raises(InvalidDocument):
                there.server.submit({**one, "statistic": "mode"})
            prometheus.until('thebes_refusals_total{by="site",reason="policy"} == 1')
            prometheus.until("rate(thebes_request_seconds_count[5m]) > 0")
            prometheus.until("rate(thebes_site_phase_seconds_count[5m]) > 0")
            yield prometheus
    finally:
        there.close()


@pytest.mark.parametrize("query", QUERIES)
def test_every_query_of_the_board_gives_series(watched: Prometheus, query: str) -> None:
    found = watched.until(query)
    assert [one for one in found if math.isfinite(float(one["value"][1]))], found


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_every_alert_asks_for_figures_that_there_are_and_only_that_of_short_certificates_fires(
    watched: Prometheus, rule: dict[str, Any]
) -> None:
    """The sites' certificates count for a day; everything else is well."""
    left, _, _ = rule["expr"].rpartition(" ")
    figures, _, _ = left.rpartition(" ")
    assert watched.until(figures), "without its threshold it gives series"
    assert len(watched.series(rule["expr"])) == (2 if rule["alert"] == "ThebesCertificateEnds" else 0)


def test_prometheus_read_all_of_it_as_open_metrics_without_a_complaint(watched: Prometheus) -> None:
    targets = watched.get("targets")["activeTargets"]
    assert [target["lastError"] for target in targets] == [""] * 3
    assert {group["name"] for group in watched.get("rules")["groups"]} == {each["name"] for each in ALERTS["groups"]}
    kinds = {name: told[0]["type"] for name, told in watched.get("metadata").items() if name.startswith("thebes_")}
    assert kinds["thebes_request_seconds"] == "histogram"
    assert len(watched.series("thebes_site_budget_left")) == 3, "patients at both, and the visits of one"
    assert {one["metric"]["state"]: one["value"][1] for one in watched.series("thebes_sites")}["connected"] == "2"
