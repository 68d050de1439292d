"""A person's pages without a browser: who gets in, what stands there, and that strangers' words stay words."""

from __future__ import annotations

import html
import json
import math
import re
import sys
import time
import warnings
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import thebes
from thebes.ledger import MOVED, Ledger
from thebes.person.participation.participation import ParticipationState
from thebes.person.tasks.rules import AgreementRule
from thebes.privacy.faults import Mistake
from thebes.tasks import registry
from thebes.tasks.answer_view import Spans
from thebes.web import frame
from thebes.web.person import answer, states, words
from thebes.web.person.rules import read_form
from thebes.wire.refusals import Unreachable

sys.path.insert(0, str(Path(__file__).parent))
from test_person_rest import MEDIAN, Client, World

PARTIAL = {"HX-Request": "true", "HX-Request-Type": "partial", "Accept": "text/html"}
AGE = {"age": {"type": "range", "low": 0.0, "high": 100.0}}
HISTOGRAM = {
    **MEDIAN,
    "aggregator": "histogram",
    "featurizer": "SELECT species FROM profile.pets",
    "bounds": {"species": {"type": "set", "values": ["cat", "dog"]}},
}
MODEL = {
    "type": "integrated",
    "epsilon": 8.0,
    "min_count": 20,
    "featurizer": "SELECT x0, x1, y FROM profile.example",
    "model": "GaussianNB",
    "inputs": ["x0", "x1"],
    "output": "y",
    "bounds": {
        **{c: {"type": "range", "low": -3.0, "high": 3.0} for c in ("x0", "x1")},
        "y": {"type": "set", "values": [0, 1]},
    },
}
ROWS = {
    "type": "bounded",
    "epsilon": 3.0,
    "min_count": 20,
    "featurizer": "SELECT species, age FROM profile.pets",
    "bounds": {"species": {"type": "set", "values": ["cat", "dog"], "default": "dog"}, **AGE},
}

ENSEMBLE = {
    "type": "ensemble",
    "epsilon": 8.0,
    "min_count": 20,
    "featurizer": "SELECT age, species FROM profile.pets",
    "label": "species",
    "bounds": ROWS["bounds"],
    "bins": 3,
    "partitions": 2,
    "subset_size": 1,
    "subsets": 1,
}

LASTING: dict[str, Any] = {
    "type": "draw-discard",
    "epsilon": 6.0,
    "min_count": 20,
    "featurizer": "SELECT species, age FROM profile.pets",
    "family": "linear",
    "inputs": ["species"],
    "output": "age",
    "bounds": ROWS["bounds"],
    "learning_rate": 0.1,
    "max_participations": 2,
}


def network() -> dict[str, Any]:
    import torch

    from thebes.task import gradient

    torch.manual_seed(0)
    return dict(
        gradient(
            torch.nn.Linear(2, 1),
            torch.nn.MSELoss(),
            "SELECT x0, x1, z FROM profile.example",
            inputs=["x0", "x1"],
            outputs=["z"],
            epsilon=8.0,
            delta=1e-5,
            bounds=dict.fromkeys(("x0", "x1"), (-3.0, 3.0)) | {"z": (-12.0, 12.0)},
            min_count=20,
        )
    )


#: a stranger's words: markup, quotes that end attributes, characters that hide and reorder
HOSTILE = '</title><script>alert(\'x\')</script>" onfocus="alert(1)" autofocus \u202egnp.exe\u2066\u200b\x07{{713*997}}'
HIDDEN = ("\u202e", "\u2066", "\u200b", "\x07")
ADDRESSES = (
    "/", "/welcome", "/operator", "/waiting", "/data", "/tasks", "/accepted", "/lineage", "/rules", "/groups",
    "/limits", "/epsilon", "/privacy", "/privacy/journal",
)  # fmt: skip


class Page(HTMLParser):
    """Reads a page; `elements` are (tag, attributes)."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))


def words_of(page: str) -> str:
    """Return what a page says, without its marks."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", page)).split())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path / "home")
    made.me.set_settings({"task": {"epsilon": 1000, "delta": 0.1}})
    yield made
    made.me.close()


def harmless(answered: httpx.Response) -> str:
    """The text of a page that needs no more than the strict policy allows."""
    assert answered.headers["content-type"].startswith("text/html")
    assert "unsafe" not in answered.headers["content-security-policy"]
    assert answered.headers["cache-control"] == "no-store"
    text = answered.text
    assert not [c for c in HIDDEN if c in text]
    for tag, attributes in Page(text).elements:
        assert tag not in ("style", "iframe", "object", "base")
        assert tag != "script" or str(attributes.get("src", "")).startswith("/static/")
        assert not [name for name in attributes if name.startswith("on") or name in ("style", "hx-on")]
        assert not str(attributes.get("hx-trigger", "")).count("[")  # a filter is evaluated, and nothing may be
        for name in ("href", "src", "action", "hx-get", "hx-post"):
            assert str(attributes.get(name) or "/").startswith(("/", "#"))
    return text


@pytest.mark.few(3)
@pytest.mark.parametrize("address", ADDRESSES)
def test_every_page_is_there(world: World, address: str) -> None:
    harmless(world.http.get(address))
    assert world.http.get(address).status_code == 200


@pytest.mark.few(4)
@pytest.mark.parametrize("address", [*ADDRESSES, "/tasks/none", "/data/profile/pets", "/accepted/none/0"])
def test_without_a_session_there_is_nothing(world: World, address: str) -> None:
    stranger = Client(world.app, {})
    assert stranger.get(address).status_code == 401
    shown = stranger.get(address, headers={"Accept": "text/html"})
    assert shown.status_code in (401, 303)
    assert shown.headers.get("location", "/") == "/"
    assert "profile" not in shown.text
    assert stranger.get("/api/tasks", headers={"Accept": "text/html"}).status_code == 401


WRITES = (
    ("/tasks/none/decide", {"decision": "accept"}),
    ("/accepted/none/0/withdraw", {}),
    ("/rules/add", {"type": "basic"}),
    ("/rules/remove", {"rule": {"type": "basic"}}),
    ("/privacy/limits", {"local.epsilon": 1}),
    ("/privacy/caps", {"requestor": "ana", "epsilon": 1}),
    ("/privacy/destroy", {"confirm": "destroy everything"}),
    ("/data/profile/remove", {"rows": "delete"}),
)


@pytest.mark.few(3)
@pytest.mark.parametrize(("address", "body"), WRITES)
def test_nobody_writes_without_a_session_from_elsewhere_or_by_a_plain_form(
    world: World, address: str, body: dict[str, Any]
) -> None:
    before = (world.me.store(), world.me.rules(), world.me.settings())
    assert Client(world.app, {}).post(address, json=body).status_code == 401
    for foreign in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        assert world.http.post(address, json=body, headers=foreign).status_code == 403
    assert world.http.post(address, data={"decision": "accept", "rows": "delete"}).status_code == 415
    assert (world.me.store(), world.me.rules(), world.me.settings()) == before


@pytest.mark.few(1)
@pytest.mark.parametrize("document", [MEDIAN, HISTOGRAM, MODEL, ROWS, ENSEMBLE, "network"], ids=str)
def test_every_kind_can_be_looked_at(world: World, document: Any) -> None:
    task = world.server.post(network() if document == "network" else document)
    listed, whole = harmless(world.http.get("/tasks")), harmless(world.http.get(f"/tasks/{task}"))
    assert f"/tasks/{task}" in listed
    assert "Accept, for epsilon" in whole
    assert world.server.documents[task]["featurizer"] in html.unescape(whole)
    shown = harmless(world.http.get(f"/tasks/{task}/example", headers=PARTIAL))
    told = {"basic": "plain truth", "integrated": "plain truth", "bounded": "Draw again", "gradient": "would leave"}
    told["ensemble"] = "this is one possibility"
    assert told[world.server.documents[task]["type"]] in shown


def test_the_price_stands_as_a_number_a_sentence_and_a_share(world: World) -> None:
    task = world.server.post({**MEDIAN, "delta": 0.0})
    world.me.set_settings({"trusted": {"epsilon": 4.0}})
    page = world.http.get(f"/tasks/{task}").text
    assert "25 % of the 4 you have left for servers that you trust" in page
    assert "The server needs no guess: it gets your value." in world.http.get("/tasks").text
    assert "right at most 73.2 % of the time" in page
    assert "a moderate price" in page


def test_odds_are_never_told_smaller_than_they_are() -> None:
    assert words.guess(0.0000001) == "right at most 50.1 % of the time"
    assert words.guess(1.0) == "right at most 73.2 % of the time"  # 73.106
    assert words.guess(20.0) == "right almost always"


