"""Asks about one data set side by side: what overlaps, what never does, and that the ledger decides what is left."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.site_home import ask, site_home
from thebes.data.connectors import registry
from thebes.data.connectors.connector import Columns, Held
from thebes.data.filter import RowFilter
from thebes.site.algorithm_process import Office, serve
from thebes.site.dataset import DataSets
from thebes.site.home import SiteHome
from thebes.site.lanes import MOST_WAITING, READERS, Lanes
from thebes.wire.link import BlockingPipe

COUNT = {"type": "query", "dataset": "patients", "statistic": "count", "epsilon": 0.5}


class MeetingRows:
    """Ten people whose ages are given out only when a second one reads them at the same time."""

    door: threading.Barrier

    def columns(self) -> Mapping[str, Held]:
        return {"age": "integer"}

    def batches(self, columns: Sequence[str], where: RowFilter | None = None) -> Iterator[Columns]:
        self.door.wait(60)
        yield {name: [30] * 10 for name in columns}

    def close(self) -> None:
        """There is nothing to close."""


def open_meeting(source: Mapping[str, Any], *, folder: Path) -> MeetingRows:
    return MeetingRows()


def asked(home: SiteHome, messages: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Ask all of it at once over a pipe, and return the answers by task."""
    mine, theirs = socket.socketpair()
    threading.Thread(target=serve, args=(Office(home, "north"), BlockingPipe(theirs)), daemon=True).start()
    pipe = BlockingPipe(mine)
    for message in messages:
        pipe.send(message)
    answers = [pipe.receive() for _ in messages]
    pipe.close()
    return {str(answer["task"]): answer for answer in answers if answer is not None}


@pytest.mark.parametrize("cache", ["none", "exact"])
def test_rows_are_read_for_two_tasks_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: str
) -> None:
    monkeypatch.setitem(registry.OURS, "meeting", f"{__name__}:{open_meeting.__name__}")
    monkeypatch.setattr(MeetingRows, "door", threading.Barrier(2), raising=False)
    home = site_home(tmp_path / "site")
    file = home.datasets / "patients.toml"
    told = file.read_text(encoding="utf-8").replace('kind = "csv"', 'kind = "meeting"')
    file.write_text(told.replace("[schema]", f'[cache]\nkind = "{cache}"\n\n[schema]'), encoding="utf-8")
    made = DataSets(home).get("patients")
    assert made is not None
    assert (made.source["kind"], made.cache.kind) == ("meeting", cache)
    answers = asked(home, [ask({**COUNT, "where": f"age > {n}"}, task=f"t{n}") for n in range(2)])
    assert [answers[task]["kind"] for task in ("t0", "t1")] == ["contribution"] * 2


def test_many_at_once_spend_what_as_many_in_a_row_would(tmp_path: Path) -> None:
    home = site_home(tmp_path / "site", epsilon=2.0)
    answers = asked(home, [ask({**COUNT, "where": f"age > {n}"}, task=f"t{n}") for n in range(8)])
    codes = [answer.get("code", answer["kind"]) for answer in answers.values()]
    assert (codes.count("contribution"), codes.count("budget")) == (4, 4)
    office = Office(home, "north")
    assert office.ledger.block("patients").remaining.epsilon == 0


def test_of_several_who_ask_the_same_at_once_one_pays(tmp_path: Path) -> None:
    answers = asked(site_home(tmp_path / "site"), [ask(COUNT, task=f"t{n}") for n in range(6)])
    assert sorted(answer["cost"]["epsilon"] for answer in answers.values()) == [0, 0, 0, 0, 0, 0.5]
    assert len({str(answer["payload"]) for answer in answers.values()}) == 1


def test_the_same_ask_twice_at_once_gets_the_same_bytes_for_one_charge(tmp_path: Path) -> None:
    home = site_home(tmp_path / "site")
    messages = [ask({**COUNT, "epsilon": 0.25, "where": f"age > {n % 3}"}, task=f"t{n % 3}") for n in range(12)]
    mine, theirs = socket.socketpair()
    office = Office(home, "north")
    threading.Thread(target=serve, args=(office, BlockingPipe(theirs)), daemon=True).start()
    pipe = BlockingPipe(mine)
    for message in messages:
        pipe.send(message)
    said = {(answer["task"], str(answer["payload"])) for answer in (pipe.receive() or {} for _ in messages)}
    pipe.close()
    assert len(said) == 3
    assert office.ledger.block("patients").meters["epsilon"].spent == 750_000_000_000


def test_what_is_of_one_task_is_never_done_side_by_side_and_stays_in_order() -> None:
    lanes, met, done = Lanes(), threading.Barrier(2), []
    entered, free = threading.Event(), threading.Event()

    def long() -> None:
        met.wait(60)
        entered.set()
        free.wait(60)
        done.append("first of a")

    def beside() -> None:
        met.wait(60)

    lanes.put("patients", long, 0, task="a", readers=2)
    lanes.put("patients", lambda: done.append("second of a"), 0, task="a", readers=2)
    lanes.put("patients", beside, 0, task="b", readers=2)
    assert entered.wait(60)  # another task is worked on beside it
    other = threading.Event()
    lanes.put("patients", other.set, 0, task="c", readers=2)
    assert other.wait(60)
    assert done == []
    last = threading.Event()
    lanes.put("patients", last.set, 0, task="a", readers=2)
    free.set()
    assert last.wait(60)
    assert done == ["first of a", "second of a"]


def test_too_much_that_waits_is_refused_and_other_lanes_go_on() -> None:
    lanes, go, begun = Lanes(), threading.Event(), threading.Barrier(READERS + 1)

    def waiting() -> None:
        go.wait(60)

    def beginning() -> None:
        begun.wait(60)
        waiting()

    for task in range(READERS):
        assert lanes.put("a", beginning, 10, task=f"t{task}", readers=READERS)
    begun.wait(60)
    assert all(lanes.put("a", waiting, 10, task=str(n), readers=READERS) for n in range(MOST_WAITING))
    assert not lanes.put("a", waiting, 10, task="one more", readers=READERS)
    other = threading.Event()
    assert lanes.put("b", other.set, 10)
    assert other.wait(60)
    assert not lanes.put("b", lambda: None, 2**31)
    assert lanes.put("a", lambda: None, 0, bounded=False)
    go.set()
