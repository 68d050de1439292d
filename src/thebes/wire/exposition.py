"""The form in which a role gives figures: OpenMetrics to whoever asks for it, Prometheus's older text to all others.

What must stay true: no figure says when it was first counted, which would tell when something first happened.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.exposition import choose_encoder

#: what may be answered, for the description of the interface
KINDS: dict[str, dict[str, str]] = {"text/plain": {}, "application/openmetrics-text": {}}

disable_created_metrics()  # type: ignore[no-untyped-call]


def exposed(registry: CollectorRegistry, accept: str) -> tuple[bytes, str]:
    """Return the figures, and of which kind they are, as a header `accept` wishes."""
    encode, kind = choose_encoder(accept)
    return encode(registry), kind
