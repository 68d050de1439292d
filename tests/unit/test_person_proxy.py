"""A person's proxy: all of a home goes through it and no other way, each packet at a moment of its own."""

from __future__ import annotations

import random
import secrets
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.coordinator_in_memory import CoordinatorInMemory
from tests.support.socks import SocksServer
from thebes.data.rows import Rows
from thebes.data.store import Store
from thebes.person.home import Person
from thebes.person.participation import worker
from thebes.person.participation.participation import ParticipationState
from thebes.person.participation.schedule import Pacing
from thebes.person.settings import PersonSettings
from thebes.privacy.faults import Mistake
from thebes.simulation import example
from thebes.wire.refusals import NotAllowed, Unreachable

URL = "http://coordinator.example"
AGE = {"age": {"type": "range", "low": 0.0, "high": 100.0}}


def bounded(**more: Any) -> dict[str, Any]:
    return {
        "type": "bounded",
        "epsilon": 1.0,
        "min_count": 20,
        "featurizer": "SELECT species, age FROM profile.pets",
        "bounds": {"species": {"type": "set", "values": ["cat", "dog"], "default": "dog"}, **AGE},
        **more,
    }


def median(**more: Any) -> dict[str, Any]:
    return {
        "type": "basic",
        "epsilon": 1.0,
        "min_count": 20,
        "featurizer": "SELECT age FROM profile.demographics",
        "aggregator": "median",
        "bounds": AGE,
        **more,
    }


@pytest.fixture
def server() -> CoordinatorInMemory:
    return CoordinatorInMemory()


@pytest.fixture
def now() -> list[float]:
    return [time.time()]


@pytest.fixture(autouse=True)
def _same_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    """The distance of the moments of a few packets is luck, and here the same luck in every run."""
    luck = SimpleNamespace(randbelow=random.Random(1).randrange, token_hex=secrets.token_hex)
    for module in ("participation.schedule", "tasks.decisions"):
        monkeypatch.setattr(f"thebes.person.{module}.secrets", luck)


@pytest.fixture(autouse=True)
def _quick_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "COMPUTING_SECONDS", 0.0)  # which pass in this world and not by the clock in hand
    rows = Rows.one_each({"species": ["cat"], "age": [37.0]})
    monkeypatch.setattr(Store, "featurize", lambda self, sql, most_rows=1: rows)


@pytest.fixture
def me(tmp_path: Path, server: CoordinatorInMemory, now: list[float]) -> Iterator[Person]:
    with Person(tmp_path / "home", client=server, proxy="tor", clock=lambda: now[0]) as person:  # type: ignore[arg-type]
        example.fill(person, seed=4)
        yield person


def live(me: Person, now: list[float], seconds: float) -> None:
    """Let time pass, from one thing that is to be done to the next."""
    end = now[0] + seconds
    while now[0] < end:
        now[0] += min(max(me.turn(), 0.1), end - now[0])


# --- the setting ---------------------------------------------------------------------------------------------


def test_a_proxy_is_remembered_and_none_ends_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for given, kept in (
        ("tor", "socks5h://127.0.0.1:9050"),
        (None, "socks5h://127.0.0.1:9050"),
        ("socks5://127.0.0.1:9150", "socks5h://127.0.0.1:9150"),
        ("none", None),
        (None, None),
    ):
        with Person(home, coordinator=URL, proxy=given) as person:
            assert person.settings().proxy == kept
            assert PersonSettings.read(home).as_json()["proxy"] == kept
    assert "proxy" not in (home / "person.toml").read_text()


def test_a_proxy_is_changed_when_starting_only(me: Person) -> None:
    with pytest.raises(Mistake, match="--proxy"):
        me.set_settings({"proxy": "none"})
    assert me.set_settings({"delay_seconds": 5})["proxy"] == "socks5h://127.0.0.1:9050"


def test_a_wrong_proxy_changes_nothing_and_opens_nothing(tmp_path: Path) -> None:
    for proxy in ("http://127.0.0.1:3128", "", "9050"):
        with pytest.raises(Mistake) as refused:
            Person(tmp_path / "home", coordinator=URL, proxy=proxy)
        assert refused.value.argument == "proxy"
    assert not (tmp_path / "home" / "person.toml").exists()
    Person(tmp_path / "home", coordinator=URL).close()  # and the home is free


def test_a_home_of_an_onion_service_without_a_proxy_is_refused(tmp_path: Path) -> None:
    onion = "aaaqeayeaudaocajbifqydiob4ibceqtcqkrmfyydenbwha5dyp3kead.onion"
    with pytest.raises(Mistake, match="onion service: tor"):
        Person(tmp_path / "home", coordinator=f"http://{onion}")
    with Person(tmp_path / "home", coordinator=f"http://{onion}", proxy="tor") as me:
        assert me._client is not None
        assert me._client.private
    with pytest.raises(Mistake, match="onion service: tor"):
        Person(tmp_path / "home", proxy="none")
    assert PersonSettings.read(tmp_path / "home").proxy is not None


def test_trusted_tasks_are_refused_where_the_exit_could_read_them(me: Person, server: CoordinatorInMemory) -> None:
    server.private = False  # what a client says of plain http through a proxy
    task = server.post(median())
    me.close()
    with Person(me.home, client=server, proxy="tor") as again, pytest.raises(NotAllowed, match="onion"):  # type: ignore[arg-type]
        again.accept(task)


# --- never another way ------------------------------------------------------------------------------------


