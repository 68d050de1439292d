"""The way to one coordinator: its connections, and one request with its repeats and its refusals.

What must stay true: a refusal there is the same class here; only what is safe to repeat is repeated, with the same
bytes; no credential is sent that the caller did not give, and no other server is followed; no answer takes more room
or time than its kind may, repeats included.
"""

from __future__ import annotations

import copy
import json
import ssl
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from thebes import __version__
from thebes.confinement import answers
from thebes.privacy.faults import Mistake, ThebesError
from thebes.privacy.reading import NotJSON, read_json
from thebes.wire import frames, socks
from thebes.wire.address import base_url, is_onion
from thebes.wire.problems import from_problem, printable
from thebes.wire.refusals import TooLarge, Unreachable

RETRIES = 3
PAUSE_SECONDS = 0.2  #: before the first repeat; doubled each time
LONGEST_PAUSE_SECONDS = 5.0
MOST_TEXT = 2**27  #: bytes of JSON; a frame's arrays take no more room than they have bytes
ANONYMOUS_SECONDS = 90.0  #: a way through relays takes its time
LEAST_RATE = 2**16  #: bytes a second that are sent; each gives a request so much more time
#: through a SOCKS proxy every program of every version looks alike
_UNIFORM = {"User-Agent": "thebes", "Accept-Encoding": "identity", "Connection": "close"}
_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "HTTP_REQUEST")  # words of OpenSSL
_TRY_AGAIN = (429, 502, 503, 504)
_LATE = "the server did not answer in time; try again, or give a longer timeout"


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """The limits on what one kind of answer may take: bytes, values of JSON, and how many times the time of a short
    one."""

    most_bytes: int
    most_values: int
    times: int = 1


SHORT = AnswerLimits(2**20, 2**16)  #: a receipt, a price, a refusal
LIST = AnswerLimits(2**26, 2**21)  #: everything of a sort
LONG = AnswerLimits(2**28, 2**23, times=4)  #: what may hold a model's weights


