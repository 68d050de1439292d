"""The views that a site shows its steward: requests and decisions, budgets, data sets, the audit log. Never rows, never
counts of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from thebes.curator.cache.planner import Planner
from thebes.curator.cache.synopsis import View
from thebes.curator.cache.synopsis_kinds import SYNOPSES
from thebes.curator.streams.stream import Stream, StreamBlock
from thebes.ledger import Block, Head, Ledger, Tampered
from thebes.privacy.faults import Mistake, Refusal
from thebes.site.budget.blocks import block_of, standing
from thebes.site.budget.budget import SiteBudget
from thebes.site.budget.policy import Policy, PolicyRefusal, PolicyRule
from thebes.site.dataset import DataSet, DataSets
from thebes.site.requests.planned_question import whole
from thebes.site.requests.response_store import ResponseStore, SiteRequest
from thebes.site.steward.audit_log import Audit
from thebes.site.steward.cache_savings import saved
from thebes.tasks import registry
from thebes.tasks.kind_failure import KindFailed

MOST_REQUESTS = 200
MOST_ENTRIES = 500
LONGEST_DOCUMENT = 20_000  #: characters of JSON


def requests(outbox: ResponseStore) -> list[dict[str, Any]]:
    """The latest tasks that were asked here, newest first: for whom, what was decided, what it cost so far."""
    return [_request(outbox, request) for request in outbox.requests(most=MOST_REQUESTS)]


def ledger(budget: SiteBudget, datasets: DataSets, policy: Policy) -> dict[str, Any]:
    """Blocks, and what each rule of the policy still allows at each data set; those of growing data sets are shown with
    them."""
    books: Ledger = budget.ledger
    declared = {dataset.name for dataset in datasets.all() if dataset.blocks is None}
    grow = tuple(f"{dataset.name}/" for dataset in datasets.all() if dataset.blocks is not None)
    blocks = {block.name: block for block in books.blocks() if not block.name.startswith(grow)}
    rules = []
    for rule in policy.rules:
        named = sorted(name for name in declared & set(blocks) if {name, "*"} & set(rule.datasets))
        left = {name: budget.left(rule, blocks[name]).as_json() for name in named}
        spent = {name: budget.counted(rule, blocks[name]).as_json() for name in named}
        rules.append({**_rule(rule), "left": left, "spent": spent})
    return {
        "frozen": books.frozen,
        "notices_older_copies": books.notices_older_copies,
        "head": str(books.head()),
        "blocks": [standing(block) for block in blocks.values()],
        "rules": rules,
        "refusals": [_refusal(refusal) for refusal in policy.refusals],
        "policy": policy.trouble,
    }


def budgets(budget: SiteBudget, datasets: DataSets, policy: Policy) -> dict[str, Any]:
    """Return the share of each data set's budget that is left, of one that grows by its open block that has most; and
    whether anything is spent at all."""
    blocks = budget.ledger.blocks()
    shares = {
        name: [block.left for block in blocks if block.name == name or block.name.startswith(f"{name}/")]
        for name in datasets.names()
    }
    left = {name: max(each, default=0.0) for name, each in shares.items()}
    return {"frozen": budget.ledger.frozen, "left": left, "policy": policy.trouble}


def described(
    datasets: DataSets,
    books: Ledger,
    streams: Callable[[DataSet], Stream] | None = None,
    caches: Callable[[DataSet], Planner | None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Every declared data set, also one whose file cannot be read, with what is wrong with it."""
    told = []
    for name in datasets.names():
        try:
            dataset = datasets.get(name)
        except Mistake as mistake:
            told.append({"name": name, "trouble": str(mistake)})
            continue
        if dataset is not None:
            told.append({"name": name, **shown(dataset, books, streams, caches)})
    return told


