"""The decisions that a steward takes about who may ask: what each would change in policy.toml, and the change.

What must stay true: nothing is decided that was not shown first, of exactly the policy that was shown; every decision
is in the audit log before it counts; a rule that ends forgets nothing of what was spent under it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from thebes.privacy import exact
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.site.budget.policy import ANY, TaskFacts
from thebes.site.budget.policy_file import PolicyChanged, change, text_of
from thebes.site.budget.policy_text import appended, edition, ended, read_policy
from thebes.site.requests.response_store import ResponseStore, SiteRequest
from thebes.site.steward.audit_log import Audit

DECISION = "decision"  #: in the audit log
_ANSWERED_IN_ATTEMPTS = "pipeline"  #: the kind whose attempts each claim for themselves


@dataclass(frozen=True, slots=True)
class Decision:
    """A change of the policy: what it means in a sentence, what it adds to the file, and how it is made."""

    sentence: str
    lines: str
    make: Callable[[str], str]
    facts: Mapping[str, Any]


def decision(asked: Mapping[str, Any], outbox: ResponseStore, text: str) -> Decision:
    """Read what a steward wants of a policy's text: `action` is allow, refuse, end or resume. Of the first two `task`
    names a request, and `scope` whether it is about that task or about all that its requestor asks."""
    action = asked.get("action")
    if action in ("end", "resume"):
        return _ended(asked, text, end=action == "end")
    if action not in ("allow", "refuse"):
        raise Mistake("action", "must be allow, refuse, end or resume")
    request = outbox.request(str(asked.get("task")))
    if request is None:
        raise Mistake("task", "is not a task that was asked here")
    if ANY in (request.requestor, *request.datasets, request.kind):
        raise Mistake(
            "task", "has a name that stands for everybody in a rule; write the rule into policy.toml yourself"
        )
    scope = asked.get("scope", "task")
    if scope not in ("task", "requestor"):
        raise Mistake("scope", "must be task or requestor")
    return _allowed(request, asked, scope, text) if action == "allow" else _refused(request, asked, scope)


def preview(asked: Mapping[str, Any], outbox: ResponseStore, policy: Path) -> dict[str, Any]:
    """Tell what a decision would change, of which edition of the policy."""
    text = text_of(policy)
    wanted = decision(asked, outbox, text)
    wanted.make(text)
    return {"sentence": wanted.sentence, "lines": wanted.lines, "shown": _shown(wanted, text)}


def _shown(wanted: Decision, text: str) -> str:
    """Return a name of this decision about this policy: no other may be taken by it."""
    return edition("\0".join([edition(text), wanted.sentence, wanted.lines]))


def decide(asked: Mapping[str, Any], outbox: ResponseStore, policy: Path, audit: Audit) -> dict[str, Any]:
    """Change the policy as it was shown, and tell what is so now and how it is undone; `stale` where the policy is
    another by now."""
    shown = asked.get("shown")
    if not isinstance(shown, str):
        raise Mistake("shown", "must name the policy that this decides about: ask for a preview first")
    before = text_of(policy)
    wanted = decision(asked, outbox, before)
    if shown != _shown(wanted, before):
        return {"stale": "policy.toml, or this decision, is not what was shown; look at it again, then decide"}
    facts = {**wanted.facts, **({"by": asked["by"]} if asked.get("by") else {})}
    try:
        text = change(policy, wanted.make, shown=edition(before), noted=lambda: audit.note((DECISION, facts)))
    except PolicyChanged as changed:
        return {"stale": str(changed)}
    made = read_policy(text)
    action = asked.get("action")
    if action == "allow":
        undo = {"action": "end", "table": "allow", "number": len(made.rules)}
    elif action == "refuse":
        undo = {"action": "end", "table": "refuse", "number": len(made.refusals)}
    else:
        turned = "resume" if action == "end" else "end"
        undo = {"action": turned, "table": asked.get("table"), "number": asked.get("number")}
    return {"told": wanted.sentence, "undo": undo}


def _allowed(request: SiteRequest, asked: Mapping[str, Any], scope: str, text: str) -> Decision:
    abouts = [
        TaskFacts(request.requestor, dataset, request.kind, request.noise, request.digest)
        for dataset in request.datasets
    ]
    policy = read_policy(text)
    for refusal in policy.refusals:
        if any(refusal.covers(about) for about in abouts):
            raise Mistake(
                "task", f"is refused by refusal {refusal.number} of the policy, which comes first: end that one"
            )
    if scope == "task" and request.kind == _ANSWERED_IN_ATTEMPTS:
        raise Mistake("scope", "must be requestor: a pipeline pays for each of its attempts, not as one task")
    try:
        most = exact.epsilon(Decimal(str(asked.get("epsilon"))))
    except (ArithmeticError, ValueError):
        raise Mistake("epsilon", "must be a number above 0") from None
    if request.noise == "split":
        raise Mistake(
            "task",
            "sends shares to a helper: its fingerprint is to be compared with what that institution itself publishes. "
            "Then use thebes dataset grant with --noise split --helpers FINGERPRINT",
        )
    general = [policy.rule(replace(about, digest="")) for about in abouts]
    rule = {
        "requestors": [request.requestor],
        "datasets": list(request.datasets),
        "kinds": [request.kind],
        "epsilon": most,
        "noise": ["site", "coordinator"] if request.noise == "coordinator" else None,
        "contexts": asked.get("contexts") or None,
        "steady": True
        if any(rule is not None and rule.steady for rule in general)
        else None,  # a decision about one task makes it tell no more
        "task": request.digest if scope == "task" else None,
    }
    facts = {"requestor": request.requestor, "dataset": request.dataset, "task": request.task, "scope": scope}
    facts |= {"joined": request.datasets[1]} if len(request.datasets) > 1 else {}
    what = "this task" if scope == "task" else f"{request.kind} tasks"
    noise = "; exact totals leave this site, and the coordinator adds the noise" if rule["noise"] else ""
    each = " of each" if len(request.datasets) > 1 else ""
    named: list[str] = asked.get("contexts") or []
    rows = "" if not named else " (all rows)" if ANY in named else f" (rows of {' and '.join(named)})"
    price = f"epsilon {figure(float(most))}{each} together{noise}"
    single = [refusal for refusal in policy.refusals if refusal.task and request.requestor in refusal.requestors]
    but = ""
    if scope == "requestor" and any(not refusal.ended for refusal in single):
        but = " What you refused as single tasks stays refused, but the same question asked otherwise is answered."
    return Decision(
        f"{request.requestor} may ask {what} about {' and '.join(request.datasets)}{rows}, for {price}.{but}",
        appended("", rule),
        lambda text: appended(text, rule),
        {"action": "allow", **facts, "epsilon": str(most)},
    )


def _refused(request: SiteRequest, asked: Mapping[str, Any], scope: str) -> Decision:
    reason = " ".join(str(asked.get("reason") or "").split())
    if not reason:
        raise Mistake("reason", "must be a sentence; whoever asked reads it")
    rule = {
        "requestors": [request.requestor],
        "reason": reason,
        "task": request.digest if scope == "task" else None,
    }
    what = "everything that they ask here is refused."
    if scope == "task":
        what = "this task is refused as it is. The same question at another epsilon is another task."
    return Decision(
        f"{request.requestor} is told: {reason}{'' if reason[-1] in '.!?' else '.'} From now on {what}",
        appended("", rule, table="refuse"),
        lambda text: appended(text, rule, table="refuse"),
        {"action": "refuse", "requestor": request.requestor, "task": request.task, "scope": scope},
    )


def _ended(asked: Mapping[str, Any], text: str, *, end: bool) -> Decision:
    table, number = asked.get("table"), asked.get("number")
    if table not in ("allow", "refuse"):
        raise Mistake("table", "must be allow or refuse")
    if isinstance(number, bool) or not isinstance(number, int):
        raise Mistake("number", "must say which rule it is")
    ended(text, table, number, end=end)
    which = f"Rule {number}" if table == "allow" else f"Refusal {number}"
    if end:
        means = "allows" if table == "allow" else "refuses"
        sentence = f"{which} {means} nothing from now on. What was spent stays spent, and still counts."
    else:
        sentence = f"{which} holds again."
    return Decision(
        sentence,
        f"ended = {str(end).lower()}",
        lambda current: ended(current, table, number, end=end),
        {"action": "end" if end else "resume", "rule": f"{table} {number}"},
    )
