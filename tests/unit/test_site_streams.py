"""Growing data sets at a site: declared, paid by the block, appended to, and shown."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.support.command import exit_status
from tests.support.half_kinds import known
from tests.support.site_home import ask
from thebes.curator.pipelines.attempt_store import key_of
from thebes.curator.pipelines.workspace import Workspace, deciding
from thebes.data.growing.block_rule import block_by
from thebes.data.schema import schema_of
from thebes.database import private_files
from thebes.ledger import BudgetExceeded, Ledger, NoKeeper
from thebes.privacy.faults import Mistake
from thebes.site.algorithm_process import Office
from thebes.site.budget.pipeline_rights import PipelineRights
from thebes.site.dataset import BlockDeclaration, BudgetDeclaration, Cache, DataSet, DataSets, read
from thebes.site.home import SiteHome
from thebes.site.steward import views
from thebes.site.steward.rest import MOST_ROWS, read_rows
from thebes.site.streams import Streams, stream_of

sys.path.insert(0, str(Path(__file__).parents[1] / "contract"))

RIDES = {
    "unit": "event",
    "time": "at",
    "columns": {"at": {"type": "timestamp"}, "km": {"type": "float", "low": 0, "high": 100}},
}
RULE = """
[[allow]]
requestors = ["ana", "bob"]
datasets = ["taxi"]
kinds = ["query", "train"]
epsilon = 3
"""
QUERY = {"type": "query", "sites": "all", "dataset": "taxi", "statistic": "count", "epsilon": 1.0}
DAYS = ["2026-01-01"] * 300 + ["2026-01-02"] * 500 + ["2026-01-03"] * 200


def rides(days: list[str]) -> pd.DataFrame:
    return pd.DataFrame({"at": pd.to_datetime(days), "km": 10.0})


def grown(
    home: SiteHome,
    *,
    epsilon: str = "10",
    policy: str = RULE,
    public: bool = False,
    cache: str = "none",
    filter: str = "basic",
    **more: Any,
) -> DataSet:
    """A growing data set with three days of rides, of which every question pays unless they are cached."""
    schema = schema_of({**RIDES, "public": public})
    blocks = BlockDeclaration(block_by("time:1d", schema), more)
    budget = BudgetDeclaration.of(epsilon, "0" if filter == "basic" else "1e-6", filter)
    dataset = DataSet("taxi", schema, {"kind": "growing"}, budget, blocks, Cache(cache))
    DataSets(home).keep(dataset)
    with Ledger(home.ledger, keeper=NoKeeper()) as ledger:
        stream = stream_of(home, dataset, ledger)
        stream.ingest(rides(DAYS))
        stream.close()
    private_files.write(home.policy, policy)
    return dataset


@pytest.fixture
def home(tmp_path: Path) -> SiteHome:
    return SiteHome(tmp_path / "site")


@pytest.fixture
def office(home: SiteHome) -> Iterator[Office]:
    grown(home)
    made = Office(home, "north")
    yield made
    made.ledger.close()


def left(office: Office, block: str) -> float:
    return float(office.ledger.remaining(block).epsilon)


# --- how it is declared -------------------------------------------------------------------------------------------


def test_a_declaration_is_read_as_it_was_written(home: SiteHome) -> None:
    made = grown(home, size_share=Decimal("0.1"), separate_by="developer", accept_separate_ledgers=True)
    again = read(home.datasets / "taxi.toml", "taxi")
    assert again.stream_terms == made.stream_terms
    assert str(again.blocks.by) == "time:1d"  # type: ignore[union-attr]


@pytest.mark.few(5)
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('by = "time:1d"', 'by = "month"'), "blocks.by"),
        (('kind = "growing"', 'kind = "growing"\nengine = "abacus"'), "source.engine"),
        (('kind = "growing"', 'kind = "growing"\nmaster = "local"'), "settings only with engine"),
        (('kind = "growing"', 'kind = "growing"\npath = "rides.csv"'), "source.path"),
        (('kind = "growing"', 'kind = "csv"'), "blocks: goes with"),
        (('by = "time:1d"', 'by = "time:1d"\nsince = "once"'), "blocks.since"),
        (('by = "time:1d"', 'by = "time:1d"\nsince = 2026'), "blocks.since"),
        (('by = "time:1d"', 'by = "time:1d"\nsize_share = 2'), "blocks.size_share"),
        (('by = "time:1d"', 'by = "time:1d"\nsize_share = true'), "blocks.size_share"),
        (('by = "time:1d"', 'by = "time:1d"\nperiods = 3'), "blocks.periods"),
        (('by = "time:1d"', 'by = "time:1d"\nsize_share = 1e-15'), "leaves no epsilon"),
        (('by = "time:1d"', 'by = "time:1d"\nsize = 2'), "blocks.size: is not one of"),
        (('by = "time:1d"', 'by = "time:1d"\nseparate_by = "developer"'), "accept_separate_ledgers"),
    ],
)
def test_a_declaration_that_cannot_be_is_refused_by_its_field(
    home: SiteHome, change: tuple[str, str], says: str
) -> None:
    grown(home)
    path = home.datasets / "taxi.toml"
    path.write_text(path.read_text().replace(*change))
    with pytest.raises(Mistake, match=says):
        read(path, "taxi")


# --- an ask -------------------------------------------------------------------------------------------------------


def test_a_query_is_paid_by_every_block_that_is_over_and_says_which(office: Office) -> None:
    answer = office.answer(ask(QUERY))
    assert answer["kind"] == "contribution"
    assert "rows that were kept" in answer["covers"]["assumption"]
    assert {name: told for name, told in answer["covers"].items() if name != "assumption"} == {
        "blocks": 3,
        "since": "2026-01-01T00:00:00+00:00",
        "until": "2026-01-04T00:00:00+00:00",
    }
    for day in ("2026-01-01", "2026-01-02", "2026-01-03"):
        assert left(office, f"taxi/{day}") == pytest.approx(10 - 0.5 - 1)  # its size, the query
    assert office.answer(ask(QUERY)) | {"id": 0} == answer | {"id": 0}, "the same ask costs nothing again"
    assert left(office, "taxi/2026-01-01") == pytest.approx(8.5)
    office.ledger.verify()


def test_no_task_is_paid_between_a_pipeline_s_asking_for_its_rights_and_its_claim(
    office: Office, home: SiteHome
) -> None:
    with ThreadPoolExecutor(1) as site:
        with deciding(home.folder):
            answering = site.submit(office.answer, ask(QUERY))
            with pytest.raises(TimeoutError):
                answering.result(timeout=1)
            assert office.ledger.claims(spender="ana") == []
        assert answering.result(timeout=60)["kind"] == "contribution"
    assert len(office.ledger.claims(spender="ana")) == 1


def test_rows_that_came_later_are_not_in_an_answer_that_was_given(office: Office) -> None:
    first = office.answer(ask(QUERY))
    office.streams(office.datasets.get("taxi")).ingest(rides(["2026-01-04"] * 900))  # type: ignore[arg-type]
    assert office.answer(ask(QUERY))["covers"] == first["covers"]
    assert office.answer(ask(QUERY, task="t2"))["covers"]["blocks"] == 4


def test_a_block_that_cannot_pay_is_left_out_and_where_none_can_the_ask_is_refused(
    home: SiteHome, office: Office
) -> None:
    dear = {**QUERY, "epsilon": 2.5}
    private_files.write(home.policy, RULE.replace("= 3", "= 100"))
    for task in range(3):
        assert office.answer(ask(dear, task=f"t{task}"))["kind"] == "contribution"
    office.streams(office.datasets.get("taxi")).ingest(rides(["2026-01-05"]))  # type: ignore[arg-type]
    answer = office.answer(ask(dear, task="t4"))
    assert answer["covers"]["blocks"] == 2, "the fourth of January, whether or not it has rows, and the fifth"
    answer = office.answer(ask({**QUERY, "epsilon": 11}, task="t5"))
    assert (answer["kind"], answer["code"]) == ("refusal", "budget")
    assert "no block" in answer["reason"]


def test_a_rule_counts_at_each_block(home: SiteHome, office: Office) -> None:
    for task in range(3):
        assert office.answer(ask(QUERY, task=f"t{task}"))["kind"] == "contribution"
    assert office.answer(ask(QUERY, task="t4"))["code"] == "budget"
    office.streams(office.datasets.get("taxi")).ingest(rides(["2026-01-04"]))  # type: ignore[arg-type]
    assert office.answer(ask(QUERY, task="t5"))["covers"]["blocks"] == 1
    private_files.write(home.policy, RULE.replace("= 3", "= 4"))
    assert office.answer(ask(QUERY, task="t6"))["covers"]["blocks"] == 4


def test_a_rule_counts_what_other_processes_claim(home: SiteHome, office: Office) -> None:
    with Ledger(home.ledger, keeper=NoKeeper()) as elsewhere:
        stream = stream_of(home, office.datasets.get("taxi"), elsewhere)  # type: ignore[arg-type]
        claim = stream.reserve(["taxi/2026-01-01"], epsilon=2.5, purpose="speed", spender="ana", key="by hand 1")
        assert office.answer(ask(QUERY))["covers"]["blocks"] == 2, "0.5 of the rule's 3 is left at the first day"
        claim.consume(epsilon=1).release()
        assert office.answer(ask(QUERY, task="t2"))["covers"]["blocks"] == 3
    again = Office(home, "north")
    assert again.answer(ask(QUERY, task="t3"))["covers"]["blocks"] == 3
    assert again.answer(ask(QUERY, task="t4"))["code"] == "budget", "and so it does after a restart"


@pytest.mark.parametrize("filter", ["basic", "zcdp", "renyi"])
def test_an_attempt_of_a_pipeline_counts_for_what_it_said_whatever_blocks_count_in(home: SiteHome, filter: str) -> None:
    """Read off rho, an epsilon of 1.5 would count for about 9, and the rule would have nothing left."""
    policy = RULE.replace('"train"]', '"train", "pipeline"]') + "delta = 1e-6\n"
    dataset = grown(home, epsilon="40", policy=policy, filter=filter)
    office = Office(home, "north")
    with closing(Workspace(home.folder)) as workspace, Ledger(home.ledger, keeper=NoKeeper()) as elsewhere:
        stream, names = stream_of(home, dataset, elsewhere), ("taxi/2026-01-01", "taxi/2026-01-02")
        run = workspace.attempts.begin("speed", stream="taxi", spender="ana", terms={})
        claims = []
        for epsilon in ("1.5", "0.5"):
            attempt = workspace.attempts.plan(run.id, epsilon=Decimal(epsilon), delta=Decimal(0), blocks=names)
            key = key_of("speed", run.key, attempt.number)
            claims.append(stream.reserve(names, epsilon=epsilon, purpose="speed", spender="ana", key=key))
        assert office.answer(ask(QUERY))["covers"]["blocks"] == 3, "3 - 2 is left at two of them"
        assert office.answer(ask(QUERY, task="t2"))["covers"]["blocks"] == 1
        claims[0].consume()
        claims[1].release()
        assert office.answer(ask({**QUERY, "epsilon": 0.5}, task="t3"))["covers"]["blocks"] == 3
        assert office.answer(ask({**QUERY, "epsilon": 0.5}, task="t4"))["covers"]["blocks"] == 1
        stream.close()
    again = Office(home, "north")
    assert again.answer(ask({**QUERY, "epsilon": 0.5}, task="t5"))["code"] == "budget", "and so it does after a restart"
    again.ledger.close()
    office.ledger.close()


@pytest.mark.parametrize("filter", ["basic", "zcdp", "renyi"])
def test_a_task_counts_for_what_its_document_says_when_a_pipeline_asks_for_its_rights(
    home: SiteHome, filter: str
) -> None:
    """Read off rho, Gaussian noise of epsilon 2 would count for about 0.5, and the rule would let a pipeline have more
    than it says."""
    policy = RULE.replace('"train"]', '"train", "pipeline"]') + "delta = 1e-6\n"
    dataset = grown(home, epsilon="40", policy=policy, filter=filter, cache="exact")
    office = Office(home, "north")
    smooth = {} if filter == "basic" else {"delta": 1e-6}
    told = office.answer(ask({**QUERY, "epsilon": 2.0, **smooth}, payload={"smooth": bool(smooth)}))
    assert told["cost"] == {"epsilon": 2.0, "delta": 0.0, **smooth}
    with closing(Workspace(home.folder)) as workspace, Ledger(home.ledger, keeper=NoKeeper()) as elsewhere:
        stream, names = stream_of(home, dataset, elsewhere), ["taxi/2026-01-01", "taxi/2026-01-02"]
        rights = PipelineRights(home, stream, "ana", workspace.attempts)
        rights(names, Decimal(1), Decimal(0))
        with pytest.raises(BudgetExceeded) as refused:
            rights(names, Decimal("1.001"), Decimal(0))
        assert refused.value.remaining.epsilon == 1
        stream.close()
    dear = {**QUERY, "statistic": "sum", "column": "km", "epsilon": 1.001}
    assert office.answer(ask(dear, task="t2"))["code"] == "budget", "as tasks themselves count"
    office.ledger.close()


def test_sizes_count_against_no_rule(home: SiteHome) -> None:
    grown(home, policy=RULE.replace('["ana", "bob"]', '["*"]').replace("= 3", "= 1"))
    office = Office(home, "north")
    assert office.answer(ask(QUERY))["kind"] == "contribution"


def test_separate_ledgers_let_each_requestor_spend_apart(home: SiteHome) -> None:
    grown(home, epsilon="2", separate_by="developer", accept_separate_ledgers=True)
    office = Office(home, "north")
    dear = {**QUERY, "epsilon": 1.5}
    first = office.answer(ask(dear))
    assert "by itself" in first["covers"]["assumption"]
    assert office.answer(ask(dear, task="t2"))["kind"] == "refusal"
    assert office.answer(ask(dear, task="t3", requestor="bob"))["kind"] == "contribution"


def test_a_rule_counts_over_everybody_who_has_a_budget_of_their_own(home: SiteHome) -> None:
    grown(home, epsilon="4", separate_by="developer", accept_separate_ledgers=True)
    office = Office(home, "north")
    dear = {**QUERY, "epsilon": 1.6}
    assert office.answer(ask(dear))["kind"] == "contribution"
    refused = office.answer(ask(dear, task="t2", requestor="bob"))
    assert refused["kind"] == "refusal", "3 for both of them"
    assert office.answer(ask({**QUERY, "epsilon": 1.4}, task="t3", requestor="bob"))["kind"] == "contribution"
    again = Office(home, "north")
    assert again.answer(ask({**QUERY, "epsilon": 0.1}, task="t4", requestor="bob"))["kind"] == "refusal"


APART = schema_of({**RIDES, "columns": {**RIDES["columns"], "zone": {"type": "string", "values": ["eu", "us"]}}})


def test_a_query_is_about_the_contexts_of_its_rule_alone(home: SiteHome) -> None:
    """The rule's epsilon counts over all contexts; without contexts it allows nothing here."""
    blocks = BlockDeclaration(block_by("time:1d", APART), {"separate_by": "zone"})
    dataset = DataSet("taxi", APART, {"kind": "growing"}, BudgetDeclaration.of("10"), blocks, Cache("exact"))
    DataSets(home).keep(dataset)
    with Ledger(home.ledger, keeper=NoKeeper()) as ledger:
        stream = stream_of(home, dataset, ledger)
        came = rides(DAYS)
        stream.ingest(came.assign(zone=["eu", "us"] * (len(came) // 2) + ["eu"] * (len(came) % 2)))
        stream.close()
    private_files.write(home.policy, RULE)
    office = Office(home, "north")
    refused = office.answer(ask(QUERY, schema=APART))
    assert (refused["kind"], refused["code"]) == ("refusal", "policy")
    assert "does not say in which contexts" in refused["reason"]
    private_files.write(home.policy, RULE + 'contexts = ["us"]\n')
    answer = office.answer(ask(QUERY, task="t2", schema=APART))
    assert answer["kind"] == "contribution", answer
    paid = {block.name for block in office.ledger.blocks() if block.meters["epsilon"].spent}
    assert paid == {name for name in paid if name.endswith("@us")} != set()
    assert answer["covers"]["blocks"] == len(paid)
    private_files.write(home.policy, RULE + 'contexts = ["eu"]\n')
    most = {**QUERY, "epsilon": 2.9, "statistic": "count"}
    assert office.answer(ask(most, task="t3", schema=APART))["kind"] == "refusal", "3 over all contexts"


def test_a_rule_for_contexts_is_for_no_data_set_without_them(home: SiteHome) -> None:
    grown(home, policy=RULE + 'contexts = ["eu"]\n')
    refused = Office(home, "north").answer(ask(QUERY))
    assert (refused["kind"], refused["code"]) == ("refusal", "policy")


@pytest.fixture
def relay() -> Iterator[None]:
    with known("relay"):
        yield


@pytest.mark.usefixtures("relay")
def test_a_task_of_several_phases_reads_the_same_blocks_in_each(home: SiteHome) -> None:
    grown(home, policy=RULE.replace('"train"', '"relay"'))
    office = Office(home, "north")
    document = {"type": "relay", "dataset": "taxi", "column": "km", "epsilon": 1.0, "rounds": 2}
    first = office.answer(ask(document))
    office.streams(office.datasets.get("taxi")).ingest(rides(["2026-01-04"] * 900))  # type: ignore[arg-type]
    second = office.answer(ask(document, phase=1))
    assert first["covers"] == second["covers"] == {**first["covers"], "blocks": 3}
    for answer in (first, second):  # it counts, and adds less than 1000
        assert 1000 <= answer["payload"]["count"] < 2000
    assert left(office, "taxi/2026-01-02") == pytest.approx(8.5)
    assert left(office, "taxi/2026-01-04") == pytest.approx(10)


# --- rows from outside --------------------------------------------------------------------------------------------


def test_rows_are_appended_through_the_pipe_and_the_same_again_changes_nothing(office: Office) -> None:
    rows = [{"at": "2026-01-04T10:00:00Z", "km": 3}]
    told = {"kind": "append", "id": "own-1", "dataset": "taxi", "rows": rows, "key": "sunday"}
    assert office.answer(told)["body"] == {"rows": 1, "again": False}
    assert office.answer(told)["body"] == {"rows": 1, "again": True}
    assert office.lane(told) != office.lane(ask(QUERY)), "rows do not wait for questions"
    for change in (
        {"dataset": "nope"},
        {"rows": []},
        {"rows": [{"at": "x", "km": 1}], "key": "x"},
        {"key": 7},
        {"key": None},
    ):
        with pytest.raises(Mistake):
            office.answer({**told, **change})


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"[]", "rows"),
        (b"{", "not JSON"),
        (b'{"rows": [{"a": NaN}]}', "not JSON"),
        (b'{"rows": [{"a": {"b": 1}}]}', "row 1"),
        (b'{"rows": [{"a": 1}, 7]}', "row 2"),
        (b'{"rows": [{"a": "\\ud800"}]}', "half of a character"),
        (b'{"rows": [{"a": 1e400}]}', "row 1"),
        (b'{"rows": [{"a": 99999999999999999999}]}', "row 1"),
        (b'{"rows": [], "table": 1}', "rows"),
        (b'{"rows": [' + b'{"a":1},' * MOST_ROWS + b'{"a":1}]}', "more than"),
        (b"[" * 100_000, "nested"),
        (b" " * (2**23 + 1), "bytes"),
    ],
)
def test_what_is_no_row_does_not_reach_the_process_with_the_rows(body: bytes, says: str) -> None:
    with pytest.raises(Mistake, match=says):
        read_rows(body)


