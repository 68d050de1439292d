"""Groups and their tokens over the coordinator's whole interface: who may enrol, what is published, what is taken."""

from __future__ import annotations

import base64
import json
import logging
import os
import secrets
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from tests.support.coordinator import AGES, PETS, Front
from tests.support.peers import Peer, enrolment, frozen, group_of, members
from thebes.coordinator.people.contribution_check import Sent
from thebes.coordinator.people.contributor_identity import Admission, TokenContribution
from thebes.coordinator.people.groups import ContributorGroups
from thebes.privacy.faults import Mistake
from thebes.tasks import registry
from thebes.tokens import Enrolment, EnrolmentRefused, GroupParameters
from thebes.wire import frames, task_log
from thebes.wire.groups import GroupRecord, listed_key, listed_record, member_of, report_of
from thebes.wire.problems import MEDIA_TYPE
from thebes.wire.refusals import Busy, Conflict, NotFound

MEDIAN = {**AGES, "group": "city", "anonymity": "token"}
ROWS = {**PETS, "group": "city", "anonymity": "token"}


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    with Front(tmp_path / "home") as opened:
        yield opened


@pytest.fixture
def register(front: Front) -> ContributorGroups:
    return front.service.register


@pytest.fixture
def peers(front: Front, register: ContributorGroups) -> list[Peer]:
    return group_of(register, front.client, 14)


def sent(front: Front, task_id: str, peer: Peer, payload: dict[str, Any] | None = None) -> dict[str, Any]:
    return peer.body(front.task(task_id), front.ask(task_id), payload or {"age": 40})


def refused(answer: httpx.Response, status: int, field: str | None = None) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == MEDIA_TYPE
    assert answer.json().get("field") == field


# --- an authority's work --------------------------------------------------------------------------------


def test_a_group_is_made_filled_and_published(front: Front, register: ContributorGroups) -> None:
    made = register.create("city", minimum=2, epoch="one")
    assert (made.name, made.epoch, made.size, made.frozen, made.members) == ("city", "one", 0, False, ())
    codes = register.admit("city", ["ana", "bob", "carla"])
    members(front.client, "city", [codes["ana"], codes["bob"]], "one")
    assert front.client.get("/api/group/city").json()["size"] == 2
    assert [(each.identity, each.enrolled) for each in register.admitted("city")] == [
        ("ana", True),
        ("bob", True),
        ("carla", False),
    ]
    record = register.publish("city")
    assert (record.size, record.frozen, len(record.members), record.names) == (2, True, 2, None)
    shown = front.client.get("/api/group/city").json()
    assert GroupRecord.from_json(shown) == record
    assert shown["epochs"] == ["one"]
    assert shown["digest"] == made.parameters.digest == record.parameters.digest
    assert front.client.get("/api/group").json() == [shown]


def test_names_are_public_only_where_the_group_says_so(front: Front, register: ContributorGroups) -> None:
    made = register.create("city", minimum=2, epoch="one", names="public")
    shown = front.client.get("/api/group/city").json()
    assert shown["parameters"]["names"] == "public"  # before anybody enrols
    other = replace(made.parameters, names="private")
    assert shown["digest"] == made.parameters.digest != other.digest
    codes = register.admit("city", ["zoe", "ana"])
    members(front.client, "city", list(codes.values()), "one")
    hidden = front.client.get("/api/group/city").text
    assert "ana" not in hidden
    assert register.publish("city").names == ("ana", "zoe")
    assert front.client.get("/api/group/city").json()["names"] == ["ana", "zoe"]
    with pytest.raises(Mistake, match=r"^names"):
        register.create("town", minimum=2, names="some")
    assert register.epochs("town") == []


@pytest.mark.parametrize("names", ["public", "private"])
def test_a_record_that_breaks_what_was_said_of_names_is_not_read(
    front: Front, register: ContributorGroups, names: str
) -> None:
    register.create("city", minimum=2, epoch="one", names=names)
    early = front.client.get("/api/group/city").json()
    assert GroupRecord.from_json(early).names is None
    members(front.client, "city", list(register.admit("city", ["zoe", "ana"]).values()), "one")
    record = register.publish("city")
    assert GroupRecord.from_json(record.as_json()) == record
    bent = replace(record, names=None if names == "public" else ("ana", "zoe"))
    with pytest.raises(Mistake, match="promised"):
        GroupRecord.from_json(bent.as_json())
    with pytest.raises(Mistake, match="promised"):
        GroupRecord.from_json({**early, "names": ["ana"]})


