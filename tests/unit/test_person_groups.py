"""A person's home in a group: joined once, pinned, and answering with tokens that show nobody."""

from __future__ import annotations

import json
import random
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from tests.support.coordinator import AGES, PETS, Front
from tests.support.peers import Peer, enrolment
from tests.support.person import killed
from thebes.person.home import Person
from thebes.person.participation import worker
from thebes.privacy.faults import Mistake
from thebes.simulation import example
from thebes.tokens import GroupParameters, GroupTooSmall, UnpinnedGroup
from thebes.wire.client import CoordinatorClient
from thebes.wire.refusals import Conflict, NotAllowed, NotFound, Unreachable

MEDIAN = {**AGES, "group": "city", "anonymity": "token"}
ROWS = {**PETS, "group": "city", "anonymity": "token"}
PACKETS = {
    "type": "ensemble",
    "epsilon": 4.0,
    "min_count": 11,
    "featurizer": "SELECT age, gender, education FROM profile.demographics",
    "label": "gender",
    "bounds": {
        "age": {"type": "range", "low": 0, "high": 100},
        "education": {"type": "range", "low": 0, "high": 30},
        "gender": {"type": "set", "values": ["Female", "Male"], "default": "Male"},
    },
    "bins": {"age": [40.0], "education": [12.0]},
    "partitions": 2,
    "subset_size": 1,
    "subsets": 2,
    "group": "city",
    "anonymity": "token",
}
OTHERS = 12  #: members beside this home


class Wire(httpx.BaseTransport):
    """Requests to a coordinator of this process. `before` and `after` see each; what they raise is what is met."""

    def __init__(self, front: Front) -> None:
        self._inner = front.transport
        self.before: Callable[[httpx.Request], None] = lambda request: None
        self.after: Callable[[httpx.Request, httpx.Response], None] = lambda request, response: None
        self.seen: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.before(request)
        self.seen.append(request)
        response = self._inner.handle_request(request)
        response.read()
        self.after(request, response)
        return response

    def bodies(self, ending: str) -> list[dict[str, Any]]:
        return [json.loads(r.content) for r in self.seen if r.method == "POST" and r.url.path.endswith(ending)]

    def slots(self) -> list[str]:
        return [r.url.params["slot"] for r in self.seen if r.url.path.endswith("/ask")]


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    with Front(tmp_path / "coordinator") as opened:
        yield opened


@pytest.fixture
def wire(front: Front) -> Wire:
    return Wire(front)


@pytest.fixture
def codes(front: Front) -> dict[str, str]:
    """Everybody's code in the group `city`; nobody has enrolled."""
    register = front.service.register
    register.create("city", minimum=3, epoch="one")
    return register.admit("city", ["me", *(f"member {number}" for number in range(OTHERS))])


def opened(tmp_path: Path, wire: Wire, *, name: str = "home", delay: bool = False, **more: Any) -> Person:
    client = CoordinatorClient("http://127.0.0.1:1", transport=wire, retries=0)
    return Person(tmp_path / name, client=client, delay=delay, **more)


@pytest.fixture
def me(tmp_path: Path, wire: Wire) -> Iterator[Person]:
    person = opened(tmp_path, wire)
    example.fill(person, seed=4)
    yield person
    person.close()


def published(front: Front, codes: dict[str, str], *, others: int = OTHERS) -> list[Peer]:
    """The others enrol too, and the group is frozen."""
    begun = []
    for identity in [name for name in codes if name != "me"][:others]:
        one, answer = enrolment(front.client, "city", codes[identity])
        begun.append(one.finish(answer.json()["response"]))
    record = front.service.register.publish("city")
    return [Peer(credential, record.parameters) for credential in begun]


def accepted(me: Person, task_id: str) -> dict[str, Any]:
    me.accept(task_id)
    return me.wait(task_id, timeout=60)


