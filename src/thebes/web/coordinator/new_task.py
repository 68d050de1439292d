"""Asking: a form over the published schemas, checked while one types, rehearsed with made-up rows, put up."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from thebes.data.schema import read_shown
from thebes.privacy.faults import Mistake, Refusal
from thebes.sql.declaration import schema_at
from thebes.tasks import registry
from thebes.tasks.document import Document, InvalidDocument, PeopleDocument
from thebes.tasks.kind_failure import KindFailed
from thebes.tasks.mixed_document import PLANNED
from thebes.tasks.rehearsal import ERROR, WRONG, learned_by
from thebes.tasks.site_document import SiteDocument
from thebes.tasks.trust_models import MIXED, MODELS, TITLES, trust_model, trust_models
from thebes.web.coordinator import epsilon_curve, rehearsal, words
from thebes.web.coordinator.copied import copies
from thebes.web.coordinator.forms.cautions import cautions
from thebes.web.coordinator.forms.draft import Draft, Told, kinds
from thebes.web.coordinator.forms.people_data import tables_of
from thebes.web.coordinator.forms.site_data import SiteData, datasets_of, helpers_of
from thebes.web.coordinator.layout import CoordinatorLayout, sentence, text
from thebes.web.coordinator.task import abridged

ROWS_ABOUT = 1_000  #: of all sites together, where nobody says
MOST_COPIED = 20_000  #: characters


def routes(layout: CoordinatorLayout) -> APIRouter:
    made = layout.routes()
    service = layout.service

    async def published() -> Told:
        groups, sites = await service.groups.published(), await service.sites()
        return {
            "kinds": kinds(),
            "tables": tables_of(await service.schemas()),
            "groups": groups,
            "sites": sites,
            "datasets": datasets_of(sites),
            "helpers": helpers_of(sites),
            "trusts": TITLES,
        }

    async def written(request: Request) -> tuple[Draft, Told]:
        told = await published()
        return Draft.read(await layout.written(request)).seen(told), told

    @made.get("/ask")
    async def show(request: Request, like: str = "", kind: str = "", dataset: str = "", site: str = "") -> Response:
        """The form: empty, of a kind, like a task there is, or about a data set of a site."""
        told = await published()
        draft = Draft.empty(kind)
        if dataset and not isinstance(draft.data, SiteData):
            draft = Draft.empty(next(type_ for type_ in told["kinds"] if type_ in registry.site_types()))
        if dataset:
            draft = replace(draft, data=SiteData(dataset, (site,) if site else ()))
        draft = draft.settled(told)
        if like:
            task, _ = await layout.task(like)
            draft = form_of(task["document"], told)
        return await layout.page(request, "ask.html", title="Ask a question", d=draft, **told)

    @made.post("/ask/fields")
    async def fields(request: Request) -> HTMLResponse:
        """The form after its structure changed."""
        draft, told = await written(request)
        body = await layout.written(request)
        was_json, trusted = body.get("was") == "json", text(body, "trusted_before")
        if trusted and not draft.written:
            draft = draft.trusting(trusted)
        answer = layout.part("fields.html", d=turned(draft, told, was_json=was_json), **told)
        answer.headers["HX-Trigger"] = "recheck"
        return answer

    @made.post("/ask/check")
    async def check(request: Request) -> HTMLResponse:
        """Show what is wrong with a draft, field by field; or what people would be told."""
        draft, told = await written(request)
        visitor = await layout.visitor(request)
        found = await examined(draft)
        rehearsed, careful, taken = "", [], dict[str, str]()
        if not found["problems"]:
            checked = await asyncio.to_thread(registry.check, found["document"])
            rehearsed = _not_rehearsed(checked)
            careful = cautions(checked, draft, told)
            url = str(request.base_url).rstrip("/")
            taken = await asyncio.to_thread(copied, checked, url, told["sites"])
        return layout.part(
            "verdict.html",
            found=found,
            document=abridged(found.get("document", {})),
            visitor=visitor,
            words=words,
            not_rehearsed=rehearsed,
            cautions=careful,
            copies=taken,
        )

    @made.post("/ask/rehearse")
    async def rehearse(request: Request) -> HTMLResponse:
        """Show how far noise would move the answer, with made-up people: for who is signed in."""
        draft, _ = await written(request)
        try:
            await layout.somebody(request)
            checked = await asyncio.to_thread(service.acceptance.checked, draft.document())
            more = rehearsed_over(checked, await service.sites(), await layout.written(request))
            told = await asyncio.to_thread(lambda: rehearsal.rehearse(checked, **more))
        except (Mistake, Refusal) as error:
            return layout.told(error)
        kept = -(-int(100 * rehearsal.SHARE) * told["repeats"] // 100)
        of_sites = isinstance(checked, SiteDocument)
        return layout.part("rehearsal.html", told=told, kept=kept, leaning=learned_by(checked), of_sites=of_sites)

    @made.post("/ask/curve")
    async def curve(request: Request) -> HTMLResponse:
        """Show how far off the answer would be over epsilon, and where sites stop: for who is signed in."""
        draft, _ = await written(request)
        try:
            somebody = await layout.somebody(request)
            checked = await asyncio.to_thread(service.acceptance.checked, draft.document())
            asked = float(getattr(checked, "epsilon", 0) or 1.0)
            of_sites = isinstance(checked, SiteDocument)
            said = (await service.quote(checked.as_json(), somebody)).get("verdicts", {}) if of_sites else {}
            caps = {site: float(one["left"]["epsilon"]) for site, one in said.items() if one.get("left")}
            more = rehearsed_over(checked, await service.sites(), await layout.written(request))
            points = await asyncio.to_thread(lambda: rehearsal.curve(checked, epsilon_curve.around(asked), **more))
        except (Mistake, Refusal) as error:
            return layout.told(error)
        curves = epsilon_curve.stops(points, caps)
        title = "How far off the answer would be, over epsilon"
        return layout.part(
            "curve.html",
            curves=curves,
            pictures={of: epsilon_curve.picture(along, caps, title=f"{title}: {of}") for of, along in curves.items()},
            asked=asked,
            caps=caps,
            formula=all(point["basis"] == "formula" for point in points),
            models={WRONG, ERROR} & curves.keys(),
            rows_about=more.get("rows_about"),
        )

    @made.post("/ask/trust")
    async def trust(request: Request) -> HTMLResponse:
        """Show how far off the same question would be, whoever is trusted: for who is signed in."""
        draft, _ = await written(request)
        try:
            await layout.somebody(request)
            checked = await asyncio.to_thread(registry.check, draft.document())
            found = await asyncio.to_thread(rehearsal.by_trust, checked)
        except (Mistake, Refusal) as error:
            return layout.told(error)
        assert isinstance(checked, PeopleDocument)  # noqa: S101
        return layout.part("trust.html", found=found, titles=TITLES, models=MODELS, asked=trust_model(checked))

    @made.post("/ask/trust/take")
    async def take_trust(request: Request) -> HTMLResponse:
        """The form with the same question in the trust model that was chosen."""
        draft, told = await written(request)
        chosen = text(await layout.written(request), "chosen")
        answer = layout.part("fields.html", d=await asyncio.to_thread(in_trust, draft, chosen, told), **told)
        answer.headers["HX-Trigger"] = '{"recheck": {"target": "#ask"}}'
        return answer

    @made.post("/ask/epsilon")
    async def take(request: Request) -> HTMLResponse:
        """The form with the epsilon that was chosen along the curve."""
        draft, told = await written(request)
        chosen = text(await layout.written(request), "chosen")
        answer = layout.part("fields.html", d=with_epsilon(draft, chosen, told), **told)
        answer.headers["HX-Trigger"] = '{"recheck": {"target": "#ask"}}'
        return answer

    @made.post("/ask/quote")
    async def quote(request: Request) -> HTMLResponse:
        """Ask the sites what they say of it beforehand, for who is signed in."""
        draft, _ = await written(request)
        try:
            told = await service.quote(draft.document(), await layout.somebody(request))
        except (Mistake, Refusal) as error:
            return layout.told(error)
        return layout.quoted(told)

    @made.post("/ask")
    async def put_up(request: Request) -> Response:
        """Put it up, and lead to its page."""
        draft, _ = await written(request)
        try:
            task_id, _ = await service.post(draft.document(), await layout.somebody(request))
        except (Mistake, Refusal) as error:
            return layout.told(error)
        return Response(headers={"HX-Redirect": f"/task/{task_id}"})

    async def examined(draft: Draft) -> dict[str, Any]:
        try:
            found = await service.examined(draft.document())
        except InvalidDocument as refused:
            found = {"problems": [{"field": f, "message": m} for f, m in refused.problems]}
        found["problems"] = [told_plainly(problem, draft) for problem in found["problems"]]
        return found

    return made


def rehearsed_over(document: Document, sites: Sequence[Mapping[str, Any]], body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schemas of the sites that are asked, and about how many rows they have, for a rehearsal."""
    if not isinstance(document, SiteDocument):
        return {}
    about = text(dict(body), "rows_about").replace(" ", "")
    if about and not about.isdecimal():
        raise Mistake("rows_about", "must be about how many rows the sites have together, as a whole number")
    having = [datasets_of(sites).get(dataset, {}) for dataset in document.datasets]
    asked = dict[str, Any]()
    for site in sites:
        if all(site["name"] in each for each in having) and (document.sites == "all" or site["name"] in document.sites):
            declared = {name: read_shown(site["datasets"][name]["schema"]) for name in document.datasets}
            with suppress(Mistake):  # of data sets that cannot be joined there
                asked[site["name"]] = document.schema_among(declared).shown()
    return {"schemas": asked, "rows_about": int(about) if about else ROWS_ABOUT}