def test_the_command_says_of_names_when_a_group_is_made_and_when_codes_are_handed_out(
    front: Front, register: ContributorGroups
) -> None:
    from typer.testing import CliRunner

    from thebes.cli.group import app

    def said(*line: str) -> str:
        answer = CliRunner().invoke(app, [*line, "--home", str(front.home.folder)])
        assert answer.exit_code == 0, answer.output
        return answer.output

    assert "stay private" in said("create", "town", "--minimum", "2")
    assert "become public when it is published" in said("create", "city", "--minimum", "2", "--names", "public")
    assert "become public when it is published" in said("enrol", "city", "ana")
    assert "names     public" in said("show", "city")
    assert register.record("city").parameters.names == "public"


def test_a_group_below_its_minimum_is_not_published(front: Front, register: ContributorGroups) -> None:
    register.create("city", minimum=3, epoch="one")
    members(front.client, "city", list(register.admit("city", ["ana", "bob"]).values()), "one")
    with pytest.raises(Conflict, match="2 people have enrolled"):
        register.publish("city")


def test_a_group_has_epochs_and_each_its_own_key(register: ContributorGroups, front: Front) -> None:
    first = register.create("city", minimum=2)
    assert first.epoch == "2030-01-01"  # after the clock's day
    with pytest.raises(Conflict, match="another epoch"):
        register.create("city", minimum=2)
    front.clock.move(days=31)
    second = register.create("city", minimum=2)
    assert register.epochs("city") == ["2030-02-01", "2030-01-01"]
    assert first.parameters.public_key != second.parameters.public_key
    assert front.client.get("/api/group/city").json()["epoch"] == "2030-02-01"
    assert front.client.get("/api/group/city", params={"epoch": "2030-01-01"}).json()["epoch"] == "2030-01-01"


def test_every_secret_key_is_a_file_that_only_its_owner_reads_and_stands_nowhere_else(
    front: Front, register: ContributorGroups
) -> None:
    register.create("city", minimum=2, epoch="one")
    file = front.home.folder / "groups" / "city~one.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    key = json.loads(file.read_text())["secret_key"]
    everything = b"".join(f.read_bytes() for f in front.home.folder.glob("coordinator.db*"))
    assert key.encode() not in everything
    assert bytes.fromhex(key) not in everything
    assert key not in front.client.get("/api/group/city").text


def test_a_process_that_died_between_key_and_group_leaves_nothing_in_the_way(
    front: Front, register: ContributorGroups
) -> None:
    register.create("city", minimum=2, epoch="one")
    file = front.home.folder / "groups" / "city~one.json"
    left = file.read_bytes()
    (file.parent / "town~one.json").write_bytes(left.replace(b"city", b"town"))
    os.chmod(file.parent / "town~one.json", 0o600)
    assert register.create("town", minimum=5, epoch="one").parameters.minimum == 5
    group_of(register, front.client, 3, name="town", epoch="two")


@pytest.mark.parametrize("name", ["City", "a/b", "a~b", "", "x" * 65, "-a"])
def test_names_that_could_not_stand_in_an_address_are_refused(register: ContributorGroups, name: str) -> None:
    with pytest.raises(Mistake):
        register.create(name, minimum=2)
    with pytest.raises(Mistake):
        register.create("city", minimum=2, epoch=name)
    assert register.all() == []