def test_joining_answering_and_what_the_coordinator_saw_of_it(
    front: Front, wire: Wire, me: Person, codes: dict[str, str]
) -> None:
    joined = me.enrol("city", codes["me"])
    assert (joined["name"], joined["epoch"], joined["enrolled"], joined["published"]) == ("city", "one", True, False)
    assert "not published yet" in joined["anonymity"]
    published(front, codes)
    (told,) = me.groups()
    assert (told["size"], told["minimum"], told["published"]) == (OTHERS + 1, 3, True)
    assert f"one of its {OTHERS + 1} members" in told["anonymity"]
    assert "does not hide where your message comes from" in told["anonymity"]
    task_id = front.post(MEDIAN)
    (offer,) = me.tasks()
    assert (offer["anonymity"], offer["price"]["unit"], offer["document"]["epoch"]) == ("token", "person", "one")
    wire.seen.clear()
    assert accepted(me, task_id)["state"] == "sent"
    (body,) = wire.bodies("/submit")
    assert set(body) == {"ask_id", "part", "payload", "token"}
    stored = front.database.read(lambda c: c.exec_driver_sql("SELECT contributor FROM coordinator_contribution").all())
    assert [row[0] for row in stored] == [wire.slots()[0]]  # the pseudonym it asked under, and nothing else
    with closing(sqlite3.connect(me.home / "person.db")) as db:
        (own,) = db.execute("SELECT name FROM slot").fetchone()
    assert own not in str([(r.url, r.content) for r in wire.seen])
    assert me.withdraw(task_id)["state"] == "withdrawn"
    assert front.task(task_id)["contributions"] == 0


def test_an_answer_made_of_tokens_has_the_own_receipt_and_nothing_that_was_asked_says_which(
    front: Front, wire: Wire, me: Person, codes: dict[str, str]
) -> None:
    me.enrol("city", codes["me"])
    peers = published(front, codes)
    task_id = front.post(MEDIAN)
    accepted(me, task_id)
    asked, task = front.ask(task_id), front.task(task_id)
    for peer in peers[: MEDIAN["min_count"] - 1]:
        assert front.submit(task_id, peer.body(task, asked, {"age": 40})).status_code == 202
    front.closing.step()
    own = wire.slots()[0]
    wire.seen.clear()
    me.poll()
    (went,) = me.lineage()
    assert (went["receipts"]["place"], went["receipts"]["count"]) == ("included", MEDIAN["min_count"])
    (mine,) = me.participations()
    said = str([(r.url, r.content, r.headers) for r in wire.seen])
    assert own not in said
    assert mine["receipts"][0] not in said


@pytest.mark.slow
def test_two_tasks_and_two_parts_know_the_same_home_by_names_that_have_nothing_in_common(
    front: Front, wire: Wire, me: Person, codes: dict[str, str]
) -> None:
    me.enrol("city", codes["me"])
    published(front, codes)
    tasks = [front.post(MEDIAN), front.post(MEDIAN), front.post(ROWS)]
    for task_id in tasks:
        accepted(me, task_id)
    assert len(set(wire.slots())) == 3
    tokens = [body["token"] for body in wire.bodies("/submit")]
    assert len(set(tokens)) == 3


def test_packets_of_one_participation_are_asked_for_and_sent_under_pseudonyms_of_their_own(
    front: Front, wire: Wire, me: Person, codes: dict[str, str]
) -> None:
    me.enrol("city", codes["me"])
    published(front, codes)
    task_id = front.post(PACKETS)
    wire.seen.clear()
    assert accepted(me, task_id)["state"] == "sent"
    me.turn()
    bodies = wire.bodies("/submit")
    assert len({body["part"] for body in bodies}) == len(bodies) == 2
    query = "SELECT part, contributor FROM coordinator_contribution"
    kept: dict[str, str] = dict(front.database.read(lambda c: c.exec_driver_sql(query).all()))
    assert len(set(kept.values())) == 2
    assert set(kept.values()) <= set(wire.slots())  # each packet's partition follows from its own pseudonym
    certificate = json.dumps(front.task(task_id)["document"])
    assert '"epoch": "one"' in certificate


