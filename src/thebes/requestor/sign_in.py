"""Signing a program in by a page, and renewing that silently for as long as it is used."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from thebes.requestor.stored_logins import StoredLogin, StoredLogins
from thebes.wire.client import CoordinatorClient
from thebes.wire.refusals import NotSignedIn, Unreachable

_EARLY = timedelta(minutes=1)  #: a token that ends so soon is renewed before it is shown
LONGEST_CODE = 3600.0  #: seconds that a program waits for a decision, whatever the coordinator says


def _now() -> datetime:
    return datetime.now(UTC)


def sign_in(
    client: CoordinatorClient,
    name: str,
    *,
    tell: Callable[[str, str], None],
    logins: StoredLogins | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> StoredLogin:
    """Ask to be let in, and keep the sign-in once somebody has decided. `tell` is given the page's address and the
    code to type there. NotAllowed where it was refused, NotSignedIn where nobody decided in time."""
    begun = client.begin_login(name)
    try:
        device, code = str(begun["device_code"]), str(begun["user_code"])
        until, pause = clock() + min(float(begun["expires_in"]), LONGEST_CODE), max(1.0, float(begun["interval"]))
    except (KeyError, TypeError, ValueError):
        raise _strange(client) from None
    tell(f"{client.url}/device", code)
    while (told := client.claim_login(device)) is None:
        if clock() >= until:
            raise NotSignedIn("nobody typed the code in time; begin again: thebes login")
        sleep(pause)
    kept = logins or StoredLogins()
    try:
        login = StoredLogin.of(told)
    except (KeyError, TypeError, ValueError):
        raise _strange(client) from None
    with kept.locked():
        kept.keep(client.url, login)
    return login


def sign_out(client: CoordinatorClient, logins: StoredLogins | None = None) -> bool:
    """End the sign-in at a coordinator and forget it here; False where there is none."""
    kept = logins or StoredLogins()
    with kept.locked():
        held = kept.of(client.url)
        if held is not None:
            try:
                client.end_login(held.refresh_token)
            except Unreachable:
                warnings.warn("the coordinator does not answer: there the sign-in ends by itself", stacklevel=2)
        kept.forget(client.url)
    return held is not None


class SilentRenewal:
    """Gives the token of a stored sign-in at each request, renewed where it ends soon. `client` asks for the renewal
    and shows no token."""

    def __init__(
        self, client: CoordinatorClient, logins: StoredLogins | None = None, *, clock: Callable[[], datetime] = _now
    ) -> None:
        self._client, self._clock = client, clock
        self._logins = logins or StoredLogins()
        self._held: StoredLogin | None = None
        self._one = threading.Lock()

    def __call__(self) -> str | None:
        with self._one:
            if self._held is None or not self._counts(self._held):
                self._held = self._renewed()
            return None if self._held is None else self._held.token

    def _renewed(self) -> StoredLogin | None:
        url = self._client.url
        if not self._logins.known(url):
            return None
        with self._logins.locked():
            held = self._logins.of(url)  # another process may have renewed it meanwhile
            if held is None or self._counts(held):
                return held
            try:
                fresh = StoredLogin.of(self._client.renew_login(held.refresh_token))
            except NotSignedIn:
                self._logins.forget(url)
                warnings.warn(f"your sign-in has ended; sign in again: thebes login {url}", stacklevel=2)
                return None
            except (KeyError, TypeError, ValueError):
                raise _strange(self._client) from None
            self._logins.keep(url, fresh)
            return fresh

    def _counts(self, login: StoredLogin) -> bool:
        return self._clock() < login.expires_at - _EARLY


def _strange(client: CoordinatorClient) -> Unreachable:
    return Unreachable(
        client.url, "the answer to the sign-in cannot be read; the coordinator may be of another version"
    )
