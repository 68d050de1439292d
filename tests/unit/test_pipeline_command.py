"""`thebes pipeline`, as a developer at a site's terminal meets it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.support.command import exit_status
from tests.support.pipelines import Lines
from thebes.curator.pipelines.attempt_store import Attempts
from thebes.curator.pipelines.loader import pipelines_in
from thebes.curator.pipelines.runner import Runner
from thebes.curator.pipelines.workspace import Workspace
from thebes.ledger import BudgetExceeded, Ledger
from thebes.privacy.faults import Mistake, Refusal
from thebes.site.budget.budget import SiteBudget
from thebes.site.budget.pipeline_rights import PipelineRights
from thebes.site.budget.policy import PolicyRule
from thebes.site.dataset import DataSets
from thebes.site.home import SiteHome
from thebes.site.requests.response_store import ResponseStore
from thebes.site.streams import stream_of

Run = Callable[..., tuple[int, str, str]]
SCHEMA = """
unit = "event"
time = "at"
[columns.at]
type = "timestamp"
[columns.x]
type = "float"
low = 0.0
high = 1.0
[columns.y]
type = "float"
low = 0.0
high = 1.0
"""
FILE = """
from thebes.pipeline import Allowance, Data
from tests.support.pipelines import Line
from tests.support.pipelines import Lines as _Lines

class Slopes(_Lines):
    name = "slopes"
    timeout = "1h"
"""
#: Its target is so far off that two or four blocks always reach it, whatever the noise.
EASY = FILE + '    targets = {"mse": 0.25}\n'


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Runs a command line; its exit status, standard output and standard error."""

    def go(*arguments: object) -> tuple[int, str, str]:
        return exit_status(*arguments), *capsys.readouterr()

    monkeypatch.delenv("THEBES_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.toml").write_text(SCHEMA)
    (tmp_path / "slopes.py").write_text(FILE)
    return go


def rides(path: Path, days: int, *, first: int = 1, rows: int = 2000) -> None:
    chance = np.random.default_rng(first)
    x = chance.random(days * rows)
    at = pd.Timestamp("2026-10-01") + pd.to_timedelta(first - 1 + chance.random(days * rows) * (days - 1e-6), unit="D")
    y = np.clip(0.8 * x + 0.05 * chance.standard_normal(x.size), 0, 1)
    pd.DataFrame({"at": at, "x": x, "y": y}).to_parquet(path)


@pytest.fixture
def stocked(run: Run, tmp_path: Path) -> Run:
    """A home with a stream of eight days, over which ana may run pipelines."""
    created = run(
        *("dataset", "create", "rides", "--home", "site", "--schema", "schema.toml"),
        *("--block-by", "time:1d", "--epsilon", 5),
    )
    assert created[0] == 0, created
    rides(tmp_path / "rides.parquet", 8)
    assert run("dataset", "ingest", "rides", "rides.parquet", "--home", "site")[0] == 0
    granted = run("dataset", "grant", "rides", "--home", "site", "--to", "ana", "--kinds", "pipeline", "--epsilon", 2)
    assert granted[0] == 0, granted
    return run


PIPELINE = ("pipeline", "run", "slopes.py", "--home", "site", "--as")


@pytest.mark.slow
def test_a_pipeline_runs_and_is_listed_with_its_attempts(stocked: Run, tmp_path: Path) -> None:
    (tmp_path / "slopes.py").write_text(EASY)
    status, out, err = stocked(*PIPELINE, "ana")
    assert (status, err) == (0, "")
    assert re.search(r"attempt 1: epsilon 0\.25 of each of 1 blocks, about (1,9|2,0)\d\d rows: ", out)
    assert "slopes: ACCEPT, version 1" in out
    status, out, err = stocked("pipeline", "list", "--home", "site", "--json")
    (listed,) = json.loads(out)["pipelines"]
    assert (listed["name"], listed["stream"], listed["developer"]) == ("slopes", "rides", "ana")
    assert listed["versions"] == [1]
    (made,) = listed["runs"]
    assert made["verdict"] == "ACCEPT"
    assert [one["verdict"] for one in made["attempts"]][-1] == "ACCEPT"
    assert "version 1 in the store" in stocked("pipeline", "list", "--home", "site")[1]
    bundle = json.loads((tmp_path / "site" / "models" / "slopes" / "1.json").read_text(encoding="utf-8"))
    assert bundle["lineage"]["developer"] == "ana"
    shown = json.loads(stocked("dataset", "show", "rides", "--home", "site", "--json")[1])
    charged = [b for b in shown["blocks"] if b["remaining"]["epsilon"] < 4.7]
    assert {b["block"] for b in charged} >= set(bundle["lineage"]["blocks"])