@pytest.mark.slow
def test_a_task_of_several_phases_is_first_asked_by_nobody_and_then_under_the_open_parts_pseudonym(
    front: Front, wire: Wire, me: Person, codes: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    from thebes.tasks.gradient import owner
    from thebes.torch import encode

    monkeypatch.setattr(owner, "OWNER", owner.SIMULATED)
    model, loss = encode(torch.nn.Linear(2, 1), torch.nn.MSELoss())
    me.enrol("city", codes["me"])
    published(front, codes)
    task_id = front.post(
        {
            "type": "gradient",
            "epsilon": 4.0,
            "delta": 1e-5,
            "min_count": 11,
            "featurizer": "SELECT x0, x1, z FROM profile.example",
            "inputs": ["x0", "x1"],
            "outputs": ["z"],
            "model": model,
            "loss": loss,
            "rounds": 2,
            "rounds_per_owner": 2,
            "group": "city",
            "anonymity": "token",
        }
    )
    wire.seen.clear()
    assert accepted(me, task_id)["state"] == "sent"
    stranger, own, *rest = wire.slots()
    assert not [slot for slot in rest if slot == stranger]
    query = "SELECT contributor FROM coordinator_contribution"
    assert front.database.read(lambda c: c.exec_driver_sql(query).scalar()) == own


# --- without a proxy ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_packet_has_a_moment_of_its_own_also_without_a_proxy(
    front: Front, wire: Wire, tmp_path: Path, codes: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "COMPUTING_SECONDS", 0.0)  # which pass in this world and not by the clock in hand
    luck = SimpleNamespace(randbelow=random.Random(1).randrange, token_hex=secrets.token_hex)
    # How far apart the moments of a few packets lie is the same in every run.
    for module in ("participation.schedule", "tasks.decisions"):
        monkeypatch.setattr(f"thebes.person.{module}.secrets", luck)
    now = [time.time()]
    begun, moments = now[0], dict[str, list[float]]()

    def seen(request: httpx.Request) -> None:
        what = request.url.path.rpartition("/")[2] if request.url.path.count("/") == 4 else "look"
        moments.setdefault(what, []).append(now[0] - begun)

    with opened(tmp_path, wire, delay=True, clock=lambda: now[0]) as me:
        example.fill(me, seed=4)
        me.enrol("city", codes["me"])
        published(front, codes)
        tasks = [front.post(PACKETS) for _ in range(4)]
        me.set_settings({"local": {"epsilon": 100, "overall_epsilon": 100}, "caps": {}})
        for task_id in tasks:
            me.accept(task_id)
        wire.before = seen
        while now[0] < begun + 400:
            now[0] += min(max(me.turn(), 0.1), 30.0)
        assert {p["state"] for p in me.participations()} == {"sent"}
        moments.pop("look", None)
        for _ in range(100):
            me.poll()
            now[0] += 3.0
    assert len(moments["submit"]) == 8
    assert len(set(moments["submit"])) == 8
    assert max(moments["submit"]) - min(moments["submit"]) > 20
    assert min(moments["ask"]) > 0
    assert len({round(moment) for moment in moments["ask"]}) > 6
    assert 4 <= len(moments["look"]) <= 40  # not each of them every time


@pytest.mark.slow
def test_without_a_delay_answers_with_tokens_go_at_once(
    front: Front, wire: Wire, me: Person, codes: dict[str, str]
) -> None:
    me.enrol("city", codes["me"])
    published(front, codes)
    for _ in range(3):
        me.accept(front.post(MEDIAN))
    me.turn()
    assert len(wire.bodies("/submit")) == 3


class Doorway(BaseHTTPRequestHandler):
    """Hands on what it hears to a coordinator of this process, and writes down over which connection it came."""

    protocol_version = "HTTP/1.1"
    front: Front
    heard: list[tuple[str, str, int]]

    def _pass_on(self) -> None:
        self.heard.append((self.command, self.path, self.client_address[1]))
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        kept = {name: self.headers[name] for name in ("Accept", "Content-Type") if name in self.headers}
        answer = self.front.client.request(self.command, self.path, content=content, headers=kept)
        self.send_response(answer.status_code)
        self.send_header("Content-Type", answer.headers.get("Content-Type", ""))
        if answer.status_code != 204:
            self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    do_GET = do_POST = do_DELETE = _pass_on

    def log_message(self, format: str, *args: Any) -> None:
        return None


