"""The noise that a person's machine and a site really draw lets through what their ledgers were charged, and no more:
the same work over neighbouring rows, with noise that is written down."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.support.coordinator_in_memory import CoordinatorInMemory
from tests.support.site_home import EVERYBODY, ask, declare
from thebes.data.engines.source import frame_table
from thebes.data.growing.block_rule import block_by
from thebes.data.rows import Rows
from thebes.data.schema import schema_of
from thebes.data.store import Store
from thebes.database import private_files
from thebes.person.home import Person
from thebes.person.participation import computation
from thebes.privacy.randomness import Randomness
from thebes.site.algorithm_process import Office
from thebes.site.dataset import BlockDeclaration, BudgetDeclaration, Cache, DataSet, DataSets
from thebes.site.home import SiteHome
from thebes.site.steward.synthesis import SyntheticRows, Wish, synthesized
from thebes.testing.transcripts import NoiseLoss, loss

PATIENTS = {
    "unit": "person",
    "max_rows_per_unit": 2,
    "columns": {
        "who": {"type": "string", "key": True},
        "age": {"type": "float", "low": 0, "high": 100},
        "sex": {"type": "string", "values": ["f", "m"]},
    },
}
RIDES = {
    "unit": "event",
    "time": "at",
    "columns": {"at": {"type": "timestamp"}, "km": {"type": "float", "low": 0, "high": 10}},
}
OTHERS = [("p", 0.0, "f"), ("q", 50.0, "m"), ("q", 0.0, "f")]
#: somebody who moves every sum as far as anybody can
MINE = [("me", 100.0, "m"), ("me", 100.0, "m")]

MALE = "sex = 'm'"

QUESTIONS: list[dict[str, Any]] = [
    {"statistic": "count", "epsilon": 0.25},
    {"statistic": "count", "by": "sex", "epsilon": 0.25},
    {"statistic": "sum", "column": "age", "epsilon": 0.5},
    {"statistic": "sum", "column": "age", "where": MALE, "epsilon": 0.125},
    {"statistic": "mean", "column": "age", "epsilon": 1.0},
    {"statistic": "histogram", "column": "age", "bins": 4, "epsilon": 0.125},
    {"statistic": "quantile", "column": "age", "quantile": 0.5, "bins": 16, "epsilon": 0.25},
]
TRAINED: dict[str, Any] = {
    "type": "train", "dataset": "patients", "sites": ["north"], "model": "LinearRegression", "inputs": ["sex"],
    "output": "age", "epsilon": 1.0, "delta": 1e-6, "rounds": 3, "clip": 1.0, "size_share": 0.1,
}  # fmt: skip


@contextmanager
def office(
    folder: Path, rows: Sequence[tuple[str, float, str]], source: Randomness, *, cache: Cache | None = None, **more: Any
) -> Iterator[Office]:
    home = SiteHome(folder)
    dataset = declare(home, pd.DataFrame(rows, columns=["who", "age", "sex"]), schema=PATIENTS, **more)
    DataSets(home).keep(dataset if cache is None else replace(dataset, cache=cache))
    private_files.write(home.policy, EVERYBODY)
    made = Office(home, "north")
    made.contributing._randomness = lambda: source
    yield made
    made.ledger.close()
    made.outbox.close()
    made.audit.close()


def differing(
    folder: Path,
    asked: Callable[[Office], None],
    others: Sequence[tuple[str, float, str]] = OTHERS,
    **declared: Any,
) -> tuple[NoiseLoss, list[Decimal]]:
    """Measure what a site's noise lets through of one person, and what its ledger says of the two runs."""
    spent: list[Decimal] = []

    def run(rows: Sequence[tuple[str, float, str]]) -> Callable[[Randomness], None]:
        def over(source: Randomness) -> None:
            with office(folder / str(len(rows)), rows, source, **declared) as made:
                asked(made)
                meters = made.ledger.block("patients").meters.values()
                spent.append(Decimal(sum(meter.spent for meter in meters)).scaleb(-12))

        return over

    return loss(run([*others, *MINE]), run(others)), spent


