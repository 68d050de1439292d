"""All that a document and a person's tables decide is decided before anything is set aside, for every kind of people.

Two things look alike and are not. What a document says of itself is public: nobody is ever charged for one that cannot
work. Which tables and columns a home has is that person's secret: where taking part is not to tell it, a home without
them answers at random like any other, and what was set aside for that is spent on an answer, never on an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.support.coordinator_in_memory import CoordinatorInMemory
from thebes.data.rows import Rows
from thebes.data.store import Store
from thebes.person.folder import prepared
from thebes.person.home import Person
from thebes.person.participation import computation
from thebes.person.settings import PersonSettings
from thebes.person.tasks.decisions import NothingToSend
from thebes.privacy.faults import Mistake
from thebes.privacy.promise import Unit
from thebes.privacy.randomness import seeded_for_simulation, system
from thebes.tasks import registry
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.document import PeopleDocument
from thebes.tasks.gradient import owner as gradient_owner
from thebes.tasks.protocols import Ask, Setting

TYPED = {"at": "timestamp", "whole": "integer", "open": "float", "text": "string", "flag": "boolean", "empty": "float"}
RIDE = {"at": "2026-11-01T10:00:00Z", "whole": 1, "open": 2.5, "text": "a", "flag": True, "empty": None}
READ = (*(f"{column} FROM rides.rides" for column in TYPED), "unknown FROM rides.rides", "whole FROM rides.unknown")
NUMBERS = {"type": "range", "low": 0.0, "high": 10.0}
TWO, WORDS = {"type": "set", "values": [0, 1]}, {"type": "set", "values": ["a", "b"]}
BOUNDS: tuple[dict[str, Any] | None, ...] = (None, NUMBERS, TWO, WORDS, {"type": "set", "values": [False, True]})


def head(kind: str, read: str, bounds: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A document that reads the column as `v`, beside `w` and `y`, numbers and zeros or ones of everybody's."""
    column, _, table = read.partition(" FROM ")
    sql = f"SELECT {column} AS v, 2 AS w, 1 AS y FROM {table}"
    given = {name: bound for name, bound in {**bounds, "w": NUMBERS, "y": TWO}.items() if bound is not None}
    return {"type": kind, "epsilon": 2.0, "min_count": 1, "featurizer": sql, "bounds": given, **more}


def basic(read: str, bound: Any) -> Iterator[dict[str, Any]]:
    for aggregator in ("mean", "sum", "median", "variance", "std", "histogram", "quantile", "count"):
        only = {"quantile": 0.5} if aggregator == "quantile" else {"bins": 4} if aggregator == "histogram" else {}
        made = head("basic", read, {"v": bound}, aggregator=aggregator, delta=1e-5, **only)
        made["featurizer"] = made["featurizer"].replace(", 2 AS w, 1 AS y", "")
        made["bounds"] = {"v": bound} if bound is not None else {}
        yield made
        if aggregator in ("mean", "histogram", "count"):
            yield {**made, "missing": "count"}


def integrated(read: str, bound: Any) -> Iterator[dict[str, Any]]:
    numbers = ("LinearRegression", "RandomForestRegressor")
    for model in ("GaussianNB", "LogisticRegression", "RandomForestClassifier", *numbers):
        output = "w" if model in numbers else "y"
        for places in ({"inputs": ["v"], "output": output}, {"inputs": ["w"], "output": "v"}):
            yield head("integrated", read, {"v": bound}, model=model, delta=1e-5, **places)


def bounded(read: str, bound: Any) -> Iterator[dict[str, Any]]:
    for mechanism in ("split", "privunit"):
        yield head("bounded", read, {"v": bound}, mechanism=mechanism)


def ensemble(read: str, bound: Any) -> Iterator[dict[str, Any]]:
    for more in ({"label": "y"}, {"label": "v"}, {"label": "y", "method": "odds"}):
        yield head("ensemble", read, {"v": bound}, partitions=1, bins=2, **more)


def draw_discard(read: str, bound: Any) -> Iterator[dict[str, Any]]:
    for family, output in (("linear", "w"), ("logistic", "y"), ("multinomial", "y")):
        for places in ({"inputs": ["v"], "output": output}, {"inputs": ["w"], "output": "v"}):
            yield head("draw-discard", read, {"v": bound}, family=family, instances=2, **places)


@cache
def network() -> tuple[Any, Any]:
    import torch

    from thebes.torch import encode

    torch.manual_seed(0)
    return encode(torch.nn.Linear(1, 1), torch.nn.MSELoss())


def gradient(read: str, bound: Any) -> Iterator[dict[str, Any]]:
    model, loss = network()
    for places in ({"inputs": ["v"], "outputs": ["w"]}, {"inputs": ["w"], "outputs": ["v"]}):
        yield head("gradient", read, {"v": bound}, model=model, loss=loss, clip=1.0, **places)


KINDS: dict[str, Callable[[str, Any], Iterator[dict[str, Any]]]] = {
    "basic": basic,
    "bounded": bounded,
    "draw-discard": draw_discard,
    "ensemble": ensemble,
    "gradient": gradient,
    "integrated": integrated,
}


