"""Open tasks, one task, what it would read, what would leave; and yes, no, or take it back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Request
from fastapi.responses import Response

from thebes.data.featurizer import read
from thebes.person.home import Person
from thebes.person.rest_schema import TASK_ID
from thebes.privacy.faults import Mistake
from thebes.web.person import states, words
from thebes.web.person.answer import shown
from thebes.web.person.layout import PersonLayout, attempt, text

LONGEST_WORD = 400  #: characters of one text in a document that are shown; a network is very long
_DONE = {
    "accept": "Agreed. Your machine does the rest by itself.",
    "decline": "Declined. Standing rules will not agree to this task either.",
}

TaskId = Annotated[str, Path(pattern=TASK_ID)]


def routes(layout: PersonLayout) -> APIRouter:
    made, person = layout.routes(), layout.person

    @made.get("/tasks")
    def tasks(request: Request) -> Response:
        found, trouble = attempt(person.tasks)
        ledger = person.balance()
        here = _tables(person)
        offers = [{**facing(task, ledger, _cap(task)), "lacks": _lacks(task, here)} for task in found or ()]
        for task in offers:
            task["hidden"] = _hidden(task, person)
            if task["lacks"] and states.may_decide(task):
                task["able"] = _able(task["task_id"])
        decided = [task for task in offers if task["state"] != "seen"]
        told = {"decided": decided, "trouble": trouble, "unread": () if trouble else words.unread(person.unread())}
        return layout.page(request, "tasks.html", title="Open tasks", tasks=offers, **told)

    @made.get("/tasks/{task_id}")
    def task(request: Request, task_id: TaskId) -> Response:
        found = _facing(person.task(task_id))
        preview, trouble = attempt(lambda: person.preview(task_id))
        return layout.page(
            request,
            "task.html",
            title=words.called(found["name"], found["type"]),
            task={**found, "hidden": _hidden(found, person), "able": _able(task_id)},
            shown=shortened(found["document"]),
            reads=_reads(found["document"], person),
            preview=preview,
            trouble=trouble,
            confirmed=_confirmed(found),
            **_answer(found, person),
        )

    @made.post("/tasks/{task_id}/helper")
    def helper(request: Request, task_id: TaskId, body: Annotated[dict[str, Any], Body()]) -> Response:
        """Confirm the helper of a task by what its institution publishes."""
        person.confirm_helper(task_id, text(body, "fingerprint"))
        return _helper(
            task_id, "It is the key in this task's document; that the institution publishes it is your word."
        )

    @made.post("/tasks/{task_id}/helper/forget")
    def forget_helper(request: Request, task_id: TaskId) -> Response:
        """Take back that a key of this task's helper was confirmed."""
        name = person.task(task_id, anew=False)["document"].get("helper", "")
        person.forget_helper(name)
        return _helper(task_id, f"You have confirmed no key of {name} any more.")

    @made.get("/tasks/{task_id}/example")
    def example(request: Request, task_id: TaskId) -> Response:
        """A fresh draw each time it is asked for."""
        drawn, trouble = attempt(lambda: person.example(task_id))
        type_ = None if trouble else person.task(task_id)["type"]
        return layout.part("example.html", task_id=task_id, type=type_, drawn=drawn, trouble=trouble)

    @made.post("/tasks/{task_id}/decide")
    def decide(request: Request, task_id: TaskId, body: Annotated[dict[str, Any], Body()]) -> Response:
        """Yes, no, or take it back; the outcome is told where the question stood."""
        what = text(body, "decision")
        ways = {"accept": person.accept, "decline": person.decline}
        if what not in (*ways, "withdraw", "back"):
            raise Mistake("decision", "must be accept, decline or withdraw")
        question = ""
        if what == "withdraw":
            note = person.withdraw(task_id, seen=text(body, "seen"), packets_sent=body.get("packets_sent"))["note"]
            told = words.sentence(note or "you took it back")
        elif what == "accept" and (question := _question(task_id, sure=text(body, "sure") == "yes")):
            told = None
        elif what == "back":  # from the second question: nothing was decided
            told = "Nothing was decided."
        else:
            ways[what](task_id)
            told = _DONE[what]
        brief = bool(text(body, "brief"))
        facts: dict[str, Any] = {"task": _standing(task_id, brief=brief), "share": person.settings().task}
        return layout.part("standing.html", told=told, question=question, brief=brief, **facts)

    @made.get("/tasks/{task_id}/came")
    def came(request: Request, task_id: TaskId) -> Response:
        """Show what came of a task so far, as it is known here: the coordinator is not asked."""
        found = person.task(task_id, anew=False)
        return layout.part("came.html", task=found, **_answer(found, person))

    @made.get("/tasks/{task_id}/standing")
    def standing(request: Request, task_id: TaskId, brief: str = "") -> Response:
        """Tell where one stands with a task now. The coordinator is not asked: it would see who looks for long."""
        return layout.part("facing.html", task=_standing(task_id, brief=bool(brief)), brief=bool(brief))

    def _helper(task_id: str, told: str) -> Response:
        found = person.task(task_id, anew=False)
        return layout.part("helper.html", task=found, told=told, confirmed=_confirmed(found))

    def _confirmed(task: Mapping[str, Any]) -> str | None:
        """Return the key that this person confirmed for a task's helper, whichever the task names."""
        return person.settings().helpers.get(task["document"].get("helper", ""))

    def _question(task_id: str, *, sure: bool) -> str:
        """Return what is to be asked before a yes counts: for limits, or once more; empty where nothing is."""
        allowed, task = person.settings().task, person.task(task_id)
        if allowed is None:
            return "limits"
        parts = [task["each"], *(task[name] for name in ("paid", "set_aside") if name in task)]  # all of this task
        epsilon, delta = (sum(part[name] for part in parts) for name in ("epsilon", "delta"))
        return "" if sure or allowed.covers(epsilon, delta) else "sure"

    def _standing(task_id: str, *, brief: bool) -> dict[str, Any]:
        found = _facing(person.task(task_id, anew=False))
        if (found["lacks"] or not brief) and states.may_decide(found):
            found["able"] = _able(task_id)
        return found

    def _facing(task: Mapping[str, Any]) -> dict[str, Any]:
        lacks, hides = _lacks(task, _tables(person)), person.settings().hides_sender
        return {**facing(task, person.balance(), _cap(task)), "lacks": lacks, "hides_sender": hides}

    def _cap(task: Mapping[str, Any]) -> dict[str, Any] | None:
        return person.under_cap(task["requestor"], words.budget_of(task["trust"]))

    def _able(task_id: str) -> bool:
        able, _ = attempt(lambda: person.able(task_id))  # what cannot be looked at is told where somebody agrees
        return able is not False

    return made


