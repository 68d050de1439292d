"""Records behind another system's interface, asked over HTTP: one question at a time, its answer bounded.

What must stay true: what is shown to that server (a token, a password) goes to the address of the source and nowhere
else, encrypted unless it is this machine; nothing that the server says reaches a message, for it may hold a value of a
row; only what changes nothing there is asked, so that it may be asked again.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from pydantic import Field

from thebes import __version__
from thebes.confinement import answers
from thebes.data.connectors.connector import Source, SourceUnavailable, existing, path_of
from thebes.data.connectors.web_address import web_address
from thebes.privacy.faults import Mistake
from thebes.privacy.randomness import system
from thebes.privacy.reading import MOST_VALUES, values_in

TRIES = 5
PAUSE_SECONDS = 0.5  #: before the first repeat; doubled each time, then made shorter by chance, by up to a half
LONGEST_PAUSE_SECONDS = 20.0
AGAIN = (429, 502, 503)
_SHORTENED = 2**16


class WebSource(Source):
    """The fields that a description of every source behind an interface has."""

    url: str = Field(max_length=2000)
    ca_file: str | None = None  #: certificates of the authority behind the server's, where it is no public one
    page: int = Field(default=500, ge=1, le=10_000)  #: records of one answer
    timeout_seconds: float = Field(default=120.0, gt=0, le=3600)  #: for one answer, from the question to its last byte
    most_mebibytes: int = Field(default=64, ge=1, le=1024)  #: of one answer


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """The answer of a server: its status, and the JSON in it (None where it is something else)."""

    status: int
    body: Any


class Web:
    """Questions to the server of one source. `name` is what its system is called in messages."""

    def __init__(self, source: WebSource, *, name: str, folder: Path) -> None:
        self.name = name
        self.url = web_address(source.url, "source.url", "https://redcap.example.org/api/")
        self._seconds, self._most_bytes = source.timeout_seconds, source.most_mebibytes * 2**20
        agent = f"thebes/{__version__}"
        self._http = answers.client(
            headers={"User-Agent": agent, "Accept": "application/json"},
            timeout=self._seconds,
            seconds=self._seconds,
            most_bytes=self._most_bytes,
            verify=_authority(source.ca_file, folder),
            follow_redirects=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        )

    def close(self) -> None:
        self._http.close()

    def ask(
        self,
        path: str = "",
        *,
        method: str = "POST",
        form: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        busy: Callable[[ServerAnswer], bool] = lambda answer: False,
        tries: int = TRIES,
    ) -> ServerAnswer:
        """The answer of the server, whatever its status below 500; asked again while the server is `busy`."""
        pause = PAUSE_SECONDS
        for left in range(tries - 1, -1, -1):
            try:
                status, wait, kind, content = self._once(self.url + path, method, form, body, headers)
            except (httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError) as error:
                if not left or "CERTIFICATE_VERIFY_FAILED" in str(error):
                    raise self.away(_reason(error)) from None
            except httpx.HTTPError as error:
                raise self.away(_reason(error)) from None
            else:
                answer = ServerAnswer(status, _json(content))
                if status not in AGAIN and not busy(answer):
                    return self._heard(answer, kind)
                if not left:
                    raise self.away("has too much to do; try again later")
                pause = max(pause, wait)
            time.sleep(_shortened(min(pause, LONGEST_PAUSE_SECONDS)))
            pause *= 2
        raise AssertionError("the last try returns or raises")

    def away(self, reason: str) -> SourceUnavailable:
        """The refusal that says why this server cannot be read."""
        return SourceUnavailable(f"{self.name} at {urlsplit(self.url).netloc} {reason}")

    def _once(
        self,
        url: str,
        method: str,
        form: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
    ) -> tuple[int, float, str, bytes]:
        content = None if body is None else json.dumps(body).encode()
        kind = {} if body is None else {"Content-Type": "application/json"}
        request = self._http.build_request(method, url, data=form, content=content, headers={**(headers or {}), **kind})
        try:
            answer = self._http.send(request)
        except answers.Packed:
            raise self.away("compresses its answers although it was asked not to") from None
        except answers.TooMuch:
            limit = f"{self._most_bytes // 2**20} MiB"
            raise self.away(f"answers with more than {limit} at once; ask for fewer records with source.page") from None
        return answer.status_code, _wait(answer), answer.headers.get("content-type", ""), answer.content

    def _heard(self, answer: ServerAnswer, kind: str) -> ServerAnswer:
        if 300 <= answer.status < 400:
            raise self.away("sends us on to another address; write the right one into source.url")
        if answer.status >= 500:
            raise self.away(f"failed ({answer.status}); try again later")
        if answer.status == 200 and answer.body is None:
            page = kind.partition(";")[0].strip().lower() == "text/html"
            raise self.away(
                "answers with a page instead of data: source.url may not be the address of its interface, somebody may "
                "have to sign in on the way, or it ran out of memory and source.page is too large"
                if page
                else "answers with something that is not JSON"
            )
        return answer


def _json(content: bytes) -> Any:
    try:
        return json.loads(content) if values_in(content) <= MOST_VALUES else None
    except (ValueError, RecursionError):
        return None


def _authority(ca_file: str | None, folder: Path) -> ssl.SSLContext | None:
    if ca_file is None:
        return None
    path = existing(path_of(ca_file, folder), "source.ca_file")
    try:
        return ssl.create_default_context(cafile=str(path))
    except (OSError, ssl.SSLError):
        raise Mistake("source.ca_file", f"{path.name} is not a file of certificates in PEM") from None


def _wait(answer: httpx.Response) -> float:
    try:
        found = float(answer.headers.get("retry-after", "0"))
    except ValueError:
        return 0.0
    return found if 0 <= found <= LONGEST_PAUSE_SECONDS else LONGEST_PAUSE_SECONDS


def _shortened(seconds: float) -> float:
    # So that sites which were turned away together do not come back together.
    return seconds * (1 - int(system().below(_SHORTENED, 1)[0]) / (2 * _SHORTENED))


def _reason(error: httpx.HTTPError) -> str:
    if isinstance(error, httpx.ConnectTimeout):
        return "does not answer; check source.url and whether a firewall is in between"
    if isinstance(error, httpx.TimeoutException):
        return "did not answer in time; ask for fewer records with source.page, or give it longer (timeout_seconds)"
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return "shows a certificate that cannot be verified; name its authority in source.ca_file"
    if isinstance(error, httpx.ConnectError):
        return "does not answer; check source.url and whether it is running"
    return "broke the connection; try again later"