# --- what is shown ------------------------------------------------------------------------------------------------


def test_blocks_are_shown_with_their_budget_and_without_a_count_of_rows(office: Office) -> None:
    (told,) = views.described(office.datasets, office.ledger, office.streams)
    assert told["growing"]["by"] == "time:1d"
    assert [block["state"] for block in told["blocks"]] == ["open"] * 3
    assert "300" not in json.dumps(told)
    assert views.ledger(office.budget, office.datasets, office.policy())["blocks"] == []


def test_a_declaration_on_other_terms_is_trouble_and_no_budget(home: SiteHome, office: Office) -> None:
    path = home.datasets / "taxi.toml"
    path.write_text(path.read_text().replace("epsilon = 10", "epsilon = 1000"))
    (told,) = views.described(office.datasets, office.ledger, Streams(home, office.ledger))
    assert "other terms" in told["trouble"]
    answer = office.answer(ask(QUERY))
    assert (answer["kind"], answer["code"]) == ("refusal", "dataset")


# --- the command line ---------------------------------------------------------------------------------------------


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Any]:
    def go(*arguments: object) -> tuple[int, str, str]:
        return exit_status("dataset", *arguments, "--home", str(tmp_path / "s")), *capsys.readouterr()

    monkeypatch.chdir(tmp_path)
    (tmp_path / "rides.json").write_text(json.dumps(RIDES))
    (tmp_path / "rides.csv").write_text("at,km\n2026-01-01,1\n2026-01-02,2\n")
    (tmp_path / "wrong.csv").write_text("at,km\n2026-01-01,1\n2026-01-02,SECRET\n")
    return go