def test_a_proxy_that_is_down_is_waited_for_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        here = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with SocksServer() as gone:
            address = gone.address
        with Person(tmp_path / "home", coordinator=here, proxy=address, delay=False) as me:
            with pytest.raises(Unreachable, match=f"the proxy {address} does not answer; start it"):
                me.tasks()
            me.poll()
        listening.settimeout(0.2)
        with pytest.raises(TimeoutError):  # nobody came directly
            listening.accept()


def test_what_was_agreed_to_waits_while_the_proxy_is_down(
    me: Person, server: CoordinatorInMemory, now: list[float]
) -> None:
    task = server.post(bounded())
    me.accept(task)

    def down(what: str) -> None:
        raise Unreachable(URL, "the proxy does not answer. Nothing goes any other way")

    server.before = down
    live(me, now, 300)
    (mine,) = me.participations()
    assert mine["state"] == ParticipationState.RESERVED
    assert "proxy does not answer" in mine["note"]
    assert server.bodies == []
    server.before = lambda what: None
    live(me, now, 300)
    assert me.participations()[0]["state"] == ParticipationState.SENT
    assert len(server.bodies) == 1


# --- moments of their own ------------------------------------------------------------------------------------


def moments_of(server: CoordinatorInMemory, now: list[float], *kinds: str) -> list[float]:
    seen: list[float] = []
    server.before = lambda what: seen.append(now[0]) if what in kinds else None
    return seen


def test_the_first_ask_does_not_follow_the_consent_at_once(
    me: Person, server: CoordinatorInMemory, now: list[float]
) -> None:
    begun, asked = now[0], moments_of(server, now, "ask")
    for number in range(12):
        me.accept(server.post(bounded(name=str(number))))
    live(me, now, 200)
    first = asked[:12]
    assert len({round(moment - begun) for moment in first}) > 4  # twelve draws out of 120 seconds
    assert max(asked) - begun <= 140
    assert {p["state"] for p in me.participations()} == {ParticipationState.SENT}


def test_packets_that_had_to_wait_together_do_not_leave_together(
    me: Person, server: CoordinatorInMemory, now: list[float]
) -> None:
    for number in range(10):
        me.accept(server.post(bounded(name=str(number))))
    now[0] += 3600  # the machine slept
    sent = moments_of(server, now, "submit")
    live(me, now, 200)
    assert len(sent) == 10
    assert len(set(sent)) > 4
    assert max(sent) - min(sent) > 20


def test_after_a_restart_each_packet_is_given_a_moment_again(
    me: Person, server: CoordinatorInMemory, now: list[float]
) -> None:
    for number in range(10):
        me.accept(server.post(bounded(name=str(number))))
    me.close()
    now[0] += 3600
    sent = moments_of(server, now, "submit")
    with Person(me.home, client=server, proxy="tor", clock=lambda: now[0]) as again:  # type: ignore[arg-type]
        live(again, now, 200)
    assert len(sent) == 10
    assert len(set(sent)) > 4


def test_results_are_looked_for_one_by_one(me: Person, server: CoordinatorInMemory, now: list[float]) -> None:
    for number in range(6):
        me.accept(server.post(bounded(name=str(number))))
    live(me, now, 200)
    looked = moments_of(server, now, "task")
    for _ in range(200):
        me.poll()
        now[0] += 3.0
    assert 6 <= len(looked) <= 90  # every two minutes each, on average
    assert len(set(looked)) > 0.6 * len(looked)


def test_without_a_proxy_a_task_without_tokens_is_asked_at_once(
    tmp_path: Path, server: CoordinatorInMemory, now: list[float]
) -> None:
    begun, asked = now[0], moments_of(server, now, "ask")
    with Person(tmp_path / "home", client=server, clock=lambda: now[0]) as me:  # type: ignore[arg-type]
        example.fill(me, seed=4)
        for number in range(4):
            me.accept(server.post(bounded(name=str(number))))
        me.turn()
        assert asked == [begun] * 4


def test_a_moment_is_drawn_once_and_kept() -> None:
    now = [1000.0]
    pacing = Pacing(lambda: 120.0, lambda: now[0])
    first = pacing.wait((1, 0))
    assert 0 <= first <= 120
    now[0] += 1
    assert pacing.wait((1, 0)) == pytest.approx(max(0.0, first - 1))
    now[0] += first
    assert pacing.wait((1, 0)) == 0


def test_moments_are_spread_over_the_whole_delay_and_none_passes_it() -> None:
    pacing = Pacing(lambda: 100.0, lambda: 0.0)
    waits = [pacing.wait((number, 0)) for number in range(4000)]
    assert min(waits) >= 0
    assert max(waits) <= 100
    tenths = [sum(10 * k <= w < 10 * (k + 1) for w in waits) for k in range(10)]
    assert min(tenths) > 280  # 400 each; six standard deviations are 114


def test_a_deadline_is_kept_if_it_can_be() -> None:
    pacing = Pacing(lambda: 10_000.0, lambda: 0.0)
    assert all(pacing.wait((n, 0), deadline=100.0) <= 70 for n in range(50))
    assert pacing.wait((99, 0), deadline=-5.0) == 0


def test_a_retry_is_at_a_moment_of_its_own_and_not_drawn_twice() -> None:
    now = [0.0]
    pacing = Pacing(lambda: 60.0, lambda: now[0])
    assert pacing.wait((1, 0)) <= 60
    now[0] = 1000.0
    waits = pacing.again((1, 0), 30.0)
    assert 30 <= waits <= 90
    now[0] += waits
    assert pacing.wait((1, 0)) == 0
