"""Asking: a form over the published schemas, checked while one types, rehearsed with made-up people, put up."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.figures import plural
from thebes.tasks import registry
from thebes.tasks.document import InvalidDocument
from thebes.tasks.site_document import SiteDocument
from thebes.web.coordinator import rehearsal, words
from thebes.web.coordinator.forms import blocks, draw_discard, site_draft
from thebes.web.coordinator.forms.bound import text
from thebes.web.coordinator.forms.cautions import cautions
from thebes.web.coordinator.forms.draft import KINDS, OWN, Draft, tables_of
from thebes.web.coordinator.forms.ensemble import CUTS
from thebes.web.coordinator.forms.site_draft import Inquiry
from thebes.web.coordinator.layout import Hall, sentence
from thebes.web.coordinator.task import abridged
from thebes.wire.refused_sites import TOGETHER, verdict

AnyDraft = Draft | Inquiry

LABELS = {
    "type": "What comes out",
    "epsilon": "Epsilon",
    "delta": "Delta",
    "min_count": "People needed",
    "max_count": "People at most",
    "expires_at": "Expires",
    "featurizer": "SQL",
    "aggregator": "Statistic",
    "quantile": "Which quantile",
    "bins": "Bins",
    "model": "Model",
    "loss": "Loss",
    "inputs": "Inputs",
    "output": "Predicted column",
    "outputs": "Predicted column",
    "label": "Predicted column",
    "subsets": "Packets of one person",
    "subset_size": "Columns in a packet",
    "feature_subsets": "Which columns together",
    "perturbation": "Changed at random by",
    "method": "Put together by",
    "partitions": "Parts of the people",
    "votes": "Votes",
    "classifier": "Each learns by",
    "score": "Weighed by",
    "scoring_share": "Share of people who weigh",
    "family": "Family",
    "crosses": "Products of inputs",
    "instances": "Instances",
    "learning_rate": "Learning rate",
    "keep": "Learning rate to show",
    "decay": "Slower after",
    "reduce": "Several rows of one person",
    "epsilon_per_weight": "Epsilon of each weight",
    "max_participations": "Times a person may take part",
    "group": "Who may answer",
    "epoch": "Who may answer",
    "anonymity": "Who may answer",
    "mechanism": "Mechanism",
    "missing": "Missing values",
    "name": "Name",
    "purpose": "Purpose",
    "bounds": "Bounds",
    "document": "The JSON",
}
_ANCHORS = {
    "type": "kind",
    "inputs": "featurizer",
    "outputs": "output",
    "label": "output",
    "epoch": "group",
    "anonymity": "group",
    "document": "raw",
}


def routes(hall: Hall) -> APIRouter:
    made = hall.routes()
    reception = hall.reception

    async def choices() -> dict[str, Any]:
        schemas = await reception.schemas()
        return {
            "schemas": schemas,
            "tables": tables_of(schemas),
            "kinds": {type_: registry.words(type_) for type_ in (*KINDS, *site_draft.KINDS)},
            "own": OWN,
            "cuts": CUTS,
            "lasting": draw_discard,
            "published": {
                f"{group['name']}/{group['epoch']}": f"{group['name']}, epoch {group['epoch']}: "
                f"{plural(group['size'], 'member')}"
                for group in await reception.groups.published()
            },
            "statistics": await asyncio.to_thread(_statistics),
            "sites": await reception.sites(),
            "inquiry": site_draft,
        }

    @made.get("/ask")
    async def show(request: Request, like: str = "", dataset: str = "", site: str = "") -> Response:
        """The form: empty, like a task there is, or about a data set of a site."""
        told = await choices()
        draft: AnyDraft = Draft().settled(told["schemas"])
        if dataset:
            draft = Inquiry(dataset=dataset, asked=(site,) if site else ()).settled(told["sites"])
        if like:
            task, _ = await hall.task(like)
            draft = form_of(task["document"], told)
        return await hall.page(request, "ask.html", title="Ask a question", d=draft, **told)

    @made.post("/ask/fields")
    async def fields(request: Request) -> HTMLResponse:
        """The form after its structure changed."""
        body, told = await hall.written(request), await choices()
        answer = hall.part("fields.html", d=turned(read(body), body, told), **told)
        answer.headers["HX-Trigger"] = "recheck"
        return answer

    @made.post("/ask/check")
    async def check(request: Request) -> HTMLResponse:
        """Show what is wrong with a draft, field by field; or what people would be told."""
        draft = read(await hall.written(request))
        visitor = await hall.visitor(request)
        found = await examined(draft)
        rehearsed, careful = "", []
        if not found["problems"]:
            checked: Any = await asyncio.to_thread(registry.check, found["document"])
            rehearsed = _not_rehearsed(checked)
            if isinstance(checked, SiteDocument):
                careful = site_draft.cautions(checked, await reception.sites(), written=draft.written)
            elif isinstance(draft, Draft):
                careful = cautions(checked, draft, await reception.schemas(), await reception.groups.published())
        return hall.part(
            "verdict.html",
            found=found,
            document=abridged(found.get("document", {})),
            visitor=visitor,
            words=words,
            not_rehearsed=rehearsed,
            cautions=careful,
        )

    @made.post("/ask/rehearse")
    async def rehearse(request: Request) -> HTMLResponse:
        """Show how far noise would move the answer, with made-up people: for who is signed in."""
        draft = read(await hall.written(request))
        try:
            await hall.somebody(request)
            checked: Any = await asyncio.to_thread(reception.acceptance.checked, draft.document())
            told = await asyncio.to_thread(rehearsal.rehearse, checked)
        except (Mistake, Refusal) as error:
            return hall.told(error)
        kept = -(-int(100 * rehearsal.SHARE) * told["repeats"] // 100)
        return hall.part("rehearsal.html", told=told, kept=kept, leaning=rehearsal.learned_by(checked))

    @made.post("/ask/quote")
    async def quote(request: Request) -> HTMLResponse:
        """Ask the sites what they say of it beforehand, for who is signed in."""
        draft = read(await hall.written(request))
        try:
            told = await reception.quote(draft.document(), await hall.somebody(request))
        except (Mistake, Refusal) as error:
            return hall.told(error)
        verdicts = {site: verdict(one) for site, one in told.get("verdicts", {}).items()}
        return hall.part("quote.html", verdicts=verdicts, together=TOGETHER[told.get("allowed")], told=told)

    @made.post("/ask")
    async def put_up(request: Request) -> Response:
        """Put it up, and lead to its page."""
        draft = read(await hall.written(request))
        try:
            task_id, _ = await reception.post(draft.document(), await hall.somebody(request))
        except (Mistake, Refusal) as error:
            return hall.told(error)
        return Response(headers={"HX-Redirect": f"/task/{task_id}"})

    async def examined(draft: AnyDraft) -> dict[str, Any]:
        try:
            found = await reception.examined(draft.document())
        except InvalidDocument as refused:
            found = {"problems": [{"field": f, "message": m} for f, m in refused.problems]}
        found["problems"] = [told_plainly(problem, draft) for problem in found["problems"]]
        return found

    return made


def read(body: Mapping[str, Any]) -> AnyDraft:
    """Read what stands in the form, as a browser sent it."""
    return Inquiry.read(body) if text(body, "kind") in site_draft.KINDS else Draft.read(body)


def turned(draft: AnyDraft, body: Mapping[str, Any], told: Mapping[str, Any]) -> AnyDraft:
    """Between form and JSON where somebody changed over; what was composed so far comes along."""
    was_json = body.get("was") == "json"
    if draft.written and not was_json:
        form = settled(replace(draft, written=False), told)
        return replace(form, written=True, raw=form.as_far())
    if not draft.written and was_json:
        try:
            return of(replace(draft, written=True).document(), told)
        except InvalidDocument as refused:
            return replace(draft, written=True, note=f"Not possible yet. {refused.argument}: {refused.message}")
    return draft if draft.written else settled(draft, told)


def settled(draft: AnyDraft, told: Mapping[str, Any]) -> AnyDraft:
    """The form after its structure changed, by what is published of people's tables and of sites."""
    return draft.settled(told["sites"]) if isinstance(draft, Inquiry) else draft.settled(told["schemas"])


