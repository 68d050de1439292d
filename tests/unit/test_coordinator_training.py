"""Tasks that are trained without end: what is drawn, mixed in, counted once, refused, written and released."""

from __future__ import annotations

import asyncio
import copy
import json
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.coordinator import AGES, EVENTS, Front
from tests.support.postgres import new_database
from thebes.coordinator.auth.accounts import Role
from thebes.coordinator.people.bloom_filter import BloomFilter
from thebes.coordinator.people.contribution_check import Submission
from thebes.coordinator.storage.database import StoreUnavailable
from thebes.coordinator.training import multiple_processes, single_process
from thebes.coordinator.training.endless_task import SHOWN_SECONDS
from thebes.coordinator.training.model_store import TrainingStore
from thebes.privacy.faults import Fault
from thebes.tasks.draw_discard.aggregator import DrawDiscardAggregator
from thebes.tasks.release_reader import release_from_json
from thebes.wire import frames

SHARED = pytest.param("shared", marks=pytest.mark.postgres)


@pytest.fixture(params=["alone", SHARED])
def front(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Front]:
    with Front(tmp_path / "home", store=None if request.param == "alone" else new_database()) as made:
        yield made


@pytest.fixture
def single(tmp_path: Path) -> Iterator[Front]:
    """One process alone, for what happens before anything is written."""
    with Front(tmp_path / "home") as made:
        yield made


def loop(front: Front) -> Any:
    """The way onto the event loop of a coordinator in this process."""
    return getattr(front.client, "portal")  # noqa: B009


def settled(front: Front) -> None:
    """Everything is in the database, as after half a second."""
    loop(front).call(front.service.contributions.settle)


def models(front: Front, task_id: str) -> np.ndarray[Any, Any]:
    kept = TrainingStore(front.database).read(task_id)
    return np.array([np.frombuffer(model, dtype="<f8") for model in kept.models])


def test_an_ask_draws_a_model_and_a_contribution_replaces_one(front: Front) -> None:
    task_id = front.post(EVENTS)
    before = models(front, task_id)
    assert len(before) == 5
    body = front.update(task_id)
    assert body["payload"]["weights"] in before.tolist()
    body["payload"]["weights"] = [weight + 1e-4 for weight in body["payload"]["weights"]]
    assert front.submit(task_id, body).status_code == 202
    settled(front)
    after = models(front, task_id)
    assert (before != after).any(axis=1).sum() == 1
    assert body["payload"]["weights"] in after.tolist()
    assert sum(TrainingStore(front.database).read(task_id).times) == 1


def test_there_is_an_answer_from_min_count_on_while_the_task_stays_open(front: Front) -> None:
    task_id = front.post(EVENTS)
    front.train(task_id, 11)
    assert front.task(task_id)["result"] is None
    front.train(task_id, 1)
    front.clock.move(seconds=SHOWN_SECONDS)
    found = front.task(task_id)
    assert (found["status"], found["contributions"]) == ("open", 12)
    release: Any = release_from_json(found["result"])
    assert release.certificate.contributors == 12
    assert release.model.predict({"b": [0], "d": [1.5]}) is not None


