"""One submitted task in a requestor's hands. It holds no state of its own: the coordinator knows."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.figures import spaced
from thebes.privacy.plain_text import shortened
from thebes.requestor.progress_line import Look, Progress, looking
from thebes.requestor.refusals import NotFinished, SiteRefusal, SitesRefused, TaskCancelled, TaskExpired, TaskFailed
from thebes.requestor.signed_release import SignedRelease
from thebes.tasks import notebook
from thebes.tasks.release import Release
from thebes.tasks.release_reader import release_from_json
from thebes.wire.client import CoordinatorClient
from thebes.wire.link import Code
from thebes.wire.problems import printable
from thebes.wire.refusals import Busy, Unreachable
from thebes.wire.refused_sites import NOBODY_CHARGED, nobody_charged, why

FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 2.0
WAIT_SECONDS = 20.0  #: for which a coordinator is asked to wait with its answer, where nobody looks at progress
PATIENCE_SECONDS = 60.0  #: for how long a coordinator may be silent before waiting ends

_BROKE_OFF = (
    "the coordinator gives no reason; its operator finds it in the log, or has brought the coordinator back from a "
    "copy, which ends what had been collected. Put it up again"
)
#: what helps where a budget does not
_CHEAPER = (
    ". Ask for less: a quote says what one more answer may cost there. What was released before is repeated for nothing"
)
_ENDS = {
    "failed": (TaskFailed, _BROKE_OFF),
    "expired": (TaskExpired, "too few people took part before it expired; nothing was released"),
    "cancelled": (TaskCancelled, "nothing was released"),
}


@dataclass(frozen=True)
class Handle:
    """The task `task_id`. `status` and `release` ask the coordinator each time.

    Example:
        handle = server.submit(document)
        handle.status, handle.wait(timeout=60).value

    """

    client: CoordinatorClient = field(repr=False)
    task_id: str
    digest: str | None = None
    clock: Callable[[], float] = field(default=time.monotonic, repr=False)
    sleep: Callable[[float], None] = field(default=time.sleep, repr=False)

    def show(self) -> dict[str, Any]:
        """Everything the coordinator says of the task: status, document, result."""
        return self.client.task(self.task_id)

    @property
    def status(self) -> str:
        """open, running, done, failed, cancelled or expired: too few people in time, or too few sites answered."""
        return printable(self.show().get("status")) or "unknown"

    @property
    def document(self) -> dict[str, Any]:
        """The document after aliases and defaults."""
        return dict(self.show().get("document") or {})

    @property
    def release(self) -> Release | None:
        """The latest release, or None before the first one. Reading it again spends nothing."""
        result = self.show().get("result")
        return None if result is None else self._published(result)

    def cancel(self) -> None:
        """End the task without a release. What people already paid stays paid."""
        self.client.cancel(self.task_id)

    def close(self) -> None:
        """End a task that is trained without end and keep its last release; other kinds end by themselves."""
        self.client.close_task(self.task_id)

    def __repr__(self) -> str:
        return shortened(f"<task {self.task_id} at {self.client.url}>", 120)

    def _repr_html_(self) -> str:
        """For notebooks: where the task stands now, as far as the coordinator can be asked."""
        try:
            body = self.show()
        except Refusal as refused:
            return notebook.shown(notebook.lines([repr(self), str(refused)]))
        told = ("type", "status", "contributions", "min_count", "digest")
        document = body.get("document")
        known = {"task": self.task_id, "at": self.client.url, **{name: body.get(name) for name in told}}
        if isinstance(document, Mapping):
            known |= {"type": document.get("type"), "name": document.get("name")}
        rows = [(name, printable(str(value), 200)) for name, value in known.items() if value is not None]
        return notebook.shown(notebook.table(("", ""), rows), notebook.lines(filter(None, [how_far(body)])))

    def wait(self, timeout: float | None = None, *, progress: Progress = "auto") -> Release:
        """The release, once the task is done; of a task that is trained without end the first one there is.

        Raises `NotFinished` (also a TimeoutError) after `timeout` seconds, and `TaskFailed`, `SitesRefused`,
        `TaskExpired` or `TaskCancelled` when there will be none. A coordinator that restarts meanwhile is waited for.
        `progress`: "auto" shows how far it is in one line of a terminal or one display of a notebook, and nothing in a
        pipe; None shows nothing; a function is told what the coordinator says of the task, each time.

        Example: server.submit(document).wait(timeout=600).value
        """
        body = self.finished(timeout, progress=progress)
        if body.get("result") is None:
            raise TaskFailed(self.task_id, "it ended without a release")
        release = self._published(body["result"])
        if told := _partly(release, body):
            warnings.warn(told, UserWarning, stacklevel=2)
        return release

    def _published(self, result: Mapping[str, Any]) -> Release:
        """Read a release that knows where it was published."""
        return release_from_json(result).published(SignedRelease(self.client, self.task_id, result))

    def finished(self, timeout: float | None = None, *, progress: Progress = "auto") -> dict[str, Any]:
        """Wait as `wait` does, and give what the coordinator says of the task then."""
        if timeout is not None and (isinstance(timeout, bool) or not math.isfinite(timeout) or timeout < 0):
            raise Mistake("timeout", "must be a number of seconds, or None to wait for as long as it takes")
        with looking(progress, how_far) as look:
            return self._watched(timeout, look)

    def _watched(self, timeout: float | None, look: Look | None) -> dict[str, Any]:
        started = self.clock()
        answered = started
        pause, heard, wait = FIRST_PAUSE_SECONDS, "", 0.0
        while True:
            asked = self.clock()
            try:
                body = self.client.task(self.task_id, wait=wait) if wait else self.show()
            except (Unreachable, Busy):
                if self.clock() - answered >= PATIENCE_SECONDS:
                    raise
            else:
                answered = self.clock()
                if look is not None:
                    look(body)
                if self._is_done(body):
                    return body
                waits = how_far(body)
                heard = f" ({waits})" if waits else ""
            if timeout is not None and self.clock() - started >= timeout:
                raise NotFinished(self.task_id, timeout, heard)
            left = math.inf if timeout is None else timeout - (self.clock() - started)
            # One that waited has taken its time; of one that does not, as older ones, the next answer is not hurried.
            self.sleep(max(0.0, min(pause - (self.clock() - asked if wait else 0.0), left)))
            pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)
            wait = max(0.0, min(WAIT_SECONDS if look is None else LONGEST_PAUSE_SECONDS, left))

    def _is_done(self, body: Mapping[str, Any]) -> bool:
        status = body.get("status")
        if isinstance(status, str) and status in _ENDS:
            class_, usual = _ENDS[status]
            refused = _refused(body) if status == "expired" else {}
            if refused:
                raise SitesRefused(self.task_id, _in_words(refused, body), refused)
            raise class_(self.task_id, printable(body.get("reason")) or usual)
        return status == "done" or (status == "open" and body.get("result") is not None)


def _refused(body: Mapping[str, Any]) -> dict[str, SiteRefusal]:
    """Of a task of institutions, those that are not in its answer and why."""
    told = body.get("refusals")
    named = told if isinstance(told, Mapping) else {}
    return {
        printable(str(site)): SiteRefusal(
            printable(str(one.get("reason"))),
            printable(str(one.get("message"))),
            one["charged"] if isinstance(one.get("charged"), bool) else None,
        )
        for site, one in named.items()
        if isinstance(one, Mapping)
    }


def _in_words(refused: Mapping[str, SiteRefusal], body: Mapping[str, Any]) -> str:
    """Say in words who did not answer and why; and that nobody paid, where nobody can have."""
    sites = ". ".join(f"{site}: {why(one.reason, one.message)}" for site, one in sorted(refused.items()))
    charged = f" and {NOBODY_CHARGED}" if nobody_charged(body) else ""
    dear = any(one.reason == Code.BUDGET for one in refused.values())
    return f"too few sites answered; nothing was released{charged}. {sites}{_CHEAPER if dear else ''}"


def _partly(release: Release, body: Mapping[str, Any]) -> str:
    """Say that only some of the sites that were asked are in the answer, where the document did not say that so many
    are enough: numbers of others would differ."""
    covered, document = release.extra.get("coverage"), body.get("document")
    missing = covered.get("missing") if isinstance(covered, Mapping) else None
    if not isinstance(missing, Mapping) or not missing:
        return ""
    if isinstance(document, Mapping) and document.get("min_sites") is not None:
        return ""
    without = "; ".join(f"{printable(str(site))}: {printable(str(told))}" for site, told in missing.items())
    return (
        f"not every site is in the answer, which is about the others alone; without {without}. With min_sites nothing "
        "is released if fewer answer"
    )


def how_far(body: Mapping[str, Any]) -> str:
    """Say how far a task is that has not ended and until when it is open, where the coordinator says so."""
    heard, wanted, document = body.get("contributions"), body.get("min_count"), body.get("document")
    if body.get("status") not in ("open", "running") or not isinstance(heard, int) or isinstance(heard, bool):
        return ""
    if not isinstance(wanted, int):
        return f"{spaced(heard)} contributions so far"
    asked = document if isinstance(document, Mapping) else {}
    whose = "sites" if "dataset" in asked or "stream" in asked else "contributions"
    until = asked.get("expires_at")
    end = f"; open until {printable(until, 40)}" if isinstance(until, str) else ""
    return f"{spaced(heard)} of the {spaced(wanted)} {whose} it needs{end}"