def test_as_json_nothing_else_is_printed(stocked: Run, tmp_path: Path) -> None:
    (tmp_path / "slopes.py").write_text(EASY)
    status, out, err = stocked(*PIPELINE, "ana", "--json")
    assert (status, err) == (0, "")
    told = json.loads(out)
    assert told["verdict"] == "ACCEPT"
    assert told["attempts"][-1]["validation"]["metrics"][0]["metric"] == "mse"


def test_who_has_no_rule_runs_nothing(stocked: Run) -> None:
    status, out, err = stocked(*PIPELINE, "bob")
    assert (status, out) == (1, "")
    assert "thebes dataset grant rides --to bob --kinds pipeline" in err
    with Ledger("sqlite:///site/ledger.db", create=False) as ledger:
        assert ledger.claims(spender="bob") == []
    assert "No pipeline has been run" in stocked("pipeline", "list", "--home", "site")[1]


@pytest.mark.slow
def test_a_rule_is_not_exceeded_by_several_runs(stocked: Run, tmp_path: Path) -> None:
    (tmp_path / "slopes.py").write_text(EASY)
    policy = tmp_path / "site" / "policy.toml"
    policy.write_text(policy.read_text(encoding="utf-8").replace("epsilon = 2.0", "epsilon = 0.5"))
    verdicts: list[dict[str, Any]] = []
    while not verdicts or verdicts[-1]["verdict"] == "ACCEPT":
        status, out, _ = stocked(*PIPELINE, "ana", "--json")
        assert status == 0
        verdicts.append(json.loads(out))
        assert len(verdicts) <= 17  # eight blocks may pay twice each
    assert verdicts[0]["verdict"] == "ACCEPT"
    assert verdicts[-1]["verdict"] == "RETRY"
    assert "rule 1 of policy.toml" in verdicts[-1]["reason"]
    paid: dict[str, float] = {}
    for one in {told["run"]: told for told in verdicts}.values():
        for attempt in one["attempts"]:
            for block in attempt["blocks"] if attempt["state"] != "given back" else ():
                paid[block] = paid.get(block, 0) + attempt["epsilon"]
    assert max(paid.values()) == 0.5


def test_what_tasks_were_answered_counts_against_the_rule_that_covers_them(stocked: Run, tmp_path: Path) -> None:
    place = SiteHome("site")
    dataset = DataSets(place).get("rides")
    assert dataset is not None
    with Ledger(place.ledger) as ledger:
        stream = stream_of(place, dataset, ledger)
        attempts = Attempts(tmp_path / "pipelines.db")
        rights = PipelineRights(place, stream, "ana", attempts)
        names = [block.name for block in stream.offered()]
        rights(names, Decimal(2), Decimal(0))
        with pytest.raises(BudgetExceeded) as refused:
            rights(names, Decimal("2.1"), Decimal(0))
        assert refused.value.spender == "rule 1 of policy.toml"
        stream.reserve(names[:1], epsilon=1, purpose="query", spender="ana", key="task 1").consume()
        rights(names[1:], Decimal(2), Decimal(0))
        with pytest.raises(BudgetExceeded):
            rights(names, Decimal("1.1"), Decimal(0))
        with pytest.raises(Refusal):
            PipelineRights(place, stream, "bob", attempts)(names, Decimal("0.1"), Decimal(0))
        attempts.close()
        stream.close()


