"""Figures for Prometheus of a coordinator of one process or several: whoever is asked tells what all have counted."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry
from prometheus_client.multiprocess import MultiProcessCollector

FIGURES = "PROMETHEUS_MULTIPROC_DIR"  #: of the environment: where each of several processes keeps what it has counted


def gathered(own: CollectorRegistry) -> CollectorRegistry:
    """Collect what all processes have counted, those included that have ended; of a single one its own."""
    if FIGURES not in os.environ:
        return own
    everybody = CollectorRegistry()
    MultiProcessCollector(everybody)  # type: ignore[no-untyped-call]
    return everybody