@pytest.mark.slow
def test_a_data_set_grows_from_the_command_line(run: Callable[..., Any]) -> None:
    assert run("create", "taxi", "--schema", "rides.json", "--block-by", "time:1d", "--epsilon", "1")[0] == 0
    assert "2 rows came in" in run("ingest", "taxi", "rides.csv")[1]
    assert "there already" in run("ingest", "taxi", "rides.csv")[1]
    status, _, error = run("ingest", "taxi", "wrong.csv", "--key", "rides.csv")
    assert (status, "used before for other rows" in error) == (2, True)
    status, _, error = run("ingest", "taxi", "wrong.csv")
    assert (status, "row 2" in error, "SECRET" in error) == (2, True, False)
    blocks = json.loads(run("show", "taxi", "--json")[1])["blocks"]
    assert [block["block"] for block in blocks] == ["taxi/2026-01-01", "taxi/2026-01-02"]
    assert {"block", "epsilon", "delta", "remaining", "state"} <= set(blocks[0])
    assert run("drop", "taxi", "2026-01-01")[0] == 1
    assert "Retired: taxi/2026-01-01" in run("retire", "taxi", "2026-01-01")[1]
    assert run("drop", "taxi", "2026-01-01")[0] == 0
    assert "taxi/2026-01-01: dropped" in run("show", "taxi")[1]
    assert "2 blocks by time:1d; of 1 that can be charged" in run("list")[1]
    granted = run("grant", "taxi", "--to", "ana", "--kinds", "query,pipeline", "--epsilon", "1")[1]
    assert "at each of its blocks" in granted