def test_a_rule_counts_over_all_contexts_and_lets_nobody_into_another(run: Run, tmp_path: Path) -> None:
    (tmp_path / "zones.toml").write_text(f'{SCHEMA}[columns.zone]\ntype = "string"\nvalues = ["eu", "us"]\n')
    apart = ("--separate-by", "zone")
    by_day = ("--schema", "zones.toml", "--block-by", "time:1d", "--epsilon", 5)
    assert run("dataset", "create", "rides", "--home", "site", *by_day, *apart)[0] == 0
    days = pd.to_datetime(["2026-10-01"] * 2)
    pd.DataFrame({"at": days, "x": 0.5, "y": 0.5, "zone": ["eu", "us"]}).to_parquet("one.parquet")
    assert run("dataset", "ingest", "rides", "one.parquet", "--home", "site")[0] == 0
    grant = ("--to", "ana", "--kinds", "pipeline", "--epsilon", 2)
    for wrong in ((), ("--contexts", "asia")):
        status, _, error = run("dataset", "grant", "rides", "--home", "site", *grant, *wrong)
        assert (status, "--contexts" in error) == (2, True)
    assert run("dataset", "grant", "rides", "--home", "site", *grant, "--contexts", "eu,us")[0] == 0
    also = ("--to", "bob", "--kinds", "pipeline", "--epsilon", 2, "--contexts", "us")
    assert run("dataset", "grant", "rides", "--home", "site", *also)[0] == 0
    place = SiteHome("site")
    dataset = DataSets(place).get("rides")
    assert dataset is not None
    with Ledger(place.ledger) as ledger, closing(stream_of(place, dataset, ledger)) as stream:
        attempts = Attempts(tmp_path / "pipelines.db")
        eu, us = ["rides/2026-10-01@eu"], ["rides/2026-10-01@us"]
        ana, bob = (PipelineRights(place, stream, who, attempts) for who in ("ana", "bob"))
        assert (ana.context(None), ana.context("eu"), bob.context(None)) == (("eu", "us"), ("eu",), ("us",))
        with pytest.raises(Refusal, match=r"rule 2 of policy\.toml does not let bob ask in the context 'eu'"):
            bob.context("eu")
        ana(us, Decimal(2), Decimal(0))
        stream.reserve(eu, epsilon="1.5", purpose="p", spender="ana", key="pipeline p x/1", context="eu").consume()
        for blocks in (eu, us):
            ana(blocks, Decimal("0.5"), Decimal(0))
            with pytest.raises(BudgetExceeded):
                ana(blocks, Decimal("0.6"), Decimal(0))
        bob(us, Decimal(2), Decimal(0))
        attempts.close()


def test_a_pipeline_reads_the_rows_of_its_contexts_alone(tmp_path: Path, run: Run) -> None:
    """Whoever is bound to one context gets no other's rows, whatever they name, and all who share rows one budget."""
    (tmp_path / "zones.toml").write_text(f'{SCHEMA}[columns.zone]\ntype = "string"\nvalues = ["eu", "us"]\n')
    by_day = ("--schema", "zones.toml", "--block-by", "time:1d", "--epsilon", 5, "--separate-by", "zone")
    assert run("dataset", "create", "rides", "--home", "site", *by_day)[0] == 0
    days = pd.to_datetime(["2026-10-01"] * 200)
    frame = pd.DataFrame({"at": days, "x": 0.5, "y": 0.5, "zone": ["eu"] * 150 + ["us"] * 50})
    frame.to_parquet("some.parquet")
    assert run("dataset", "ingest", "rides", "some.parquet", "--home", "site")[0] == 0
    (tmp_path / "slopes.py").write_text(EASY)
    policy = tmp_path / "site" / "policy.toml"
    rule = '[[allow]]\nrequestors = ["ana"]\ndatasets = ["*"]\nkinds = ["*"]\nepsilon = 9\n'
    policy.write_text(rule)
    status, _, error = run(*PIPELINE, "ana", "--json")
    assert status != 0
    assert "does not say in which contexts" in error
    policy.write_text(rule + 'contexts = ["us", "mars"]\n')
    status, out, error = run(*PIPELINE, "ana", "--json")
    assert status == 0, error
    attempts = json.loads(out)["attempts"]
    assert attempts
    assert {block for one in attempts for block in one["blocks"]} == {"rides/2026-10-01@us"}
    assert all(one["rows"] < 150 for one in attempts)
    policy.write_text(rule + 'contexts = ["mars"]\n')
    assert "names no context that this data set has" in run(*PIPELINE, "ana", "--json")[2]


def test_pipelines_that_run_at_once_keep_within_the_rule_they_share(stocked: Run) -> None:
    place = SiteHome("site")
    dataset = DataSets(place).get("rides")
    assert dataset is not None

    class Bold(Lines):
        strategy, epsilon, targets = "aggressive", 0.9, {"mse": 1e-9}

    def work(name: str) -> None:
        pipeline = Bold()
        vars(pipeline)["name"] = name
        with (
            Ledger(place.ledger) as ledger,
            closing(Workspace(place.folder)) as workspace,
            closing(stream_of(place, dataset, ledger)) as stream,
        ):
            Runner(stream, workspace, "ana", PipelineRights(place, stream, "ana", workspace.attempts)).run(pipeline)

    with ThreadPoolExecutor(4) as several:
        list(several.map(work, ("a", "b", "c", "d")))
    with Ledger(place.ledger) as ledger:
        claims = [claim for claim in ledger.claims(spender="ana") if claim.state == "closed"]
        assert len(claims) == 2  # 0.9 and 0.9 of the rule's 2, whoever of the four came first
        assert not [claim for claim in ledger.claims() if claim.state.open]


