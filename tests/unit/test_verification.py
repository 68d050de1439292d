"""Releases that can be verified: the signed list has each, a record holds it, and whatever was changed is refused."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import exit_status
from tests.support.coordinator import AGES, EVENTS, Front
from tests.support.federation import CENSUS, Gathering, counting
from tests.support.half_kinds import known
from tests.support.kept_homes import KEPT, opened, unpack
from thebes.coordinator.auth.log_key import next_list_key
from thebes.privacy.faults import Mistake
from thebes.requestor.known_keys import KnownKeys
from thebes.requestor.server import Server
from thebes.requestor.verification import Trust, Verification, verify
from thebes.wire import release_record, task_log
from thebes.wire.client import CoordinatorClient
from thebes.wire.refusals import BrokenLog, BrokenRecord, NotFound, Unsigned
from thebes.wire.release_record import ReleaseRecord

AGE = {"age": 40}


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    with Front(tmp_path / "coordinator") as made:
        yield made


@pytest.fixture
def client(front: Front) -> CoordinatorClient:
    return CoordinatorClient("https://test", front.admin_token, transport=front.transport)


@pytest.fixture
def keys(tmp_path: Path) -> KnownKeys:
    return KnownKeys(tmp_path / "settings")


@pytest.fixture
def task(front: Front) -> str:
    """A task with an answer, among others."""
    front.post({**AGES, "name": "before"})
    made = front.post(AGES)
    front.post({**AGES, "name": "between"})
    front.fill(made, 12, AGE)
    front.closing.step()
    front.post({**AGES, "name": "after"})
    return made


def record_of(front: Front, task: str, **params: str) -> dict[str, Any]:
    answer = front.client.get(f"/api/task/{task}/record", params=params)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def read(body: dict[str, Any]) -> ReleaseRecord:
    return ReleaseRecord.read(json.dumps(body).encode())


def fingerprint(front: Front) -> str:
    return task_log.fingerprint(task_log.public_key(front.home.log_key))


def checked(front: Front, body: dict[str, Any], keys: KnownKeys) -> Verification:
    """Check a record by itself, with the key given."""
    return verify(read(body), key=fingerprint(front), known=keys)


def signed(body: dict[str, Any], private: bytes, *entries: tuple[str, str]) -> dict[str, Any]:
    """A list of these names and digests, signed by a key: whoever has one can make any."""
    listed: list[task_log.TaskLogEntry] = []
    for name, digest in entries:
        listed.append(task_log.TaskLogEntry.after(listed[-1] if listed else None, name, digest))
    return {**body, "list": task_log.published(private, listed)}


# --- what is published --------------------------------------------------------------------------------------


def test_a_release_of_people_is_verified_by_its_record_alone(front: Front, task: str, keys: KnownKeys) -> None:
    body = record_of(front, task)
    told = checked(front, body, keys)
    assert (told.task_id, told.phase, told.trust, told.notes) == (task, 0, Trust.GIVEN, ())
    assert front.client.get("/api/log").json()["entries"][told.entry]["digest"] == told.digest
    shown = front.task(task)
    assert read(body).release == shown["result"]
    assert read(body).asked == shown["document"]
    assert next(entry["task_id"] for entry in body["list"]["entries"]) == task  # and nothing from before


def test_a_certificate_is_verified_without_the_answer(front: Front, task: str, keys: KnownKeys) -> None:
    body = record_of(front, task, part="certificate")
    assert "answer" not in body
    assert read(body).release == {"certificate": front.task(task)["result"]["certificate"]}
    assert checked(front, body, keys).digest == checked(front, record_of(front, task), keys).digest


def test_a_release_has_one_entry_in_the_list_and_what_was_cancelled_has_none(front: Front) -> None:
    cancelled, made = front.post(AGES), front.post(AGES)
    front.client.delete(f"/api/task/{cancelled}", headers=front.admin)
    front.fill(made, 12, AGE)
    front.closing.step()
    names = [entry["task_id"] for entry in front.client.get("/api/log").json()["entries"]]
    assert names == [cancelled, made, release_record.listed_release(made, 0)]


def test_the_last_release_of_what_was_trained_without_end_is_signed_and_none_before(
    front: Front, keys: KnownKeys
) -> None:
    made = front.post({**EVENTS, "min_count": 12})
    front.train(made, 13)
    refused = front.client.get(f"/api/task/{made}/record")
    assert refused.status_code == 404
    assert "once its requestor has closed it" in refused.json()["detail"]
    assert front.close_task(made).status_code == 204
    front.closing.step()
    assert front.task(made)["status"] == "done"
    assert checked(front, record_of(front, made), keys).phase == 0


def test_a_release_of_sites_is_signed_in_the_moment_that_it_is_stored(tmp_path: Path, keys: KnownKeys) -> None:
    async def scenario() -> None:
        async with Gathering(tmp_path / "home") as world:
            await world.near(north=counting(1, 2, 3), south=counting(10, 20, 30))
            done = await world.asked(CENSUS)
            record = await world.service.record(done["task_id"])
            assert record.release == done["result"]
            place = release_record.listed_release(done["task_id"], 0)
            listed = task_log.verify(await world.service.log(0))
            assert [listed.holds(done["task_id"], done["digest"]), listed.holds(place, record.digest)] == [True, True]
            with pytest.raises(BrokenRecord, match="promises nothing"):  # this kind adds no noise, and has a price
                verify(record, key=listed.key, saved=await world.service.log(0), known=keys)

    with known("thebes.testing.census"):
        asyncio.run(asyncio.wait_for(scenario(), 120))


def test_what_has_no_release_has_no_record(front: Front) -> None:
    made = front.post(AGES)
    assert front.client.get(f"/api/task/{made}/record").status_code == 404
    assert front.client.get("/api/task/unknown/record").json()["detail"] == "there is no such task"


@pytest.mark.parametrize("version", sorted(path.name for path in KEPT.iterdir() if (path / "facts.json").exists()))
def test_releases_of_versions_that_signed_none_are_called_not_signed(
    version: str, tmp_path: Path, keys: KnownKeys
) -> None:
    facts = json.loads((KEPT / version / "facts.json").read_text(encoding="utf-8"))
    with opened(unpack(version, tmp_path / "homes"), datetime.fromisoformat(facts["moment"])) as homes:
        done = [each["task_id"] for each in homes.tasks.values() if each["status"] == "done"]
        assert done
        for task in done:
            with pytest.raises(Unsigned, match="not signed: the signed list has no release"):
                checked(homes.front, record_of(homes.front, task), keys)


# --- what was changed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step", [29, pytest.param(7, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.heavy)]
)
@pytest.mark.parametrize("part", ["document", "certificate", "answer"])
def test_every_changed_byte_of_a_record_is_refused(
    front: Front, task: str, keys: KnownKeys, part: str, step: int
) -> None:
    body = record_of(front, task)
    text = body[part]
    why = "the document does not fit" if part == "document" else "the release does not fit"
    for place in range(0, len(text), step):
        for other in ("0" if text[place] != "0" else "1", ""):
            changed = {**body, part: text[:place] + other + text[place + 1 :]}
            with pytest.raises(BrokenRecord, match=why):
                checked(front, changed, keys)


def test_value_interval_and_certificate_are_all_covered(front: Front, task: str, keys: KnownKeys) -> None:
    body = record_of(front, task)
    answer, certificate = json.loads(body["answer"]), json.loads(body["certificate"])
    changes: list[dict[str, Any]] = [
        {"answer": json.dumps({**answer, "value": answer["value"] + 1})},
        {"answer": json.dumps({**answer, "interval": None})},
        {"certificate": json.dumps({**certificate, "epsilon": 0.1})},
        {"answer": json.dumps(answer)},  # the same, spelled differently: it is not what was hashed
    ]
    for change in changes:
        with pytest.raises(BrokenRecord, match="the release does not fit"):
            checked(front, {**body, **change}, keys)
    alone = record_of(front, task, part="certificate")
    with pytest.raises(BrokenRecord, match="the release does not fit"):
        checked(front, {**alone, "answer_digest": "0" * 64}, keys)


def test_a_record_of_another_task_or_phase_is_refused(front: Front, task: str, keys: KnownKeys) -> None:
    body = record_of(front, task)
    with pytest.raises(BrokenRecord, match="does not name this task"):
        checked(front, {**body, "task_id": "another"}, keys)
    with pytest.raises(BrokenRecord, match="of another phase"):
        checked(front, {**body, "phase": 1}, keys)


def test_a_list_that_was_cut_off_or_changed_is_refused(front: Front, task: str, keys: KnownKeys) -> None:
    body = record_of(front, task)
    listed = body["list"]
    for place in range(len(listed["entries"])):
        short = {**listed, "entries": listed["entries"][:place] + listed["entries"][place + 1 :]}
        with pytest.raises((BrokenLog, BrokenRecord)):
            checked(front, {**body, "list": short}, keys)
    for name in ("key", "head", "signature"):
        text = listed[name]
        with pytest.raises(BrokenLog):
            checked(front, {**body, "list": {**listed, name: ("A" if text[0] != "A" else "B") + text[1:]}}, keys)
    cut = {**listed, "entries": listed["entries"][:-1], "head": listed["entries"][-1]["previous"]}
    with pytest.raises(BrokenLog, match="not signed by the key"):
        checked(front, {**body, "list": cut}, keys)


def test_a_list_that_somebody_else_signed_is_refused(front: Front, task: str, keys: KnownKeys) -> None:
    body, own = record_of(front, task), task_log.new_key()
    entries = [(entry["task_id"], entry["digest"]) for entry in body["list"]["entries"]]
    forged = signed(body, own, *entries)
    with pytest.raises(BrokenLog, match="no key of the coordinator's list has the fingerprint"):
        checked(front, forged, keys)
    with pytest.raises(BrokenRecord, match="anybody can make one"):
        verify(read(forged), known=keys)
    with pytest.raises(BrokenLog, match="another key"):
        verify(read(forged), key=fingerprint(front), saved=front.client.get("/api/log").json(), known=keys)


def test_a_saved_list_that_is_cut_off_is_refused(front: Front, task: str, keys: KnownKeys) -> None:
    record, listed = read(record_of(front, task)), front.client.get("/api/log").json()
    key = fingerprint(front)
    assert "saved list, of 5 entries" in verify(record, key=key, saved=listed, known=keys).compared
    with pytest.raises(BrokenLog):
        verify(record, key=key, saved={**listed, "entries": listed["entries"][:-1]}, known=keys)
    entries = [(entry["task_id"], entry["digest"]) for entry in listed["entries"]]
    earlier = signed({}, front.home.log_key, *entries[:3])["list"]  # rightly signed, before there was the release
    with pytest.raises(BrokenLog, match="cut off, or saved before the release"):
        verify(record, key=key, saved=earlier, known=keys)
    assert verify(record, key=key, saved=signed({}, front.home.log_key, *entries[:4])["list"], known=keys)


def test_a_coordinator_that_signs_two_lists_is_found_out(front: Front, task: str, keys: KnownKeys) -> None:
    body = record_of(front, task)
    entries = [(entry["task_id"], entry["digest"]) for entry in front.client.get("/api/log").json()["entries"]]
    answer = json.dumps({**json.loads(body["answer"]), "value": 1.0})
    lie = {**body, "answer": answer}
    entries[3] = (entries[3][0], read(lie).digest)
    lie = signed(lie, front.home.log_key, *entries)
    assert checked(front, lie, keys)  # its own list says so
    with pytest.raises(BrokenLog, match="two lists were signed"):
        verify(read(lie), key=fingerprint(front), saved=front.client.get("/api/log").json(), known=keys)


@pytest.mark.parametrize("raw", [b"", b"[]", b"{}", b"\xff", b'{"format": "thebes release 1"}', b'{"a": 1, "a": 2}'])
def test_what_is_no_record_is_refused_in_words(raw: bytes) -> None:
    with pytest.raises(BrokenRecord):
        ReleaseRecord.read(raw)


# --- what the certificate says ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"epsilon": 1.5}, "its epsilon is 1.5"),
        ({"delta": 0.1, "guarantee": "approximate"}, "its delta is 0.1"),
        ({"guarantee": "none"}, "promises nothing"),
        ({"contributors": 3}, "fewer contributors"),
        ({"simulated": True}, "simulated"),
        ({"unit": "wardrobe"}, "cannot be read here as a release"),
    ],
)
def test_a_certificate_that_does_not_fit_its_document_is_refused_though_it_is_signed(
    front: Front, task: str, keys: KnownKeys, change: dict[str, Any], why: str
) -> None:
    body = record_of(front, task)
    wrong = {**body, "certificate": json.dumps({**json.loads(body["certificate"]), **change})}
    record = read(wrong)
    entries = [(task, record.document_digest), (release_record.listed_release(task, 0), record.digest)]
    with pytest.raises(BrokenRecord, match=why):
        checked(front, signed(wrong, front.home.log_key, *entries), keys)


# --- whose key it is ----------------------------------------------------------------------------------------


def test_a_key_is_believed_at_first_use_and_said_so_and_held_against_every_later_list(
    front: Front, client: CoordinatorClient, task: str, keys: KnownKeys
) -> None:
    record = read(record_of(front, task))
    with pytest.raises(BrokenRecord, match=fingerprint(front)):
        verify(record, known=keys)
    first = verify(record, client=client, known=keys)
    assert first.trust is Trust.FIRST_USE
    assert "rests on that" in str(first)
    assert fingerprint(front) in str(first)
    assert verify(record, client=client, known=keys).trust is Trust.KNOWN
    assert verify(record, known=keys).coordinator == client.url  # without asking anybody
    keys.keep(client.url, replace(keys.of(client.url), key=task_log.public_key(task_log.new_key())))  # type: ignore[type-var]
    with pytest.raises(BrokenLog, match="another key than the one seen first"):
        verify(record, client=client, known=keys)
    with pytest.raises(BrokenLog, match=r"remove .*keys\.json"):
        verify(record, key=fingerprint(front), client=client, known=keys)
    keys.path.unlink()
    assert verify(record, key=fingerprint(front), client=client, known=keys).trust is Trust.GIVEN


def test_two_files_of_one_forger_are_not_believed(front: Front, task: str, keys: KnownKeys) -> None:
    body, own = record_of(front, task), task_log.new_key()
    entries = [(entry["task_id"], entry["digest"]) for entry in front.client.get("/api/log").json()["entries"]]
    forged = signed(body, own, *entries)
    with pytest.raises(BrokenRecord, match="anybody can make one"):
        verify(read(forged), saved=forged["list"], known=keys)


def test_a_key_that_gave_way_does_not_bring_an_old_list_back(
    front: Front, client: CoordinatorClient, task: str, keys: KnownKeys
) -> None:
    early, before, old = read(record_of(front, task)), fingerprint(front), front.client.get("/api/log").json()
    next_list_key(front.home, front.database)
    verify(early, client=client, known=keys)
    now = keys.of(client.url)

    class Replaying(CoordinatorClient):
        def log(self, after: int = 0) -> dict[str, Any]:
            return dict(old)

    with pytest.raises(BrokenLog):
        verify(early, key=before, client=Replaying(client.url, "x", transport=front.transport), known=keys)
    assert keys.of(client.url) == now


@pytest.mark.parametrize("twice", ["task", "release"])
def test_a_list_that_names_one_thing_twice_is_refused(front: Front, task: str, keys: KnownKeys, twice: str) -> None:
    """Else two readers of one list could each be shown another release."""
    body, key = record_of(front, task), fingerprint(front)
    record, place = read(body), release_record.listed_release(task, 0)
    lie = {**body, "answer": json.dumps({**json.loads(body["answer"]), "value": 1.0})}
    entries = [(task, record.document_digest), (place, record.digest)]
    again = [(task, record.document_digest)] if twice == "task" else []
    whole = signed({}, front.home.log_key, *entries, *again, (place, read(lie).digest))["list"]
    with pytest.raises(BrokenLog, match="twice"):
        verify(read(signed(body, front.home.log_key, *entries)), key=key, saved=whole, known=keys)


def test_steps_of_keys_and_phases_that_are_none_are_refused_in_words(front: Front, task: str, keys: KnownKeys) -> None:
    body = record_of(front, task)
    with pytest.raises(BrokenRecord, match="anybody can make one"):
        verify(read({**body, "list": {**body["list"], "successions": 5}}), known=keys)
    record = read(body)
    entries = [(task, record.document_digest), (release_record.listed_release(task, 0), record.digest)]
    strange = signed(body, front.home.log_key, *entries, (f"release~{task}~x", record.digest))
    assert checked(front, strange, keys).notes == ()


def test_a_key_that_gave_way_to_another_is_followed(
    front: Front, client: CoordinatorClient, task: str, keys: KnownKeys
) -> None:
    before = fingerprint(front)
    early = read(record_of(front, task))
    verify(early, client=client, known=keys)
    next_list_key(front.home, front.database)
    assert fingerprint(front) != before
    late = read(record_of(front, task))
    for record in (early, late):
        assert verify(record, known=keys).trust is Trust.KNOWN
        assert verify(record, client=client, known=keys).trust is Trust.KNOWN
        assert verify(record, key=before, saved=front.client.get("/api/log").json(), known=keys)
        assert verify(record, key=fingerprint(front), saved=front.client.get("/api/log").json(), known=keys)
    assert verify(late, key=before, known=keys).fingerprint == fingerprint(front)


def test_a_damaged_file_of_known_keys_is_named(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text('{"https://test": {"key": 1}}')
    with pytest.raises(Mistake, match=r"keys\.json is damaged; remove it"):
        KnownKeys(tmp_path).of("https://test")


# --- in Python and on the command line ----------------------------------------------------------------------


@pytest.fixture
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "own"))


@pytest.mark.usefixtures("own_settings")
def test_a_release_is_saved_and_verified_in_python_and_by_the_command(
    front: Front, client: CoordinatorClient, task: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release = Server(client).task(task).wait(0)
    told = release.verify()
    assert told.trust is Trust.FIRST_USE
    for name, alone in (("release.json", False), ("certificate.json", True)):
        release.save(tmp_path / name, certificate_only=alone)
        assert exit_status("verify", str(tmp_path / name)) == 0  # by the key that is known now
        said = capsys.readouterr().out
        assert f"Signed: the release of task {task}" in said
        assert "not that it was computed as it says" in said
    assert exit_status("verify", str(tmp_path / "release.json"), "--key", fingerprint(front), "--json") == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["verified"], body["trust"], body["task_id"]) == (True, "given", task)
    listed = tmp_path / "list.json"
    listed.write_text(front.client.get("/api/log").text)
    assert exit_status("verify", str(tmp_path / "release.json"), "--list", str(listed)) == 0
    raw = (tmp_path / "release.json").read_text()
    (tmp_path / "release.json").write_text(raw.replace("thebes release 1", "thebes release 2"))
    assert exit_status("verify", str(tmp_path / "release.json")) == 1
    (tmp_path / "release.json").write_text(raw.replace(r"\"value\":", r"\"value\":1"))
    capsys.readouterr()
    assert exit_status("verify", str(tmp_path / "release.json"), "--key", fingerprint(front)) == 1
    assert "the release does not fit" in capsys.readouterr().err


@pytest.mark.usefixtures("own_settings")
def test_what_no_coordinator_published_cannot_be_verified(client: CoordinatorClient, task: str) -> None:
    release = Server(client).task(task).wait(0)
    for other in (release.beside(more=1), pickle.loads(pickle.dumps(release)), replace(release, origin=None)):
        with pytest.raises(Mistake, match="is not signed: no coordinator published it"):
            other.verify()
        with pytest.raises(Mistake, match="is not signed"):
            other.save("nowhere")


@pytest.mark.usefixtures("own_settings")
def test_a_release_that_is_not_the_published_one_is_told_apart(client: CoordinatorClient, task: str) -> None:
    handle = Server(client).task(task)
    body = client.task(task)["result"]
    other = handle._published({**body, "value": 1.0})  # as if the coordinator had answered something else
    with pytest.raises(BrokenRecord, match="of another release than this one"):
        other.verify()
    with pytest.raises(NotFound):
        client.record("unknown")


@pytest.mark.parametrize("key", ["abc", "g" * 64])
def test_a_fingerprint_that_is_none_is_a_mistake(tmp_path: Path, key: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_status("verify", str(tmp_path / "none"), "--key", key) == 2
    assert "must be the 64 hexadecimal digits" in capsys.readouterr().err
    assert exit_status("verify", str(tmp_path / "none")) == 2
    assert "cannot read" in capsys.readouterr().err
