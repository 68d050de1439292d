"""Standing rules: what a person agrees to in advance, one sentence each."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from fastapi.responses import Response

from thebes.person.home import Person
from thebes.person.settings import TaskShare
from thebes.person.tasks.rules import AgreementRule
from thebes.privacy.faults import Mistake
from thebes.tasks import registry
from thebes.web.person import words
from thebes.web.person.layout import PersonLayout, attempt, text

_NUMBERS = ("epsilon_at_most", "delta_at_most", "epsilon_per_week", "min_count", "probability")


def routes(layout: PersonLayout) -> APIRouter:
    made, person = layout.routes(), layout.person

    @made.get("/rules")
    def rules(request: Request) -> Response:
        return layout.page(
            request, "rules.html", title="Standing rules", types=registry.people_types(), **_context(person)
        )

    @made.get("/rules/in-force")
    def in_force(request: Request) -> Response:
        return layout.part("rules_in_force.html", **_context(person))

    @made.post("/rules/sentence")
    def sentence(request: Request, body: Annotated[dict[str, Any], Body()]) -> Response:
        """Say what the rule in the form would mean, or what it lacks to be one."""
        rule, lacking = attempt(lambda: _meant(body, person.settings().task))
        return layout.part("meant.html", meant=None if rule is None else words.rule(rule), lacking=lacking)

    @made.post("/rules/add")
    def add(request: Request, body: Annotated[dict[str, Any], Body()]) -> Response:
        """Add the rule whose sentence was read: a form that says something else by now is not added yet."""
        rule = _meant(body, person.settings().task)
        if text(body, "meant") not in ("", words.rule(rule)):
            raise Mistake("the sentence", "has changed since it was read; read it again, then add the rule")
        person.set_rules([*person.rules(), rule])
        told = f"The rule holds from now on: {words.rule(rule)}"
        return layout.part("rulebook.html", told=told, **_context(person))

    @made.post("/rules/remove")
    def remove(request: Request, body: Annotated[dict[str, Any], Body()]) -> Response:
        """The rule itself says which one: the list may have changed meanwhile."""
        rules, gone = person.rules(), body.get("rule")
        if gone not in rules:
            raise Mistake("rule", "is not there any more; reload the page")
        rules.remove(gone)
        person.set_rules(rules)
        told = "The rule no longer holds. What it agreed to before stays agreed."
        return layout.part("rulebook.html", told=told, **_context(person))

    return made


def read_form(body: dict[str, Any]) -> dict[str, Any]:
    """A form as a rule: what was left empty does not matter, so it is not in it."""
    rule: dict[str, Any] = {name: text(body, name) for name in ("type", "requestor", "server") if text(body, name)}
    rule |= {name: body[name] for name in _NUMBERS if body.get(name) not in (None, "")}
    if body.get("stated") in ("yes", True):
        rule["stated"] = True
    tables = body.get("tables")
    if tables:
        rule["tables"] = [tables] if isinstance(tables, str) else tables
    share = rule.get("probability")
    if isinstance(share, (int, float)):  # else it is refused as it is
        if not 0 < share <= 100:
            raise Mistake("chance to take part", "must be more than 0 % and at most 100 %")
        rule["probability"] = share / 100  # people think in per cent
    return rule


def _meant(body: dict[str, Any], allowed: TaskShare | None) -> dict[str, Any]:
    """Read a form as a rule that is no wider than anybody means: about one kind, of somebody or about some tables,
    within a price of a week, and within what one task may take without a second question."""
    rule = read_form(body)
    if "type" not in rule:
        raise Mistake("kind of task", "must be chosen: a rule is about one kind")
    if "requestor" not in rule and "tables" not in rule:
        raise Mistake("asked by", "must be a name, or tables must be chosen: else anybody could ask about anything")
    if "epsilon_per_week" not in rule:
        raise Mistake("epsilon at most, in seven days", "must be given: else a rule has no end")
    _not_in_vain(rule)
    most = AgreementRule.read(rule).epsilon_at_most
    if allowed is None:
        raise Mistake("your limits", "must be chosen first: the overview says where")
    if not allowed.covers(most, 0):
        raise Mistake(
            "epsilon at most", f"may be {allowed.epsilon:f} here: what takes more asks you twice, no rule does"
        )
    return rule


_LEAVES = {
    "trusted": "plain values, to a server",
    "split": "shares, to two servers",
    "untrusted": "noised on this machine",
}


def _not_in_vain(rule: dict[str, Any]) -> None:
    """A rule whose kind never leaves what it speaks of would agree to nothing, and nobody would notice."""
    possible = registry.servers(str(rule["type"]))
    if possible and rule.get("server", possible[0]) not in possible:
        leaves = " or ".join(_LEAVES[server] for server in possible)
        raise Mistake("what leaves", f"is always {leaves} in {rule['type']} tasks; choose that, or another kind")


def _context(person: Person) -> dict[str, Any]:
    tables = [f"{c['name']}.{t['name']}" for c in person.store() for t in c["tables"]]
    return {"rulebook": person.rulebook(), "tables": tables}