def test_a_declared_first_day_opens_its_blocks_before_a_row_has_come(run: Callable[..., Any]) -> None:
    told = run("create", "taxi", "--schema", "rides.json", "--block-by", "time:1d", "--epsilon", "1")[1]
    assert "--since" in told
    since = (datetime.now(UTC) - timedelta(days=2)).strftime("%Y-%m-%d")
    told = run("create", "cabs", "--schema", "rides.json", "--block-by", "time:1d", "--epsilon", "1", "--since", since)[
        1
    ]
    assert "--since" not in told
    blocks = [block["block"] for block in json.loads(run("show", "cabs", "--json")[1])["blocks"]]
    assert blocks[0] == f"cabs/{since}"
    assert len(blocks) in (4, 5)  # midnight may pass meanwhile
    status, _, error = run("ingest", "cabs", "rides.csv")
    assert (status, "before blocks.since" in error) == (2, True)


def test_one_row_far_back_makes_no_windows_and_spoils_no_data_set(run: Callable[..., Any], tmp_path: Path) -> None:
    run("create", "taxi", "--schema", "rides.json", "--block-by", "time:1d", "--epsilon", "1")
    head, first, *_ = Path("rides.csv").read_text().splitlines()
    for moment in ("0044-03-15 (BC)", "0001-01-01", "1899-12-31"):
        row = first.replace("2026-01-01", moment) if "2026-01-01" in first else first
        Path("far.csv").write_text(f"{head}\n{row}\n")
        status, _, error = run("ingest", "taxi", "far.csv")
        assert (status, "row 1" in error) == (2, True), moment
    assert "2 rows came in" in run("ingest", "taxi", "rides.csv")[1]
    assert run("list")[0] == 0