def facing(task: Mapping[str, Any], ledger: Mapping[str, Any], cap: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A task as it faces this person: its price beside what is left of the budget it draws on, or of the cap of its
    requestor where that leaves less."""
    budget = words.budget_of(task["trust"])
    period, year, overall = (ledger[budget][name] for name in ("period", "year", "overall"))
    limits = (period, year, overall, *([cap] if cap else ()))
    tighter = min(limits, key=lambda block: block["remaining"]["epsilon"])
    each, left = task["each"], tighter["remaining"]
    window = words.stretch(period) if tighter in (period, cap) else "within a year" if tighter is year else "for ever"
    deltas = [block["remaining"]["delta"] for block in limits]
    return {
        **task,
        "budget": budget,
        "limit": tighter["epsilon"],
        "gone": tighter["epsilon"] - left["epsilon"],
        "left": left,
        "capped": cap is not None and tighter is cap,
        "window": f"{window}, by your cap for {task['requestor']}" if tighter is cap else window,
        "share": each["epsilon"] / left["epsilon"] if left["epsilon"] > 0 else None,
        "fits": each["epsilon"] <= left["epsilon"]
        and all(each["delta"] <= delta for delta in deltas if delta is not None),
    }


def shortened(value: Any) -> Any:
    """A document with very long texts cut, so that it can be read; the whole one is a link away."""
    if isinstance(value, Mapping):
        return {key: shortened(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [shortened(item) for item in value]
    if isinstance(value, str) and len(value) > LONGEST_WORD:
        return f"{value[:LONGEST_WORD]}… ({len(value)} characters)"
    return value


def _answer(task: Mapping[str, Any], person: Person) -> dict[str, Any]:
    """Return the answer to a task that was answered here, made ready to be drawn, and one's own place in it."""
    results = [p["result"] for p in task["participations"] if p["result"] is not None]
    if not results:
        return {"answered": False}
    document = person.document(task["task_id"])
    return {"answered": True, "answer": shown(results[-1], document), "place": person.place(task["task_id"])}


def _hidden(task: Mapping[str, Any], person: Person) -> str:
    """Say what to know about a task with tokens whose group is hardly larger than what it needs."""
    groups = attempt(person.groups)[0] if task["anonymity"] == "token" else None
    return words.hidden_among(task, groups or [])


def _reads(document: Mapping[str, Any], person: Person) -> list[dict[str, Any]]:
    """The tables and columns that the SQL names, with what their collector says about them."""
    known = {
        (f"{collector['name']}.{table['name']}".lower(), column["name"].lower()): column
        for collector in person.store()
        for table in collector["tables"]
        for column in table["columns"]
    }
    here = _tables(person)
    found = read(str(document.get("featurizer", ""))).tables
    return [
        {
            "table": table,
            "here": table.lower() in here,
            "columns": [(column, known.get((table.lower(), column.lower()))) for column in columns],
        }
        for table, columns in found.items()
    ]


def _tables(person: Person) -> set[str]:
    return {f"{each['name']}.{table['name']}".lower() for each in person.store() for table in each["tables"]}


def _lacks(task: Mapping[str, Any], here: set[str]) -> list[str]:
    """List the tables that a task reads and this store does not have."""
    return [table for table in read(str(task["document"].get("featurizer", ""))).tables if table.lower() not in here]
