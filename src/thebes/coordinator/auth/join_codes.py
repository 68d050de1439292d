"""The codes by which sites join: made by an operator, each for one site, used once, kept in HOME/ca/join_codes.json.

What must stay true: a code gives one certificate, of one key, however often either side dies on the way; the code
itself is kept nowhere; nothing of a stranger's request is read before its proof holds.

A key verifies a code's proofs. It is forgotten when another code takes the place of its own, or this one is withdrawn
or ends by wrong proofs; and at the first look at the codes (by anybody who lists them or shows one) after its time.
Until then that of a used code is kept: by it a site that lost its answer gets the same again, and one that came late
hears that another key was faster.
"""

from __future__ import annotations

import json
import logging
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from thebes.coordinator.auth.authority import CertificateAuthority
from thebes.coordinator.auth.site_certificates import DAYS, SiteCertificate, check_site
from thebes.coordinator.clock import Clock
from thebes.database.private_files import alone, put, stamp
from thebes.privacy.faults import Mistake
from thebes.wire.join_codes import JoinCode, answer_proof, equal, request_proof
from thebes.wire.refusals import Busy, Conflict, NotAllowed

FILE = "join_codes.json"
HOURS, MOST_HOURS = 72, 24 * 30
MOST_WRONG = 5  #: proofs that do not hold, until a code ends
MOST_STRANGERS, PAUSE = 20, timedelta(minutes=10)  #: so many tries with no code at all are answered, then none is read
_KEPT = timedelta(days=366)  #: for so long after its end it is told of a code what became of it
_REFUSED = "this join code is not valid: it was never given out, has ended, or was copied in part; ask the operator"
log = logging.getLogger("thebes.coordinator")


@dataclass(frozen=True, slots=True)
class JoinCodeRecord:
    """A code as it is kept. `name` tells it from others, `key` verifies its proofs and is empty once it was forgotten.
    `ended` says how it ended: used, replaced, withdrawn, wrong. Of one that was used `certificate` is what it gave,
    `entry` and `serial` what the register has of that, `request` the digest of who asked."""

    name: str
    site: str
    key: str
    made: str
    by: str  #: who made it
    until: str
    days: int  #: for so long the certificate counts
    authority: str  #: SHA-256 of the authorities' certificates that the code names
    wrong: int = 0
    ended: str | None = None
    at: str | None = None  #: when it ended
    certificate: str | None = None
    entry: dict[str, Any] | None = None
    serial: str | None = None
    request: str | None = None

    def state(self, now: datetime) -> str:
        """Open, or how it ended."""
        if self.ended is not None:
            return self.ended
        return "expired" if self.late(now) else "open"

    def late(self, now: datetime) -> bool:
        """Return whether its time is over, used or not."""
        return now >= datetime.fromisoformat(self.until)

    def as_json(self, now: datetime) -> dict[str, Any]:
        """The facts that operators are told."""
        told = {"site": self.site, "state": self.state(now), "made": self.made, "by": self.by, "until": self.until}
        return told | {"days": self.days, "wrong": self.wrong, "at": self.at, "serial": self.serial}


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """The answer to a site's request: PEM, and the proof that the coordinator gave it."""

    certificate: str
    authority: str
    proof: str