def test_the_schedule_and_the_engine_are_declared_too(run: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "spark.toml").write_text('kind = "growing"\nengine = "spark"\nmaster = "local[2]"\n')
    more = ("--schema", "rides.json", "--block-by", "time:1d", "--epsilon", "1")
    told = run("create", "taxi", *more, "--schedule", "dpack", "--source", "spark.toml")
    assert told[0] == 0, told
    made = DataSets(SiteHome(tmp_path / "s")).get("taxi")
    assert made is not None
    assert made.blocks is not None
    assert (made.blocks.schedule, made.source["engine"], made.source["master"]) == ("dpack", "spark", "local[2]")


def test_how_coarse_counts_of_users_will_be_is_said_beforehand(run: Callable[..., Any], tmp_path: Path) -> None:
    columns = {"who": {"type": "integer", "key": True}}
    (tmp_path / "visits.json").write_text(json.dumps({"unit": "person", "max_rows_per_unit": 3, "columns": columns}))
    more = ("--schema", "visits.json", "--block-by", "user:100", "--epsilon", "1", "--periods", "4")
    assert run("create", "visits", *more, "--size-share", "0.2")[0] == 0
    told = run("show", "visits")[1]
    assert "counts of its users will lie within 83 of the truth, one of their rows within 180," in told
    counts = json.loads(run("show", "visits", "--json")[1])["growing"]["counts"]
    assert counts["periods"] == 4
    assert run("create", "taxi", "--schema", "rides.json", "--block-by", "time:1d", "--epsilon", "1", "--periods", "4")[
        0
    ]