class World:
    """A home with a row of every type, and a coordinator that lists whatever it is given."""

    def __init__(self, home: Path) -> None:
        limits = {"epsilon": 10_000, "delta": 0.1, "overall_epsilon": 10_000, "overall_delta": 0.1}
        PersonSettings().changed({"local": limits, "trusted": limits}).write(prepared(home))
        self.server = CoordinatorInMemory()
        self.me = Person(home, client=self.server, delay=False)  # type: ignore[arg-type]
        columns = {name: {"type": type_, "description": ""} for name, type_ in TYPED.items()}
        self.me.register("rides", {"tables": {"rides": {"description": "", "columns": columns}}})
        self.me.insert("rides", "rides", [RIDE])

    def charged(self) -> list[dict[str, Any]]:
        """All that is set aside or spent, and for what."""
        return list(self.me.ledger()["entries"])


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Each question to the store is asked once: it says the same each time, and strangers' SQL takes a process."""
    asked, read = dict[tuple[str, int], Rows](), Store.featurize

    def featurize(self: Store, sql: str, *, most_rows: int = 1) -> Rows:
        if (sql, most_rows) not in asked:
            asked[sql, most_rows] = read(self, sql, most_rows=most_rows)
        return asked[sql, most_rows]

    monkeypatch.setattr(Store, "featurize", featurize)
    monkeypatch.setattr(gradient_owner, "OWNER", gradient_owner.SIMULATED)  # not in a confined child
    made = World(tmp_path / "home")
    yield made
    made.me.close()


def documents(kind: str, reads: Sequence[str] = READ) -> Iterator[dict[str, Any]]:
    """Every column of a home, and some that it lacks, with every bound in every place."""
    for read in reads:
        for bound in BOUNDS:
            yield from KINDS[kind](read, bound)


def wrong(kind: str) -> Iterator[dict[str, Any]]:
    """Every bound in every place, also over a column that is not given, and one that no SQL gives."""
    for document in documents(kind, READ[:1]):
        yield document
        yield {**document, "featurizer": document["featurizer"].replace(" AS v", " AS u")}
        yield {**document, "featurizer": document["featurizer"].replace("SELECT", "SELECT nothing(1) AS u,")}


def checked(document: dict[str, Any]) -> PeopleDocument | None:
    try:
        found = registry.check(document)
    except Mistake:
        return None
    assert isinstance(found, PeopleDocument)
    return found


def contribute(world: World, document: PeopleDocument, spent: RecordedClaim) -> None:
    """The contribution of this home to what is asked first, which the aggregator takes."""
    aggregator = registry.aggregator(document, Setting(Unit.DEVICE, seeded_for_simulation(3)))
    ask = aggregator.ask("0" * 32)
    assert isinstance(ask, Ask)
    rows = world.me._store.featurize(document.featurizer, most_rows=document.most_rows)
    aggregator.accept(registry.owner(document).contribute(document, ask, rows, spent, randomness=system()))


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_nobody_is_charged_for_a_document_that_cannot_work(kind: str, world: World) -> None:
    refused = [document for document in wrong(kind) if checked(document) is None]
    task = world.server.post(next(document for document in documents(kind) if checked(document) is not None))
    before = world.charged()
    for document in refused:
        world.server.documents[task] = document  # a coordinator that read none of it
        with pytest.raises(Mistake):
            world.me.accept(task)
        assert (world.charged(), world.me.participations()) == (before, [])
    assert len(refused) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_is_charged_is_answered_from_the_rows_whatever_their_types(kind: str, world: World) -> None:
    """An owner's half that gave up over a type would be paid for an answer about nobody."""
    answered = 0
    for document in filter(None, map(checked, documents(kind))):
        rows = world.me._store.featurize(document.featurizer, most_rows=document.most_rows)
        if not registry.owner(document).able(document, rows)[0]:
            assert getattr(document, "taking_part_tells", False), document
            continue
        spent = RecordedClaim()
        contribute(world, document, spent)
        assert 0 < spent.epsilon <= document.epsilon, document
        answered += 1
    assert answered >= 30


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_home_sets_aside_only_what_an_answer_is_sent_for(
    kind: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(computation, "nothing", None)  # what stands in for rows that an owner's half could not work on
    outcomes = {}
    for read in READ:
        document = next(filter(None, map(checked, documents(kind, [read]))))
        task, before = world.server.post(document.as_json()), world.charged()
        try:
            world.me.accept(task)
        except NothingToSend:
            assert getattr(document, "taking_part_tells", False)
            assert (world.charged(), [p for p in world.me.participations() if p["task_id"] == task]) == (before, [])
            outcomes[read] = "refused"
            continue
        world.me.turn()
        mine = world.me.participation(task, 0)
        assert (mine["state"], mine["note"]) == ("sent", "")
        assert mine["spent"]["epsilon"] > 0
        outcomes[read] = "sent"
    lacking = {outcomes[read] for read in READ[-2:]}
    assert lacking == ({"refused"} if kind in ("basic", "integrated") else {"sent"})
    assert outcomes["whole FROM rides.rides"] == "sent"
