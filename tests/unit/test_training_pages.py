"""The coordinator's pages of what is trained without end: how it goes, what came out, who could learn what, its end."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.coordinator import AGES, EVENTS, Front
from thebes.coordinator.auth.accounts import Role
from thebes.coordinator.training.endless_task import SHOWN_SECONDS
from thebes.privacy.figures import spaced
from thebes.tasks import drawings, registry
from thebes.tasks.draw_discard import course
from thebes.web.coordinator import endless_task

HERE = {"origin": "http://testserver", "sec-fetch-site": "same-origin"}
PASSWORD = "correct horse battery"
RATES: dict[str, Any] = {**EVENTS, "learning_rate": [0.01, 0.002], "keep": 0.002, "instances": 40}


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    with Front(tmp_path / "home") as made:
        yield made


def sign_in(front: Front, name: str = "") -> None:
    body: dict[str, str] = {"token": front.admin_token}
    if name:
        front.service.accounts.add(name, PASSWORD, Role.REQUESTOR)
        body = {"username": name, "password": PASSWORD}
    assert "hx-redirect" in front.client.post("/sign-in", json=body, headers=HERE).headers


def page(front: Front, task_id: str, part: str = "") -> str:
    answer = front.client.get(f"/task/{task_id}{part}")
    assert answer.status_code == 200, answer.text
    return answer.text


def end(front: Front, task_id: str) -> Any:
    return front.client.post(f"/task/{task_id}/close", json={}, headers=HERE)


def ready(front: Front, document: dict[str, Any], updates: int) -> str:
    task_id = front.post(document)
    front.train(task_id, updates)
    front.clock.move(seconds=SHOWN_SECONDS)  # for so long an older answer may be given out
    return task_id


def test_before_the_first_contribution_the_instances_are_there_and_nothing_else(front: Front) -> None:
    task_id = front.post(EVENTS)
    sign_in(front)
    shown = page(front, task_id)
    assert "Nothing was mixed in yet." in shown
    assert "5 instances, each with its 3 weights" in shown
    assert "The answer" not in shown
    assert "End it and keep its answer" not in shown


def test_single_instances_are_drawn_for_who_asked_and_for_operators_only(front: Front) -> None:
    task_id = front.post(RATES)
    front.train(task_id, 5)
    for name, shown in (("", False), ("ben", False), ("operator", True)):
        if name:
            sign_in(front, name.replace("operator", ""))
        for part in ("", "/standing"):
            seen = page(front, task_id, part)
            assert seen.count("The instances just now") == (2 if shown else 0)
            assert ("40 instances" in seen) == shown
            assert ("only who asked and the operators are shown the instances one by one" in seen) != shown


def test_a_training_is_seen_to_go_on_before_and_after_its_first_answer(front: Front) -> None:
    task_id = front.post(EVENTS)
    front.train(task_id, 3)
    shown = page(front, task_id, "/standing")
    assert "An answer is given out once there are enough" in shown
    assert "Spread between the instances, over the updates" in shown
    assert 'hx-trigger="every 1s"' in shown
    front.train(task_id, 9)
    front.clock.move(seconds=SHOWN_SECONDS)
    shown = page(front, task_id, "/standing")
    assert "its answer is below, as it stands now" in shown
    assert "The average of 5 instances after 12 updates" in shown
    assert "not an error bar" in shown
    assert "</strong> of the 12 contributions it needs; it goes on" in shown


def test_what_was_refused_and_set_aside_is_counted(front: Front) -> None:
    counts = {}
    for way in ("refuse", "quarantine"):
        task_id = front.post({**EVENTS, "outliers": way})
        body = front.update(task_id)
        body["payload"]["weights"] = [900.0] * 3
        front.submit(task_id, body)
        table = re.search(r"What became of.*?</table>", page(front, task_id), re.S)
        assert table is not None
        counts[way] = re.findall(r'<td class="number">(\d+)</td>', table[0])
    assert counts == {"refuse": ["0", "1", "0", "0"], "quarantine": ["0", "0", "1", "0"]}


def test_every_learning_rate_has_its_course_and_the_one_that_is_kept_comes_first(front: Front) -> None:
    task_id = ready(front, RATES, 20)
    shown = page(front, task_id)
    assert re.findall(r"<h3>Learning rate (\S+)</h3>", shown) == ["0.002", "0.01"]
    assert "those of learning rate 0.002" in shown
    assert shown.count("shown above") == 1
    lines = list(csv.reader(io.StringIO(page(front, task_id, "/release.csv"))))
    assert lines[0] == ["learning rate", "weight of", "weight", "spread between instances"]
    assert [line[:2] for line in lines[1:]] == [
        [rate, name] for rate in ("0.01", "0.002") for name in ("intercept", "b=0", "d")
    ]
    released = json.loads(page(front, task_id, "/release.json"))
    assert [float(line[2]) for line in lines[4:]] == pytest.approx(list(released["value"]["weights"].values()))
    assert all(float(line[3]) > 0 for line in lines[1:])


def test_the_course_can_be_taken_home_as_a_table(front: Front) -> None:
    task_id = front.post(RATES)
    front.train(task_id, 20)
    head, *lines = csv.reader(io.StringIO(page(front, task_id, "/training.csv")))
    assert head == ["learning rate", "updates", "spread between instances"]
    told = front.progress(task_id)["lanes"]
    for rate, lane in zip(("0.01", "0.002"), told, strict=True):
        seen = [[float(number) for number in line[1:]] for line in lines if line[0] == rate]
        assert seen == [pytest.approx(point) for point in lane["history"]]


def test_who_asked_ends_it_and_keeps_its_answer(front: Front) -> None:
    task_id = ready(front, EVENTS, 12)
    assert "End it and keep its answer" not in page(front, task_id)
    assert end(front, task_id).status_code == 200
    assert front.task(task_id)["status"] == "open"  # who is not signed in is told so, and nothing else happens
    sign_in(front, "ana")
    assert "Only the task&#39;s requestor" in end(front, task_id).text
    assert front.task(task_id)["status"] == "open"
    sign_in(front)
    before = front.task(task_id)["result"]
    assert "End it and keep its answer" in page(front, task_id, "/standing")
    assert end(front, task_id).headers["hx-refresh"] == "true"
    front.closing.step()
    shown = page(front, task_id)
    assert front.task(task_id)["result"]["value"] == before["value"]
    assert "How it went" in shown
    assert "Spread between the instances, over the updates" in shown
    assert "End it and keep its answer" not in shown
    assert "every 1s" not in shown


def test_what_has_no_answer_yet_cannot_be_ended_but_cancelled(front: Front) -> None:
    task_id = front.post(EVENTS)
    front.train(task_id, 3)
    sign_in(front)
    assert "There is no answer yet" in end(front, task_id).text
    assert "End it and keep" not in page(front, task_id)
    front.client.post(f"/task/{task_id}/cancel", json={}, headers=HERE)
    assert "Cancelled; nothing more will be released." in page(front, task_id)


def test_an_ordinary_task_has_no_course_and_does_not_end_so(front: Front) -> None:
    task_id = front.post(AGES)
    sign_in(front)
    assert 'id="training"' not in page(front, task_id)
    assert front.client.get(f"/task/{task_id}/training.csv").status_code == 404
    assert "cancel it" in end(front, task_id).text


def test_what_is_guaranteed_stands_beside_what_is_estimated(front: Front) -> None:
    shown = page(front, front.post({**EVENTS, "max_participations": 4}))
    assert shown.count(">guaranteed<") == 1
    assert shown.count(">an estimate<") == 3
    assert "an equal share: epsilon 2." in shown
    assert "no smaller promise is made about one alone" in shown
    weighed = {name: value for name, value in EVENTS.items() if name != "epsilon"}
    shown = page(front, front.post({**weighed, "mechanism": "laplace", "epsilon_per_weight": 2.5}))
    assert "epsilon 2.5, for somebody who sees only that weight" in shown
    assert "epsilon 7.5, delta 0" in shown


def test_estimates_are_those_of_the_certificate(front: Front) -> None:
    document: Any = registry.check({**EVENTS, "max_participations": 2})
    told = front.task(ready(front, {**EVENTS, "max_participations": 2}, 12))["result"]["certificate"]
    found = course.learned(document)
    assert [each.guaranteed for each in found] == [True, False, False, False]
    assert found[0].epsilon * 2 == told["epsilon"]
    assert found[1].epsilon == told["parameters"]["estimates"]["internal"]["expected_epsilon"]
    assert [each.epsilon for each in found[2:]] == list(
        told["parameters"]["estimates"]["opportunistic"]["epsilon_after_updates_of_that_instance"].values()
    )


def test_nobody_is_said_to_know_less_than_they_could() -> None:
    """An instance has a k-th of the task's updates; a server's silence is a promise; a release may hold everything."""
    document: Any = registry.check(RATES)
    _, internal, *later = course.learned(document)
    assert internal.who == "who sees all instances"
    assert "whoever runs the server could note that" in internal.sees
    assert f"one instance, 100 updates of it later: about {spaced(8000)} of the task" in later[0].sees
    document = registry.check({**EVENTS, "average": "predictions"})
    assert course.learned(document)[1].who == "whoever reads the releases"


def test_many_weights_are_drawn_by_the_distance_of_each_instance_and_the_largest_weights() -> None:
    values = [str(number) for number in range(500)]
    document: Any = registry.check({**EVENTS, "bounds": {**EVENTS["bounds"], "b": {"type": "set", "values": values}}})
    lane = {"updates": 2, "refused": 0, "quarantined": 0, "stale": 0, "history": [[1, 0.5], [2, 0.6]]}
    told = course.going(document, {"lanes": [{**lane, "models": [], "distances": [1.0, 2.0]}]})
    last = told.courses[0].sections[-1]
    assert "How far each instance is from their average" in last.words
    assert str(endless_task.drawn(last.picture)).count("<rect") == 2


def test_small_multiples_share_one_scale() -> None:
    drawn = str(drawings.profiles([[1.0, -2.0], [0.5, 0.0]], title="two"))
    heights = [float(found) for found in re.findall(r'height="([\d.]+)"', drawn)]
    assert heights == [13.5, 27.0, 6.8, 0.0]
    tops = [float(found) for found in re.findall(r'<rect[^>]* y="([\d.]+)"', drawn)]
    assert tops[0] == 16.5
    assert tops[1] == 30.0  # what is below zero hangs from the line


def test_instances_that_are_all_zero_can_be_drawn() -> None:
    assert "<svg" in drawings.profiles([[0.0, 0.0]] * 12, title="nothing")


@pytest.mark.parametrize(("part", "pages"), [("going", ("", "/standing")), ("learned", ("",))])
@pytest.mark.parametrize("answer", [lambda *_: 1 / 0, lambda *_: 1], ids=["raises", "a number"])
def test_a_course_that_its_kind_cannot_show_is_told_in_its_place(
    front: Front, monkeypatch: pytest.MonkeyPatch, part: str, pages: tuple[str, ...], answer: Any
) -> None:
    task_id = front.post(EVENTS)
    monkeypatch.setattr(course, part, answer)
    for where in ("", "/standing"):
        told = f"the kind draw-discard could not show how this task goes: its {part} r" in page(front, task_id, where)
        assert told is (where in pages)