def of(document: Mapping[str, Any], told: Mapping[str, Any]) -> AnyDraft:
    """The form that means this document, or InvalidDocument."""
    of_sites = document.get("type") in site_draft.KINDS
    return Inquiry.of(document, told["sites"]) if of_sites else Draft.of(document, told["schemas"])


def form_of(document: Mapping[str, Any], told: Mapping[str, Any]) -> AnyDraft:
    """A form that means this document; where there is none, its JSON."""
    try:
        return of(document, told)
    except InvalidDocument:
        return Draft(written=True, raw=json.dumps(document, indent=2, ensure_ascii=False))


def told_plainly(problem: Mapping[str, str], draft: AnyDraft) -> dict[str, str]:
    """A problem in words, with the place in the form where it can be mended."""
    name, message = problem["field"], problem["message"]
    if draft.kind == "algorithm" and not draft.written:
        name = blocks.place(name)
    top, _, rest = name.partition(".")
    labels, places_of = LABELS, {**_ANCHORS, **(draw_discard.ANCHORS if draft.kind == "draw-discard" else {})}
    if isinstance(draft, Inquiry):
        labels, places_of = {**LABELS, **site_draft.LABELS}, site_draft.ANCHORS
    label = labels.get(top, top)
    anchor = "raw" if draft.written else places_of.get(top, top if top in labels else "")
    if top == "bounds" and rest and not draft.written:
        places = [place for place, bound in enumerate(draft.bounds) if f"{rest}.".startswith(f"{bound.column}.")]
        anchor = f"bound-{places[-1]}-kind" if places else "bounds"
    if top == "bins" and draft.kind == "ensemble" and not draft.written:
        places = [place for place, bound in enumerate(draft.bounds) if bound.column == rest]
        label, anchor = ("Cut at", f"bound-{places[-1]}-cuts") if places else ("Numbers are cut", "cut")
    message = re.sub(r"^(Input|String|Tuple|List|Value|Dictionary) should", "must", message)
    return {
        "field": problem["field"],
        "label": f"{label}: {rest}" if rest else label,
        "message": message,
        "anchor": anchor,
    }


def _not_rehearsed(checked: Any) -> str:
    """Say why there is no rehearsal of a task; nothing where there is one."""
    if isinstance(checked, SiteDocument):
        return (
            "To see it beforehand, run it over rows of your own with thebes.simulate: made-up rows would not be theirs."
        )
    try:
        rehearsal.rehearsable(checked)
    except Refusal as refusal:
        return sentence(str(refusal))
    return ""


def _statistics() -> list[str]:
    from thebes.privacy.mechanisms.sample_aggregate import SAFE_FUNCTIONS
    from thebes.tasks.basic.kind import STATISTICS

    return [*STATISTICS, *sorted({*SAFE_FUNCTIONS} - {*STATISTICS})]