def shown(
    dataset: DataSet,
    books: Ledger,
    streams: Callable[[DataSet], Stream] | None = None,
    caches: Callable[[DataSet], Planner | None] = lambda _: None,
) -> dict[str, Any]:
    """One data set with its block, or with all its blocks where it grows and `streams` opens it, and what its cache has
    saved."""
    trouble, blocks = None, []
    paying: list[Block] = []  # in the ledger
    growing: dict[str, Any] = {}
    view: View | None = None  #: about which questions are asked; nobody's where budgets are separate
    try:
        if dataset.blocks is None:
            paying, view = [block_of(books, dataset)], ()
            blocks = [standing(paying[0])]
        elif streams is not None:
            stream = streams(dataset)
            blocks = [block_of_stream(block, dataset) for block in stream.blocks()]
            growing = {"by": str(stream.by), "assumption": stream.assumption, "filter": stream.terms.filter}
            growing["contexts"] = list(stream.contexts)
            if (widths := stream.count_widths()) is not None:
                growing["counts"] = {"users": widths[0], "rows": widths[1], "periods": stream.terms.periods}
            told = stream.earlier(b.name for b in stream.blocks() if b.size is not None)
            growing["sizes"] = told.as_json() if told.delta else {"epsilon": float(told.epsilon)}
            view = None if stream.terms.separate else whole(stream, "")
            paying = books.blocks(f"{dataset.name}/") if dataset.cache.kind in SYNOPSES else []
    except (Refusal, Mistake) as refused:
        trouble = str(refused)
    return {
        **({"growing": growing} if dataset.blocks is not None else {}),
        "schema": dataset.schema.as_json(),
        "public": dataset.schema.public,
        "source": str(dataset.source.get("kind", "?")),
        "blocks": blocks,
        "cache": saved(dataset, caches(dataset), view, ledger=books, blocks=paying),
        "trouble": trouble,
    }


def block_of_stream(block: StreamBlock, dataset: DataSet) -> dict[str, Any]:
    """One of its blocks, as its steward is shown it; `size` is the noisy one that everybody may know."""
    told: dict[str, Any] = {
        "block": block.name,
        "epsilon": float(dataset.budget.epsilon),
        "delta": float(dataset.budget.delta),
        "remaining": block.remaining.as_json(),
        "left": block.left,
        "account": block.account,
        "state": str(block.state),
        "size": block.size,
    }
    if block.since is not None and block.until is not None:
        return {**told, "since": block.since.isoformat(), "until": block.until.isoformat()}
    return {**told, "value": block.value}


def log(audit: Audit, most: int = MOST_ENTRIES) -> dict[str, Any]:
    """The end of the audit log, newest first, and its head."""
    entries = [
        {"number": e.number, "at": e.at, "event": e.event, "facts": e.facts, "hash": e.hash} for e in audit.latest(most)
    ]
    return {"head": str(audit.head()), "entries": entries}


def verified(audit: Audit, books: Ledger) -> dict[str, Any]:
    """Tell whether the audit log and the ledger's journal are whole, and what does not fit."""
    return {name: _checked(what.verify) for name, what in (("audit log", audit), ("ledger", books))}


def _checked(verify: Callable[[], Head]) -> dict[str, Any]:
    try:
        return {"entries": verify().length, "findings": []}
    except Tampered as tampered:
        return {"entries": 0, "findings": list(tampered.findings)}


def _request(outbox: ResponseStore, request: SiteRequest) -> dict[str, Any]:
    parts, epsilon, delta = outbox.paid(request.task)
    return {
        "task": request.task,
        "requestor": request.requestor,
        "kind": request.kind,
        "dataset": request.dataset,
        "datasets": list(request.datasets),
        "noise": request.noise,
        "digest": request.digest,
        **_said(request),
        "asked_at": request.asked_at,
        "state": request.state,
        "code": request.code,
        "reason": request.reason,
        "rule": request.rule,
        "parts": parts,
        "cost": {"epsilon": epsilon, "delta": delta},
    }


def _said(request: SiteRequest) -> dict[str, Any]:
    """The document and what it means, unless it is as long as a network."""
    if len(json.dumps(request.document)) > LONGEST_DOCUMENT:
        return {"document": None, "explanation": ""}
    try:
        document = registry.accepted_earlier(request.document)
        explanation = registry.drawn(document.type).explain(document)
    except Mistake:
        explanation = ""
    except KindFailed as failed:
        explanation = str(failed)
    return {"document": dict(request.document), "explanation": explanation}


def _rule(rule: PolicyRule) -> dict[str, Any]:
    return {
        "rule": rule.number,
        "requestors": list(rule.requestors),
        "datasets": list(rule.datasets),
        "kinds": list(rule.kinds),
        "epsilon": float(rule.epsilon),
        "delta": None if rule.delta is None else float(rule.delta),
        "noise": list(rule.noise),
        "helpers": list(rule.helpers),
        "contexts": list(rule.contexts),
        "steady": rule.steady,
        "task": rule.task,
        "ended": rule.ended,
    }


def _refusal(refusal: PolicyRefusal) -> dict[str, Any]:
    return {
        "refusal": refusal.number,
        "requestors": list(refusal.requestors),
        "datasets": list(refusal.datasets),
        "kinds": list(refusal.kinds),
        "reason": refusal.reason,
        "task": refusal.task,
        "ended": refusal.ended,
    }