@pytest.mark.slow
def test_packets_with_tokens_share_no_connection_even_without_a_delay(
    front: Front, tmp_path: Path, codes: dict[str, str]
) -> None:
    heard: list[tuple[str, str, int]] = []
    door = ThreadingHTTPServer(("127.0.0.1", 0), type("Here", (Doorway,), {"front": front, "heard": heard}))
    threading.Thread(target=door.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{door.server_port}"
        with Person(tmp_path / "home", coordinator=url, delay=False) as me:
            example.fill(me, seed=4)
            me.enrol("city", codes["me"])
            published(front, codes)
            heard.clear()
            with_tokens, without = front.post(PACKETS), front.post(PETS)
            assert accepted(me, without)["state"] == "sent"
            assert accepted(me, with_tokens)["state"] == "sent"
            me.turn()
            before = len(heard)
            me.poll()
            assert [path for _, path, _ in heard[before:]] == [f"/api/task/{task}" for task in (without, with_tokens)]
            (_, _, look) = heard.pop()
            assert me.withdraw(with_tokens)["state"] == "withdrawn"
    finally:
        door.shutdown()
        door.server_close()
    packets = [(method, port) for method, path, port in heard if f"{with_tokens}/" in path]
    assert sorted(method for method, _ in packets if method != "GET") == ["DELETE", "DELETE", "POST", "POST"]
    apart = [port for _, port in packets] + [look]
    assert len(set(apart)) == len(apart) >= 7
    others = {port for _, path, port in heard if with_tokens not in path}
    assert len(others) == 1  # what everybody reads goes over one, and so do tasks that hide nobody
    assert not others & set(apart)


# --- joining --------------------------------------------------------------------------------------------


def test_an_enrolment_is_written_down_before_it_is_sent_and_goes_again_after_a_crash(
    front: Front, wire: Wire, tmp_path: Path, codes: dict[str, str]
) -> None:
    def lost(request: httpx.Request, response: httpx.Response) -> None:
        if request.url.path.endswith("/enrol"):
            raise httpx.ReadError("the connection broke")

    me = opened(tmp_path, wire)
    wire.after = lost
    with pytest.raises(Unreachable):
        me.enrol("city", codes["me"])
    assert [g["enrolled"] for g in me.groups()] == [False]
    assert "join again with the same code" in me.groups()[0]["anonymity"]
    killed(me)
    wire.after = lambda request, response: None
    again = opened(tmp_path, wire)
    assert again.enrol("city", codes["me"])["enrolled"]
    first, second = wire.bodies("/enrol")
    assert first == second
    assert again.enrol("city", codes["me"])["enrolled"]  # and changes nothing
    assert len(wire.bodies("/enrol")) == 2
    again.close()


def test_an_answer_that_was_lost_is_still_there_when_the_group_is_frozen(
    front: Front, wire: Wire, me: Person, codes: dict[str, str]
) -> None:
    def lost(request: httpx.Request, response: httpx.Response) -> None:
        if request.url.path.endswith("/enrol"):
            raise httpx.ReadError("the connection broke")

    wire.after = lost
    with pytest.raises(Unreachable):
        me.enrol("city", codes["me"])
    wire.after = lambda request, response: None
    published(front, codes)
    assert me.enrol("city", codes["me"])["enrolled"]
    assert accepted(me, front.post(MEDIAN))["state"] == "sent"


def test_a_wrong_code_and_a_used_one_admit_nobody(front: Front, me: Person, codes: dict[str, str]) -> None:
    with pytest.raises(NotAllowed, match="is not valid"):
        me.enrol("city", "0" * 32)
    enrolment(front.client, "city", codes["member 0"])
    with pytest.raises(Conflict, match="another request"):
        me.enrol("city", codes["member 0"])
    assert me.enrol("city", codes["me"])["enrolled"]
    with pytest.raises(NotFound):
        me.enrol("village", codes["me"])


def test_a_pin_that_differs_is_refused_before_anything_is_sent(
    front: Front, wire: Wire, me: Person, codes: dict[str, str]
) -> None:
    with pytest.raises(UnpinnedGroup):
        me.enrol("city", codes["me"], "0" * 64)
    assert wire.bodies("/enrol") == []
    assert me.groups() == []
    pin = front.client.get("/api/group/city").json()["digest"]
    assert me.enrol("city", codes["me"], pin)["digest"] == pin
    with pytest.raises(UnpinnedGroup):
        me.enrol("city", codes["me"], "0" * 64)


def test_a_key_of_ones_own_is_refused_because_the_signed_list_has_another(
    front: Front, wire: Wire, me: Person, codes: dict[str, str]
) -> None:
    """A coordinator that shows one person a key that nobody else sees would know every token of that person."""
    other = front.service.register.create("town", minimum=3, epoch="one").parameters
    shown = front.client.get("/api/group/city").json()
    forged = GroupParameters(other.scheme, "city", "one", other.public_key, 3, 0)
    parameters = forged.as_json()
    body = {**shown, "parameters": parameters, "digest": forged.digest}

    class Tagging(Wire):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path == "/api/group/city":
                return httpx.Response(200, json=body)
            return super().handle_request(request)

    tagged = opened(me.home.parent, Tagging(front), name="tagged")
    with pytest.raises(NotAllowed, match="signed list"):
        tagged.enrol("city", codes["me"])
    tagged.close()


def test_the_credential_lies_sealed_in_the_home(front: Front, me: Person, codes: dict[str, str]) -> None:
    me.enrol("city", codes["me"])
    with closing(sqlite3.connect(me.home / "person.db")) as db:
        (sealed,) = db.execute("SELECT sealed FROM membership").fetchone()
    assert b"secret" not in sealed
    assert codes["me"].encode() not in (me.home / "person.db").read_bytes()
    assert "sealed" not in json.dumps(me.export())


def test_the_code_never_travels_in_the_clear(front: Front, wire: Wire, tmp_path: Path, codes: dict[str, str]) -> None:
    client = CoordinatorClient("http://coordinator.example", transport=wire, retries=0)
    with Person(tmp_path / "far", client=client, delay=False) as far, pytest.raises(NotAllowed, match="https"):
        far.enrol("city", codes["me"])
    assert wire.bodies("/enrol") == []


# --- answering ------------------------------------------------------------------------------------------


def test_without_a_membership_nothing_is_agreed_to(front: Front, me: Person, codes: dict[str, str]) -> None:
    me.enrol("city", codes["me"])
    published(front, codes)
    other = opened(me.home.parent, Wire(front), name="other")
    example.fill(other, seed=5)
    task_id = front.post(MEDIAN)
    with pytest.raises(NotAllowed, match="not a member"):
        other.accept(task_id)
    assert other.participations() == []
    other.close()


def test_a_group_that_was_published_without_this_home_or_differently_is_not_used(
    front: Front, wire: Wire, me: Person, codes: dict[str, str]
) -> None:
    me.enrol("city", codes["me"])
    published(front, codes)
    task_id = front.post(MEDIAN)
    shown = front.client.get("/api/group/city").json()
    from thebes.wire.groups import GroupRecord

    record = GroupRecord.from_json(shown)
    smaller = GroupParameters.from_json({**shown["parameters"], "size": 2})
    leaves = record.members[:2]
    with closing(sqlite3.connect(me.home / "person.db")) as db:
        (own,) = db.execute("SELECT leaf FROM membership").fetchone()
    assert own in record.members
    missing = tuple(leaf for leaf in record.members if leaf != own)
    shrunk = GroupParameters.from_json({**shown["parameters"], "size": len(missing)})
    wrong = {
        GroupTooSmall: GroupRecord(smaller, True, leaves),
        NotAllowed: GroupRecord(shrunk, True, missing),
    }
    for error, instead in wrong.items():
        body = {**shown, **instead.as_json()}

        def answering(request: httpx.Request, response: httpx.Response, body: dict[str, Any] = body) -> None:
            if request.url.path == "/api/group/city":
                response._content = json.dumps(body).encode()

        wire.after = answering
        with pytest.raises(error):
            me.accept(task_id)
    for words, instead in {
        "another record": replace(record, members=tuple("0" * 64 if m == missing[0] else m for m in record.members)),
        "promised": replace(record, names=("ana",) * record.size),
    }.items():
        other = {**shown, **instead.as_json()}

        def differently(request: httpx.Request, response: httpx.Response, body: dict[str, Any] = other) -> None:
            if request.url.path == "/api/group/city":
                response._content = json.dumps(body).encode()

        wire.after = differently
        with pytest.raises(NotAllowed if words == "another record" else Mistake, match=words):
            me.accept(task_id)
    wire.after = lambda request, response: None
    assert accepted(me, task_id)["state"] == "sent"


def test_a_retry_sends_the_same_token_and_a_lost_receipt_comes_back(
    front: Front, wire: Wire, tmp_path: Path, codes: dict[str, str]
) -> None:
    me = opened(tmp_path, wire)
    example.fill(me, seed=4)
    me.enrol("city", codes["me"])
    published(front, codes)
    task_id = front.post(ROWS)

    def lost(request: httpx.Request, response: httpx.Response) -> None:
        if request.url.path.endswith("/submit"):
            raise httpx.ReadError("the connection broke")

    wire.after = lost
    me.accept(task_id)
    me.turn()
    killed(me)
    wire.after = lambda request, response: None
    again = opened(tmp_path, wire)
    assert again.wait(task_id, timeout=60)["state"] == "sent"
    first, second = wire.bodies("/submit")
    assert first == second
    assert front.task(task_id)["contributions"] == 1
    again.close()


@pytest.mark.slow
def test_what_is_checked_once_is_kept_so_that_a_later_task_asks_for_no_record(
    front: Front, wire: Wire, me: Person, codes: dict[str, str]
) -> None:
    me.enrol("city", codes["me"])
    published(front, codes)
    accepted(me, front.post(ROWS))
    wire.seen.clear()
    accepted(me, front.post(ROWS))
    assert not [r for r in wire.seen if r.url.path.startswith("/api/group")]