def question(office: Office, number: int, **fields: Any) -> str:
    """Return where the answer came from."""
    document = {"type": "query", "sites": "all", "dataset": "patients", **fields}
    told = office.answer(ask(document, task=f"t{number}", schema=schema_of(PATIENTS)))
    assert told["kind"] == "contribution", told
    return str(told["source"])


def test_all_that_a_site_answers_together_is_what_its_block_has_spent(tmp_path: Path) -> None:
    def asked(office: Office) -> None:
        for number, fields in enumerate(QUESTIONS):
            question(office, number, **fields)
            question(office, number, **fields)  # again: the same bytes, no noise

    through, spent = differing(tmp_path, asked)
    assert spent == [Decimal("2.5")] * 2
    assert float(spent[0]) * 0.999 <= through.epsilon() <= float(spent[0]) * (1 + 1e-9)


@pytest.mark.slow
def test_answers_from_made_up_rows_and_their_checks_are_what_the_block_has_spent(tmp_path: Path) -> None:
    """Of groups that somebody is in; where an answer comes from follows from what was released, so that it is
    the same without them."""
    crowd = [(f"c{number}", float(number % 100), "fm"[number % 2]) for number in range(400)]
    told: list[list[str]] = []

    def asked(office: Office) -> None:
        told.append([])
        for number in range(15):
            where = f"age >= {30 * (number % 3)}{' AND ' + MALE if number % 2 else ''}"
            told[-1].append(question(office, number, statistic="count", where=where, epsilon=0.25 + number / 100))

    more = {"check": "threshold", "trust": 0.0, "epsilon": 0.5, "parts": 2, "rows": 256, "agreement": 20.0}
    through, spent = differing(tmp_path, asked, crowd, epsilon=20.0, cache=Cache("smart", more=more))
    assert told[0] == told[1]
    assert {"synopsis", "mechanism"} <= set(told[0])
    assert spent[0] == spent[1]
    assert 0.99 * float(spent[0]) <= through.epsilon() <= float(spent[0]) * (1 + 1e-9)


def test_answers_and_sizes_of_a_growing_set_are_what_a_row_s_own_block_has_spent(tmp_path: Path) -> None:
    """The row lies in the second of three days; the first answer makes every block buy its size."""
    schema = schema_of(RIDES)
    days = pd.date_range("2026-01-01", periods=48, freq="90min")
    rides = pd.DataFrame({"at": days, "km": 0.0})
    mine = pd.DataFrame({"at": [pd.Timestamp("2026-01-02T23:00")], "km": [10.0]})
    asked: list[tuple[str, dict[str, Any], float]] = [
        ("count", {}, 0.5),
        ("mean", {"column": "km"}, 1.0),
        ("histogram", {"column": "km", "bins": 4}, 0.25),
    ]
    spent: list[dict[str, Decimal]] = []

    def run(rows: pd.DataFrame) -> Callable[[Randomness], None]:
        def over(source: Randomness) -> None:
            home = SiteHome(tmp_path / str(len(rows)))
            blocks = BlockDeclaration(block_by("time:1d", schema), {})
            DataSets(home).keep(
                DataSet("rides", schema, {"kind": "growing"}, BudgetDeclaration.of("10"), blocks, Cache("none"))
            )
            private_files.write(home.policy, EVERYBODY)
            made = Office(home, "north")
            made.contributing._randomness = lambda: source
            dataset = made.datasets.get("rides")
            assert dataset is not None
            stream = made.streams(dataset)
            stream._randomness = lambda: source
            stream.ingest(rows)
            for number, (statistic, fields, epsilon) in enumerate(asked):
                document = {"type": "query", "dataset": "rides", "statistic": statistic, "epsilon": epsilon, **fields}
                told = made.answer(ask(document, task=f"t{number}", schema=schema))
                assert told["kind"] == "contribution", told
            there = made.ledger.blocks()
            spent.append({block.name: Decimal(block.meters["epsilon"].spent).scaleb(-12) for block in there})
            stream.close()
            made.ledger.close()
            made.outbox.close()
            made.audit.close()

        return over

    through = loss(run(pd.concat([rides, mine], ignore_index=True)), run(rides))
    assert spent[0] == spent[1]
    assert len(spent[0]) == 3
    (all_alike,) = set(spent[0].values())
    assert all_alike > Decimal("1.75"), "answers, and the size"
    assert 0.99 * float(all_alike) <= through.epsilon() <= float(all_alike) * (1 + 1e-9)


