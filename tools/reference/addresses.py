"""Write every address of the three servers, a coordinator's, a person's and a site's, as one page, out of the
descriptions that they give to machines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any, cast

import httpx

from thebes.coordinator.api.routes import interface
from thebes.coordinator.clock import SystemClock
from thebes.coordinator.home import CoordinatorHome
from thebes.coordinator.service import CoordinatorService
from thebes.coordinator.storage.database import Database
from thebes.person import rest as person
from thebes.person.home import Person
from thebes.site.link.dialer import Link
from thebes.site.steward import rest as site
from thebes.wire.access import Access
from tools.reference.cells import Schema, cell, named_by, type_of

_TOP = """# REST

*For programmers who speak with a server of Thebes: every address of a [coordinator](coordinator.md), of
a [person's](person.md) machine and of a [site's](sites.md) steward.*

Each server describes itself for machines at `/openapi.json`. Bodies are JSON unless something else is said. A refusal
is problem details (RFC 9457): `field` names what was wrong, `type` is an entry of the [catalogue](errors.md), and no
value is ever repeated.

| status | means |
|---|---|
| 400, 413, 415 | it cannot be read, is too long, or is of a type that is not taken |
| 401, 403 | nobody is signed in; or this user may not do this |
| 402 | more than the budget has left |
| 404, 405 | there is nothing at this address; it does not take this method |
| 409 | it is at odds with what is there already |
| 410 | too late |
| 421 | the name by which the server was called is not its own |
| 422 | something in it is not allowed |
| 429 | too much at a time: come back after `seconds`, which `Retry-After` says too |
| 500, 502, 503 | the server, its coordinator or its database failed |
"""
_OF_COORDINATORS = "`Authorization: Bearer` with what `POST /api/login` or `thebes login` gave says who asks."
_OF_PERSONS = "On 127.0.0.1 only, with `Authorization: Bearer` and what stands in HOME/token."
_OF_SITES = (
    "On 127.0.0.1 only, with `Authorization: Bearer` and what stands in HOME/token; `/metrics` also with what stands "
    "in HOME/figures.token."
)
_PORT, _TOKEN = 80, "0" * 64
_ACCESS = Access(lambda: _TOKEN)


def written(servers: Mapping[str, tuple[str, Schema]]) -> str:
    """Return the page of servers by title, each with its first words and its description."""
    pieces = [_TOP.rstrip()]
    for title, (words, described) in servers.items():
        pieces += [f"## {title}", words]
        parts = described.get("components", {}).get("schemas", {})
        found = [
            (f"{method.upper()} {path}", said)
            for path, methods in sorted(described["paths"].items())
            for method, said in methods.items()
        ]
        always = set.intersection(*(_refusals(said) for _, said in found))
        pieces.append(f"Every address may answer {', '.join(sorted(always))}." if always else "")
        pieces += [_of_address(name, said, parts, always) for name, said in found]
    return "\n\n".join(filter(None, pieces)) + "\n"


def _refusals(said: Schema) -> set[str]:
    return {status for status in said["responses"] if not status.startswith("2")}


def _of_address(name: str, said: Schema, parts: Mapping[str, Schema], always: Set[str]) -> str:
    pieces = [f"### `{name}`", cell(said.get("description", ""))]
    rows = [*_asked(said)]
    body = said.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body:
        rows += _fields("body", body, parts)
    for status, answer in said["responses"].items():
        for media, told in answer.get("content", {}).items() if status.startswith("2") else ():
            rows += _fields(f"answer {status}", told.get("schema", {}), parts) or _bytes(status, media)
    if rows:
        pieces.append("| in | name | type | is |\n|---|---|---|---|\n" + "\n".join(rows))
    refused = sorted(_refusals(said) - always)
    if refused:
        pieces.append(f"Refuses also with {', '.join(refused)}.")
    return "\n\n".join(piece for piece in pieces if piece)


def _asked(said: Schema) -> Iterator[str]:
    for each in said.get("parameters", ()):
        schema = each["schema"]
        default = f"default {schema['default']}" if schema.get("default") is not None else ""
        told = "; ".join(filter(None, (each.get("description", ""), default)))
        yield f"| {each['in']} | `{each['name']}` | {type_of(schema, {})} | {cell(told)} |"


def _bytes(status: str, media: str) -> list[str]:
    return [] if media == "application/json" else [f"| answer {status} | | `{media}` | |"]


def _fields(place: str, schema: Schema, parts: Mapping[str, Schema]) -> list[str]:
    """The fields of an object, a row for each, below one for the whole; of several objects each by itself."""
    rows = []
    for each in schema.get("anyOf", [schema]):
        found, some = _resolved(each, parts)
        if properties := found.get("properties"):
            whole = found.get("description", "")
            rows.append(f"| {place} | | {some} | {cell(whole)} |")
            needed = {*found.get("required", ())} if place == "body" else {*properties}
            for name, one in properties.items():
                left_out = "" if name in needed else " (may be left out)"
                rows.append(f"| | `{name}`{left_out} | {type_of(one, parts)} | {cell(_description(one, parts))} |")
    return rows


def _resolved(schema: Schema, parts: Mapping[str, Schema]) -> tuple[Schema, str]:
    """An object's own schema, and whether it is one, or there are many, in a list or by name."""
    inner, some = schema, "object"
    if schema.get("type") == "array":
        inner, some = schema.get("items", {}), "list of"
    elif isinstance(schema.get("additionalProperties"), dict):
        inner, some = schema["additionalProperties"], "by name"
    return (parts[named_by(inner)] if "$ref" in inner else inner), some


def _description(schema: Schema, parts: Mapping[str, Schema]) -> str:
    if "description" in schema:
        return str(schema["description"])
    for each in (schema, *schema.get("anyOf", ())):
        found, _ = _resolved(each, parts)
        if told := found.get("description"):
            return str(told)
    return ""


def described(folder: Path) -> dict[str, tuple[str, Schema]]:
    """Make the application of each server, in homes below an empty folder, and return what it says of itself."""
    return {
        "A coordinator": (_OF_COORDINATORS, _coordinator(folder / "coordinator")),
        "A person's machine": (_OF_PERSONS, _person(folder / "person")),
        "A site": (_OF_SITES, _asked_of(site.guarded(cast(Link, None), _ACCESS, port=_PORT, confined=True))),
    }


def _coordinator(folder: Path) -> Schema:
    home = CoordinatorHome(folder)
    database = Database(home.store)
    service = CoordinatorService(home, database, SystemClock(), look=lambda: None)
    try:
        return interface(service, largest_body=home.settings.largest_body).openapi()
    finally:
        service.close()
        database.close()


def _person(folder: Path) -> Schema:
    with Person(folder) as somebody:
        return _asked_of(person.guarded(somebody, _ACCESS, port=_PORT, stop=lambda: None))


def _asked_of(application: Any) -> Schema:
    """Ask a server that answers its own machine only, with its token."""

    async def asked() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(application)) as client:
            shown = {"Authorization": f"Bearer {_TOKEN}"}
            return await client.get(f"http://127.0.0.1:{_PORT}/openapi.json", headers=shown)

    found: Schema = asyncio.run(asked()).json()
    return found
