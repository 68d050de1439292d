"""The token that a request shows."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

BEARER = HTTPBearer(auto_error=False, description="`admin.token`, or what `POST /api/login` gave")
Bearer = Annotated[HTTPAuthorizationCredentials | None, Depends(BEARER)]


def token_of(bearer: HTTPAuthorizationCredentials | None) -> str | None:
    """The token itself; None where none is shown."""
    return None if bearer is None else bearer.credentials