def test_the_signed_list_carries_what_members_pin_and_what_was_frozen(front: Front, peers: list[Peer]) -> None:
    record = frozen(front.client, "city", "one")
    listed = {e.task_id: e.digest for e in task_log.verify(front.client.get("/api/log").json()).entries}
    assert listed == {
        listed_key("city", "one"): record.parameters.digest,
        listed_record("city", "one"): record.digest,
    }
    task_id = front.post(ROWS)
    assert task_id in {e.task_id for e in task_log.verify(front.client.get("/api/log").json()).entries}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "changed",
    [
        {"size": 15},
        {"digest": "0" * 64},
        {"record": "0" * 64},
        {"members": []},
        {"names": ["ana"]},
        {"frozen": False},
        {"minimum": 1},
        {"epoch": "two"},
        {"members": None},
        {"frozen": "yes"},
    ],
    ids=str,
)
def test_a_changed_record_is_refused_by_whoever_reads_it(
    front: Front, peers: list[Peer], changed: dict[str, Any]
) -> None:
    shown = front.client.get("/api/group/city").json()
    with pytest.raises(Mistake):
        GroupRecord.from_json({**shown, **changed})


# --- enrolling ------------------------------------------------------------------------------------------


def test_the_same_request_has_one_answer_and_another_one_under_the_same_code_none(
    front: Front, register: ContributorGroups
) -> None:
    register.create("city", minimum=2, epoch="one")
    code = register.admit("city", ["ana", "bob"])["ana"]
    begun, first = enrolment(front.client, "city", code)
    body = {"code": code, "request": begun.request, "epoch": "one"}
    assert front.client.post("/api/group/city/enrol", json=body).json() == first.json()
    begun.finish(first.json()["response"])
    _, other = enrolment(front.client, "city", code)
    refused(other, 409)
    assert register.record("city").size == 1


def test_a_frozen_group_still_repeats_an_answer_that_was_lost_and_takes_nobody_new(
    front: Front, register: ContributorGroups
) -> None:
    register.create("city", minimum=2, epoch="one")
    codes = register.admit("city", ["ana", "bob", "late"])
    begun, first = enrolment(front.client, "city", codes["ana"])
    enrolment(front.client, "city", codes["bob"])
    register.publish("city")
    again = front.client.post("/api/group/city/enrol", json={"code": codes["ana"], "request": begun.request})
    assert again.json() == first.json()
    _, late = enrolment(front.client, "city", codes["late"])
    refused(late, 409)
    with pytest.raises(Conflict, match="frozen"):
        register.admit("city", ["somebody"])
    with pytest.raises(Conflict, match="already"):
        register.publish("city")


def test_an_identity_that_enrolled_is_not_admitted_again_and_one_that_did_not_gets_a_new_code(
    front: Front, register: ContributorGroups
) -> None:
    register.create("city", minimum=2, epoch="one")
    lost = register.admit("city", ["ana"])["ana"]
    code = register.admit("city", ["ana"])["ana"]
    refused(enrolment(front.client, "city", lost)[1], 403)
    assert enrolment(front.client, "city", code)[1].status_code == 200
    with pytest.raises(Conflict, match="next epoch"):
        register.admit("city", ["ana"])


def test_a_code_of_another_group_or_epoch_or_of_nobody_admits_nobody(front: Front, register: ContributorGroups) -> None:
    register.create("city", minimum=2, epoch="one")
    register.create("town", minimum=2, epoch="one")
    code = register.admit("town", ["ana"])["ana"]
    refused(enrolment(front.client, "city", code)[1], 403)
    refused(enrolment(front.client, "city", secrets.token_hex(16))[1], 403)
    register.create("town", minimum=2, epoch="two")
    refused(enrolment(front.client, "town", code, "two")[1], 403)
    assert enrolment(front.client, "town", code, "one")[1].status_code == 200
    refused(front.client.get("/api/group/village"), 404)
    refused(front.client.get("/api/group/city", params={"epoch": "nine"}), 404)
    with pytest.raises(NotFound):
        register.admit("village", ["ana"])


@pytest.mark.slow
def test_one_request_under_two_codes_is_one_credential_and_refused(front: Front, register: ContributorGroups) -> None:
    register.create("city", minimum=2, epoch="one")
    codes = register.admit("city", ["ana", "bob"])
    begun, _ = enrolment(front.client, "city", codes["ana"])
    body = {"code": codes["bob"], "request": begun.request}
    refused(front.client.post("/api/group/city/enrol", json=body), 409)