def test_a_steward_is_told_of_a_growing_set_which_values_did_not_fit(run: Callable[..., Any], tmp_path: Path) -> None:
    assert run("create", "taxi", "--schema", "rides.json", "--block-by", "time:1d", "--epsilon", "9")[0] == 0
    high = RIDES["columns"]["km"]["high"]
    lines = "".join(f"2026-01-0{1 + n % 2},{high + 1 if n % 4 == 0 else 1}\n" for n in range(40))
    (tmp_path / "rides.csv").write_text(f"at,km\n{lines}")
    assert run("ingest", "taxi", "rides.csv")[0] == 0
    asked = ("query", "taxi", "--statistic", "mean", "--column", "km", "--epsilon", "0.5")
    status, told, error = run(*asked)
    assert (status, error) == (0, f"thebes: warning: km: 25 % above {high:g}, cut to it\n")
    assert "25 %" not in told


def test_an_answer_about_blocks_of_users_says_what_their_counts_cost_beside(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    """Up to which user there are blocks is told with the answer, and follows from the counts."""
    columns = {"who": {"type": "integer", "key": True}}
    (tmp_path / "visits.json").write_text(json.dumps({"unit": "person", "max_rows_per_unit": 1, "columns": columns}))
    (tmp_path / "visits.csv").write_text("who\n" + "".join(f"{who}\n" for who in range(1, 2001)))
    more = ("--schema", "visits.json", "--block-by", "user:100", "--epsilon", "10", "--periods", "4")
    assert run("create", "visits", *more, "--size-share", "0.2")[0] == 0
    assert run("ingest", "visits", "visits.csv")[0] == 0
    for period in ("a", "b"):
        assert run("count", "visits", "--period", period)[0] == 0
    status, told, error = run("query", "visits", "--statistic", "count", "--epsilon", "0.5", "--json")
    assert status == 0, error
    certificate = json.loads(told)["certificate"]
    assert (certificate["epsilon"], certificate["beside_earlier"]) == (0.5, True)
    assert "paid for once, for all who ask, at epsilon 1." in certificate["text"]
    assert "epsilon 1." in run("show", "visits")[1]
    assert json.loads(run("show", "visits", "--json")[1])["growing"]["sizes"] == {"epsilon": 1.0}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--since", "2026-01-01", "--source", "rides.csv"), "--block-by"),
        (("--block-by", "time:1d", "--since", "soon"), "since"),
        (("--block-by", "user"), "protect persons"),
        (("--block-by", "time:1d", "--source", "rides.csv"), "leave --source"),
        ((), "--source"),
        (("--block-by", "time:1d", "--schedule", "mine"), "one of even, dpf, dpack, fcfs"),
        (("--schedule", "even", "--source", "rides.csv"), "--schedule"),
        (("--block-by", "time:1d", "--separate-by", "developer"), "accept_separate_ledgers"),
        (("--separate-by", "developer", "--source", "rides.csv"), "--separate-by"),
        (("--size-share", "0.1", "--source", "rides.csv"), "--block-by"),
        (("--block-by", "time:1d", "--retire-below", "0.96"), "would retire"),
        (("--block-by", "time:1d", "--filter", "zcdp"), "delta greater than 0"),
        (("--block-by", "time:1d", "--filter", "renyi", "--delta", "1e-6", "--epsilon", "0.0001"), "too small"),
        (("--block-by", "time:1d", "--size-share", "1e-13"), "leaves no epsilon"),
    ],
)
def test_what_cannot_grow_is_not_declared(run: Callable[..., Any], more: tuple[str, ...], says: str) -> None:
    status, _, error = run("create", "taxi", "--schema", "rides.json", "--epsilon", "1", *more)
    assert status == 2
    assert says in error
    assert run("show", "taxi")[0] == 2