class JoinCodes:
    """The codes of one authority."""

    def __init__(self, authority: CertificateAuthority, clock: Clock) -> None:
        self._authority, self._clock = authority, clock
        self._file = authority.folder / FILE
        self._held: tuple[tuple[int, int], dict[str, JoinCodeRecord]] | None = None
        self._strangers: list[datetime] = []

    def make(self, site: str, *, by: str, hours: int = HOURS, days: int = DAYS) -> tuple[JoinCode, datetime]:
        """A code for a site, to be handed to its steward and to nobody else, and until when it counts. One that was
        made for the same site before, and not used, ends."""
        check_site(site, days)
        if not 1 <= hours <= MOST_HOURS:
            raise Mistake("hours", f"must be between 1 and {MOST_HOURS}")
        self._authority.init()
        with self._alone():
            now = self._clock.now().replace(microsecond=0)
            believed = self._authority.believed().decode()
            code, until = JoinCode.new(site, believed), now + timedelta(hours=hours)
            known = {n: each for n, each in self._known().items() if now < datetime.fromisoformat(each.until) + _KEPT}
            known = {n: self._over(each, "replaced") if each.site == site else each for n, each in known.items()}
            known[code.name] = JoinCodeRecord(
                name=code.name,
                site=site,
                key=code.key.hex(),
                made=now.isoformat(),
                by=by,
                until=until.isoformat(),
                days=days,
                authority=sha256(believed.encode()).hexdigest(),
            )
            self._write(known)
        log.info("site %s: a join code was made", site, extra={"event": "join.code-made", "site": site})
        return code, until

    def all(self) -> list[JoinCodeRecord]:
        """Every code that is remembered, the newest first."""
        return sorted(self._current().values(), key=lambda each: each.made, reverse=True)

    def withdraw(self, site: str) -> int:
        """End the codes of a site, also those whose certificate does not count yet; how many were open."""
        if not self._file.exists():
            return 0
        with self._alone():
            now, known = self._clock.now(), self._known()
            count = sum(each.site == site and each.state(now) == "open" for each in known.values())
            self._write({n: self._over(each, "withdrawn") if each.site == site else each for n, each in known.items()})
            return count

    def redeem(self, name: str, request: str, proof: str) -> JoinAnswer:
        """The certificate for whoever has a code. The same request again has the same answer; another one under the
        same code is refused."""
        now = self._clock.now()
        known = self._current().get(name)
        if known is None or not known.key:
            raise self._stranger(now)
        if not equal(proof, request_proof(bytes.fromhex(known.key), request)):
            self._count_wrong(name)
            raise self._stranger(now)
        return self._answer(name, request, _public_key(request))

    def _answer(self, name: str, request: str, public: ec.EllipticCurvePublicKey) -> JoinAnswer:
        asked = sha256(public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).hexdigest()
        with self._alone():
            now = self._clock.now().replace(microsecond=0)
            known = self._known()
            record = known.get(name)
            if record is None or not record.key or record.late(now):
                raise NotAllowed(_REFUSED)
            if record.ended == "used" and record.request != asked:
                raise Conflict(
                    f"the join code of the site {record.site} was used already, by another key: if that was not you, "
                    "tell the coordinator's operator at once (thebes ca revoke)"
                )
            believed = self._authority.believed().decode()
            if record.authority != sha256(believed.encode()).hexdigest():
                raise NotAllowed("the authority that this join code names is no longer the one; ask for another code")
            if record.ended is None:
                issued, pem = self._authority.certify(record.site, public, days=record.days)
                used = replace(record, ended="used", at=now.isoformat(), request=asked, certificate=pem.decode())
                record = replace(used, entry=issued.entry, serial=f"{issued.serial:x}")
                self._write({**known, name: record})
                log.info("site %s: joined by a code", record.site, extra={"event": "join.used", "site": record.site})
            # Killed before this, the certificate counts for nobody until its site asks again.
            assert record.certificate is not None  # noqa: S101
            assert record.entry is not None  # noqa: S101
            assert record.serial is not None  # noqa: S101
            serial = int(record.serial, 16)
            if serial not in self._authority.certificates():
                self._authority.enter(SiteCertificate.entered(serial, record.entry))
        proof = answer_proof(bytes.fromhex(record.key), request, record.certificate, believed)
        return JoinAnswer(record.certificate, believed, proof)

    def _count_wrong(self, name: str) -> None:
        with self._alone():
            known = self._known()
            record = known.get(name)
            if record is None or record.ended is not None:
                return
            record = replace(record, wrong=record.wrong + 1)
            if record.wrong >= MOST_WRONG:
                record = self._over(record, "wrong")
                log.warning(
                    "site %s: its join code ended after %d wrong proofs",
                    record.site,
                    record.wrong,
                    extra={"event": "join.code-ended", "site": record.site},
                )
            self._write({**known, name: record})

    def _stranger(self, now: datetime) -> NotAllowed | Busy:
        """The refusal of somebody who has no code. Codes have 128 random bits; what is limited is the noise."""
        self._strangers = [at for at in self._strangers if now < at + PAUSE]
        if len(self._strangers) >= MOST_STRANGERS:
            return Busy("too many wrong join codes were tried just now", PAUSE.total_seconds())
        self._strangers.append(now)
        log.warning("a join code that does not count was refused", extra={"event": "join.refused"})
        return NotAllowed(_REFUSED)

    def _over(self, record: JoinCodeRecord, how: str) -> JoinCodeRecord:
        """A code that ends now without having been used; of one that has ended the key alone is forgotten."""
        if record.ended is not None:
            return replace(record, key="")
        at = self._clock.now().replace(microsecond=0)
        if record.late(at):
            how = "expired"
        return replace(record, ended=how, at=at.isoformat(), key="")

    def _current(self) -> dict[str, JoinCodeRecord]:
        """Every code, once the keys of those are forgotten whose time is over."""
        now = self._clock.now()
        if any(each.key and each.late(now) for each in self._known().values()):
            with self._alone():
                known = self._known()
                self._write({n: replace(each, key="") if each.late(now) else each for n, each in known.items()})
        return self._known()

    def _known(self) -> dict[str, JoinCodeRecord]:
        now = stamp(self._file)
        if self._held is None or self._held[0] != now:
            try:
                told = json.loads(self._file.read_text(encoding="utf-8"))
            except FileNotFoundError:
                told = []
            self._held = (now, {each["name"]: JoinCodeRecord(**each) for each in told})
        return dict(self._held[1])

    def _write(self, known: dict[str, JoinCodeRecord]) -> None:
        put(self._file, json.dumps([asdict(each) for each in known.values()], indent=1).encode() + b"\n")

    def _alone(self) -> AbstractContextManager[None]:
        """One process at a time changes the codes; whoever does may change the register, never the other way round."""
        return alone(self._file.with_suffix(".lock"))


def _public_key(request: str) -> ec.EllipticCurvePublicKey:
    """The key that a request is for and signed by; the names in it count for nothing."""
    wrong = Mistake("request", "is not a request for a certificate of a P-256 key, signed by that key")
    try:
        read = x509.load_pem_x509_csr(request.encode())
        public = read.public_key()
        if not isinstance(public, ec.EllipticCurvePublicKey) or not isinstance(public.curve, ec.SECP256R1):
            raise wrong
        if not read.is_signature_valid:
            raise wrong
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        raise wrong from None
    return public