@pytest.mark.parametrize("request_", ["AA", "A" * 194, "", "ä", "A" * 5000])
def test_a_request_that_proves_nothing_uses_no_code(front: Front, register: ContributorGroups, request_: str) -> None:
    register.create("city", minimum=2, epoch="one")
    code = register.admit("city", ["ana"])["ana"]
    answer = front.client.post("/api/group/city/enrol", json={"code": code, "request": request_})
    assert answer.status_code in (403, 422)
    assert enrolment(front.client, "city", code)[1].status_code == 200


def test_who_enrols_twice_at_once_gets_one_credential(front: Front, register: ContributorGroups) -> None:
    register.create("city", minimum=2, epoch="one")
    code = register.admit("city", ["ana"])["ana"]
    parameters = GroupParameters.from_json(front.client.get("/api/group/city").json()["parameters"])
    begun = [Enrolment.begin(parameters, pin=parameters.digest) for _ in range(6)]

    def ask(one: Enrolment) -> bool:
        try:
            return bool(one.finish(register.enrol("city", code, one.request)[1]))
        except Conflict:
            return False

    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(ask, begun)) == 1


def test_a_credential_is_not_finished_under_another_groups_key(front: Front, register: ContributorGroups) -> None:
    register.create("city", minimum=2, epoch="one")
    other = register.create("town", minimum=2, epoch="one").parameters
    begun = Enrolment.begin(other, pin=other.digest)
    code = register.admit("city", ["ana"])["ana"]
    response = front.client.post("/api/group/city/enrol", json={"code": code, "request": begun.request}).json()
    with pytest.raises(EnrolmentRefused):
        begun.finish(response["response"])


# --- tasks of a group -----------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"group": "village"}, "group"),
        ({"group": "town"}, "group"),  # not published
        ({"group": "town", "epoch": "one"}, "epoch"),
        ({"epoch": "nine"}, "epoch"),
        ({"min_count": 15}, "min_count"),
        ({"anonymity": "none"}, "group"),
        ({"group": None}, "epoch"),
        ({"group": "City"}, "group"),
    ],
    ids=str,
)
def test_a_task_that_its_group_cannot_answer_is_refused_naming_the_field(
    front: Front, register: ContributorGroups, peers: list[Peer], change: dict[str, Any], field: str
) -> None:
    register.create("town", minimum=2, epoch="one")
    document = {k: v for k, v in ({**MEDIAN, "epoch": "one"} | change).items() if v is not None}
    if change == {"group": "town"}:
        document.pop("epoch")
    if change == {"group": None}:
        document["anonymity"] = "none"
    refused(front.client.post("/api/task", json=document, headers=front.admin), 422, field)


def test_a_task_whose_phases_together_need_more_than_the_group_is_refused_before_anybody_pays(
    front: Front, register: ContributorGroups
) -> None:
    group_of(register, front.client, 13)
    bounds = {"x": {"type": "range", "low": 0, "high": 1}, "y": {"type": "set", "values": [0, 1]}}
    document = {
        "type": "ensemble",
        "epsilon": 1.0,
        "min_count": 12,
        "group": "city",
        "anonymity": "token",
        "featurizer": "SELECT x, y FROM profile.example",
        "label": "y",
        "bounds": bounds,
        "partitions": 1,
    }
    refused(front.client.post("/api/task", json=document, headers=front.admin), 422, "min_count")  # six ask about x
    given = {**document, "bins": {"x": [0.5]}}
    assert front.client.post("/api/task", json=given, headers=front.admin).status_code == 201


