"""The port for sites: each opens one stream over mutual TLS and is asked through it.

What must stay true: nobody is heard whose certificate does not count at this moment, and whoever is refused is told
why; one slow or hostile site costs the others nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import grpc

from thebes.coordinator.auth.authority import CertificateAuthority, HubIdentity
from thebes.coordinator.auth.site_certificates import SiteCertificate
from thebes.coordinator.sites.intervals import Pace
from thebes.coordinator.sites.links import Links
from thebes.coordinator.sites.session import Conversation, LinkOutbox
from thebes.privacy.faults import Mistake
from thebes.privacy.figures import figure
from thebes.wire.link import FLOW, FOR_GOOD, METHOD, SERVICE, Assembly, Oversized, Word, new_id, pieces, write_envelope
from thebes.wire.refusals import Malformed

_GRACE_SECONDS = 1.0
_LAST_WORD_SECONDS = 2.0
_PINGS = 16  #: so many of the last ones may still be answered without a word in the log
log = logging.getLogger("thebes.coordinator")


class Hub:
    """`open` says whether this process is the one that speaks with sites."""

    def __init__(self, authority: CertificateAuthority, links: Links, pace: Pace) -> None:
        self._authority = authority
        self._links = links
        self._pace = pace
        self._sessions: dict[str, _Session] = {}
        self._server: grpc.aio.Server | None = None
        self._watching: asyncio.Task[None] | None = None
        self._hosts: Sequence[str] = ()
        self._shown: HubIdentity | None = None
        self.open = False

    async def start(self, host: str, port: int, *, known_as: Sequence[str] = ()) -> int:
        """Listen; the port that was taken."""
        self._hosts = (host, *known_as)
        identity = self._shown = self._authority.hub(self._hosts)
        seconds = self._pace.ping * 1000
        self._server = grpc.aio.server(
            options=[
                ("grpc.so_reuseport", 0),
                *FLOW,
                ("grpc.keepalive_time_ms", int(seconds)),
                ("grpc.keepalive_timeout_ms", int(self._pace.silence * 1000)),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.min_ping_interval_without_data_ms", int(min(1000, seconds / 2))),
                ("grpc.max_concurrent_streams", 4),
            ]
        )
        handler = grpc.stream_stream_rpc_method_handler(self._connect)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),))
        credentials = grpc.dynamic_ssl_server_credentials(
            _configuration(identity.key, identity.certificate, identity.authority),
            self._renewed,
            require_client_authentication=True,
        )
        shown = f"[{host}]" if ":" in host else host
        try:
            taken = int(self._server.add_secure_port(f"{shown}:{port}", credentials))
        except RuntimeError:
            taken = 0
        if taken == 0:
            raise Mistake("--site-port", f"cannot listen on {shown}:{port}; take another one, or 0 for a free one")
        await self._server.start()
        self._watching = asyncio.create_task(self._watch())
        return taken

    async def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        self.close_all()
        if self._server is not None:
            await self._server.stop(_GRACE_SECONDS)

    def close_all(self) -> None:
        """This process speaks with the sites no longer."""
        for session in list(self._sessions.values()):
            session.over("stopping", "this process no longer speaks with the sites; come back in a moment")

    # --- one session ------------------------------------------------------------------------------------

    async def _connect(self, _: Any, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        pem = context.auth_context().get("x509_pem_cert", [b""])[0]
        examined = self._authority.examine(bytes(pem))
        if not self.open and isinstance(examined, SiteCertificate):
            examined = ("busy", "another process of this coordinator speaks with the sites; try again in a moment")
        if not isinstance(examined, SiteCertificate):
            log.warning("a site was refused: %s", examined[1], extra={"event": "site.refused"})
            await _turn_away(context, *examined)
            return
        session = _Session(examined)
        before = self._sessions.get(examined.site)
        self._sessions[examined.site] = session
        if before is not None:
            before.over("replaced", "a newer link of the same site took this one's place")
        self._links.put(session.conversation)
        log.info("site %s: linked", examined.site, extra={"event": "site.linked", "site": examined.site})
        session.ping()  # a site knows that it is linked when it hears the first word
        try:
            await self._note(examined)
            await session.run(context)
        finally:
            self._links.drop(session.conversation)
            if self._sessions.get(examined.site) is session:
                del self._sessions[examined.site]
                log.info(
                    "site %s: no longer linked%s",
                    examined.site,
                    f": {session.why[1]}" if session.why else "",
                    extra={"event": "site.unlinked", "site": examined.site},
                )
        if session.why is not None:
            await _turn_away(context, *session.why)

    async def _note(self, certificate: SiteCertificate) -> None:
        """That a site came with it, the first time."""
        if certificate.came is None:
            try:
                await asyncio.to_thread(self._authority.came, certificate.serial)
            except OSError as error:
                log.warning(
                    "site %s: that it came cannot be written down: %s",
                    certificate.site,
                    error.strerror,
                    extra={"event": "site.unrecorded", "site": certificate.site},
                )

    async def _watch(self) -> None:
        """Cut links whose certificates stopped counting and those that have gone silent; ask the others whether they
        are there."""
        pause = min(self._pace.check, self._pace.ping, self._pace.silence / 2)
        asked = meant = time.monotonic()
        while True:
            now = time.monotonic()
            stood, meant = max(0.0, now - meant), now + pause
            due = now - asked >= self._pace.ping
            asked = now if due else asked
            for session in list(self._sessions.values()):
                session.unheard(stood, now)
                try:
                    self._look_at(session, now, due=due)
                except Exception as error:
                    log.error(
                        "site %s: cannot be looked at: %s",
                        session.certificate.site,
                        type(error).__name__,
                        extra={"event": "site.unexamined", "site": session.certificate.site},
                    )
            await asyncio.sleep(pause)

    def _look_at(self, session: _Session, now: float, *, due: bool) -> None:
        known = self._authority.certificates().get(session.certificate.serial)
        fault = ("unknown", "the certificate is no longer known") if known is None else self._authority.fault(known)
        if fault is not None:
            session.over(*fault)
        elif now - session.alive >= self._pace.silence:
            session.over("silent", f"nothing was heard for {figure(self._pace.silence)} seconds")
        elif due:
            session.ping()

    def _renewed(self) -> Any:
        """On every handshake: the port's own certificate and the authority, if either has changed or ends soon."""
        try:
            identity = self._authority.hub(self._hosts)
        except Exception as error:
            log.error(
                "the port for sites keeps its certificate, the new one cannot be read: %s",
                type(error).__name__,
                extra={"event": "port.certificate-kept"},
            )
            return None
        if identity == self._shown:
            return None
        self._shown = identity
        return _configuration(identity.key, identity.certificate, identity.authority)