def test_a_site_counts_pipelines_against_the_rule_for_pipelines_alone(stocked: Run, tmp_path: Path) -> None:
    both = (
        PolicyRule(1, ("ana",), ("rides",), ("pipeline",), Decimal(3)),
        PolicyRule(2, ("ana",), ("rides",), ("query",), Decimal(3)),
    )
    place = SiteHome("site")
    with Ledger(place.ledger) as ledger, closing(ResponseStore(tmp_path / "outbox.db")) as outbox:
        before = SiteBudget(ledger, outbox)
        assert stocked(*PIPELINE, "ana")[0] == 0
        bundle = json.loads((tmp_path / "site" / "models" / "slopes" / "1.json").read_text(encoding="utf-8"))
        block = ledger.block(bundle["lineage"]["blocks"][-1])
        for claim in (before, SiteBudget(ledger, outbox)):  # one that was open meanwhile, and one that begins
            of_pipelines, of_queries = (claim.left(rule, block).epsilon for rule in both)
            assert of_pipelines < of_queries == 3


def test_a_pipeline_that_breaks_ends_with_status_one(stocked: Run, tmp_path: Path) -> None:
    text = FILE + "    def train(self, data, budget):\n        return 1 / 0\n"
    (tmp_path / "slopes.py").write_text(text)
    status, _, err = stocked(*PIPELINE, "ana")
    assert status == 1
    assert "ZeroDivisionError in line 10 of slopes.py (train)" in err
    assert "what it was charged stays" in err


@pytest.mark.slow
def test_a_document_of_a_ready_pipeline_needs_no_code(run: Run, tmp_path: Path) -> None:
    create = ("--schema", "schema.toml", "--block-by", "time:1d", "--epsilon", 9, "--delta", "1e-5")
    assert run("dataset", "create", "rides", "--home", "site", *create, "--filter", "basic")[0] == 0
    rides(tmp_path / "rides.parquet", 8)
    assert run("dataset", "ingest", "rides", "rides.parquet", "--home", "site")[0] == 0
    grant = ("--to", "ana", "--kinds", "pipeline", "--epsilon", 9)
    assert run("dataset", "grant", "rides", "--home", "site", *grant)[0] == 0
    document: dict[str, Any] = {"type": "pipeline", "stream": "rides", "model": "LinearRegression"}
    document |= {"inputs": ["x"], "output": "y"}
    document |= {"target": {"mse": 0.2}, "epsilon": 4.0, "delta": 1e-6}
    path = tmp_path / "line.json"
    path.write_text(json.dumps(document))
    status, out, err = run("pipeline", "run", path, "--home", "site", "--as", "ana", "--json")
    assert (status, err) == (0, "")
    assert json.loads(out)["verdict"] == "ACCEPT"
    for wrong in ("[]", "{", json.dumps({**document, "model": "Oracle"}), json.dumps({**document, "hope": 1})):
        path.write_text(wrong)
        assert run("pipeline", "run", path, "--home", "site", "--as", "ana")[0] == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "declares no pipeline"),
        ("x = 1 / 0", "ZeroDivisionError in line 1"),
        ("def (", "SyntaxError"),
        (FILE.replace('"slopes"', '"Slopes"'), "lower-case"),
        (FILE + FILE.replace("class Slopes", "class Other"), "two pipelines"),
    ],
)
def test_a_file_that_is_none_is_a_mistake(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "p.py"
    path.write_text(text)
    with pytest.raises(Mistake, match=message):
        pipelines_in(path)


def test_of_several_pipelines_one_is_named(run: Run, tmp_path: Path) -> None:
    both = FILE + FILE.replace("class Slopes", "class Other").replace('"slopes"', '"other"')
    (tmp_path / "slopes.py").write_text(both)
    status, _, err = run(*PIPELINE, "ana")
    assert status == 2
    assert "slopes, other" in err
    status, _, err = run(*PIPELINE, "ana", "--name", "third")
    assert status == 2
    status, _, err = run(*PIPELINE, "ana", "--name", "other")
    assert (status, "there is no data set 'rides'" in err) == (2, True)
    status, _, err = run("pipeline", "run", "none.py", "--home", "site", "--as", "ana")
    assert status == 2


@pytest.mark.slow
def test_waiting_ends_with_the_timeout_at_a_terminal(stocked: Run, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("thebes.cli.pipeline._LOOK", 0.3)
    text = FILE.replace('timeout = "1h"', 'timeout = "3s"\n    targets = {"mse": 1e-9}')
    (tmp_path / "slopes.py").write_text(text)
    status, out, _ = stocked(*PIPELINE, "ana", "--wait")
    assert status == 0
    assert "slopes: TIMEOUT" in out