@pytest.mark.slow
def test_a_task_names_exactly_one_epoch_the_newest_that_is_published(front: Front, register: ContributorGroups) -> None:
    group_of(register, front.client, 12)
    front.clock.move(days=1)
    group_of(register, front.client, 13, epoch="two")
    front.clock.move(days=1)
    register.create("city", minimum=2, epoch="three")
    answer = front.client.post("/api/task", json=MEDIAN, headers=front.admin).json()
    task = front.task(answer["task_id"])
    assert task["document"]["epoch"] == "two"
    assert answer["digest"] == task["digest"] == registry.check({**MEDIAN, "epoch": "two"}).digest
    assert task["price"]["unit"] == "person"
    older = front.task(front.post({**MEDIAN, "epoch": "one"}))
    assert older["document"]["epoch"] == "one"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("document", "payload"), [(MEDIAN, {"age": 40}), (ROWS, {"species": 1})], ids=["trusted", "local"]
)
def test_members_answer_and_the_certificate_says_among_how_many_they_are_hidden(
    front: Front, peers: list[Peer], document: dict[str, Any], payload: dict[str, Any]
) -> None:
    task_id = front.post(document)
    for peer in peers[:12]:
        assert front.submit(task_id, sent(front, task_id, peer, payload)).status_code == 202
    front.closing.step()
    done = front.task(task_id)
    assert done["status"] == "done"
    certificate = done["result"]["certificate"]
    assert certificate["unit"] == "person"
    assert certificate["contributors"] == 12
    assert "hidden among the 14 members of the group city (epoch one)" in certificate["text"]
    assert "which is not known here" in certificate["text"]  # nothing is claimed of the way the messages came
    assert "not that somebody took part" not in certificate["text"]


def test_a_contribution_is_known_by_the_pseudonym_that_its_token_proves(front: Front, peers: list[Peer]) -> None:
    task_id = front.post(ROWS)
    body = sent(front, task_id, peers[0], {"species": 1})
    first = front.submit(task_id, body)
    assert front.submit(task_id, body).json() == first.json()
    fresh = sent(front, task_id, peers[0], {"species": 1})  # another token for the same report
    assert fresh["token"] != body["token"]
    assert front.submit(task_id, fresh).json() == first.json()
    refused(front.submit(task_id, sent(front, task_id, peers[0], {"species": 0})), 409)
    named = {**body, "contributor": peers[0].pseudonym(front.task(task_id))}
    assert front.submit(task_id, named).json() == first.json()
    refused(front.submit(task_id, {**body, "contributor": "somebody"}), 422, "contributor")
    refused(front.submit(task_id, {**body, "contributor": peers[1].pseudonym(front.task(task_id))}), 422, "contributor")
    assert front.task(task_id)["contributions"] == 1


def test_a_frame_says_the_same_as_json(front: Front, peers: list[Peer]) -> None:
    task_id = front.post(ROWS)
    body = sent(front, task_id, peers[0], {"species": 1})
    first = front.submit(task_id, body).json()
    content = frames.write(frames.split(body))
    answer = front.client.post(
        f"/api/task/{task_id}/submit", content=content, headers={"content-type": frames.MEDIA_TYPE}
    )
    assert (answer.status_code, answer.json()) == (202, first)


def test_a_contribution_is_taken_back_by_its_receipt(front: Front, peers: list[Peer]) -> None:
    task_id = front.post(MEDIAN)
    body = sent(front, task_id, peers[0])
    receipt = front.submit(task_id, body).json()["receipt"]
    path = f"/api/task/{task_id}/submit"
    assert front.client.delete(path, params={"receipt": receipt}).status_code == 204
    refused(front.submit(task_id, body), 410)
    assert front.task(task_id)["contributions"] == 0


def test_a_token_is_needed_where_there_is_a_group_and_refused_where_there_is_none(
    front: Front, peers: list[Peer]
) -> None:
    task_id, other = front.post(ROWS), front.post(PETS)
    body = sent(front, task_id, peers[0], {"species": 1})
    without = {name: value for name, value in body.items() if name != "token"}
    refused(front.submit(task_id, {**without, "contributor": "somebody"}), 422, "token")
    plain = front.submission(other, {"species": 1})
    refused(front.submit(other, {**plain, "token": body["token"]}), 422, "token")
    del plain["contributor"]
    refused(front.submit(other, plain), 422, "contributor")


def moved(token: str, place: int) -> str:
    raw = bytearray(base64.urlsafe_b64decode(token + "=="))
    raw[place] ^= 1
    return base64.urlsafe_b64encode(bytes(raw)).rstrip(b"=").decode()


