"""The addresses by which a site joins with a code, and by which operators make codes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import FastAPI, Path
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from thebes.coordinator.api.app import says
from thebes.coordinator.api.bearer import Bearer, token_of
from thebes.coordinator.auth.join_codes import HOURS, MOST_HOURS
from thebes.coordinator.auth.site_certificates import DAYS, MOST_DAYS
from thebes.coordinator.service import CoordinatorService
from thebes.wire.request_body import RequestBody, Whole

SiteName = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
Hex = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class JoinRequest(RequestBody):
    """The request that a site's own machine made, and the proof that it has a code; `code` tells which, and is not the
    code. The same again has the same answer."""

    code: Hex
    request: str = Field(max_length=4000, description="a PKCS#10 request for a P-256 key, as PEM")
    proof: Hex


class Joined(BaseModel):
    """The certificate, the authorities that the site is to believe, and the proof that the coordinator says so."""

    certificate: str
    authority: str
    proof: str


class Inviting(RequestBody):
    """`hours` for which the code counts, `days` for which the certificate does that it gives."""

    hours: Whole = Field(default=HOURS, ge=1, le=MOST_HOURS)
    days: Whole = Field(default=DAYS, ge=1, le=MOST_DAYS)


class Invited(BaseModel):
    """The code, which is shown once, and until when it counts."""

    code: str
    until: str


class JoinCodeTold(BaseModel):
    """The fate of a code: open, used, expired, replaced, withdrawn, or wrong (too many proofs did not hold)."""

    site: str
    state: str
    made: str
    by: str
    until: str
    days: int
    wrong: int
    at: str | None
    serial: str | None


def put_on(app: FastAPI, service: CoordinatorService) -> None:
    """Put the addresses onto the interface."""

    @app.post("/api/site/join", responses=says(403, 409, 413, 429))
    async def join(body: JoinRequest) -> Joined:
        """Give the site that has the code a certificate. 409 where the code was used by another key."""
        return Joined(**asdict(await service.joining.join(body.code, body.request, body.proof)))

    @app.get("/api/site/code", responses=says(401, 403))
    async def codes(bearer: Bearer) -> list[JoinCodeTold]:
        """List what became of every join code, the newest first: operators."""
        asking = await service.auth.who(token_of(bearer))
        return JSONResponse(await service.joining.codes(asking))  # type: ignore[return-value]

    @app.post("/api/site/{name}/code", status_code=201, responses=says(401, 403, 413))
    async def invite(name: SiteName, body: Inviting, bearer: Bearer) -> Invited:
        """Make a join code for a site; one that was open ends: operators."""
        asking = await service.auth.who(token_of(bearer))
        code, until = await service.joining.invite(name, asking, hours=body.hours, days=body.days)
        return Invited(code=str(code), until=until.isoformat())

    @app.delete("/api/site/{name}/code", status_code=204, responses=says(401, 403, 404))
    async def withdraw_code(name: SiteName, bearer: Bearer) -> None:
        """End the open join code of a site: operators."""
        await service.joining.withdraw(name, await service.auth.who(token_of(bearer)))