class _Session:
    """One stream of one site, until either side ends it."""

    def __init__(self, certificate: SiteCertificate) -> None:
        self.certificate = certificate
        self.outbox = LinkOutbox()
        self.conversation = Conversation(certificate.site, self.outbox.put)
        self.alive = time.monotonic()
        self.why: tuple[str, str] | None = None
        self._pings: deque[str] = deque(maxlen=_PINGS)
        self._ended = asyncio.Event()
        self._assembly = Assembly(self.conversation.allowed)
        self.conversation.given_up = self._assembly.skip

    def over(self, word: str, why: str) -> None:
        """End the link, telling the site why."""
        if not self._ended.is_set():
            self.why = (word, why)
            self._ended.set()

    def unheard(self, seconds: float, now: float) -> None:
        """This process stood still for so long: what was said meanwhile is still to be read, and is no silence."""
        self.alive = min(now, self.alive + seconds)

    def ping(self) -> None:
        """Ask whether it is there; that anything comes is the answer."""
        self._pings.append(new_id())
        self.outbox.say({"kind": str(Word.PING), "id": self._pings[-1]})

    async def run(self, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        ends = [asyncio.create_task(work) for work in (self._read(context), self._write(context), self._ended.wait())]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()
            for ended in await asyncio.gather(*ends, return_exceptions=True):
                if isinstance(ended, Malformed) and self.why is None:
                    self.why = ("malformed", f"what came over the link cannot be read: {ended.message}")
                elif isinstance(ended, Exception):
                    log.info(
                        "site %s: the link broke: %s",
                        self.certificate.site,
                        type(ended).__name__,
                        extra={"event": "site.link-broke", "site": self.certificate.site},
                    )

    async def _read(self, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        while (piece := await context.read()) is not grpc.aio.EOF:
            self.alive = time.monotonic()
            try:
                whole = self._assembly.add(piece)  # a millisecond; a thread's way there and back takes longer
            except Oversized as refused:
                if refused.message_id in self._pings:
                    self._pings.remove(refused.message_id)
                elif not self.conversation.refused(refused.message_id, refused):
                    log.info(
                        "site %s: an answer that nobody waits for was dropped",
                        self.certificate.site,
                        extra={"event": "site.answer-dropped", "site": self.certificate.site},
                    )
                continue
            if whole is not None:
                self.conversation.heard(*whole)

    async def _write(self, context: grpc.aio.ServicerContext[bytes, bytes]) -> None:
        while True:
            piece, long = await self.outbox.next()
            await context.write(piece)  # returns when the site's side has room
            if long:
                self.alive = time.monotonic()  # a piece of a long message went out: the line moves


async def _turn_away(context: grpc.aio.ServicerContext[bytes, bytes], word: str, why: str) -> None:
    """The last word, in a message and in the status."""
    told = {"kind": str(Word.REFUSED), "id": new_id(), "code": word, "reason": why}
    # A write to a reader that does not read may still be under way: then no other can begin, and the status must do.
    with suppress(Exception):
        async with asyncio.timeout(_LAST_WORD_SECONDS):
            for piece in pieces(told["id"], write_envelope(told)):
                await context.write(piece)
    status = grpc.StatusCode.PERMISSION_DENIED if word in FOR_GOOD else grpc.StatusCode.UNAVAILABLE
    await context.abort(status, f"{word}: {why}")


def _configuration(key: bytes, certificate: bytes, authority: bytes) -> Any:
    return grpc.ssl_server_certificate_configuration([(key, certificate)], root_certificates=authority)