def copied(document: Document, url: str, sites: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Write the question as text to take along; in SQL where a site's schema is known. Nothing of a long one, such as
    one that holds a network: nobody reads that."""
    if len(json.dumps(document.as_json())) > MOST_COPIED:
        return {}
    schema = None
    if isinstance(document, SiteDocument):
        with suppress(Mistake):
            schema = schema_at(sites, document.datasets, document.sites)
    return copies(document.as_json(), document.digest, url, schema)


def with_epsilon(draft: Draft, chosen: str, told: Told) -> Draft:
    """The same question at another epsilon, in the form or as JSON as it was; as it is where that says nothing."""
    try:
        number = float(chosen)
        document: dict[str, Any] = {**draft.document(), "epsilon": _short(number)}
    except (InvalidDocument, ValueError):
        return draft
    for name in ("accuracy", "max_epsilon", "epsilon_per_weight"):
        document.pop(name, None)
    if draft.written:
        return replace(draft, raw=json.dumps(document, indent=2, ensure_ascii=False))
    return form_of(document, told)


def in_trust(draft: Draft, chosen: str, told: Told) -> Draft:
    """The same question in another trust model, in the form or as JSON as it was; as it is where there is none."""
    try:
        checked = registry.check(draft.document())
        models = trust_models(checked) if isinstance(checked, PeopleDocument) else []
    except (Mistake, KindFailed):
        return draft
    for model in models:
        if model.name == chosen and model.document is not None:
            document = {name: value for name, value in model.document.items() if name != "version"}
            if document.get("group") == PLANNED:
                del document["group"], document["anonymity"]
            if model.name == MIXED:  # the price follows from how many there will be
                document["mixed"] = {**document["mixed"], "epsilon": _short(document["mixed"]["epsilon"])}
                del document["epsilon"]
            else:
                document["epsilon"] = _short(document["epsilon"])
            if draft.written:
                return replace(draft, raw=json.dumps(document, indent=2, ensure_ascii=False))
            return form_of(document, told)
    return draft


def _short(number: float) -> float:
    """Write whole numbers as such."""
    return int(number) if float(number).is_integer() else number


def turned(draft: Draft, told: Told, *, was_json: bool) -> Draft:
    """Between form and JSON where somebody changed over; what was composed so far comes along."""
    if draft.written and not was_json:
        form = replace(draft, written=False).settled(told)
        return replace(form, written=True, raw=form.as_far())
    if not draft.written and was_json:
        try:
            return Draft.of(replace(draft, written=True).document(), told)
        except InvalidDocument as refused:
            return replace(draft, written=True, note=f"Not possible yet. {refused.argument}: {refused.message}")
    return draft if draft.written else draft.settled(told)


def form_of(document: Mapping[str, Any], told: Told) -> Draft:
    """A form that means this document; where there is none, its JSON."""
    try:
        return Draft.of(document, told)
    except InvalidDocument:
        return replace(Draft.empty(), written=True, raw=json.dumps(document, indent=2, ensure_ascii=False))


def told_plainly(problem: Mapping[str, str], draft: Draft) -> dict[str, str]:
    """A problem in words, with the place in the form where it can be mended."""
    label, anchor = draft.place(problem["field"])
    message = re.sub(r"^(Input|String|Tuple|List|Value|Dictionary) should", "must", problem["message"])
    return {"field": problem["field"], "label": label, "message": message, "anchor": anchor}


def _not_rehearsed(checked: Document) -> str:
    """Say why there is no rehearsal of a task; nothing where there is one."""
    try:
        rehearsal.rehearsable(checked)
    except Refusal as refusal:
        return sentence(str(refusal))
    return ""
