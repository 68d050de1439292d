"""The state of a site, in figures for Prometheus: nothing that depends on rows, on a question or on who asked it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST as TEXT
from prometheus_client import CollectorRegistry, Gauge, generate_latest

__all__ = ["TEXT", "figures_of"]


def figures_of(shown: Mapping[str, Any], confined: bool, now: datetime) -> bytes:
    """The figures of a link as the steward is shown it, at this moment."""
    registry = CollectorRegistry()

    def say(name: str, what: str, value: float) -> None:
        Gauge(f"thebes_site_{name}", what, registry=registry).set(value)

    say("linked", "Whether the coordinator is reached and knows this site.", shown["state"] == "connected")
    say("algorithm_up", "Whether the process with the rows runs.", shown["algorithm"] == "up")
    say("confined", "Whether the process that talks is kept away from the rows by the system.", confined)
    ends = shown["certificate_ends"]
    left = 0.0 if ends is None else (datetime.fromisoformat(ends) - now).total_seconds()
    say("certificate_days", "Days for which the certificate still counts.", int(max(left, 0.0) // 86400))
    return generate_latest(registry)
