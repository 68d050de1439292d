"""Figures of a coordinator of one process or several: whoever is asked tells what all have counted.

What must stay true: no label but those below, whose values are known beforehand: none of a person, a requestor, a task
or a site. Of a duration nothing is kept but between which bounds it lay, also not in the sum of all.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.multiprocess import MultiProcessCollector

from thebes.wire.link import Code
from thebes.wire.problems import NAMES, from_problem
from thebes.wire.refused_sites import GONE, LATE

FIGURES = "PROMETHEUS_MULTIPROC_DIR"  #: of the environment: where each of several processes keeps what it has counted
REQUEST_BOUNDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
PHASE_BOUNDS = (1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0)
STORE_UNAVAILABLE = "StoreUnavailable"  #: a refusal because the database does not answer
_BEYOND = 2.0  #: what lasted longer than the last bound counts as so many times it


def gathered(own: CollectorRegistry) -> CollectorRegistry:
    """Collect what all processes have counted, those included that have ended; of a single one its own."""
    if FIGURES not in os.environ:
        return own
    everybody = CollectorRegistry()
    MultiProcessCollector(everybody)  # type: ignore[no-untyped-call]
    return everybody


class CoordinatorMetrics:
    """The figures that one process counts."""

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        self._requests = Counter(
            "thebes_requests_total", "Requests by method and status.", ["method", "status"], registry=own
        )
        self._request_seconds = Histogram(
            "thebes_request_seconds",
            "Seconds until a request was answered, each rounded up to a bound.",
            ["method"],
            buckets=REQUEST_BOUNDS,
            registry=own,
        )
        self._answers: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._submissions = Counter("thebes_submissions_total", "Submissions that were given a receipt.", registry=own)
        self._refusals = Counter(
            "thebes_refusals_total",
            "What the coordinator refused, by the name of the error; and sites, by their code.",
            ["by", "reason"],
            registry=own,
        )
        for reason in (*sorted(NAMES), STORE_UNAVAILABLE):  # from 0 on: the first of a kind counts as an increase
            self._refusals.labels("coordinator", reason)
        for reason in sorted({*Code, GONE, LATE}):
            self._refusals.labels("site", str(reason))
        self._phase_seconds = Histogram(
            "thebes_site_phase_seconds",
            "Seconds for which sites were waited for in a phase of a task, each rounded up to a bound.",
            buckets=PHASE_BOUNDS,
            registry=own,
        )
        self._tasks = _standing("thebes_tasks", "Tasks by status.", "status", own)
        self._sites = _standing("thebes_sites", "Sites by state.", "state", own)
        self._queue = _standing(
            "thebes_queue", "Work that waits or is under way: phases to end, tasks of sites.", "work", own
        )

    # --- counting ---------------------------------------------------------------------------------------

    def answered(self, method: str, status: int, seconds: float) -> None:
        """Count a request that was answered after so many seconds."""
        counts = self._answers.get((method, status))
        if counts is None:  # looking up a label takes longer than counting
            counts = self._requests.labels(method, str(status)), self._request_seconds.labels(method)
            self._answers[method, status] = counts
        counts[0].inc()
        counts[1].observe(_rounded(seconds, REQUEST_BOUNDS))

    def refused(self, status: int, error: object = None) -> None:
        """Count a refusal of the coordinator's by the name of its error, or by what its status means."""
        name = error if isinstance(error, str) else type(from_problem(status, {})).__name__
        self._refusals.labels("coordinator", name).inc()

    def site_refused(self, reason: str) -> None:
        """Count a site that is not in an answer: by its own code, or because it was gone or late."""
        self._refusals.labels("site", reason).inc()

    def received(self) -> None:
        """Count a submission that was given a receipt."""
        self._submissions.inc()

    def phase_took(self, seconds: float) -> None:
        """Count a phase of a task in which sites were waited for so long."""
        self._phase_seconds.observe(_rounded(seconds, PHASE_BOUNDS))

    def stand(self, *, tasks: Mapping[str, int], sites: Mapping[str, int], queue: Mapping[str, int]) -> None:
        """Say how things stand at this moment."""
        for gauge, counts in ((self._tasks, tasks), (self._sites, sites), (self._queue, queue)):
            for name, count in counts.items():
                gauge.labels(name).set(count)

    # --- reading ----------------------------------------------------------------------------------------

    def refusals(self) -> dict[tuple[str, str], int]:
        """Return how often who refused why, since the coordinator was started, most often first."""
        told = gathered(self.registry)
        found = {
            (labels["by"], labels["reason"]): int(value)
            for labels, value in _samples(told, "thebes_refusals", "thebes_refusals_total")
        }
        return dict(sorted(((of, count) for of, count in found.items() if count), key=lambda one: (-one[1], one[0])))

    def request_quantile(self, share: float) -> float | None:
        """Return the bound within which this share of requests was answered, or None where there was none yet;
        infinity beyond the last one."""
        return _quantile(gathered(self.registry), "thebes_request_seconds", share)

    def phase_quantile(self, share: float) -> float | None:
        """Return the same of the phases in which sites were waited for."""
        return _quantile(gathered(self.registry), "thebes_site_phase_seconds", share)


def _standing(name: str, words: str, label: str, registry: CollectorRegistry) -> Gauge:
    """A number that whichever process read it last knows best."""
    return Gauge(name, words, [label], registry=registry, multiprocess_mode="mostrecent")


def _rounded(seconds: float, bounds: tuple[float, ...]) -> float:
    place = bisect_left(bounds, seconds)
    return bounds[place] if place < len(bounds) else _BEYOND * bounds[-1]


def _samples(registry: CollectorRegistry, name: str, sample: str) -> Iterator[tuple[Mapping[str, str], float]]:
    for metric in registry.collect():
        if metric.name == name:
            yield from ((each.labels, each.value) for each in metric.samples if each.name == sample)


def _quantile(registry: CollectorRegistry, name: str, share: float) -> float | None:
    below: dict[float, float] = {}
    for labels, count in _samples(registry, name, f"{name}_bucket"):
        bound = float(labels["le"])
        below[bound] = below.get(bound, 0.0) + count
    whole = max(below.values(), default=0.0)
    return min((bound for bound, count in below.items() if count >= share * whole), default=None) if whole else None
