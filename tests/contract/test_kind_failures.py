"""A kind that fails while a list or a page is drawn costs its own entry, and says so; everybody else's is there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.coordinator import AGES, Front
from tests.support.coordinator_in_memory import CoordinatorInMemory
from tests.support.forms import write
from thebes.person.home import Person
from thebes.requestor.server import Server
from thebes.tasks import kind_failure, registry
from thebes.tasks.document import Strict
from thebes.tasks.kind_failure import KindFailed, guarded
from thebes.web.coordinator.forms.draft import kinds

Written = Callable[..., str]
TALLY: dict[str, Any] = {
    "type": "tally",
    "epsilon": 1.0,
    "min_count": 12,
    "featurizer": "SELECT smokes FROM profile.habits",
}
SECRET = "4711-is-a-value"


FORM = """\
from thebes.privacy.faults import Refusal
from thebes.tasks.form import Form, Hint, PartChoice

def refused():
    raise Refusal("no")

"""


def failing(*_: object, **__: object) -> Any:
    raise ValueError(SECRET)


@pytest.fixture
def front(tmp_path: Path) -> Iterator[Front]:
    kind_failure.tell.cache_clear()
    with Front(tmp_path / "home") as made:
        yield made


@pytest.mark.few(1)
@pytest.mark.parametrize("answer", [failing, lambda *_, **__: None], ids=["raises", "nothing"])
@pytest.mark.parametrize(
    ("half", "told"),
    [
        ("subject", "the kind tally could not describe this task"),
        ("explain", "the kind tally could not describe this task"),
        ("price", "the kind tally could not price this task"),
        ("check", "the kind tally could not read this document"),
    ],
)
def test_lists_and_pages_go_on_when_a_kind_fails_at_one_task(
    front: Front,
    written: Written,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    half: str,
    told: str,
    answer: Callable[..., Any],
) -> None:
    with registry.registered(written()):
        ours, theirs = front.post(TALLY), front.post({**AGES, "name": "Median age"})
        monkeypatch.setattr(type(registry.kind("tally")), half, answer)
        with caplog.at_level(logging.ERROR):
            pages = [front.client.get(path) for path in ("/", "/ended", "/ask", f"/task/{theirs}", f"/task/{ours}")]
            listed = {each["task_id"]: each for each in front.client.get("/api/task").json()}
    assert [page.status_code for page in pages] == [200] * len(pages)
    assert "Median age" in pages[0].text
    assert listed.keys() == {ours, theirs}
    assert told in (pages[0].text if half == "subject" else listed[ours]["explanation"])
    assert told in pages[4].text
    assert [each for each in caplog.messages if each.startswith(told) and f"its {half} " in each]
    assert not [each for each in (*caplog.messages, caplog.text, *(page.text for page in pages)) if SECRET in each]


def test_a_task_whose_kind_is_gone_costs_its_own_entry(front: Front, written: Written, tmp_path: Path) -> None:
    with registry.registered(written()):
        ours = front.post(TALLY)
    theirs = front.post(AGES)
    with Front(tmp_path / "home") as later:
        listed = {each["task_id"]: each for each in later.client.get("/api/task").json()}
        assert listed.keys() == {ours, theirs}
        assert listed[ours]["explanation"].startswith("Nothing here can say what this task is")
        assert (listed[ours]["price"], listed[ours]["min_count"]) == (None, 12)
        pages = [later.client.get(path) for path in ("/", f"/task/{ours}")]
        assert [(page.status_code, "unknown" in page.text) for page in pages] == [(200, True)] * 2
        told = Server(SimpleNamespace(tasks=lambda: list(listed.values()))).tasks()  # type: ignore[arg-type]
        cells = {row.split()[0]: row.split() for row in repr(told).splitlines()}
        assert (cells[ours][5], cells[theirs][5]) == ("unknown", "1")
        assert later.client.delete(f"/api/task/{ours}", headers=later.admin).status_code == 204
        assert ">unknown<" in later.client.get("/ended").text


def test_what_nobody_can_be_told_of_is_not_put_up(
    front: Front, written: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    with registry.registered(written()):
        monkeypatch.setattr(type(registry.kind("tally")), "explain", failing)
        refused = front.client.post("/api/task", json=TALLY, headers=front.admin)
        assert refused.status_code == 403
        assert "the kind tally could not describe this task: its explain raised ValueError" in refused.text
        assert SECRET not in refused.text


@pytest.mark.parametrize(
    "said",
    [
        "{}",
        "Form(rank='first')",
        "Form(rank=1 / 0)",
        "Form(rank=-1, fields={'epsilon': Hint(when=lambda x: 1 / 0)})",
        "Form(rank=-1, fields={'name': Hint(choices=lambda x: 1 / 0)})",
        "Form(rank=-1, makes=lambda x: 1 / 0)",
        "Form(rank=-1, makes=lambda x: [1])",
        "Form(rank=-1, makes=lambda x: [][0], fields={'name': Hint(columns=lambda x: x.given, but='epsilon')})",
        "Form(rank=-1, fields={'name': Hint(when=lambda x: refused())})",
        "Form(rank=-1, fields={'name': Hint(choices=lambda x: [1])})",
        "Form(rank=-1, fields={'name': Hint(told=1)})",
        "Form(rank=-1, fields={'name': Hint(help=1)})",
        "Form(rank=-1, fields={'name': Hint(label=1)})",
        "Form(rank=-1, fields={'name': Hint(first=1)})",
        "Form(rank=-1, fields={'name': Hint(lines='many')})",
        "Form(rank=-1, fields={'name': Hint(place='nowhere')})",
        "Form(rank=-1, fields={'name': 'a few words'})",
        "Form(rank=-1, fields={'some': PartChoice(label='Some', parts={}, told={})})",
        "Form(rank=-1, fields={'some': PartChoice(label='Some', parts={'a': 'epsilon'}, told={})})",
        "refused()",
    ],
)
def test_a_form_that_fails_is_drawn_plainly_and_the_others_as_ever(front: Front, written: Written, said: str) -> None:
    package = written()
    with registry.registered(package):
        (Path(registry.places()[0]) / package / "form.py").write_text(f"{FORM}FORM = {said}\n")
        assert {"tally", "basic"} <= kinds().keys()
        for asked in ("/ask", "/ask?kind=tally", "/ask?kind=basic"):
            page = front.client.get(asked)
            assert page.status_code == 200
            assert 'value="tally"' in page.text
            assert 'id="epsilon"' in page.text


COMPOSED = {"kind": "tally", "mode": "form", "was": "form", "featurizer": "SELECT smokes FROM profile.habits"}


@pytest.mark.parametrize(
    ("reads", "what"),
    [
        ("lambda text: {}[text]", "raised KeyError (form.py, line 7)"),
        ("lambda text: refused()", "raised Refusal (form.py, line 5)"),
        ("lambda text: {text}", "returned set instead of JSON"),
        ("lambda text: float('nan')", "returned float instead of JSON"),
    ],
)
def test_what_a_failing_hint_cannot_read_is_a_problem_of_its_field(
    front: Front, written: Written, caplog: pytest.LogCaptureFixture, reads: str, what: str
) -> None:
    package = written("form.py", "", f"{FORM}FORM = Form(fields={{'epsilon': Hint(reads={reads})}})\n")
    told = f"the kind tally could not do its part of this: its hint of epsilon, reads {what}"
    with registry.registered(package), caplog.at_level(logging.ERROR):
        for path in ("/ask/check", "/ask/fields"):
            page = write(front, path, {**COMPOSED, "epsilon": SECRET})
            assert (told in unescape(page)) is (path == "/ask/check")
    assert [each for each in caplog.messages if each.startswith(told)]
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("writes", "what"),
    [
        ("lambda value: {}[value]", "raised KeyError (form.py, line 7)"),
        ("lambda value: refused()", "raised Refusal (form.py, line 5)"),
        ("lambda value: value", "returned float instead of str"),
    ],
)
def test_what_a_failing_hint_cannot_write_stands_there_as_its_schema_writes_it(
    front: Front, written: Written, caplog: pytest.LogCaptureFixture, writes: str, what: str
) -> None:
    package = written("form.py", "", f"{FORM}FORM = Form(fields={{'epsilon': Hint(writes={writes})}})\n")
    with registry.registered(package), caplog.at_level(logging.ERROR):
        page = front.client.get(f"/ask?like={front.post(TALLY | {'epsilon': 2.5})}")
        assert page.status_code == 200
        assert 'id="epsilon" name="epsilon" value="2.5"' in page.text
    assert [each for each in caplog.messages if f"its hint of epsilon, writes {what}" in each]


@pytest.mark.parametrize("said", ["['epsilon']", "[('epsilon', 1)]", "[(1, 'low')]", "1 / 0", "refused()"])
def test_cautions_that_are_none_caution_nobody(front: Front, written: Written, said: str) -> None:
    package = written("form.py", "", f"{FORM}FORM = Form(cautions=lambda document, types: {said})\n")
    with registry.registered(package):
        page = write(front, "/ask/check", {**COMPOSED, "epsilon": "1", "min_count": "12"})
    assert "could not" not in page
    assert "to mend" not in page


def test_a_person_is_offered_everything_but_what_nobody_can_describe(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = CoordinatorInMemory()
    with (
        registry.registered(written()),
        closing(Person(tmp_path / "person", client=server, delay=False)) as person,  # type: ignore[arg-type]
    ):
        ours, theirs = server.post(TALLY), server.post(AGES)
        assert {task["task_id"] for task in person.tasks()} == {ours, theirs}
        monkeypatch.setattr(type(registry.kind("tally")), "explain", failing)
        assert [task["task_id"] for task in person.tasks()] == [theirs]
        with pytest.raises(KindFailed, match="could not describe this task: its explain raised ValueError"):
            person.task(ours)


def test_an_answer_that_its_kind_cannot_show_keeps_its_number_and_certificate(front: Front, written: Written) -> None:
    text = "def sections(release, document):\n    yield 1 / 0\n\ndef table(release):\n    return 1 / 0\n"
    package = written("view.py", "", text)
    with registry.registered(package):
        task_id = front.post(TALLY)
        front.fill(task_id, 12, {"yes": 1})
        front.closing.step()
        page = front.client.get(f"/task/{task_id}")
        assert page.status_code == 200
        assert "the kind tally could not show this answer: its sections raised ZeroDivisionError" in page.text
        assert 'id="answer"' in page.text
        assert "Certificate" in page.text
        assert front.client.get(f"/task/{task_id}/release.csv").status_code == 403


def test_a_rehearsal_that_fails_is_refused_in_a_sentence(written: Written) -> None:
    with registry.registered(written("rehearsal.py", "", "raise RuntimeError")):
        with pytest.raises(KindFailed, match=r"its rehearsal\.py raised RuntimeError"):
            registry.rehearsal("tally")
        assert registry.rehearsal("basic").refused(registry.check(AGES)) == ""


def test_what_a_kind_asks_wrongly_of_its_document_is_told_with_its_own_line() -> None:
    with (
        pytest.raises(KindFailed, match=r"raised AttributeError \(test_kind_failures\.py, line \d+\)"),
        guarded("k", "check"),
    ):
        Strict().columns  # type: ignore[attr-defined]  # noqa: B018