@pytest.mark.parametrize(("delta", "least"), [(0.0, 0.99), (1e-6, 0.8)])
def test_synthetic_rows_are_learned_for_what_their_certificate_says_and_the_block_has_spent(
    tmp_path: Path, delta: float, least: float
) -> None:
    wish = Wish(rows=20, epsilon=0.5, delta=delta, method="independent", bins={"age": 4})
    made: list[tuple[SyntheticRows, Decimal]] = []

    def run(rows: Sequence[tuple[str, float, str]]) -> Callable[[Randomness], None]:
        def over(source: Randomness) -> None:
            with office(tmp_path / str(len(rows)), rows, source, delta=1e-5, filter="basic") as there:
                dataset = there.datasets.get("patients")
                assert dataset is not None
                table = frame_table(dataset.schema, pd.DataFrame(rows, columns=["who", "age", "sex"]))
                found = synthesized(dataset, wish, ledger=there.ledger, opened=lambda: table, randomness=source)
                made.append((found, Decimal(there.ledger.block("patients").meters["epsilon"].spent).scaleb(-12)))

        return over

    through = loss(run([*OTHERS, *MINE]), run(OTHERS))
    certificate, spent = made[0][0].certificate, made[0][1]
    assert (certificate.epsilon, certificate.delta) == (0.5, delta)
    assert spent == made[1][1] == Decimal("0.5")
    assert least * 0.5 <= through.epsilon(delta) <= 0.5 * (1 + 1e-9)


def test_noise_that_is_added_elsewhere_is_paid_where_the_rows_lie(tmp_path: Path) -> None:
    """Exact totals leave; the site is charged although it draws nothing."""

    def asked(office: Office) -> None:
        question(office, 0, statistic="sum", column="age", epsilon=0.5, noise="coordinator")

    through, spent = differing(tmp_path, asked)
    assert (through.epsilon(), spent) == (0.0, [Decimal("0.5")] * 2)


def test_rounds_of_a_model_let_through_no_more_rho_than_a_block_was_charged(tmp_path: Path) -> None:
    def asked(office: Office) -> None:
        weights = [0.0, 0.0]
        for phase in range(3):
            told = office.answer(
                ask(TRAINED, phase=phase, payload={"weights": weights, "size": 4.0 if phase else None})
            )
            assert told["kind"] == "contribution", told

    through, spent = differing(tmp_path, asked, epsilon=4.0, delta=1e-5, filter="zcdp")
    assert spent[0] == spent[1] > 0
    assert through.laplace == 0
    assert 0.5 * float(spent[0]) <= through.gaussian**2 / 2 <= float(spent[0]) * (1 + 1e-9)


def test_what_a_person_sends_hides_them_by_what_their_ledger_was_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = {
        "type": "bounded",
        "mechanism": "split",
        "epsilon": 0.75,
        "min_count": 20,
        "featurizer": "SELECT age FROM profile.demographics",
        "bounds": {"age": {"type": "range", "low": 0.0, "high": 100.0, "default": 50.0}},
    }
    spent: list[dict[str, float]] = []

    def run(age: float) -> Callable[[Randomness], None]:
        def over(source: Randomness) -> None:
            server = CoordinatorInMemory()
            monkeypatch.setattr(Store, "featurize", lambda self, sql, most_rows=1: Rows.one_each({"age": [age]}))
            monkeypatch.setattr(computation, "system", lambda: source)
            person = Person(tmp_path / str(age), client=server, delay=False)  # type: ignore[arg-type]
            try:
                task = server.post(document)
                person.accept(task)
                assert person.wait(task)["state"] in ("sent", "done")
                spent.append(dict(person.ledger()["local"]["overall"]["spent"]))
            finally:
                person.close()
            assert len(server.heard) == 1

        return over

    through = loss(run(0.0), run(100.0))
    assert spent == [{"epsilon": 0.75, "delta": 0.0}] * 2
    assert through.epsilon() == pytest.approx(0.75, rel=1e-3)
    assert through.epsilon() <= 0.75 * (1 + 1e-9)