@pytest.mark.few(2)
@pytest.mark.parametrize("state", ParticipationState)
def test_every_state_has_words_and_a_card(world: World, state: ParticipationState) -> None:
    task = world.server.post(ROWS)
    accepted = world.me.accept(task)
    told = {**world.me.participation(task, 0), "state": str(state), "note": "a note", "result": None}
    assert accepted["state"] == "reserved"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.me, "participations", lambda: [told])
        patch.setattr(world.me, "participation", lambda task_id, number: told)
        page = harmless(world.http.get("/accepted"))
        card = harmless(world.http.get(f"/accepted/{task}/0", headers=PARTIAL))
    standing = states.state(str(state))
    assert html.escape(standing.word) in card
    if state not in (ParticipationState.SEEN, ParticipationState.DECLINED):
        assert standing.word in page
    assert html.escape(standing.sentence) in card
    assert html.escape(standing.next) in card
    assert ("Take it back" in card) == (state in states.BACK)


def test_no_two_states_are_told_alike() -> None:
    told = [states.state(str(state)) for state in ParticipationState]
    assert len({state.word for state in told}) == len({state.sentence for state in told}) == len(told)
    assert all(state.next for state in told)


@pytest.mark.parametrize(
    ("seen", "sent", "refused_"),
    [("computed", 0, True), ("reserved", None, True), ("sent", 0, True), ("sent", 1, False), ("", None, False)],
)
def test_what_left_meanwhile_is_not_taken_back_by_who_thought_it_was_free(
    world: World, seen: str, sent: int | None, refused_: bool
) -> None:
    task = world.server.post(MEDIAN)
    world.me.accept(task)
    world.me.wait(task)
    saw = {"seen": seen} if sent is None else {"seen": seen, "packets_sent": sent}
    if refused_:
        told = refused(world, f"/tasks/{task}/decide", {"decision": "withdraw", **saw}, 409)
        assert told.count("It has left meanwhile, so what it cost is spent; nothing was taken back") == 1
        assert "meanwhile" in refused(world, f"/accepted/{task}/0/withdraw", saw, 409)
        assert world.http.post(f"/api/tasks/{task}/withdraw", json=saw).status_code == 409
        assert world.me.task(task)["state"] == "sent"
    assert world.me.withdraw(task)["state"] == "withdrawn"


def test_what_was_paid_is_told_as_past(world: World) -> None:
    task = world.server.post({**MEDIAN, "delta": 0.0})
    before = world.http.get(f"/tasks/{task}").text
    assert "of the 30 you have left" in before
    assert "You paid" not in before
    world.me.accept(task)
    aside = world.http.get(f"/tasks/{task}/standing", headers=PARTIAL).text
    assert "1 is set aside, and paid when it leaves. In the 30 days until" in " ".join(aside.split())
    world.me.wait(task)
    after = world.http.get(f"/tasks/{task}/standing", headers=PARTIAL).text
    assert re.search(
        "You paid 1. In the 30 days until [^ ]+ you have 29 of 30 left for servers that you trust[.]", after
    )
    for passed in ("you have left", "nothing has left", "Accept"):
        assert passed not in after
    assert world.me.task(task)["paid"] == {"epsilon": 1.0, "delta": 0.0}


def test_a_page_that_stays_open_asks_its_coordinator_nothing(world: World) -> None:
    task = world.server.post(MEDIAN)
    world.http.get("/tasks")  # that a task is seen for the first time is a change
    for address in ("/tasks", f"/tasks/{task}"):
        page = world.http.get(address)
        mark = next(str(a["hx-get"]) for _, a in Page(page.text).elements if a.get("id") == "moment")
        assert world.http.get(mark, headers=PARTIAL).status_code == 204
    world.me.accept(task)
    world.server.before = lambda what: pytest.fail(f"asks the coordinator to {what}")
    changed = world.http.get(mark, headers=PARTIAL)
    assert json.loads(changed.headers["hx-trigger"]) == {"changed": {"badge": 0}}
    assert mark not in changed.text
    for address in (f"/tasks/{task}/standing", "/accepted/now", "/here", "/privacy/spent"):
        assert states.state("reserved").word in harmless(world.http.get(address, headers=PARTIAL))