@pytest.mark.slow
def test_whatever_is_wrong_with_a_token_the_refusal_is_the_same(
    front: Front, register: ContributorGroups, peers: list[Peer]
) -> None:
    task_id, elsewhere = front.post(ROWS), front.post(ROWS)
    asked, task = front.ask(task_id), front.task(task_id)
    good = peers[0].body(task, asked, {"species": 1})
    town = group_of(register, front.client, 12, name="town")
    later = group_of(register, front.client, 12, epoch="two")
    unpublished = register.create("village", minimum=2, epoch="one")
    secret = register.admit("village", ["ana"])["ana"]
    (hidden,) = members(front.client, "village", [secret], "one")
    alone = Peer(hidden, replace(unpublished.parameters, size=2))
    bodies = {
        "another task": {**good, "token": sent(front, elsewhere, peers[0], {"species": 1})["token"]},
        "another part": {**good, "token": peers[0].body(task, {**asked, "part": "phase-1"}, {"species": 1})["token"]},
        "another report": {**good, "payload": {"species": 0}},
        "another ask": {**good, "ask_id": asked["ask_id"] + "x"},
        "another group": town[0].body(task, asked, {"species": 1}),
        "another epoch": later[0].body(task, asked, {"species": 1}),
        "an unpublished key": alone.body(task, asked, {"species": 1}),
        "cut off": {**good, "token": good["token"][:-4]},
        "too long": {**good, "token": good["token"] + "AAAA"},
        "empty bytes": {**good, "token": "AQ"},
        "another version": {**good, "token": moved(good["token"], 0)},
        "a proof that was touched": {**good, "token": moved(good["token"], 200)},
        "another document": {
            **good,
            "token": peers[0].body({**task, "digest": "0" * 64}, asked, {"species": 1})["token"],
        },
    }
    others = peers[1].body(task, asked, {"species": 1})["token"]
    swapped = base64.urlsafe_b64decode(good["token"] + "==")[:-48] + base64.urlsafe_b64decode(others + "==")[-48:]
    bodies["another's pseudonym"] = {**good, "token": base64.urlsafe_b64encode(swapped).rstrip(b"=").decode()}
    told = set()
    for what, body in bodies.items():
        answer = front.submit(task_id, body)
        assert answer.status_code == 403, (what, answer.text)
        told.add(answer.text)
    assert len(told) == 1
    assert front.task(task_id)["contributions"] == 0
    assert front.submit(task_id, good).status_code == 202


@pytest.mark.few(1)
@pytest.mark.parametrize("part", ["phase-1", "phase-0.packet-0", "phase--1", "phase-99999999999", "x", "phase-0x"])
def test_a_part_that_the_task_does_not_have_is_refused_before_its_token_is_looked_at(
    front: Front, peers: list[Peer], part: str
) -> None:
    task_id = front.post(ROWS)
    body = sent(front, task_id, peers[0], {"species": 1})
    refused(front.submit(task_id, {**body, "part": part}), 422, "part")


@pytest.mark.slow
def test_one_bad_token_among_many_at_once_spoils_no_other(front: Front, peers: list[Peer]) -> None:
    task_id = front.post(ROWS)
    bodies = [sent(front, task_id, peer, {"species": 1}) for peer in peers[:11]]
    bad = [{**body, "token": moved(body["token"], 200)} for body in bodies[:4]]
    with ThreadPoolExecutor(15) as pool:
        statuses = list(pool.map(lambda body: front.submit(task_id, body).status_code, [*bad, *bodies]))
    assert statuses == [403] * 4 + [202] * 11


def test_two_contributions_under_one_pseudonym_at_once_are_one(front: Front, peers: list[Peer]) -> None:
    task_id = front.post(ROWS)
    bodies = [sent(front, task_id, peers[0], {"species": number % 2}) for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda body: front.submit(task_id, body).status_code, bodies))
    assert sorted(statuses) == [202] * 4 + [409] * 4
    assert front.task(task_id)["contributions"] == 1


