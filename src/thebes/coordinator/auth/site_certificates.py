"""A site's certificate as the coordinator's register has it, and for whom and how long there may be one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from thebes.coordinator.auth.signers import FIRST
from thebes.privacy.faults import Mistake
from thebes.tasks.site_document import LOCAL, SITE_NAME

DAYS, MOST_DAYS = 30, 366


@dataclass(frozen=True, slots=True)
class SiteCertificate:
    """A site's certificate as the register has it: `signer` is the number of whoever signed it, `came` when its site
    first came with it."""

    serial: int
    site: str
    issued: datetime
    ends: datetime
    revoked: datetime | None = None
    signer: int = FIRST
    came: datetime | None = None

    @classmethod
    def entered(cls, serial: int, entry: Mapping[str, Any]) -> Self:
        """One that was written down."""
        return cls(
            serial,
            entry["site"],
            datetime.fromisoformat(entry["issued"]),
            datetime.fromisoformat(entry["ends"]),
            _moment(entry["revoked"]),
            entry.get("signer", FIRST),
            _moment(entry.get("came")),
        )

    @property
    def entry(self) -> dict[str, Any]:
        """The certificate as it is written down."""
        return {
            "site": self.site,
            "issued": self.issued.isoformat(),
            "ends": self.ends.isoformat(),
            "revoked": _told(self.revoked),
            "signer": self.signer,
            "came": _told(self.came),
        }

    def fault(self, now: datetime) -> tuple[str, str] | None:
        """(word, sentence) why it does not count; None while it does."""
        if self.revoked is not None:
            return "revoked", f"the certificate of the site {self.site} was revoked; ask the coordinator's operator"
        if now >= self.ends:
            return "expired", f"the certificate of the site {self.site} has ended; ask for a new one (thebes ca issue)"
        return None

    def state(self, now: datetime) -> str:
        fault = self.fault(now)
        return "valid" if fault is None else fault[0]


def check_site(site: str, days: int) -> None:
    """Refuse a name that no site can have, or a term that no certificate may."""
    if not re.fullmatch(SITE_NAME, site):
        raise Mistake("NAME", "must be lower-case letters, digits, dots, underscores or hyphens, at most 63")
    if site == LOCAL:
        raise Mistake("NAME", f"{LOCAL!r} is the coordinator's own site, which needs no certificate")
    if not 1 <= days <= MOST_DAYS:
        raise Mistake("--days", f"must be between 1 and {MOST_DAYS}")


def _moment(told: str | None) -> datetime | None:
    return None if told is None else datetime.fromisoformat(told)


def _told(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def few(sites: Sequence[str]) -> str:
    """The first of them, for a sentence."""
    return f"{', '.join(sites[:5])}{' and more' if len(sites) > 5 else ''}"


def as_json(certificate: SiteCertificate, now: datetime) -> dict[str, Any]:
    """A certificate as `thebes ca list` tells it."""
    return {
        "site": certificate.site,
        "authority": certificate.signer,
        "came": None if certificate.came is None else certificate.came.astimezone(UTC).isoformat(),
        "serial": f"{certificate.serial:x}",
        "issued": certificate.issued.astimezone(UTC).isoformat(),
        "ends": certificate.ends.astimezone(UTC).isoformat(),
        "state": certificate.state(now),
    }
