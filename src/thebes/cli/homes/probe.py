"""The question whether a role that runs is alive, or ready, for whoever starts it again when it is not."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from thebes.privacy.faults import Mistake, Refusal
from thebes.wire.homes import HomeRole, has_of

_USUAL = "http://127.0.0.1:8000"  #: where a coordinator listens that was told no other port


class Probe(StrEnum):
    """The two questions: whether it should be started again; whether it can do its work just now."""

    LIVE = "live"
    READY = "ready"


def probe(which: Probe, home: Path | None, coordinator: str | None) -> None:
    """Raise where the answer is no: of a coordinator by its URL, of a site by its home."""
    if coordinator is None and home is not None and has_of(HomeRole.COORDINATOR, home):
        coordinator = _USUAL
    if coordinator is not None and "//" in coordinator:
        from thebes.wire.client import CoordinatorClient

        with CoordinatorClient(coordinator, timeout=15, retries=0) as client:
            client.live() if which is Probe.LIVE else client.ready()
        return
    if home is None:
        raise Mistake("--probe", "needs --coordinator URL, or the --home of a site")
    from thebes.site.client import running

    with running(home) as site:
        told = site.standing()
    if told.get("algorithm") != "up":
        raise Refusal("the process with the rows does not run just now")
    if which is Probe.READY and told.get("state") != "connected":
        raise Refusal(f"the site is not linked: {told.get('reason') or told.get('state')}")