@pytest.mark.few(1)
def test_an_answer_is_made_again_at_most_every_second(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thebes.coordinator.training.endless_task.SHOWN_SECONDS", 3600.0)
    task_id = front.post(EVENTS)
    front.train(task_id, 12)
    first = front.task(task_id)["result"]
    front.train(task_id, 1)
    assert front.task(task_id)["result"] == first
    monkeypatch.setattr("thebes.coordinator.training.endless_task.SHOWN_SECONDS", 0.0)
    assert front.task(task_id)["result"]["certificate"]["contributors"] == 13


def test_the_same_again_has_the_same_receipt_and_another_body_is_refused(front: Front) -> None:
    task_id = front.post(EVENTS)
    body = front.update(task_id)
    receipt = front.submit(task_id, body).json()
    other = copy.deepcopy(body)
    other["payload"]["weights"][0] += 1e-6
    for _ in range(2):  # from memory, then from the database
        assert front.submit(task_id, body).json() == receipt
        assert front.submit(task_id, other).status_code == 409
        settled(front)
    assert front.progress(task_id)["contributions"] == 1


def test_an_update_counts_once_whether_it_comes_as_json_or_as_a_frame(single: Front) -> None:
    many = {**EVENTS, "inputs": ["d"], "featurizer": "SELECT c, o FROM app.event", "instances": 3}
    many |= {"inputs": ["c"], "bounds": {"c": {"type": "set", "values": list(range(100))}, "o": EVENTS["bounds"]["o"]}}
    task_id = single.post(many)
    body = single.update(task_id)
    assert len(body["payload"]["weights"]) == 100
    framed, kind = frames.encode(body, worth=1)
    address = f"/api/task/{task_id}/submit"
    first = single.client.post(address, content=framed, headers={"Content-Type": kind})
    assert first.status_code == 202, first.text
    assert single.submit(task_id, body).json() == first.json()
    assert single.progress(task_id)["contributions"] == 1
    asked = single.client.get(f"/api/task/{task_id}/ask?slot=x", headers={"Accept": frames.MEDIA_TYPE})
    assert len(asked.json()["payload"]["weights"]) == 100  # too few to be worth a frame


def test_many_weights_travel_both_ways_as_a_frame(tmp_path: Path) -> None:
    values = {"c": {"type": "set", "values": list(range(10_000))}, "o": {"type": "set", "values": list("abcdef")}}
    large = {**EVENTS, "featurizer": "SELECT c, o FROM app.event", "family": "multinomial", "inputs": ["c"]}
    with Front(tmp_path / "home") as front:
        task_id = front.post({**large, "bounds": values, "instances": 3, "mechanism": "gaussian", "delta": 1e-6})
        asked = front.client.get(f"/api/task/{task_id}/ask?slot=x", headers={"Accept": frames.MEDIA_TYPE})
        assert asked.headers["content-type"] == frames.MEDIA_TYPE
        message = frames.decode(asked.content)
        weights = message["payload"]["weights"]
        assert len(weights) >= 50_000
        body = {name: message[name] for name in ("ask_id", "part", "payload")} | {"contributor": "c"}
        content, kind = frames.encode(body)
        taken = front.client.post(f"/api/task/{task_id}/submit", content=content, headers={"Content-Type": kind})
        assert taken.status_code == 202, taken.text
        assert front.submit(task_id, body).json() == taken.json()  # the same as JSON
        settled(front)
        assert any((model == weights).all() for model in models(front, task_id))


BAD: dict[str, tuple[dict[str, Any], int]] = {
    "too few weights": ({"payload": {"weights": [0.0, 0.0]}}, 422),
    "too many weights": ({"payload": {"weights": [0.0] * 4}}, 422),
    "text for a weight": ({"payload": {"weights": [0.0, 0.0, "0"]}}, 422),
    "null for a weight": ({"payload": {"weights": [0.0, 0.0, None]}}, 422),
    "an object for the weights": ({"payload": {"weights": {}}}, 422),
    "a weight beyond all others": ({"payload": {"weights": [0.0, 0.0, 1e9]}}, 422),
    "a field nobody asked for": ({"payload": {"more": 1}}, 422),
    "another lane": ({"payload": {"lane": 1}}, 422),
    "a model that does not exist yet": ({"payload": {"version": 10**6}}, 422),
    "an ask that was never made": ({"ask_id": "x"}, 422),
    "an ask of another version": ({"ask_id": "AFTER"}, 422),
    "an ask of another task": ({"ask_id": "OTHER"}, 422),
    "another part": ({"part": "phase-1"}, 422),
    "no contributor": ({"contributor": None}, 422),
    "a token where none is taken": ({"token": "abcd"}, 422),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("fault", BAD)
def test_what_no_honest_owner_sends_is_refused_and_nothing_changes(single: Front, fault: str) -> None:
    task_id = single.post(EVENTS)
    other = single.update(single.post({**EVENTS, "epsilon": 7.0}))["ask_id"]
    before, body = models(single, task_id), single.update(task_id)
    changed, status = BAD[fault]
    sent = {**body, **changed, "payload": {**body["payload"], **changed.get("payload", {})}}
    digest = body["ask_id"].split(".")[0]
    sent["ask_id"] = {"AFTER": f"{digest}.0.1", "OTHER": other}.get(sent["ask_id"], sent["ask_id"])
    answer = single.submit(task_id, sent)
    assert answer.status_code == status, answer.text
    settled(single)
    assert (models(single, task_id) == before).all()
    assert single.progress(task_id)["contributions"] == 0
    assert single.submit(task_id, body).status_code == 202  # and nobody's place is taken by it


@pytest.mark.parametrize("weight", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_what_is_not_a_number_is_refused(single: Front, weight: str) -> None:
    task_id = single.post(EVENTS)
    body = json.dumps(single.update(task_id))
    start, end = body.index("[") + 1, body.index(",", body.index("["))
    wrong = body[:start] + weight + body[end:]
    kind = {"Content-Type": frames.JSON}
    assert single.client.post(f"/api/task/{task_id}/submit", content=wrong, headers=kind).status_code in (400, 422)
    framed = frames.Frame({**json.loads(body), "payload": {"version": 0, "lane": 0}}, {})
    array = np.array([np.nan, 0, 0]) if weight == "NaN" else np.array([np.inf, 0, 0])
    content = frames.write(frames.Frame(framed.body, {"weights": ("list", array)}))
    kind = {"Content-Type": frames.MEDIA_TYPE}
    assert single.client.post(f"/api/task/{task_id}/submit", content=content, headers=kind).status_code == 400
    assert single.progress(task_id)["contributions"] == 0


def test_what_is_cut_off_or_huge_is_refused(single: Front) -> None:
    task_id = single.post(EVENTS)
    content = frames.write(frames.split(single.update(task_id)))
    address, kind = f"/api/task/{task_id}/submit", {"Content-Type": frames.MEDIA_TYPE}
    for cut in (1, 9, len(content) // 2, len(content) - 1):
        assert single.client.post(address, content=content[:cut], headers=kind).status_code == 400
    assert single.client.post(address, content=bytes(10**6), headers=kind).status_code == 413
    assert single.client.post(address, content=content, headers=kind).status_code == 202


def test_an_update_of_a_model_from_long_ago_is_refused(single: Front) -> None:
    task_id = single.post({**EVENTS, "stale_after": 3})
    old = single.update(task_id)
    single.train(task_id, 4)
    answer = single.submit(task_id, old)
    assert answer.status_code == 422
    assert answer.json()["error"] == "StaleContribution"
    assert single.progress(task_id)["lanes"][0]["stale"] >= 1


def test_an_outlier_is_refused_or_kept_apart_as_the_document_says(front: Front) -> None:
    refusing, keeping = front.post(EVENTS), front.post({**EVENTS, "outliers": "quarantine"})
    for task_id in (refusing, keeping):
        before, body = models(front, task_id), front.update(task_id)
        body["payload"]["weights"] = [900.0] * 3
        answer = front.submit(task_id, body)
        settled(front)
        assert (models(front, task_id) == before).all()
        lane = front.progress(task_id)["lanes"][0]
        if task_id == refusing:
            assert answer.json()["error"] == "OutlyingContribution"
            assert (answer.status_code, lane["refused"], lane["quarantined"]) == (422, 1, 0)
        else:
            assert (answer.status_code, lane["refused"], lane["quarantined"]) == (202, 0, 1)


def test_what_was_mixed_in_cannot_be_taken_back(front: Front) -> None:
    task_id = front.post(EVENTS)
    (receipt,) = front.train(task_id, 1)
    answer = front.client.delete(f"/api/task/{task_id}/submit", params={"receipt": receipt})
    assert answer.status_code == 409
    assert "mixed in at once" in answer.json()["detail"]
    assert front.progress(task_id)["contributions"] == 1


def test_one_owner_may_take_as_many_turns_as_the_document_says(front: Front) -> None:
    task_id = front.post({**EVENTS, "max_participations": 3})
    parts = set()
    for packet in range(3):
        body = front.update(task_id, f"slot-{packet}", packet=packet)
        assert front.submit(task_id, body).status_code == 202
        parts.add(body["part"])
    assert parts == {"phase-0.packet-0", "phase-0.packet-1", "phase-0.packet-2"}
    waits = front.client.get(f"/api/task/{task_id}/ask", params={"slot": "slot-3", "packet": 3}).json()
    assert waits == {"wait": 1.0}


# --- how it ends ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_it_is_closed_by_its_requestor_or_an_operator_and_keeps_its_last_answer(front: Front) -> None:
    task_id = front.post(EVENTS)
    late = front.update(task_id)
    front.train(task_id, 11)
    assert front.close_task(task_id).status_code == 409  # there is no answer yet
    repeat = front.update(task_id)
    receipt = front.submit(task_id, repeat).json()
    assert front.client.post(f"/api/task/{task_id}/close").status_code == 401
    assert front.close_task(task_id).status_code == 204
    assert front.looks == 1
    assert front.submit(task_id, late).status_code == 410
    assert front.client.get(f"/api/task/{task_id}/ask", params={"slot": "x"}).status_code == 410
    front.closing.step()
    done = front.task(task_id)
    assert (done["status"], done["contributions"]) == ("done", 12)
    assert done["result"]["certificate"]["contributors"] == 12
    assert front.close_task(task_id).status_code == 204  # nothing more to do
    assert front.submit(task_id, repeat).json() == receipt
    assert front.submit(task_id, late).status_code == 410
    assert not len(models(front, task_id))  # what people sent is gone
    assert front.progress(task_id)["contributions"] == 12


def test_only_what_is_trained_without_end_can_be_closed(single: Front) -> None:
    task_id = single.post(AGES)
    answer = single.close_task(task_id)
    assert answer.status_code == 409
    assert "ends by itself" in answer.json()["detail"]
    assert single.client.get(f"/api/task/{task_id}/training").status_code == 404
    assert single.close_task("nothing").status_code == 404


@pytest.mark.few(1)
def test_it_ends_at_max_count_and_takes_not_one_more(front: Front) -> None:
    task_id = front.post({**EVENTS, "max_count": 15})
    late = front.update(task_id)
    front.train(task_id, 15)
    assert front.submit(task_id, late).status_code == 410
    settled(front)
    front.closing.step()
    done = front.task(task_id)
    assert (done["status"], done["contributions"]) == ("done", 15)


@pytest.mark.few(1)
def test_it_ends_when_its_target_is_met(front: Front) -> None:
    task_id = front.post({**EVENTS, "target": {"moved": 1e5, "over": 5}})
    front.train(task_id, 12)
    assert front.client.get(f"/api/task/{task_id}/ask", params={"slot": "x"}).status_code == 410
    settled(front)
    front.closing.step()
    assert front.task(task_id)["status"] == "done"


@pytest.mark.few(1)
@pytest.mark.parametrize(("count", "ends"), [(12, "done"), (11, "expired")])
def test_at_its_deadline_it_has_an_answer_if_enough_was_mixed_in(front: Front, count: int, ends: str) -> None:
    task_id = front.post({**EVENTS, "expires_at": (front.clock.now() + timedelta(hours=1)).isoformat()})
    late = front.update(task_id)
    front.train(task_id, count)
    front.clock.move(hours=1)
    assert front.submit(task_id, late).status_code == 410
    front.closing.step()
    assert front.task(task_id)["status"] == "open"  # what was acknowledged has two seconds to be written
    settled(front)
    front.clock.move(seconds=2)
    front.closing.step()
    done = front.task(task_id)
    assert (done["status"], done["contributions"]) == (ends, count)
    assert (done["result"] is None) == (ends == "expired")


@pytest.mark.few(1)
def test_a_cancelled_one_leaves_no_model_and_no_answer(front: Front) -> None:
    task_id = front.post(EVENTS)
    front.train(task_id, 20)
    assert front.client.delete(f"/api/task/{task_id}", headers=front.admin).status_code == 204
    settled(front)
    front.closing.step()
    found = front.task(task_id)
    assert (found["status"], found["result"]) == ("cancelled", None)
    assert not len(models(front, task_id))
    assert front.client.get(f"/api/task/{task_id}/ask", params={"slot": "x"}).status_code == 410


def test_a_live_view_has_the_history_the_refused_and_each_model(single: Front) -> None:
    task_id = single.post({**EVENTS, "learning_rate": [0.01, 0.001]})
    single.train(task_id, 30)
    told = single.progress(task_id)
    assert told["contributions"] == 30
    assert sum(lane["updates"] for lane in told["lanes"]) == 30
    for lane in told["lanes"]:
        assert [point[0] for point in lane["history"]] == list(range(1, lane["updates"] + 1))
        assert len(lane["norms"]) == len(lane["distances"]) == 5
        assert np.linalg.norm(lane["models"], axis=1) == pytest.approx(lane["norms"])


def test_single_models_are_shown_to_who_asked_and_to_operators_only(single: Front) -> None:
    single.service.accounts.add("ana", "correct horse battery", Role.REQUESTOR)
    single.service.accounts.add("ben", "correct horse battery", Role.REQUESTOR)
    logged = {
        name: single.client.post("/api/login", json={"username": name, "password": "correct horse battery"}).json()
        for name in ("ana", "ben")
    }
    bearer = {name: {"Authorization": f"Bearer {told['token']}"} for name, told in logged.items()}
    task_id = single.client.post("/api/task", json=EVENTS, headers=bearer["ana"]).json()["task_id"]
    single.train(task_id, 5)
    one_by_one = {"norms", "distances", "models"}
    for headers, shown in ((bearer["ana"], True), (single.admin, True), (bearer["ben"], False), ({}, False)):
        answer = single.client.get(f"/api/task/{task_id}/training", headers=headers)
        (lane,) = answer.json()["lanes"]
        assert (one_by_one <= set(lane)) == shown
        assert bool(one_by_one & set(lane)) == shown
        assert len(lane["history"]) == lane["updates"] == 5
    assert single.client.get(f"/api/task/{task_id}/training", headers={"Authorization": "Bearer x"}).status_code == 401


def test_what_takes_long_is_computed_once_and_beside_everything_else(
    single: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release, and what is drawn of the models, while contributions are mixed in; however many people look."""
    task_id = single.post(EVENTS)
    single.train(task_id, 12)
    threads: list[str] = []
    make, describe = DrawDiscardAggregator.release, DrawDiscardAggregator.pictured

    def slowly(what: str, work: Any) -> Any:
        def done(*arguments: Any) -> Any:
            threads.append(f"{what} {threading.get_ident() == here}")
            time.sleep(0.2)
            return work(*arguments)

        return done

    monkeypatch.setattr(DrawDiscardAggregator, "release", slowly("release", make))
    monkeypatch.setattr(DrawDiscardAggregator, "pictured", slowly("models", describe))
    here = loop(single).call(threading.get_ident)

    async def everybody() -> tuple[list[Any], list[Any], int]:
        known = single.service.contributions.trainings.of(task_id)
        assert known is not None
        looks = asyncio.gather(*(known.release() for _ in range(20)))
        views = asyncio.gather(*(known.progress(pieces=True) for _ in range(20)))
        steps = 0
        while not (looks.done() and views.done()):
            await asyncio.sleep(0.01)
            steps += 1
        return list(await looks), list(await views), steps

    looks, views, steps = loop(single).call(everybody)
    assert sorted(threads) == ["models False", "release False"]
    assert len(set(looks)) == 1
    assert all(view == views[0] for view in views)
    assert steps >= 5


def test_a_copy_stays_as_it_was_while_training_goes_on(single: Front) -> None:
    task_id = single.post({**EVENTS, "learning_rate": [0.01, 0.001]})
    single.train(task_id, 20)
    known = single.service.contributions.trainings.of(task_id)
    assert known is not None
    copied: Any = known.aggregator.copied()
    before = copied.release().as_json()
    going: Any = known.aggregator
    assert before == going.release().as_json()
    single.train(task_id, 10)
    copied._shown = None
    assert copied.release().as_json() == before
    assert going.release().as_json() != before


# --- what a restart finds -------------------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("store", ["alone", SHARED])
def test_after_a_clean_stop_nothing_is_forgotten(tmp_path: Path, store: str) -> None:
    where = None if store == "alone" else new_database()
    with Front(tmp_path / "home", store=where) as front:
        task_id = front.post({**EVENTS, "learning_rate": [0.01, 0.001]})
        bodies = [front.update(task_id) for _ in range(20)]
        receipts = [front.submit(task_id, body).json() for body in bodies]
        outlier = front.update(task_id)
        outlier["payload"]["weights"] = [900.0] * 3
        front.submit(task_id, outlier)
        front.train(task_id, 1)
        settled(front)
        before = front.progress(task_id)
    with Front(tmp_path / "home", store=where) as front:
        assert front.progress(task_id) == before
        assert [front.submit(task_id, body).json() for body in bodies] == receipts
        front.train(task_id, 1)
        assert front.progress(task_id)["contributions"] == 22


def test_what_was_not_written_yet_is_written_when_the_process_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_process, "WRITE_SECONDS", 3600.0)
    with Front(tmp_path / "home") as front:
        task_id = front.post(EVENTS)
        front.train(task_id, 3)
        assert not TrainingStore(front.database).known(task_id, [("phase-0", "x")])
        assert rows(tmp_path) == 0
    assert rows(tmp_path) == 3


def rows(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "home" / "coordinator.db")) as connection:
        (count,) = connection.execute("SELECT count(*) FROM coordinator_contribution").fetchone()
        (updates,) = connection.execute("SELECT coalesce(sum(updates), 0) FROM coordinator_instance").fetchone()
    assert count == updates  # never one without the other
    return int(count)


@pytest.mark.slow
def test_one_process_alone_writes_within_half_a_second(tmp_path: Path) -> None:
    with Front(tmp_path / "home") as front:
        task_id = front.post(EVENTS)
        front.train(task_id, 3)
        end = time.monotonic() + 60
        while rows(tmp_path) < 3:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert front.task(task_id)["contributions"] == 3


def test_no_more_are_acknowledged_than_may_be_at_risk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the disk does not take what is written, at most `MOST_AT_RISK` are told that they were taken."""
    monkeypatch.setattr(single_process, "WRITE_UPDATES", 5)
    monkeypatch.setattr(single_process, "MOST_AT_RISK", 10)
    with Front(tmp_path / "home") as front:
        task_id = front.post(EVENTS)
        broken = True
        write = TrainingStore.write

        def failing(shelf: TrainingStore, new: Any) -> Any:
            if broken:
                raise StoreUnavailable("the disk is full")
            return write(shelf, new)

        monkeypatch.setattr(TrainingStore, "write", failing)
        statuses = [front.submit(task_id, front.update(task_id)).status_code for _ in range(14)]
        assert statuses == [202] * 10 + [503] * 4
        broken = False
        settled(front)
        assert rows(tmp_path) == 10
        front.train(task_id, 4)
        settled(front)
        assert rows(tmp_path) == 14
        assert models(front, task_id).shape == (5, 3)


def test_what_was_mixed_in_is_written_however_writing_failed_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after a failure that nobody thought of, which is told as a fault and without its words."""
    with Front(tmp_path / "home") as front:
        task_id = front.post(EVENTS)
        broken = True
        write = TrainingStore.write

        def failing(shelf: TrainingStore, new: Any) -> Any:
            if broken:
                raise ZeroDivisionError("secret words")
            return write(shelf, new)

        monkeypatch.setattr(TrainingStore, "write", failing)
        front.train(task_id, 3)
        with pytest.raises(Fault, match="could not be written"):
            settled(front)
        broken = False
        end = time.monotonic() + 60
        while rows(tmp_path) < 3:
            assert time.monotonic() < end
            time.sleep(0.05)
        front.train(task_id, 1)
        settled(front)
        assert rows(tmp_path) == 4


# --- several processes ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.postgres
def test_what_one_process_mixes_in_another_draws(tmp_path: Path) -> None:
    where = new_database()
    with Front(tmp_path / "home", store=where) as one, Front(tmp_path / "home", store=where) as two:
        task_id = one.post(EVENTS)
        two.update(task_id)
        for _ in range(40):
            body = one.update(task_id)
            body["payload"]["weights"] = [weight + 1e-5 for weight in body["payload"]["weights"]]
            assert two.submit(task_id, body).status_code == 202  # known there at once, however new
            assert one.submit(task_id, body).status_code == 202  # a repeat
        time.sleep(multiple_processes.COPY_SECONDS * 2)
        drawn = {tuple(front.update(task_id)["payload"]["weights"]) for front in (one, two) for _ in range(60)}
        assert {tuple(model) for model in models(one, task_id)} == drawn
        assert one.progress(task_id)["contributions"] == two.progress(task_id)["contributions"] == 40


@pytest.mark.slow
@pytest.mark.postgres
def test_what_several_processes_counted_is_brought_together(tmp_path: Path) -> None:
    where = new_database()
    with Front(tmp_path / "home", store=where) as one, Front(tmp_path / "home", store=where) as two:
        task_id = one.post(EVENTS)
        for front, outliers in ((one, 2), (two, 3)):
            front.train(task_id, 10)
            for _ in range(outliers):
                body = front.update(task_id)
                body["payload"]["weights"] = [900.0] * 3
                assert front.submit(task_id, body).status_code == 422
        for front in (one, two, one):
            front.train(task_id, 1)
            settled(front)
        told = one.progress(task_id)
        assert told["lanes"][0]["refused"] == 5
        assert told["contributions"] == 23
        assert one.database.read(lambda c: c.exec_driver_sql("SELECT accepted FROM coordinator_task").scalar()) == 23
        assert one.close_task(task_id).status_code == 204
        time.sleep(multiple_processes.COPY_SECONDS * 2)
        assert two.client.get(f"/api/task/{task_id}/ask", params={"slot": "x"}).status_code == 410
        two.closing.step()
        assert two.task(task_id)["result"]["refused"] == 5


@pytest.mark.slow
@pytest.mark.postgres
def test_two_processes_take_no_more_than_max_count_together(tmp_path: Path) -> None:
    where = new_database()
    with Front(tmp_path / "home", store=where) as one, Front(tmp_path / "home", store=where) as two:
        task_id = one.post({**EVENTS, "max_count": 21})
        statuses = []
        for number in range(30):
            asking, taking = (one, two) if number % 3 else (two, one)
            answer = asking.client.get(f"/api/task/{task_id}/ask", params={"slot": f"{number}"})
            if answer.status_code == 200 and "wait" not in answer.json():
                body = {name: answer.json()[name] for name in ("ask_id", "part", "payload")}
                statuses.append(taking.submit(task_id, {**body, "contributor": f"{number}"}).status_code)
        assert statuses.count(202) == 21
        assert set(statuses) <= {202, 410}
        one.closing.step()
        assert one.task(task_id)["result"]["certificate"]["contributors"] == 21


@pytest.mark.slow
@pytest.mark.postgres
def test_the_same_contributor_in_two_processes_in_the_same_moment_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = new_database()
    look = TrainingStore.known

    def late(shelf: TrainingStore, task_id: str, identities: Any) -> Any:
        found = look(shelf, task_id, identities)
        time.sleep(0.2)  # long enough for the other process to look, too
        return found

    with Front(tmp_path / "home", store=where) as one, Front(tmp_path / "home", store=where) as two:
        task_id = one.post(EVENTS)
        body = one.update(task_id)
        two.update(task_id)
        others = [front.update(task_id) for front in (one, two)]
        monkeypatch.setattr(TrainingStore, "known", late)

        def send(front: Front, own: dict[str, Any]) -> Any:
            async def both() -> list[str]:
                training = front.service.contributions.trainings.of(task_id)
                assert training is not None
                sent = [Submission(b["ask_id"], b["part"], b["contributor"], b["payload"]) for b in (body, own)]
                return list(await asyncio.gather(*(training.take(s) for s in sent)))

            return loop(front).start_task_soon(both)

        pending = [send(front, own) for front, own in zip((one, two), others, strict=True)]
        (first, a), (second, b) = [task.result() for task in pending]
        monkeypatch.undo()
        assert first == second
        assert len({first, a, b}) == 3
        for front in (one, two):
            settled(front)
        time.sleep(multiple_processes.COPY_SECONDS * 2)
        assert one.progress(task_id)["contributions"] == two.progress(task_id)["contributions"] == 3
        assert sum(TrainingStore(one.database).read(task_id).times) == 3


# --- the Bloom filter ------------------------------------------------------------------------------------------


def test_a_sieve_knows_what_was_added_and_hardly_anything_else() -> None:
    bloom_filter = BloomFilter()
    assert not bloom_filter.may_have(b"anything")
    for number in range(30_000):
        bloom_filter.add(f"in {number}".encode())
    assert all(bloom_filter.may_have(f"in {number}".encode()) for number in range(30_000))
    wrong = sum(bloom_filter.may_have(f"out {number}".encode()) for number in range(30_000))
    assert wrong < 300  # two layers of one in 400 each
