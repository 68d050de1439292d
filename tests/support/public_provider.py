"""A provider of identities to clients without a secret: oidc-provider-mock, which itself knows none, with the check of
PKCE that its library (Authlib) brings. As a program it takes a port and one user (JSON) after another."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from authlib.oauth2.rfc7636 import CodeChallenge  # type: ignore[import-untyped]
from flask import Response
from oidc_provider_mock import User, _app  # type: ignore[import-untyped]


class _Challenge(CodeChallenge):  # type: ignore[misc]
    """Challenges by the code that was given for them."""

    def __init__(self) -> None:
        super().__init__(required=True)
        self.of: dict[str, str | None] = {}

    def get_authorization_code_challenge(self, authorization_code: Any) -> str | None:
        return self.of[authorization_code.code]

    def get_authorization_code_challenge_method(self, authorization_code: Any) -> str:
        return "S256"


def public_app(users: Sequence[User], *, announced: bool = True) -> Any:
    """The provider as an application; `announced`: it says that it checks."""
    challenge = _Challenge()

    class Grant(_app.AuthorizationCodeGrant):  # type: ignore[misc]
        TOKEN_ENDPOINT_AUTH_METHODS = ("none",)

        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            challenge(self)

        def save_authorization_code(self, code: str, request: Any) -> None:
            super().save_authorization_code(code, request)
            challenge.of[code] = request.payload.data.get("code_challenge")

    usual, _app.AuthorizationCodeGrant = _app.AuthorizationCodeGrant, Grant
    try:
        made = _app.app(user_claims=users)
    finally:
        _app.AuthorizationCodeGrant = usual

    @made.after_request  # type: ignore[untyped-decorator]
    def announce(answer: Response) -> Response:
        said = answer.get_json(silent=True)
        if announced and isinstance(said, dict) and "authorization_endpoint" in said:
            answer.set_data(json.dumps({**said, "code_challenge_methods_supported": ["S256"]}))
        return answer

    return made


if __name__ == "__main__":
    known = [json.loads(each) for each in sys.argv[2:]]
    users = [User(sub=each.pop("sub"), claims=each) for each in known]
    public_app(users).run(port=int(sys.argv[1]), debug=False)
