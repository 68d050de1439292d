"""All that document and schema decide is decided before anything is set aside: a refusal leaves ledgers untouched."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.support.site_home import EVERYBODY, ask, declare
from thebes.curator.pipelines.attempt_store import RunState
from thebes.curator.pipelines.ready import MODELS, of
from thebes.curator.pipelines.ready.statistics import ERROR
from thebes.curator.pipelines.runner import Runner
from thebes.curator.pipelines.validators import METRICS
from thebes.curator.pipelines.workspace import Workspace
from thebes.curator.streams.stream import Stream, Terms
from thebes.data.engines.source import table_of
from thebes.data.growing.block_rule import block_by
from thebes.data.schema import schema_of
from thebes.database import private_files
from thebes.ledger import Ledger, NoKeeper
from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import seeded_for_simulation
from thebes.site.algorithm_process import Office
from thebes.site.home import SiteHome
from thebes.site.steward.questions import StewardQuestion
from thebes.site.steward.synthesis import Wish, synthesized
from thebes.tasks import registry
from thebes.tasks.aggregation.packets import part_of
from thebes.tasks.protocols import Ask
from thebes.wire.link import Code, Word

DAY = datetime(2026, 11, 1, tzinfo=UTC)
COLUMNS: dict[str, dict[str, Any]] = {
    "at": {"type": "timestamp"},
    "ranged": {"type": "float", "low": 0.0, "high": 10.0},
    "whole": {"type": "integer", "low": 0, "high": 9},
    "open": {"type": "float"},
    "two": {"type": "string", "values": ["no", "yes"]},
    "three": {"type": "string", "values": ["a", "b", "c"]},
    "numbered": {"type": "integer", "values": [1, 2]},
    "flag": {"type": "boolean"},
    "text": {"type": "string"},
}
SCHEMA = schema_of({"unit": "event", "time": "at", "columns": COLUMNS})
ANYTHING = (*COLUMNS, "unknown")


class Rides:
    """A stream of one day with columns of every kind."""

    def __init__(self, folder: Path, rows: int = 120) -> None:
        self.ledger = Ledger("memory://", keeper=NoKeeper())
        self.stream = Stream(
            "rides",
            schema=SCHEMA,
            by=block_by("time:1d", SCHEMA),
            terms=Terms(Decimal(10_000), Decimal("1e-3"), "basic"),
            ledger=self.ledger,
            folder=folder / "rows",
            clock=lambda: DAY + timedelta(days=9),
            randomness=lambda: seeded_for_simulation(1),
        )
        self.workspace = Workspace(folder)
        self.stream.ingest(frame(rows), key="a day")

    def journal(self) -> Any:
        return [(block.name, block.remaining) for block in self.ledger.blocks()], list(map(repr, self.ledger.claims()))

    def refused_or_run(self, **document: Any) -> str:
        """Return what came of it: nothing was charged for a refusal, and what was charged for did not fail."""
        before = self.journal()
        try:
            pipeline = of({"stream": "rides", "epsilon": 8.0, "start_epsilon": 8.0, "timeout": "1h", **document})
            run = Runner(self.stream, self.workspace, "ana", lambda *_: None, randomness=seeded_for_simulation(2)).run(
                pipeline
            )
        except Mistake as refused:
            unnamed = "" if refused.argument and refused.message else "without a name: "
            return f"{unnamed}refused" if self.journal() == before else f"refused and charged: {refused}"
        return "ran" if run.state is not RunState.FAILED else f"charged and failed: {run.reason}"

    def close(self) -> None:
        self.workspace.close()
        self.stream.close()
        self.ledger.close()


@pytest.fixture
def rides(tmp_path: Path) -> Iterator[Rides]:
    made = Rides(tmp_path)
    yield made
    made.close()


def good(model: str) -> dict[str, Any]:
    """A document of each ready pipeline that can work."""
    of_numbers = {"output": "ranged", "target": {"mse": 50.0}, "delta": 1e-6}
    small = {"epsilon": 0.5, "start_epsilon": 0.5}  # a loss whose distribution is quickly drawn up
    fitting: dict[str, dict[str, Any]] = {
        "LinearRegression": {"inputs": ["whole"], **of_numbers},
        "LogisticRegression": {"inputs": ["whole"], **of_numbers, "output": "two", "target": {"accuracy": 0.2}},
        "NeuralNetwork": {"inputs": ["whole"], **of_numbers, **small, "steps": 1, "rate": 0.5, "layers": [1]},
        "GroupMeans": {"inputs": ["three"], "output": "ranged", "target": {ERROR: 9.0}},
        "Histogram": {"inputs": ["three"], "target": {ERROR: 0.9}},
    }
    return {"model": model, **fitting[model]}


def unsuitable(model: str) -> Iterator[dict[str, Any]]:
    """Every column for every place, every metric, and noise that cannot be drawn."""
    for column in ANYTHING:
        yield {"inputs": [column]}
        yield {"inputs": [*good(model)["inputs"], column]}
        yield {"output": column}
        yield {"inputs": [column], "bins": {column: 4}}
        yield {"inputs": [column], "bins": {column: [2.0, 1.0]}}
    yield {"output": ""}
    for metric in (*METRICS, ERROR, "beauty"):
        yield {"target": {metric: 0.5}}
        for column in ("flag", "open"):
            yield {"target": {metric: 0.5}, "output": column}
    for epsilon in (1e-12, 1e-9, 1e-6):
        yield {"epsilon": 1e-6, "start_epsilon": epsilon}


@pytest.mark.parametrize(
    "model",
    [pytest.param(model, marks=[] if model == "GaussianNB" else [pytest.mark.slow]) for model in sorted(MODELS)],
)
def test_no_pipeline_is_charged_for_what_its_document_and_the_schema_decide(model: str, rides: Rides) -> None:
    assert rides.refused_or_run(**good(model), name="good") == "ran"
    came = {
        str(change): rides.refused_or_run(**{**good(model), **change}, name=f"try-{number}")
        for number, change in enumerate(unsuitable(model))
    }
    assert {change: told for change, told in came.items() if told not in ("ran", "refused")} == {}
    assert list(came.values()).count("refused") >= 20


# --- sites, and a steward's own questions -----------------------------------------------------------------


QUESTIONS: dict[str, dict[str, Any]] = {
    "count": {},
    "sum": {"column": "whole"},
    "mean": {"column": "ranged"},
    "variance": {"column": "ranged"},
    "histogram": {"column": "three"},
    "quantile": {"column": "ranged", "quantile": 0.5},
    "correlation": {"columns": ["ranged", "whole"]},
}


def site_documents() -> Iterator[dict[str, Any]]:
    """Every statistic and model of sites with every column in every place."""
    for statistic, good_one in QUESTIONS.items():
        head = {"type": "query", "statistic": statistic, "epsilon": 0.1}
        yield {**head, **good_one}
        for column in ANYTHING:
            if "column" in good_one:
                yield {**head, **good_one, "column": column}
                yield {**head, **good_one, "column": column, "bins": 3}
            if "columns" in good_one:
                yield {**head, "columns": ["ranged", column]}
            yield {**head, **good_one, "by": [column]}
            yield {**head, **good_one, "where": f"{column} = 'yes'"}
    for model in ("LinearRegression", "LogisticRegression"):
        head = {"type": "train", "model": model, "epsilon": 0.1, "delta": 1e-9, "rounds": 1}
        output = "ranged" if model == "LinearRegression" else "two"
        for column in ANYTHING:
            yield {**head, "inputs": [column], "output": output}
            yield {**head, "inputs": ["whole"], "output": column}
    for column in ANYTHING:
        head = {"type": "algorithm", "epsilon": 0.1, "delta": 1e-9, "features": {"made": {"divide": [column, 2]}}}
        yield {**head, "map": {"statistic": {"column": "made"}}, "reduce": "mean"}


def fitting(document: dict[str, Any]) -> bool:
    """Return whether a document and the schema allow an answer."""
    try:
        checked = registry.check(document)
        registry.kind(checked.type).fits(checked, SCHEMA)  # type: ignore[attr-defined]
    except Mistake:
        return False
    return True


def frame(rows: int = 60) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "at": [pd.Timestamp("2026-11-01") + pd.Timedelta(minutes=n) for n in range(rows)],
            "ranged": draw.uniform(0, 10, rows),
            "whole": draw.integers(0, 10, rows),
            "open": draw.uniform(0, 10, rows),
            "two": draw.choice(["no", "yes"], rows),
            "three": draw.choice(["a", "b", "c"], rows),
            "numbered": draw.integers(1, 3, rows),
            "flag": draw.random(rows) < 0.5,
            "text": draw.choice(["x", "y"], rows),
        }
    )


@pytest.mark.slow
def test_no_site_sets_anything_aside_for_what_a_document_and_the_schema_decide(tmp_path: Path) -> None:
    home = SiteHome(tmp_path)
    declare(home, frame(), name="rides", schema={"unit": "event", "columns": COLUMNS}, epsilon=1000, delta=1e-3)
    private_files.write(home.policy, EVERYBODY.replace("epsilon = 1000", "epsilon = 1000\ndelta = 1e-3"))
    office = Office(home, "north")
    paid, refused = 0, 0
    for number, document in enumerate(site_documents()):
        whole = {"dataset": "rides", "sites": ["north"], **document}
        before = list(map(repr, office.ledger.claims()))
        told = office.answer(ask(whole, task=f"t{number}"))
        if told["kind"] == Word.CONTRIBUTION:
            paid += 1
            continue
        if fitting(whole):  # a round of training is asked with weights, which stand in no document
            assert document["type"] == "train"
            continue
        refused += 1
        assert told["code"] in (Code.DOCUMENT, Code.SCHEMA), (document, told)
        assert list(map(repr, office.ledger.claims())) == before, f"{document} was refused and set something aside"
    assert paid > 20
    assert refused > 100


@pytest.mark.slow
def test_a_stewards_own_questions_and_rows_made_up_set_nothing_aside_before_they_are_checked(tmp_path: Path) -> None:
    home = SiteHome(tmp_path)
    schema = {"unit": "event", "columns": COLUMNS}
    dataset = declare(home, frame(), name="rides", schema=schema, epsilon=1000, delta=1e-3)
    with Ledger(home.ledger, keeper=NoKeeper()) as ledger:
        table = table_of(dataset.schema, dataset.source, folder=home.datasets, scratch=tmp_path / "scratch")

        def opened(*blocks: Any) -> Any:
            return table

        question = StewardQuestion(dataset, ledger, None, None, opened, seeded_for_simulation(1))
        refused = 0
        for document in site_documents():
            if document["type"] != "query":
                continue
            before = list(map(repr, ledger.claims()))
            try:
                checked = registry.check({"dataset": "rides", "sites": ["north"], **document})
                question.answer(checked, Ask("a", part_of(0), 0, {}))
            except Mistake:
                refused += 1
                assert list(map(repr, ledger.claims())) == before, f"{document} was refused and set something aside"
        assert refused > 50
        before = list(map(repr, ledger.claims()))
        for columns in (["unknown"], ["text"], ["open"], ["at"], ["three", "text"], []):
            for method in ("mst", "independent"):
                wish = Wish(rows=10, epsilon=1, method=method, columns=columns)
                with pytest.raises(Mistake):
                    synthesized(dataset, wish, ledger=ledger, opened=opened, randomness=seeded_for_simulation(1))
        for bins in ({"unknown": 3}, {"three": 3}, {"ranged": (5.0, 1.0)}):
            with pytest.raises(Mistake):
                synthesized(dataset, Wish(rows=10, epsilon=1, bins=bins), ledger=ledger, opened=opened)
        assert list(map(repr, ledger.claims())) == before