class Connection:
    """Requests to the server at `url`. `token` is shown with each; people need none.

    `ca_file` names a PEM file with the certificate authority of a deployment that has its own. `trust_env` lets
    the environment name proxies (HTTPS_PROXY, ...); off by default, so that nothing leaves by a way nobody chose.
    `timeout` is for one request with its repeats and its whole answer; one that may hold a model gets four times as
    long. `proxy` is one of HTTP, or of SOCKS5 (`tor`, `socks5h://HOST:PORT`): then every ask and every submission is an
    identity of its own, reading the lists is one, and watching each task is one; names are resolved there only.
    Safe to share between threads. Close it, or use it in a `with`.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float | None = None,
        retries: int = RETRIES,
        ca_file: str | Path | None = None,
        proxy: str | None = None,
        trust_env: bool = False,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        through_socks = socks.Proxy.read(proxy) if socks.is_socks(proxy) else None
        self.url, self.private = base_url(url, proxied=through_socks is not None)
        if is_onion(urlsplit(self.url).hostname or "") and through_socks is None:
            raise Mistake("proxy", "is needed for the address of an onion service: tor, or where your Tor listens")
        if timeout is None:
            timeout = 30 if through_socks is None else ANONYMOUS_SECONDS
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not 0 < timeout < float("inf"):
            raise Mistake("timeout", "must be a number of seconds")
        self._retries, self._seconds = retries, timeout
        self._sleep = sleep
        headers = {"User-Agent": f"thebes/{__version__}", "Accept": "application/json"}
        if through_socks is not None:
            headers, proxy = {**headers, **_UNIFORM}, None
            transport = transport or socks.ThroughProxy(through_socks, verify=_authority(ca_file))
        try:
            through = None if proxy is None else httpx.Proxy(proxy)
        except (ValueError, TypeError, httpx.InvalidURL):
            raise Mistake("proxy", "must be an address such as http://127.0.0.1:3128") from None
        verify = _authority(ca_file)

        def opened(*, kept: int) -> httpx.Client:
            inner = transport or answers.Direct(verify=verify, proxy=through, trust_env=trust_env, kept=kept)
            return answers.client(
                base_url=self.url,
                headers=headers,
                timeout=timeout,
                transport=inner,
                follow_redirects=False,
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # a cookie would link what it comes with
            )

        self._opened, self._http = opened, opened(kept=20)
        self._token_of: Callable[[], str | None] | None = None
        self._apart: Self | None = None
        self._parting = threading.Lock()
        if token is not None:
            self.present(token)

    def present(self, token: str) -> None:
        """Show `token` from now on; a warning says so where everybody on the way could read it."""
        if not isinstance(token, str) or not token.strip() or not token.isascii() or not token.isprintable():
            raise Mistake("token", "must be the text that the coordinator or its operator gave you")
        self._must_be_private("the token")
        self._token_of = None
        self._http.headers["Authorization"] = f"Bearer {token.strip()}"

    def present_from(self, source: Callable[[], str | None]) -> None:
        """Show what `source` gives at each request; nothing where it gives None."""
        self._must_be_private("the token")
        self._token_of = source

    def apart(self) -> Self:
        """The same, with a fresh connection for every request, closed with its answer: what must not be known by the
        company it keeps. It shows no token, and closes with this one."""
        with self._parting:
            if self._apart is None:
                made = copy.copy(self)
                made._http, made._apart, made._token_of = self._opened(kept=0), made, None
                self._apart = made
            return self._apart

    def _must_be_private(self, secret: str) -> None:
        if not self.private:
            warnings.warn(f"{secret} travels unencrypted to {self.url}; use https", UserWarning, stacklevel=4)

    def close(self) -> None:
        self._http.close()
        if self._apart is not None:
            self._apart._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    # --- one request --------------------------------------------------------------------------------

    def _json(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
        reader: str | None = None,
        kind: AnswerLimits = SHORT,
    ) -> Any:
        return self._read(self._request(method, path, json_body=body, params=params, reader=reader, kind=kind), kind)

    def _request(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        json_body: Mapping[str, Any] | None = None,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        again: bool = False,
        reader: str | None = None,
        kind: AnswerLimits = SHORT,
    ) -> httpx.Response:
        """One request, repeated where that changes nothing and there is time: a GET, or a submission, which has one
        identity. `reader` names what is read again and again; everything else is a stranger to a proxy each time."""
        if json_body is not None:
            content, headers = as_json("document", json_body), {**(headers or {}), "Content-Type": "application/json"}
        tries = 1 + (self._retries if again or method == "GET" else 0)
        pause = PAUSE_SECONDS
        bounds = answers.AnswerBounds.within(
            self._seconds * kind.times + len(content or b"") / LEAST_RATE, kind.most_bytes
        )
        for left in range(tries - 1, -1, -1):
            try:
                answer = self._once(method, path, content, params, headers, reader, bounds)
            except answers.TooMuch:
                raise TooLarge(f"{self.url}: the answer is larger than {kind.most_bytes} bytes") from None
            except answers.Packed:
                raise Unreachable(
                    self.url,
                    "the server compresses its answer, although it was asked not to; does a proxy do that?",
                ) from None
            except httpx.TransportError as error:
                if not left:
                    raise Unreachable(self.url, _reason(error, secure=self.url.startswith("https:"))) from None
            except httpx.HTTPError as error:
                raise Unreachable(
                    self.url, f"answered with something that is not HTTP ({type(error).__name__})"
                ) from None
            else:
                if answer.is_success:
                    return answer
                if not left or answer.status_code not in _TRY_AGAIN:
                    raise self._refused(answer)
                pause = max(pause, _retry_after(answer))
            if bounds.end - time.monotonic() <= min(pause, LONGEST_PAUSE_SECONDS):
                raise Unreachable(self.url, _LATE)
            self._sleep(min(pause, LONGEST_PAUSE_SECONDS))
            pause *= 2
        raise AssertionError("the last try returns or raises")

    def _once(
        self,
        method: str,
        path: str,
        content: bytes | None,
        params: Mapping[str, str] | None,
        headers: Mapping[str, str] | None,
        reader: str | None,
        bounds: answers.AnswerBounds,
    ) -> httpx.Response:
        if self._token_of is not None and (token := self._token_of()) is not None:
            headers = {**(headers or {}), "Authorization": f"Bearer {token}"}
        told: dict[str, Any] = {answers.BOUNDS: bounds} | ({} if reader is None else {socks.LASTING: reader})
        return self._http.send(
            self._http.build_request(method, path, content=content, params=params, headers=headers, extensions=told)
        )

    def _refused(self, answer: httpx.Response) -> ThebesError:
        status = answer.status_code
        if answer.is_redirect:
            where = printable(answer.headers.get("location"), 200)
            return Unreachable(self.url, f"the server sends us on to {where or 'elsewhere'}; give that address instead")
        try:
            body = self._text(answer, SHORT)
        except (NotJSON, TooLarge):
            body = None
        if not isinstance(body, Mapping) and status not in (413, 429, 503):
            return Unreachable(
                self.url, f"what answers there ({status}) is not a Thebes coordinator; check the address"
            )
        error = from_problem(status, body)
        return Unreachable(self.url, error.message) if isinstance(error, Unreachable) else error

    def _read(self, answer: httpx.Response, kind: AnswerLimits = SHORT) -> Any:
        form = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if form == frames.MEDIA_TYPE:
            return frames.decode(answer.content, most_bytes=kind.most_bytes)
        try:
            return self._text(answer, kind)
        except NotJSON:
            raise self._strange() from None

    def _text(self, answer: httpx.Response, kind: AnswerLimits) -> Any:
        """Read what JSON says; it is looked at as text first, for it takes many times its length once it is read."""
        if len(answer.content) > min(kind.most_bytes, MOST_TEXT):
            raise TooLarge(f"{self.url}: the answer is larger than {min(kind.most_bytes, MOST_TEXT)} bytes")
        return read_json(answer.content, most_values=kind.most_values)

    def _object(self, body: Any) -> dict[str, Any]:
        if not isinstance(body, dict):
            raise self._strange()
        return body

    def _list(self, body: Any) -> list[dict[str, Any]]:
        if not isinstance(body, list) or not all(isinstance(item, dict) for item in body):
            raise self._strange()
        return body

    def _known(self, body: Mapping[str, Any], name: str) -> Any:
        if name not in body:
            raise self._strange()
        return body[name]

    def _strange(self) -> Unreachable:
        return Unreachable(self.url, "the answer is not what a Thebes coordinator says; check the address")


def as_json(argument: str, body: Mapping[str, Any]) -> bytes:
    """A body, or a Mistake that names what it was given as."""
    try:
        return json.dumps(body, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        raise Mistake(argument, "cannot be written as JSON: use numbers, text, lists and objects") from None


def _authority(ca_file: str | Path | None) -> ssl.SSLContext | None:
    if ca_file is None:
        return None
    try:
        return ssl.create_default_context(cafile=str(ca_file))
    except (OSError, ssl.SSLError):
        raise Mistake("ca_file", f"{str(ca_file)!r} is not a readable PEM file of certificates") from None


def _retry_after(answer: httpx.Response) -> float:
    try:
        return max(0.0, float(answer.headers.get("retry-after", "0")))
    except ValueError:
        return 0.0


def _reason(error: httpx.TransportError, *, secure: bool) -> str:
    if isinstance(error, httpx.ProxyError):
        return str(error)
    if isinstance(error, httpx.ConnectTimeout):
        return "nothing answered in time; check the address and whether a firewall is in between"
    if isinstance(error, httpx.TimeoutException):
        return _LATE
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return "its certificate cannot be verified; give ca_file if the deployment has its own authority"
    if any(sign in str(error) for sign in _NOT_TLS):
        return "what answers there does not speak https; if it is a Thebes coordinator, write http:// instead"
    if isinstance(error, httpx.ConnectError):
        return "nothing answers there; check the address, and whether `thebes coordinator` is running"
    if isinstance(error, httpx.RemoteProtocolError) and not secure:
        return "it hangs up without an answer; if it speaks https there, write https:// instead"
    return "the connection broke; try again"