@pytest.mark.slow
def test_a_full_queue_is_said_and_nothing_of_it_is_lost(front: Front, peers: list[Peer]) -> None:
    import asyncio

    task_id = front.post(ROWS)
    task, bodies = front.task(task_id), [sent(front, task_id, peer, {"species": 1}) for peer in peers]
    shown = [
        TokenContribution(
            peers[0].published, task_id, task["digest"], Sent(b["ask_id"], b["part"], b["payload"], None, b["token"])
        )
        for b in bodies
    ]

    async def all_at_once() -> list[Any]:
        admission = Admission(threads=1, most_waiting=3)
        found = await asyncio.gather(*(admission.pseudonym(each) for each in shown), return_exceptions=True)
        admission.close()
        return found

    found = asyncio.run(all_at_once())
    verified = [each for each in found if isinstance(each, str)]
    assert verified == [peer.pseudonym(task) for peer in peers[: len(verified)]]
    assert len(verified) >= 3
    assert all(isinstance(each, Busy) for each in found[len(verified) :])
    assert len(verified) < len(found)


@pytest.mark.slow
def test_a_trusted_task_that_has_ended_says_so_whatever_the_token(front: Front, peers: list[Peer]) -> None:
    task_id = front.post(MEDIAN)
    bodies = [sent(front, task_id, peer) for peer in peers]
    for body in bodies[:12]:
        front.submit(task_id, body)
    refused(front.submit(task_id, bodies[12]), 410)  # full
    front.closing.step()
    refused(front.submit(task_id, bodies[0]), 410)  # its key is gone
    refused(front.submit(task_id, {**bodies[0], "token": "AA"}), 410)


def test_nothing_that_is_kept_or_logged_links_a_pseudonym_to_a_member(
    front: Front, register: ContributorGroups, peers: list[Peer], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    task_id = front.post(ROWS)
    for peer in peers[:3]:
        front.submit(task_id, sent(front, task_id, peer, {"species": 1}))
    pseudonyms = [peer.pseudonym(front.task(task_id)) for peer in peers[:3]]
    tables = sa.inspect(front.database._reading).get_table_names()
    found = {}
    with front.database._reading.connect() as connection:
        for table in tables:
            rows = connection.execute(sa.text(f'SELECT * FROM "{table}"')).all()
            found[table] = repr(rows)
    assert [table for table, rows in found.items() if pseudonyms[0] in rows] == ["coordinator_contribution"]
    assert [table for table, rows in found.items() if "member 0" in rows] == ["coordinator_member"]
    columns = {c["name"] for c in sa.inspect(front.database._reading).get_columns("coordinator_member")}
    assert columns == {"name", "epoch", "identity", "code", "request"}  # neither a time nor an address
    assert not [p for p in pseudonyms if p in caplog.text]
    assert "member 0" not in caplog.text


def test_reports_are_the_same_bytes_however_they_travelled() -> None:
    payload = {"w": [1.0, 2.5, -0.0], "b": "AAAA", "n": 3}
    assert report_of("x", payload) == report_of("x", {"n": 3.0, "b": "AAAA", "w": [1, 2.5, 0]})
    assert report_of("x", payload) != report_of("y", payload)
    for wrong in ({"n": 2**60}, {"t": "\ud800"}, {"n": float("nan")}):
        with pytest.raises(Mistake):
            report_of("x", wrong)


def test_a_report_without_a_canonical_form_is_refused_by_its_field(front: Front, peers: list[Peer]) -> None:
    task_id = front.post(ROWS)
    body = sent(front, task_id, peers[0], {"species": 1})
    refused(front.submit(task_id, {**body, "payload": {"species": 2**60}}), 422, "payload")


def test_a_member_finds_itself_in_the_list(front: Front, register: ContributorGroups) -> None:
    register.create("city", minimum=2, epoch="one")
    codes = register.admit("city", ["ana", "bob"])
    begun, _ = enrolment(front.client, "city", codes["ana"])
    enrolment(front.client, "city", codes["bob"])
    record = register.publish("city")
    assert member_of(record.parameters, begun.request) in record.members


@pytest.mark.slow
def test_another_process_on_the_same_database_sees_the_same_group(tmp_path: Path) -> None:
    with Front(tmp_path / "home") as one, Front(tmp_path / "home") as two:
        peers = group_of(one.service.register, two.client, 12)
        task_id = two.post(MEDIAN)
        assert one.submit(task_id, sent(two, task_id, peers[0])).status_code == 202
        refused(two.submit(task_id, sent(two, task_id, peers[0], {"age": 41})), 409)
