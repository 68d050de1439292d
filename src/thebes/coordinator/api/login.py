"""The addresses for signing in: with a password for a quarter of an hour, or a program for up to a month."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field

from thebes.coordinator.api.app import says
from thebes.coordinator.auth.access import LastingToken
from thebes.coordinator.auth.device_codes import INTERVAL, LIFE, shown
from thebes.coordinator.service import CoordinatorService
from thebes.wire.request_body import RequestBody


class Credentials(RequestBody):
    username: str = Field(max_length=200)
    password: str = Field(max_length=4000)


class LoginClient(RequestBody):
    """The program that wants to be let in, in its own words."""

    client: str = Field(default="a program", max_length=200)


class DeviceCode(RequestBody):
    device_code: str = Field(max_length=200)


class RefreshToken(RequestBody):
    refresh_token: str = Field(max_length=200)


class Session(BaseModel):
    token: str
    expires_at: str


class LastingSession(Session):
    """A session that lasts: `refresh_token` counts once, for `POST /api/login/refresh`."""

    refresh_token: str
    refresh_until: str


class DeviceLogin(BaseModel):
    """The code to be typed on the page, and what the program asks with meanwhile (RFC 8628)."""

    device_code: str
    user_code: str
    verification_uri: str
    expires_in: int
    interval: int


class Undecided(BaseModel):
    """Nobody has decided yet; ask again in so many seconds."""

    interval: int


def put_on(app: FastAPI, service: CoordinatorService) -> None:
    """Put the addresses onto the interface."""

    @app.post("/api/login", responses=says(401, 413, 429))
    async def login(body: Credentials) -> Session:
        """Sign in with a password: a token for a quarter of an hour."""
        token, end = await service.auth.login(body.username, body.password)
        return Session(token=token, expires_at=end.isoformat())

    @app.post("/api/login/device", responses=says(413, 429))
    async def begin_login(body: LoginClient, request: Request) -> DeviceLogin:
        """Begin to let a program in: somebody types the code on the page `/device` within ten minutes."""
        address = "unknown" if request.client is None else request.client.host
        device, code = await service.auth.begin(body.client, address)
        page = str(request.base_url).rstrip("/") + "/device"
        life = int(LIFE.total_seconds())
        return DeviceLogin(
            device_code=device, user_code=shown(code), verification_uri=page, expires_in=life, interval=INTERVAL
        )

    @app.post("/api/login/device/token", responses={202: {"model": Undecided}, **says(401, 403, 413)})
    async def claim_login(body: DeviceCode) -> LastingSession:
        """Return the session of a program once somebody let it in; 202 until then, 401 after ten minutes, 403 where it
        was refused."""
        found = await service.auth.claim(body.device_code)
        if found is None:
            return JSONResponse({"interval": INTERVAL}, status_code=202)  # type: ignore[return-value]
        return _lasting(found)

    @app.post("/api/login/refresh", responses=says(401, 413))
    async def renew_login(body: RefreshToken) -> LastingSession:
        """Prolong a session by another quarter of an hour, with a `refresh_token` for the next time. One that was used
        before ends it: 401."""
        return _lasting(await service.auth.renew(body.refresh_token))

    @app.post("/api/login/end", status_code=204, responses=says(413))
    async def end_login(body: RefreshToken) -> Response:
        """End a session that lasts."""
        await service.auth.end(body.refresh_token)
        return Response(status_code=204)


def _lasting(found: LastingToken) -> LastingSession:
    return LastingSession(
        token=found.token,
        expires_at=found.ends.isoformat(),
        refresh_token=found.renewal.token,
        refresh_until=found.renewal.until.isoformat(),
    )