def test_what_changes_while_a_page_is_made_is_told_to_it_afterwards(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = world.server.post(MEDIAN)
    read = world.me.participations

    def then_accepted() -> Any:
        found = read()
        monkeypatch.undo()
        world.me.accept(task)
        return found

    monkeypatch.setattr(world.me, "participations", then_accepted)
    page = world.http.get("/accepted").text
    assert "You have not agreed to anything yet" in page
    mark = next(str(a["hx-get"]) for _, a in Page(page).elements if a.get("id") == "moment")
    assert "changed" in json.loads(world.http.get(mark, headers=PARTIAL).headers["hx-trigger"])


def test_a_moment_is_told_in_the_zone_of_this_machine(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    try:
        here = frame.PageFrame("x", (), clock=None)._templates.filters["when"]
        assert "2026-11-24 05:45 +0545" in here("2026-11-24T00:00:00+00:00")
    finally:
        monkeypatch.undo()
        time.tzset()
    assert "2026-11-24 00:00 UTC" in frame.when("2026-11-24T00:00:00+00:00")


def test_a_task_that_its_coordinator_forgot_is_said_to_be_forgotten(world: World) -> None:
    task = world.server.post(ROWS)
    world.me.accept(task)
    world.me.wait(task)
    card = harmless(world.http.get(f"/accepted/{task}/0", headers=PARTIAL))
    assert "Take it back" in card
    del world.server.status[task]
    world.me.poll()
    card = harmless(world.http.get(f"/accepted/{task}/0", headers=PARTIAL))
    for told in ("forgotten", "no longer knows this task", "stays spent", "Receipt"):
        assert told in card
    for told in ("The answer comes", "Take it back", "Take part again"):
        assert told not in card
    assert "forgotten" in harmless(world.http.get("/"))


def test_a_card_that_is_asked_for_again_reads_the_journal_only_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = [world.server.post(document) for document in (ROWS, MEDIAN)]
    for task in tasks:
        world.me.accept(task)
        world.me.wait(task)
    read, length = list[int](), world.me.verify()["entries"]
    real = Ledger.journal

    def journal(self: Ledger, after: int = 0) -> Any:
        entries = list(real(self, after))
        read.append(len(entries))
        return iter(entries)

    monkeypatch.setattr(Ledger, "journal", journal)
    monkeypatch.setattr(Ledger, "claims", lambda *_, **__: pytest.fail("reads every claim"))
    cards = [world.http.get(f"/accepted/{task}/0", headers=PARTIAL).text for task in tasks for _ in range(3)]
    assert read == [length, 0, 0, 0, 0, 0]
    monkeypatch.undo()
    whole = " ".join(world.http.get("/accepted").text.split())
    for task, card in zip(tasks, cards[::3], strict=True):
        assert " ".join(card.split()) in whole  # what was spent and when is the same either way
        assert "<dt>Sent</dt>" in card
        after = world.me.participation(task, 0)["sent"]
        assert after == next(h["at"] for h in world.me.ledger()["history"] if h["task_id"] == task)


def test_yes_no_and_taking_back_are_told_where_the_question_stood(world: World) -> None:
    task = world.server.post(MEDIAN)

    def decide(what: str) -> str:
        answered = world.http.post(f"/tasks/{task}/decide", json={"decision": what}, headers=PARTIAL)
        assert answered.status_code == 200
        return harmless(answered)

    assert "Declined." in decide("decline")
    assert "Agreed." in decide("accept")
    world.me.wait(task)
    assert "You took it back. The server destroyed it; what it cost stays spent." in decide("withdraw")
    assert world.me.participations()[0]["state"] == "withdrawn"


@pytest.mark.slow
def test_before_several_packets_are_taken_back_it_is_said_what_that_shows(world: World) -> None:
    packets = {
        **{name: MODEL[name] for name in ("min_count", "featurizer", "epsilon")},
        "type": "ensemble",
        "label": "y",
        "bounds": {
            **{c: {"type": "range", "low": -3.0, "high": 3.0, "default": 0.0} for c in ("x0", "x1")},
            "y": {"type": "set", "values": [0, 1], "default": 0},
        },
        "bins": {"x0": [0.0], "x1": [0.0]},
        "partitions": 3,
        "subsets": 2,
    }
    told = "Your 2 packets go back at once, which shows the coordinator that they belong together"
    for document, count in ((packets, 1), (MEDIAN, 0)):
        task = world.server.post(document)
        world.me.accept(task)
        assert told not in harmless(world.http.get(f"/tasks/{task}"))  # nothing was sent yet
        assert "Nothing has been sent yet" in harmless(world.http.get(f"/accepted/{task}/0", headers=PARTIAL))
        world.me.wait(task)
        for address in (f"/tasks/{task}", f"/accepted/{task}/0"):
            page = harmless(world.http.get(address, headers=PARTIAL if "accepted" in address else {}))
            assert page.count(told) == count
            assert "Take it back" in page


def refused(world: World, address: str, body: dict[str, Any], status: int) -> str:
    """A refusal told in the place of the form, with its status."""
    answered = world.http.post(address, json=body, headers=PARTIAL)
    assert answered.status_code == status
    assert answered.headers["hx-retarget"] == "find .outcome"
    text = harmless(answered)
    assert "note bad" in text
    assert "autofocus" in text
    return html.unescape(text)


def test_refusals_are_sentences_with_their_status(world: World) -> None:
    dear = world.server.post({**MEDIAN, "epsilon": 31.0})
    told = refused(world, f"/tasks/{dear}/decide", {"decision": "accept"}, 402)
    assert "it costs epsilon 31, and epsilon 30 is left. Nothing was agreed to" in told
    task = world.server.post(MEDIAN)
    world.me.accept(task)
    assert "not finished" in refused(world, f"/tasks/{task}/decide", {"decision": "accept"}, 409)
    assert "already" in refused(world, f"/tasks/{task}/decide", {"decision": "decline"}, 409)
    over = world.server.post(ROWS)
    world.server.end(over, "cancelled")
    assert "closed" in refused(world, f"/tasks/{over}/decide", {"decision": "accept"}, 410)
    refused(world, f"/tasks/{over}/decide", {"decision": "maybe"}, 422)
    refused(world, "/tasks/none/decide", {"decision": "accept"}, 404)
    assert "letter by letter" in refused(world, "/privacy/destroy", {"confirm": "yes"}, 422)
    assert "Local: epsilon" in refused(world, "/privacy/limits", {"local.epsilon": -1}, 422)
    assert "kept or deleted" in refused(world, "/data/profile/remove", {}, 422)
    assert "not there any more" in refused(world, "/rules/remove", {"rule": {"type": "basic"}}, 422)
    week = {"type": "basic", "requestor": "ana", "epsilon_per_week": 1}
    assert "Epsilon at most must" in refused(world, "/rules/add", {**week, "epsilon_at_most": "x"}, 422)
    alone = {"type": "basic", "epsilon_at_most": 1, "epsilon_per_week": 1}
    assert "Asked by must be a name, or tables must be chosen" in refused(world, "/rules/add", alone, 422)
    endless = {"type": "basic", "epsilon_at_most": 1, "tables": "profile.pets"}
    assert "Epsilon at most, in seven days must be given" in refused(world, "/rules/add", endless, 422)
    changed = {**week, "epsilon_at_most": 1, "meant": "Agree to nothing."}
    assert "has changed since it was read" in refused(world, "/rules/add", changed, 422)
    refused(world, "/rules/add", {"type": ["basic"]}, 422)
    assert "Epsilon at most must be given" in refused(world, "/rules/add", week, 422)
    plenty = {"epsilon_at_most": 20, "epsilon_per_week": 20, "requestor": "ana"}
    assert "Kind of task must be chosen" in refused(world, "/rules/add", plenty, 422)
    assert "Chance to take part must be more than 0 %" in refused(
        world, "/rules/add", {"type": "basic", **plenty, "probability": 0}, 422
    )
    vain = refused(world, "/rules/add", {"type": "basic", "server": "untrusted", **plenty}, 422)
    assert "What leaves is always plain values" in vain
    assert world.me.rules() == []


def test_a_body_that_is_no_object_is_refused_in_words(world: World) -> None:
    answered = world.http.post("/rules/add", json=[1], headers=PARTIAL)
    assert answered.status_code == 422
    assert "reload the page" in harmless(answered)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("size", "warned"), [(19, True), (20, True), (22, True), (23, False), (200, False), (None, False)]
)
def test_where_nearly_the_whole_group_must_answer_the_page_says_what_that_hides(
    world: World, monkeypatch: pytest.MonkeyPatch, size: int | None, warned: bool
) -> None:
    city = {"name": "city", "epoch": "one", "published": size is not None, "size": size}
    monkeypatch.setattr(type(world.me), "groups", lambda self: [{**city, "name": "town", "size": 20}, city])
    task = world.server.post({**MEDIAN, "anonymity": "token", "group": "city", "epoch": "one"})
    for address in ("/tasks", f"/tasks/{task}"):
        assert ("as long as the others do not say which answers are theirs" in world.http.get(address).text) is warned
    monkeypatch.setattr(type(world.me), "groups", lambda self: pytest.fail("nothing here has a group"))
    other = world.server.post(MEDIAN)
    assert world.http.get(f"/tasks/{other}").status_code == 200


def test_an_earlier_contribution_is_not_taken_back_in_place_of_a_later_one(world: World) -> None:
    task = world.server.post(ROWS)
    world.me.accept(task)
    assert "again since" in refused(world, f"/accepted/{task}/7/withdraw", {}, 404)
    assert world.me.participations()[0]["state"] != "withdrawn"


def test_strangers_words_stay_words_on_every_page(world: World) -> None:
    loud = {"name": HOSTILE, "purpose": HOSTILE}
    tasks = [
        world.server.post({**MEDIAN, **loud}, requestor=HOSTILE),
        world.server.post({**ROWS, **loud}, requestor=HOSTILE),
    ]
    column = {"type": "string", "description": HOSTILE}
    world.me.register(
        "loud", {"tables": {"t": {"description": HOSTILE, "columns": {"c": column}}}, "description": HOSTILE}
    )
    world.me.insert("loud", "t", [{"c": HOSTILE}])
    world.me.set_rules([{"type": "basic", "requestor": HOSTILE, "epsilon_at_most": 0.001}])
    world.me.accept(tasks[0])
    world.me.wait(tasks[0])
    told = HOSTILE.translate({ord(c): None for c in HIDDEN})
    addresses = [*ADDRESSES, "/data/loud/t", *(f"/tasks/{task}" for task in tasks)]
    seen = 0
    for address in addresses:
        text = harmless(world.http.get(address))
        assert "<script>alert" not in text
        assert "710861" not in text.replace(told, "") or "{{713*997}}" in html.unescape(text)
        seen += told in html.unescape(text)
    assert seen >= 7


def test_a_rule_with_strange_characters_can_be_removed_again(world: World) -> None:
    world.me.set_rules([{"type": "basic", "requestor": HOSTILE, "epsilon_at_most": 1}])
    page = Page(world.http.get("/rules").text)
    field = next(a for tag, a in page.elements if a.get("name") == "rule")
    answered = world.http.post("/rules/remove", json={"rule": json.loads(str(field["value"]))}, headers=PARTIAL)
    assert answered.status_code == 200
    assert world.me.rules() == []


def test_what_is_too_long_is_refused_in_words_and_not_cut_in_its_field(world: World) -> None:
    long = {"type": "basic", "epsilon_at_most": 1, "epsilon_per_week": 1, "requestor": "x" * 201}
    assert "Requestor may have 200 characters" in refused(world, "/rules/add", long, 422)
    assert "200" in refused(world, "/privacy/caps", {"requestor": "x" * 201, "epsilon": 1}, 422)
    for address in ("/rules", "/groups", "/privacy"):
        assert "maxlength" not in world.http.get(address).text


def test_the_form_begins_with_what_agrees_to_least(world: World) -> None:
    elements = Page(world.http.get("/rules").text).elements
    named = {str(a.get("name")): a for tag, a in elements if tag in ("select", "input")}
    assert named["min_count"]["value"] == "100"
    assert {"type", "epsilon_at_most", "epsilon_per_week"} <= {name for name, a in named.items() if "required" in a}
    assert named["epsilon_at_most"]["value"] == "1"
    first = {}
    for place, (tag, attributes) in enumerate(elements):
        if tag == "select":
            first[attributes["name"]] = elements[place + 1][1]["value"]
    assert first == {"type": "", "server": "untrusted"}


def test_a_rule_is_confirmed_with_all_that_it_covers(world: World) -> None:
    rule = {"type": "basic", "server": "", "epsilon_at_most": 1, "epsilon_per_week": 2, "requestor": "ana"}
    meant = (
        "Agree to basic tasks of ana that trust one of two servers with shares or trust a server with plain values, "
        "read any of your tables and cost at most epsilon 1 each, up to epsilon 2 in seven days."
    )
    assert meant in html.unescape(harmless(world.http.post("/rules/sentence", json=rule, headers=PARTIAL)))
    assert world.me.rules() == []
    told = html.unescape(harmless(world.http.post("/rules/add", json={**rule, "meant": meant}, headers=PARTIAL)))
    assert f"The rule holds from now on: {meant}" in told


def test_what_a_rule_says_about_a_kind_is_what_its_documents_say() -> None:
    samples = [sample for type_ in registry.people_types() for sample in registry.samples(type_)]
    documents = [registry.check(sample.document) for sample in samples]
    said = {type_: {d.server for d in documents if d.type == type_} for type_ in registry.people_types()}
    assert all(said.values())
    for type_, servers in said.items():
        assert servers <= {*registry.servers(type_)}, type_
    assert registry.servers("bounded") == ("untrusted",)
    assert set(registry.servers("basic")) == {"trusted", "split"}


def test_a_form_left_empty_is_a_rule_about_the_kind_alone() -> None:
    empty = {"type": "basic", "requestor": " ", "server": "", "min_count": ""}
    assert read_form(empty) == {"type": "basic"}
    full = {
        "stated": True, "type": "bounded", "requestor": "ana", "server": "untrusted", "tables": "a.b",
        "epsilon_at_most": 0.5, "epsilon_per_week": 2, "min_count": 100, "probability": 25,
    }  # fmt: skip
    assert read_form(full) == {**full, "tables": ["a.b"], "probability": 0.25}
    AgreementRule.read(read_form(full))
    for chance in (0, 101):
        with pytest.raises(Mistake, match="at most 100 %"):  # as the form counts, not as a rule does
            read_form({**full, "probability": chance})
    assert words.rule(read_form(full)) == (
        "Agree to bounded tasks of ana that are noised on this machine, read nothing but a.b, want at least 100 "
        "people, say what for, whom to ask and until when and cost at most epsilon 0.5 each, up to epsilon 2 in seven "
        "days, each with a chance of 25 %."
    )


def test_limits_and_caps_are_changed_and_what_was_not_said_stays(world: World) -> None:
    world.me.set_settings({"caps": {"bob": {"epsilon": 2.0}}})
    answered = world.http.post("/privacy/limits", json={"local.epsilon": 5, "period_days": 7}, headers=PARTIAL)
    assert "Your limits are changed." in harmless(answered)
    settings = world.me.settings().as_json()
    assert (settings["local"]["epsilon"], settings["period_days"], settings["trusted"]["epsilon"]) == (5.0, 7, 30.0)
    harmless(world.http.post("/privacy/caps", json={"requestor": "ana", "epsilon": 1}, headers=PARTIAL))
    assert set(world.me.settings().as_json()["caps"]) == {"ana", "bob"}
    above = harmless(world.http.post("/privacy/limits", json={"local.overall_epsilon": 4}, headers=PARTIAL))
    assert "epsilon in one period (5) is above epsilon for ever (4)" in above
    harmless(world.http.post("/privacy/caps", json={"requestor": "bob"}, headers=PARTIAL))
    assert set(world.me.settings().as_json()["caps"]) == {"ana"}


PROPOSED = {"task": 1, "period": 3, "year": 12, "overall": 36}


def test_before_the_first_yes_limits_are_chosen_as_odds(world: World) -> None:
    world.me.set_settings({"task": None})
    task = world.server.post({**MEDIAN, "delta": 0.0})
    asked = world.http.post(f"/tasks/{task}/decide", json={"decision": "accept"}, headers=PARTIAL)
    assert f"/limits?task={task}" in harmless(asked)
    assert world.me.participations() == []
    rule = {"type": "basic", "requestor": "ana", "epsilon_at_most": 1, "epsilon_per_week": 1}
    assert "Your limits must be chosen first" in refused(world, "/rules/add", rule, 422)
    assert "choose your limits" in harmless(world.http.get("/"))
    page = harmless(world.http.get(f"/limits?task={task}"))
    values = {a["name"]: float(str(a["value"])) for _, a in Page(page).elements if a.get("data-type") == "number"}
    assert values == PROPOSED
    for odds in ("right at most 73.2 %", "right at most 95.3 %", "right almost always"):
        assert odds in page
    body = {**PROPOSED, "task": 0.5, "task_id": task}
    assert "right at most 62.3 %" in harmless(world.http.post("/limits/odds", json=body, headers=PARTIAL))
    assert f'href="/tasks/{task}"' in harmless(world.http.post("/limits", json=body, headers=PARTIAL))
    settings = world.me.settings().as_json()
    assert settings["task"] == {"epsilon": 0.5, "delta": 1e-7}
    for trust in ("local", "trusted"):
        assert settings[trust] == {
            "epsilon": 3.0, "delta": 1e-6, "year_epsilon": 12.0, "year_delta": 1e-5, "overall_epsilon": 36.0,
            "overall_delta": 3e-5,
        }  # fmt: skip
    wrong = {**PROPOSED, "year": 2}
    assert "All tasks of any year must be at least 3" in refused(world, "/limits", wrong, 422)


def test_the_number_of_those_who_took_part_goes_on_while_somebody_waits(world: World) -> None:
    task = world.server.post({**MEDIAN, "min_count": 3})
    world.me.accept(task)
    world.me.turn()
    world.me.poll()
    assert "1 contribution so far of the 3 an answer needs." in words_of(world.http.get(f"/tasks/{task}/came").text)
    world.server.heard[(task, "another", "0")] = next(iter(world.server.heard.values()))
    before = world.me.moment
    world.me.poll()
    assert world.me.moment != before, "an open page asks this machine for what is new"
    asked: list[str] = []
    world.server.before = asked.append
    assert "2 contributions so far of the 3" in words_of(world.http.get(f"/tasks/{task}/came").text)
    assert not asked, "that a page is open tells the coordinator nothing"


def test_the_odds_of_limits_count_what_this_home_has_spent(world: World) -> None:
    world.me.accept(world.server.post({**MEDIAN, "delta": 0.0}))  # epsilon 1 where a server is trusted
    world.me.turn()
    told = harmless(world.http.post("/limits", json=PROPOSED, headers=PARTIAL))
    assert "All tasks of 30 days, epsilon 3, of which 1 is spent or set aside already: they are right" in words_of(told)
    less = {**PROPOSED, "task": 0.1, "period": 0.5, "year": 0.75}
    for at in ("/limits/odds", "/limits"):
        told = words_of(harmless(world.http.post(at, json=less, headers=PARTIAL)))
        assert "One task, without a second question, epsilon 0.1: they are right at most 52.5 %" in told
        for label, chosen in (("All tasks of 30 days", 0.5), ("All tasks of any year", 0.75)):
            spent = f"{label}: {chosen} is less than the 1 that is spent or set aside already, which stays"
            assert f"{spent}: they are right at most 73.2 % of the time" in told
    assert world.me.balance()["trusted"]["period"]["epsilon"] == 1.0, "as the page said"


def test_limits_that_differ_where_a_server_is_trusted_are_told(world: World) -> None:
    harmless(world.http.post("/limits", json=PROPOSED, headers=PARTIAL))
    assert "other limits" not in harmless(world.http.get("/limits"))
    world.me.set_settings({"trusted": {"epsilon": 7}})
    assert "other limits hold where you trust a server" in words_of(harmless(world.http.get("/limits")))


def test_a_home_that_is_only_driven_by_programs_keeps_its_limits_and_is_asked_nothing(world: World) -> None:
    world.me.set_settings({"task": None})
    task = world.server.post({**MEDIAN, "epsilon": 10.0})
    assert world.http.post(f"/api/tasks/{task}/accept").status_code == 202
    told = world.me.ledger()["trusted"]
    assert [told[name]["epsilon"] for name in ("period", "year", "overall")] == [30.0, 300.0, 300.0]


def test_a_task_that_takes_more_than_one_may_asks_twice(world: World) -> None:
    world.me.set_settings({"task": {"epsilon": 1, "delta": 1e-7}})
    dear = world.server.post({**MEDIAN, "epsilon": 3.0, "delta": 0.0})
    first = harmless(world.http.post(f"/tasks/{dear}/decide", json={"decision": "accept"}, headers=PARTIAL))
    assert "This takes epsilon 3; you said that one task may take 1 without a second question" in first
    assert "right at most 95.3 % of the time, instead of at most 73.2 % of the time" in first
    assert world.me.participations() == []
    sure = {"decision": "accept", "sure": "yes"}
    assert "Agreed." in harmless(world.http.post(f"/tasks/{dear}/decide", json=sure, headers=PARTIAL))
    cheap = world.server.post({**MEDIAN, "delta": 0.0, "name": "cheap"})
    assert "Agreed." in world.http.post(f"/tasks/{cheap}/decide", json={"decision": "accept"}, headers=PARTIAL).text
    by_delta = world.server.post({**MEDIAN, "delta": 1e-6, "name": "by delta"})
    asked = world.http.post(f"/tasks/{by_delta}/decide", json={"decision": "accept"}, headers=PARTIAL).text
    assert "and delta 1e-06" in asked or "and delta 0.000001" in asked
    rule = {"type": "basic", "requestor": "ana", "epsilon_at_most": 2, "epsilon_per_week": 5}
    assert "no rule does" in refused(world, "/rules/add", rule, 422)
    world.me.set_rules([{**rule, "epsilon_at_most": 3}])
    world.server.post({**MEDIAN, "epsilon": 2.0, "name": "for the rule"})
    world.me.apply_rules()
    assert len(world.me.participations()) == 2, "what would ask twice is left to the person"


def test_no_to_the_second_question_goes_back_and_decides_nothing(world: World) -> None:
    world.me.set_settings({"task": {"epsilon": 1, "delta": 1e-7}})
    task = world.server.post({**MEDIAN, "epsilon": 3.0, "delta": 0.0})
    asked = world.http.post(f"/tasks/{task}/decide", json={"decision": "accept"}, headers=PARTIAL)
    values = [a.get("value") for tag, a in Page(asked.text).elements if tag == "button"]
    assert "back" in values
    back = harmless(world.http.post(f"/tasks/{task}/decide", json={"decision": "back", "sure": "yes"}, headers=PARTIAL))
    assert "Nothing was decided." in back
    assert "Are you sure?" not in back
    assert "Accept, for epsilon 3" in back
    assert world.me.task(task)["state"] == "seen"


def test_a_yes_that_is_not_possible_is_not_offered_and_the_page_says_why(world: World) -> None:
    dear = world.server.post({**MEDIAN, "epsilon": 31.0, "name": "dear"})
    lacks = {**MEDIAN, "featurizer": "SELECT age FROM nobody.there", "name": "lacks", "missing": "refuse"}
    other = world.server.post(lacks)
    world.http.get("/tasks")
    for task, why in (
        (dear, "it costs epsilon 31, and 30 is left for servers that you trust in the 30 days"),
        (other, "nothing in your store"),
    ):
        for address in (f"/tasks/{task}", f"/tasks/{task}/standing"):
            page = world.http.get(address)
            assert f"You cannot accept it: {why}" in harmless(page), address
            assert "accept" not in [a.get("value") for tag, a in Page(page.text).elements if tag == "button"]
            assert "decline" in [a.get("value") for tag, a in Page(page.text).elements if tag == "button"]
    assert "You cannot accept it: it costs epsilon 31" in harmless(world.http.get("/tasks"))


def test_a_date_of_a_budget_does_not_break_and_says_how_long_it_is(world: World) -> None:
    period = world.me.ledger()["local"]["period"]
    told = f"The next 30 days begin on {period['end'].replace('-', words.NO_BREAK)}."
    for address in ("/", "/privacy"):
        assert told in harmless(world.http.get(address))


def test_a_home_says_what_it_cannot_remember(world: World) -> None:
    for address in ("/limits", "/privacy"):
        page = harmless(world.http.get(address))
        assert "It does not know what was learned about you before" in page
        assert "brought back from a copy" not in page
    with Ledger(f"sqlite:///{world.me.home / 'ledger.db'}") as ledger:
        ledger.freeze()
        ledger.thaw()
    for address in ("/limits", "/privacy"):
        assert "It was brought back from a copy" in harmless(world.http.get(address))


def test_what_epsilon_means_is_told_in_few_words_with_the_right_counts(world: World) -> None:
    page = harmless(world.http.get("/epsilon"))
    told = html.unescape(re.sub(r"<[^>]+>", " ", re.sub(r"<svg.*?</svg>", "", page.split('id="told"')[1], flags=re.S)))
    plain = " ".join(told.split("What is epsilon?")[0].split())
    assert 200 <= len(plain.split()) <= 275
    counts = {e: math.ceil(100 / (1 + math.exp(-e))) for e in (0.1, 0.5, 1, 3)}
    assert counts == {0.1: 53, 0.5: 63, 1: 74, 3: 96}
    for epsilon_, right in counts.items():
        assert f"Epsilon {epsilon_:g}: {right} times" in plain
        assert f"epsilon {epsilon_:g}" in page
    assert 1 / (1 + math.exp(-8)) > 0.999
    assert page.count("<svg") == 1


def test_the_page_about_epsilon_is_one_click_away_from_every_number(world: World) -> None:
    task = world.server.post(MEDIAN)
    world.me.accept(task)
    for address in (*ADDRESSES, f"/tasks/{task}", "/epsilon"):
        page = world.http.get(address).text
        if "</html>" in page:
            assert [a for tag, a in Page(page).elements if tag == "a" and a.get("href") == "/epsilon"]


SAID = {"purpose": "To plan.", "contact": "ana@example.org", "expires_at": "2031-01-31T12:00:00+00:00"}


def test_what_a_task_does_not_say_is_said_so(world: World) -> None:
    silent, open_ = world.server.post({**MEDIAN, "name": "How old are we?"}), world.server.post({**MEDIAN, **SAID})
    for address in ("/tasks", f"/tasks/{silent}"):
        page = harmless(world.http.get(address))
        for tag in ("no purpose", "nobody to ask", "no end"):
            assert f'<span class="tag warn">{tag}</span>' in page
    assert "It does not say what its answer is for, whom to ask or until when it is open." in page
    assert "How old are we?." not in page
    page = harmless(world.http.get(f"/tasks/{open_}"))
    assert "It does not say" not in page
    for told in ("To plan.", "ana@example.org", "2031-01-31"):
        assert told in page
    rule = {"type": "basic", "epsilon_at_most": 1, "stated": True}
    assert "say what for, whom to ask and until when" in words.rule(rule)
    world.me.set_rules([rule])
    world.me.apply_rules()
    assert [p["task_id"] for p in world.me.participations()] == [open_]


def test_a_contact_changes_no_digest_of_a_document_without_one() -> None:
    whole = registry.check(MEDIAN)
    assert "contact" not in whole.as_json()
    assert registry.check({**MEDIAN, "contact": "ana@example.org"}).digest != whole.digest


def test_a_collector_goes_with_or_without_its_rows(world: World) -> None:
    kept = world.http.post("/data/profile/remove", json={"rows": "keep"}, headers=PARTIAL)
    assert "taken away, rows kept" in harmless(kept)
    assert world.me.newest("profile", "pets", 1)
    gone = world.http.post("/data/profile/remove", json={"rows": "delete"}, headers=PARTIAL)
    assert "Its rows are deleted." in harmless(gone)
    assert "profile" not in [c["name"] for c in world.me.store()]


def test_destroying_everything_ends_the_server(world: World) -> None:
    answered = world.http.post("/privacy/destroy", json={"confirm": "destroy everything"}, headers=PARTIAL)
    assert "Everything is destroyed" in answered.text
    assert list(world.me.home.iterdir()) == []
    import time

    end = time.monotonic() + 60
    while not world.stopped and time.monotonic() < end:
        time.sleep(0.05)
    assert world.stopped == [True]


def test_the_coordinator_away_is_one_plain_sentence(world: World) -> None:
    task = world.server.post(MEDIAN)

    def away(what: str) -> None:
        raise Unreachable("http://127.0.0.1:1", "connection refused")

    world.server.before = away
    for address in ("/waiting", "/tasks"):
        text = harmless(world.http.get(address))
        assert "The coordinator does not answer just now." in text
    for address in ("/", "/data", "/accepted", "/rules", "/privacy"):
        assert world.http.get(address).status_code == 200
    lost = world.http.get(f"/tasks/{task}")
    assert lost.status_code == 502
    assert "The coordinator does not answer just now." in harmless(lost)


def test_plain_words_leave_the_sql_to_inspect(world: World) -> None:
    sql = "SELECT age\n FROM profile.demographics\n WHERE age > 3"
    task = world.server.post({**MEDIAN, "featurizer": sql})
    plain, _, inspect = harmless(world.http.get(f"/tasks/{task}")).partition('id="inspect-title"')
    assert "This task would like to read age from profile.demographics.</p>" in plain
    assert "SELECT" not in plain
    assert html.escape(sql) in inspect
    assert "SELECT" not in world.http.get("/tasks").text
    assert sql in world.me.task(task)["explanation"]


def test_a_column_says_no_more_about_how_often_than_is_so(world: World) -> None:
    columns = {c: {"type": "string", "description": ""} for c in ("one", "same", "each", "tied", "most", "some")}
    world.me.register("notes", {"tables": {"single": {"columns": {"c": {"type": "float"}}}, "t": {"columns": columns}}})
    world.me.insert("notes", "single", [{"c": 64}])
    values = zip("aaaaa", "vwxyz", "aabbc", "aaabc", "aabcd", strict=True)
    world.me.insert("notes", "t", [dict(zip(columns, (None, *row), strict=True)) for row in values])
    world.me.insert("notes", "t", [{"one": "lone"}])
    assert "always" not in world.http.get("/data/notes/single").text
    text = harmless(world.http.get("/data/notes/t"))
    ends = [
        " ".join(piece.split("</p>")[0].split(">")[1].split("<")[0].split())
        for piece in text.split('<p class="ends')[1:]
    ]
    assert ends == ["lone", "always a", *(f"{told} · 1 missing" for told in (
        "5 different, each once", "3 different", "3 different, mostly a", "4 different, most often a"
    ))]  # fmt: skip


def test_a_person_sees_which_own_values_do_not_count_as_they_are(world: World) -> None:
    task = world.server.post(MEDIAN)
    assert world.me.preview(task)["misfits"] == []
    assert "Not everything counts as it is" not in world.http.get(f"/tasks/{task}").text
    (age,) = (row["age"] for row in world.me.preview(task)["rows"])
    bound = {"type": "range", "low": 0, "high": age - 1}
    cut = world.server.post({**MEDIAN, "bounds": {"age": bound}})
    assert world.http.get(f"/api/tasks/{cut}/preview").json()["misfits"] == [
        f"age: your value is above {age - 1:g}, cut to it"
    ]
    text = harmless(world.http.get(f"/tasks/{cut}"))
    assert "Not everything counts as it is" in text
    assert f"age: your value is above {age - 1:g}, cut to it" in text


def test_a_store_without_the_table_is_told_in_the_preview(world: World) -> None:
    task = world.server.post({**MEDIAN, "featurizer": "SELECT age FROM nowhere.people"})
    text = harmless(world.http.get(f"/tasks/{task}"))
    assert "does not have" in html.unescape(text)
    assert "not in your store" in text
    assert "your machine answers all the same" not in text  # nothing would be sent


def test_who_would_pay_for_an_answer_about_nothing_is_told_so(world: World) -> None:
    """A task that trusts nobody is answered by whoever agrees, so that taking part tells nothing."""
    for sql, lacks in (
        ("SELECT species, age FROM nowhere.pets", True),
        ("SELECT kind AS species, age FROM profile.pets", True),
        ("SELECT species, age FROM profile.pets WHERE age < 0", False),
    ):
        text = harmless(world.http.get(f"/tasks/{world.server.post({**ROWS, 'featurizer': sql})}"))
        assert "your machine answers all the same" in text
        assert ("not in your store" in text) is lacks
    text = harmless(world.http.get(f"/tasks/{world.server.post(ROWS)}"))
    assert "your machine answers all the same" not in text
    assert "not in your store" not in text


def test_no_and_yes_are_counted_in_the_order_of_their_bars(world: World) -> None:
    world.me.register("radio", {"songs": {"columns": {"skipped": {"type": "boolean"}}}})
    world.me.insert("radio", "songs", [{"skipped": n == 0} for n in range(5)])
    text = harmless(world.http.get("/data/radio/songs"))
    assert "no: 4; yes: 1" in text
    assert "4 no, 1 yes" in text


def test_a_broken_journal_is_shown(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "The journal is whole" in world.http.get("/privacy/journal").text
    broken = {"whole": False, "findings": ["entry 3 was altered"], "entries": 9}
    monkeypatch.setattr(type(world.me), "verify", lambda self: broken)
    text = harmless(world.http.get("/privacy/journal"))
    assert "entry 3 was altered" in text
    assert "note bad" in text


def test_a_frozen_ledger_is_shown_and_explained(world: World) -> None:
    task = world.server.post(MEDIAN)
    world.me.ledger()
    with Ledger(f"sqlite:///{world.me.home / 'ledger.db'}") as ledger:
        ledger.freeze()
    for page in ("/", "/privacy"):
        assert f"thebes ledger thaw --home {world.me.home}" in harmless(world.http.get(page))
    assert "Overview says what to do" in refused(world, f"/tasks/{task}/decide", {"decision": "accept"}, 402)


def test_a_home_that_moved_is_to_be_destroyed_and_no_page_tells_how_it_would_spend_again(world: World) -> None:
    world.me.ledger()
    with Ledger(f"sqlite:///{world.me.home / 'ledger.db'}") as ledger:
        ledger.freeze(MOVED)
    for page in ("/", "/privacy"):
        text = harmless(world.http.get(page))
        assert "This home moved to another device" in text
        assert "ledger thaw" not in text


# --- answers -----------------------------------------------------------------------------------------------


def people(count: int = 300) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    x0, x1 = rng.normal(size=count), rng.normal(size=count)
    return {
        "age": rng.integers(18, 90, count).astype(float),
        "species": np.where(rng.random(count) < 0.6, "cat", "dog"),
        "x0": x0, "x1": x1, "y": (x0 + x1 > 0).astype(int), "z": 2 * x0 - x1,
    }  # fmt: skip


def asked() -> Iterator[tuple[dict[str, Any], Any]]:
    """One document of every kind, and people who answer it."""
    for type_ in registry.people_types():
        sample = registry.samples(type_)[-1]
        yield dict(sample.document), sample.people
    yield MODEL, people()
    yield HISTOGRAM, people()


@pytest.mark.few(1)
@pytest.mark.parametrize(("document", "rows"), asked(), ids=lambda told: str(told.get("type", "")))
def test_an_answer_of_every_kind_is_drawn(world: World, document: dict[str, Any], rows: Any) -> None:
    result = json.loads(json.dumps(thebes.simulate(document, rows, seed=1).as_json()))
    shown = answer.shown(result, registry.check(document))
    assert shown is not None
    task = world.server.post(MEDIAN)
    world.me.accept(task)
    world.me.wait(task)
    told: dict[str, Any] = {**world.me.participations()[0], "type": document["type"], "state": "done", "result": result}
    world.me.participations = lambda: [told]  # type: ignore[method-assign]
    world.me.document = lambda task_id: registry.check(document)  # type: ignore[method-assign]
    text = harmless(world.http.get("/accepted"))
    assert "The answer" in text
    assert "What was promised for it" in text
    assert text.count("<svg") == sum(picture is not None for _, picture in shown.sections)
    if document is MODEL:
        assert "Mean and spread of x0 in each class" in text


def test_an_answer_that_keeps_learning_shows_its_largest_weights_or_says_how_many_it_hides() -> None:
    many = [f"s{number:02}" for number in range(60)]
    bounds = {"species": {"type": "set", "values": many}, "age": AGE["age"]}
    rows = {"age": np.arange(300.0) % 100, "species": np.array(many)[np.arange(300) % 60]}
    release = thebes.simulate({**LASTING, "bounds": bounds}, rows, seed=1)
    shown = answer.shown(json.loads(json.dumps(release.as_json())), release.document)
    assert shown is not None
    drawn, given = shown.sections[0][0].picture, release.value["weights"]
    assert isinstance(drawn, Spans)
    assert "40 largest of 60 weights" in shown.sections[0][0].words
    smallest = min(abs(weight) for _, weight, _, _ in drawn.rows)
    assert sum(abs(weight) >= smallest for weight in given.values()) == 40
    assert all(given[name] == weight for name, weight, _, _ in drawn.rows)


@pytest.mark.parametrize(
    "result",
    [
        {},
        {"value": 1},
        {"value": "x", "certificate": None, "form": "value"},
        {"value": {"a": "b"}, "certificate": {}, "form": "nonsense"},
        {"value": [1, {"a": [None]}], "certificate": {"unit": HOSTILE}, "form": "rows", "document": {}},
    ],
    ids=str,
)
def test_an_answer_that_makes_no_sense_is_said_to_be_unreadable(world: World, result: dict[str, Any]) -> None:
    assert answer.shown(result, registry.check(MEDIAN)) is None


@pytest.mark.few(1)
@pytest.mark.parametrize("document", [HISTOGRAM, LASTING], ids=lambda d: d["type"])
def test_an_answer_with_wrong_parts_never_breaks_the_page(world: World, document: dict[str, Any]) -> None:
    """Every part of a true answer replaced by nonsense in turn: the page still stands."""
    whole = json.loads(json.dumps(thebes.simulate(document, people(), seed=1).as_json()))
    task = world.server.post(document)
    world.me.accept(task)
    mine = world.me.participations()[0]
    for key in list(whole):
        for poison in (None, "x", -1, [], {}, {"a": None}, [[1]], 1e308, HOSTILE):
            told = {**mine, "state": "done", "result": {**whole, key: poison}}
            world.me.participations = lambda told=told: [told]  # type: ignore[method-assign]
            answered = world.http.get(f"/accepted/{task}/0", headers=PARTIAL)
            assert answered.status_code == 200, (key, poison)
            harmless(answered)


def test_what_cannot_be_taken_back_is_said_before_it_is_agreed_to(world: World) -> None:
    task = world.server.post(LASTING)
    for address in (f"/tasks/{task}", "/tasks"):
        text = harmless(world.http.get(address))
        assert "Once it is sent it cannot be taken back" in text
        assert "You may take part up to 2 times; each time costs the same." in text
        assert "Accept, for epsilon 3" in text
    other = harmless(world.http.get(f"/tasks/{world.server.post(MEDIAN)}"))
    assert "cannot be taken back" not in other


def test_taking_part_again_is_offered_until_it_was_the_last_time(world: World) -> None:
    task = world.server.post(LASTING)
    world.http.post(f"/tasks/{task}/decide", json={"decision": "accept"}, headers=PARTIAL)
    world.me.wait(task)
    text = harmless(world.http.get(f"/tasks/{task}"))
    assert "You took part 1 of 2 times. You may do so again; it costs the same." in text
    assert "Take part again, for epsilon 3" in text
    assert "Take it back" not in text
    for address in ("/accepted", f"/accepted/{task}/0"):
        assert "Take part again" in world.http.get(address, headers=PARTIAL).text
    world.http.post(f"/tasks/{task}/decide", json={"decision": "accept"}, headers=PARTIAL)
    world.me.wait(task)
    text = harmless(world.http.get(f"/tasks/{task}"))
    assert "You took part 2 of 2 times. That was the last." in text
    assert "Take part again" not in text
    for address in ("/accepted", f"/accepted/{task}/0", f"/accepted/{task}/1"):
        assert "Take part again" not in world.http.get(address, headers=PARTIAL).text


def test_an_example_of_a_moved_model_is_drawn_anew_each_time(world: World) -> None:
    task = world.server.post(LASTING)
    drawn = [harmless(world.http.get(f"/tasks/{task}/example", headers=PARTIAL)) for _ in range(2)]
    assert "by how much each number of the model would be moved" in drawn[0]
    assert "species=cat" in drawn[0]
    assert drawn[0] != drawn[1]
    network_of = {
        **LASTING,
        "bounds": {**LASTING["bounds"], "species": {"type": "set", "values": [str(n) for n in range(50)]}},
    }
    told = harmless(world.http.get(f"/tasks/{world.server.post(network_of)}/example", headers=PARTIAL))
    assert "50</span>" not in told
    assert "moved in a direction computed from your rows" in told


def test_every_kind_of_task_has_words() -> None:
    assert all(registry.words(type_).to_people for type_ in registry.people_types())


def test_a_document_is_shown_with_its_parts_marked_and_nothing_hidden() -> None:
    text = str(frame.pretty({"name": HOSTILE, "epsilon": 1.5, "missing": None}))
    assert '<span class="number">1.5</span>' in text
    assert "<script>" not in text
    assert "\\u202e" in text


def test_a_very_long_text_in_a_document_is_cut_and_the_whole_is_a_link_away(world: World) -> None:
    task = world.server.post(network())
    text = harmless(world.http.get(f"/tasks/{task}"))
    assert "characters)" in text
    assert f"/api/tasks/{task}" in text
    assert len(text) < 60_000


def test_addresses_of_the_pages_hold_no_value(world: World) -> None:
    """Nothing that stands in the store is ever part of an address."""
    world.server.post(MEDIAN)
    values = {str(v) for row in world.me.newest("profile", "demographics", 5) for v in row.values() if v is not None}
    for address in (*ADDRESSES, "/data/profile/demographics"):
        for _, attributes in Page(world.http.get(address).text).elements:
            for name in ("href", "hx-get", "hx-post"):
                pieces = set(str(attributes.get(name) or "").split("/"))
                assert not pieces & values


def test_tasks_that_cannot_be_read_here_are_counted_with_the_reason(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> str:
        raise LookupError("a-value")

    world.server.post(ROWS)
    assert words.unread(world.me.unread()) == []
    assert "Nothing is asked just now" not in world.http.get("/tasks").text
    ours = [world.server.post(MEDIAN), world.server.post(MEDIAN | {"epsilon": 2.0})]
    hostile, unlisted = world.server.post(HISTOGRAM), world.server.post(HISTOGRAM, listed=False)
    world.server.documents[hostile] = {"type": HOSTILE, "epsilon": 1.0}
    monkeypatch.setattr(type(registry.kind("basic")), "explain", failing)
    listed = world.http.get("/api/tasks").json()
    assert [task["type"] for task in listed] == ["bounded"]
    told = world.http.get("/api/unread").json()
    assert {each["task_id"] for each in told} == {*ours, hostile, unlisted}
    assert all(each["why"] for each in told)
    page = html.unescape(world.http.get("/tasks").text)
    assert "2 tasks cannot be shown here: the kind basic could not describe this task: its explain raised" in page
    assert "1 task cannot be shown here: this machine knows no kind of task called" in page
    assert "1 task cannot be shown here: this task is not in the coordinator's signed list" in page
    assert "Nothing can be agreed to that cannot be shown." in page
    assert "a-value" not in page
    waiting = html.unescape(world.http.get("/waiting").text)
    assert "4 tasks cannot be shown here" in waiting
    for hidden in HIDDEN:
        assert hidden not in page


def test_tasks_for_institutions_are_no_concern_of_a_person(world: World) -> None:
    sample = next(iter(registry.samples("query")))
    task_id = world.server.post(MEDIAN)
    world.server.documents[task_id] = registry.check(sample.document).as_json()
    assert world.me.tasks() == []
    assert world.me.unread() == []
    assert "Nothing is asked just now" in world.http.get("/tasks").text


def test_a_cap_of_a_requestor_counts_in_what_is_left_and_in_what_is_offered(world: World) -> None:
    task = world.server.post({**MEDIAN, "epsilon": 0.4, "delta": 0.0})
    who = world.me.task(task)["requestor"]
    for name in (who, "*"):
        world.me.set_settings({"caps": {name: {"epsilon": 0.2}}})
        for address in (f"/tasks/{task}", f"/tasks/{task}/standing", f"/tasks/{task}/standing?brief=yes", "/tasks"):
            page = world.http.get(address)
            assert f"by your cap for {who}" in harmless(page), address
            assert "and 0.2 is left for servers that you trust in the 30 days" in harmless(page), address
            assert "Under My privacy you can change the cap." in harmless(page), address
            assert "accept" not in [a.get("value") for tag, a in Page(page.text).elements if tag == "button"], address
    world.me.set_settings({"caps": {"*": {"epsilon": 0.2}, who: {"epsilon": 0.7}}})
    assert "Accept, for epsilon 0.4" in harmless(world.http.get(f"/tasks/{task}"))
    world.me.accept(task)
    again = world.server.post({**MEDIAN, "epsilon": 0.4, "delta": 0.0, "name": "Once more"})
    assert "it costs epsilon 0.4, and 0.3 is left for servers that you trust" in harmless(
        world.http.get(f"/tasks/{again}")
    )


def test_looking_at_tasks_of_capped_requestors_writes_nothing(world: World) -> None:
    task = world.server.post(MEDIAN)
    world.me.set_settings({"caps": {"*": {"epsilon": 0.2}}})
    world.http.get("/tasks")
    before = world.me.moment
    world.http.get("/tasks")
    world.http.get(f"/tasks/{task}")
    assert world.me.moment == before


def test_a_table_that_is_missing_is_said_beside_the_decision(world: World) -> None:
    task = world.server.post({**ROWS, "featurizer": "SELECT species, age FROM sleep.nights"})
    for address in (f"/tasks/{task}", f"/tasks/{task}/standing", "/tasks"):
        assert "Your store has no table sleep.nights. You may agree all the same" in harmless(
            world.http.get(address)
        ), address


def test_sentences_about_a_price_stand_apart_and_say_nothing_untrue(world: World) -> None:
    dear = world.server.post({**MEDIAN, "epsilon": 31.0})
    page = harmless(world.http.get("/tasks"))
    assert re.search(r"does not allow it\.\s+Somebody", page)
    assert "My privacy shows what was spent" not in page
    world.me.decline(dear)
    page = harmless(world.http.get(f"/tasks/{dear}"))
    assert "You cannot accept it" in page
    assert "change your mind" not in page


def test_what_was_sent_and_taken_back_is_not_said_to_be_open_again(world: World) -> None:
    task = world.server.post(ROWS)
    world.me.accept(task)
    world.me.turn()
    world.me.withdraw(task)
    for address in (f"/tasks/{task}", "/accepted"):
        page = harmless(world.http.get(address))
        assert "you may agree to it again" not in page, address
        assert "You cannot agree to it again" in page, address


def test_a_page_that_is_open_while_its_home_closes_is_answered_in_words(world: World) -> None:
    moment = world.me.moment
    world.me.close()
    for address in (f"/moment/{moment}", "/tasks", "/api/participations"):
        answered = world.http.get(address)
        assert answered.status_code == 409, address
        assert "this home is closed" in answered.text, address


def test_a_cap_for_a_name_that_no_task_has_is_warned_about(world: World) -> None:
    who = world.me.task(world.server.post(MEDIAN))["requestor"]
    for name, warned in (("Nobody At All", True), (who, False), ("*", False)):
        body = {"requestor": name, "epsilon": 1.0}
        told = harmless(world.http.post("/privacy/caps", json=body, headers=PARTIAL))
        assert ("No task that this machine knows is of that name" in told) is warned, name


AGES = {"age": {"type": "range", "low": 0, "high": 120}}
ONE = {"type": "basic", "min_count": 20, "featurizer": "SELECT age FROM profile.pets", "bounds": AGES}
KINDS_OF_ANSWERS: dict[str, Any] = {
    "rows": ROWS,
    "shares of an ensemble": {
        "type": "ensemble", "min_count": 20, "label": "species",
        "featurizer": "SELECT species, age FROM profile.pets", "bounds": ROWS["bounds"],
    },
    "a mean": {**ONE, "aggregator": "mean"},
    "a median": {**ONE, "aggregator": "median"},
    "a sum": {**ONE, "aggregator": "sum"},
    "a variance": {**ONE, "aggregator": "variance"},
    "a histogram": {**ONE, "aggregator": "histogram", "bins": 3},
    "a count": {**ONE, "aggregator": "count", "missing": "count", "bounds": None},
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS_OF_ANSWERS)
@pytest.mark.parametrize("said", [True, False], ids=["little", "much"])
def test_an_answer_whose_bar_is_as_wide_as_everything_possible_is_said_to_tell_nothing(kind: str, said: bool) -> None:
    noised_here = KINDS_OF_ANSWERS[kind]["type"] != "basic"
    epsilon = (0.05 if noised_here else 0.002) if said else 10.0
    document = {**KINDS_OF_ANSWERS[kind], "epsilon": epsilon}
    with warnings.catch_warnings(action="ignore"):
        release = thebes.simulate(document, people(300), seed=1)
    drawn = answer.shown(json.loads(json.dumps(release.as_json())), registry.check(document))
    assert drawn is not None
    barred = ("species", "age", "Classifier", "Error bar", "Counts")
    told = [section for section, _ in drawn.sections if section.title in barred]
    assert told
    for section in told:
        assert ("says hardly more than guessing" in section.words) is said, section


def test_where_it_went_says_that_it_was_taken_back(world: World) -> None:
    task = world.server.post(ROWS)
    world.me.accept(task)
    world.me.turn()
    assert "You took it back" not in harmless(world.http.get("/lineage"))
    world.me.withdraw(task)
    assert "You took it back; what it cost stays spent." in harmless(world.http.get("/lineage"))


# --- two servers -----------------------------------------------------------------------------------------

FINGERPRINT = "0123456789abcdef" * 4
SPLIT = {
    **MEDIAN,
    "delta": 0.0,
    "server": "split",
    "bins": 10,
    "bounds": AGE,
    "helper": "ward",
    "helper_key": FINGERPRINT,
}


def test_a_page_names_who_would_have_to_break_their_word_together_and_asks_for_the_helpers_key(world: World) -> None:
    task = world.server.post(SPLIT)
    page = world.http.get(f"/tasks/{task}", headers={"Accept": "text/html"}).text
    told = " ".join(re.sub(r"<[^>]+>", "", page).split())
    assert "Both would have to break their word together: the coordinator's operator, and ward, the helper." in told
    assert FINGERPRINT in told
    assert "you trust one of two servers" in told
    assert "both together could put your value back together" in told
    assert "bytes in all. One share goes to the server, the other, sealed, to a second one, the helper ward" in told
    example = harmless(world.http.get(f"/tasks/{task}/example", headers=PARTIAL))
    assert "Each alone is pure chance" in example

    no = refused(world, f"/tasks/{task}/decide", {"decision": "accept"}, 403)
    assert "whom you have not confirmed" in no
    assert FINGERPRINT not in no, "who copies it from here confirms whatever the coordinator wrote"
    assert "which is said to belong to another institution" in told
    assert "is not that of this task" in refused(world, f"/tasks/{task}/helper", {"fingerprint": "f" * 64}, 422)
    assert "64 hexadecimal digits" in refused(world, f"/tasks/{task}/helper", {"fingerprint": "yes"}, 422)
    assert world.me.settings().helpers == {}

    spelled = {"fingerprint": " ".join(re.findall("....", FINGERPRINT.upper()))}
    confirmed = harmless(world.http.post(f"/tasks/{task}/helper", json=spelled, headers=PARTIAL))
    assert "You confirmed the key of ward" in confirmed
    assert "the key in this task's document; that the institution publishes it is your word" in html.unescape(confirmed)
    assert world.me.settings().helpers == {"ward": FINGERPRINT}
    assert "Agreed." in harmless(world.http.post(f"/tasks/{task}/decide", json={"decision": "accept"}, headers=PARTIAL))
    ledger = world.me.ledger()
    aside = [ledger[trust]["period"]["reserved"]["epsilon"] for trust in ("local", "trusted", "split")]
    assert aside == [0, SPLIT["epsilon"], SPLIT["epsilon"]]
    assert [entry["trust"] for entry in ledger["entries"]] == ["split"]


def test_two_servers_have_a_budget_of_their_own_where_somebody_says_all_of_it(world: World) -> None:
    world.me.set_settings({"helpers": {"ward": FINGERPRINT}})
    world.me.accept(world.server.post(SPLIT))
    told = words_of(harmless(world.http.get("/privacy/spent")))
    assert "1 is set aside. 1 of that is for two servers of which you trust one." in told
    assert "Where you trust one of two servers" not in told
    assert "you trust one of two servers" in words_of(harmless(world.http.get("/privacy")))
    assert "you have left for two servers of which you trust one" in words_of(
        harmless(world.http.get(f"/tasks/{world.server.post({**SPLIT, 'name': 'another'})}"))
    )

    shown = {"split.shown": "yes", "split.epsilon": 2}
    assert "must say delta, overall_epsilon, overall_delta, too" in refused(world, "/privacy/limits", shown, 422)
    whole = {**shown, "split.delta": 0, "split.overall_epsilon": 5, "split.overall_delta": 0}
    told = words_of(harmless(world.http.post("/privacy/limits", json=whole, headers=PARTIAL)))
    assert "Where you trust one of two servers This holds if one of the two servers keeps its promise." in told
    assert "1 of the epsilon 2 left" in told, "what two servers had before counts"
    assert "Where you trust one of two servers 1 of the epsilon 2 left" in words_of(harmless(world.http.get("/")))
    assert "Your machine keeps three accounts, and each may spend as much" in words_of(
        harmless(world.http.get("/limits"))
    )
    harmless(world.http.post("/limits", json=PROPOSED, headers=PARTIAL))
    settings = world.me.settings()
    assert settings.split == settings.trusted == settings.local
    harmless(world.http.post("/privacy/limits", json={**whole, "split.epsilon": 4}, headers=PARTIAL))
    assert world.me.balance()["split"]["period"]["remaining"]["epsilon"] == 3

    harmless(world.http.post("/privacy/limits", json={"period_days": 30}, headers=PARTIAL))
    assert world.me.settings().split is not None
    harmless(world.http.post("/privacy/limits", json={"split.shown": "yes"}, headers=PARTIAL))
    assert world.me.settings().split is None
    assert world.me.balance()["split"]["within"] == "trusted"


def test_a_helper_with_another_key_under_the_same_name_is_refused_to_a_rule_too(world: World) -> None:
    world.me.set_settings({"helpers": {"ward": "f" * 64}})
    task = world.server.post(SPLIT)
    assert "is not the one that you confirmed" in refused(world, f"/tasks/{task}/decide", {"decision": "accept"}, 403)
    world.me.set_rules([{"type": "basic", "epsilon_at_most": 10}])
    world.me.apply_rules()
    assert world.me.participations() == []
    world.me.forget_helper("ward")
    world.me.set_settings({"helpers": {"ward": FINGERPRINT}})
    world.me.set_rules([{"type": "basic", "epsilon_at_most": 10, "server": "trusted"}])
    world.me.apply_rules()
    assert world.me.participations() == [], "a rule about one trusted server is about no other"
    world.me.set_rules([{"type": "basic", "epsilon_at_most": 10, "server": "split"}])
    world.me.apply_rules()
    assert [each["trust"] for each in world.me.participations()] == ["split"]


def test_another_key_of_a_helper_is_no_first_meeting_and_replaces_the_confirmed_one_on_purpose_only(
    world: World,
) -> None:
    old = "f" * 64
    world.me.set_settings({"helpers": {"ward": old, "other": old}})
    task = world.server.post(SPLIT)
    page = harmless(world.http.get(f"/tasks/{task}", headers={"Accept": "text/html"}))
    told = html.unescape(" ".join(re.sub(r"<[^>]+>", "", page).split()))
    assert "You confirmed another key for ward; ask the institution before you go on." in told
    assert old in page
    assert "Confirm this helper" not in told
    assert "ask that institution" in refused(world, f"/tasks/{task}/helper", {"fingerprint": FINGERPRINT}, 409)
    for body in ({"ward": FINGERPRINT, "other": old}, {"other": old}, {}):
        assert "you confirmed another key" in world.http.put("/api/settings", json={"helpers": body}).json()["detail"]
    kept = {"ward": old, "other": old}
    assert world.http.put("/api/settings", json={"helpers": kept, "delay_seconds": 1}).status_code == 200
    assert world.me.settings().helpers == kept

    forgotten = harmless(world.http.post(f"/tasks/{task}/helper/forget", headers=PARTIAL))
    assert "You have confirmed no key of ward any more." in forgotten
    assert "Confirm this helper" in forgotten
    assert world.me.settings().helpers == {"other": old}
    assert "confirmed no key" in refused(world, f"/tasks/{task}/helper/forget", {}, 404)
    harmless(world.http.post(f"/tasks/{task}/helper", json={"fingerprint": FINGERPRINT}, headers=PARTIAL))
    assert world.me.settings().helpers == {"other": old, "ward": FINGERPRINT}
