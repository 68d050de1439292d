"""The process that holds the rows: it hears asks through a pipe, and what it answers is all that comes out of it.

What must stay true: it opens no way to the network for others; it ends when the pipe does; killed at any point and
started again, it goes on from what is on disk.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from thebes import machine
from thebes.confinement.calls import die_with_parent, hide_memory
from thebes.curator.pipelines.bundles import checked
from thebes.curator.pipelines.workspace import deciding
from thebes.ledger import Ledger
from thebes.ledger.keeper import UNNOTICED, WHAT_HELPS
from thebes.privacy.faults import Mistake, ThebesError
from thebes.privacy.randomness import system
from thebes.site.budget.budget import SiteBudget
from thebes.site.budget.policy_file import PolicyFile
from thebes.site.caches import Caches
from thebes.site.dataset import DataSets
from thebes.site.helping.second_server import Helper
from thebes.site.home import AUDIT, OUTBOX, SiteHome
from thebes.site.lanes import READERS, Lanes
from thebes.site.process_start import PIPE
from thebes.site.requests.contribution import Contributing
from thebes.site.requests.pipeline_attempt import TaskAttempts
from thebes.site.requests.request_handler import RequestHandler
from thebes.site.requests.response_store import ResponseStore
from thebes.site.steward import decisions, views
from thebes.site.steward.audit_log import Audit
from thebes.site.steward.pipelines import Pipelines
from thebes.site.streams import Streams
from thebes.site.tables import Tables
from thebes.tasks import registry
from thebes.tasks.site_document import LOCAL
from thebes.wire import frames, log_output
from thebes.wire.link import BlockingPipe, Code, Word, read_envelope
from thebes.wire.local_server import HomeInUse

_SHORT = 2**16  #: bytes of an ask that may be about an answer from before; one with a model's weights is longer
_HOLD_SECONDS = 10.0  #: for as long a process that is just ending may still have the home
_HEAVY = ("thebes.privacy.samplers", "thebes.data.engines.duck")
_FRONT = ""  #: the lane of everything that reads no rows
_BOUNDED = (Word.ASK, Word.QUOTE, Word.HELP)  #: of which only so many wait

APPEND = "append"  #: rows for a growing data set
PREVIEW, DECIDE = "preview", "decide"  #: what a decision of the steward would change, and the decision
PREDICT = "predict"  #: what a model of the store says of rows

log = logging.getLogger("thebes.site")


class Office:
    """The office behind the pipe: everything of a home that its two ways in share."""

    def __init__(self, home: SiteHome, name: str) -> None:
        self.datasets, self.policy, self.policy_path = DataSets(home), PolicyFile(home.policy), home.policy
        self.outbox, self.audit = ResponseStore(home.folder / OUTBOX), Audit(home.folder / AUDIT)
        self.ledger = Ledger(home.ledger)
        (home.folder / "ledger.db").chmod(0o600)
        self.pipelines = Pipelines(home, self.datasets, self.ledger)
        self.budget = SiteBudget(
            self.ledger, self.outbox, deciding=partial(deciding, home.folder), attempts=self.pipelines.amounts
        )
        self.streams = Streams(home, self.ledger)
        self.caches = Caches(home, streams=self.streams)
        self.tables = tables = Tables(home, self.streams)
        self.contributing = Contributing(
            outbox=self.outbox,
            budget=self.budget,
            tables=tables,
            streams=self.streams,
            grown=tables.grown,
            attempting=lambda stream, request: TaskAttempts(home, stream, request, system),
            caches=self.caches,
        )
        self.desk = RequestHandler(
            name=name,
            datasets=self.datasets,
            policy=self.policy,
            outbox=self.outbox,
            audit=self.audit,
            budget=self.budget,
            contributing=self.contributing,
            streams=self.streams,
            looking=self.caches.looking,
        )
        self.helper = Helper(
            home.folder, name=name, apart=not home.of_a_coordinator, policy=self.policy, audit=self.audit
        )
        self.desk.recover()

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return what belongs into the answer to one message."""
        kind = message["kind"]
        if kind == Word.ASK:
            return self.desk.ask(message)
        if kind == Word.HELP:
            return self.helper.step(message)
        if kind == Word.CLOSED:
            task = str(message.get("task"))
            self.helper.over(task, asked=self.outbox.request(task) is not None)
            return self.desk.closed(message)
        if kind == Word.QUOTE:
            return self.helper.quote(message) if self.helper.concerns(message) else self.desk.quote(message)
        if kind == Word.DESCRIBE:
            return self.desk.describe()
        if kind == Word.PING:
            return {"kind": Word.PONG}
        return {"kind": kind, "body": self._own(str(kind), message)}

    def _own(self, kind: str, message: Mapping[str, Any]) -> Any:
        if kind == APPEND:
            return self._append(message)
        if kind == PREVIEW:
            return decisions.preview(message, self.outbox, self.policy_path)
        if kind == DECIDE:
            return decisions.decide(message, self.outbox, self.policy_path, self.audit)
        if kind == "requests":
            return views.requests(self.outbox)
        if kind == "ledger":
            return views.ledger(self.budget, self.datasets, self.policy())
        if kind == "budgets":
            return views.budgets(self.budget, self.datasets, self.policy())
        if kind == "datasets":
            told = views.described(self.datasets, self.ledger, self.streams, self.caches.known)
            return [{**each, "unread": self.tables.unread(each["name"])} for each in told]
        if kind == "audit":
            return views.log(self.audit)
        if kind == "verified":
            return views.verified(self.audit, self.ledger)
        if kind == "pipelines":
            return self.pipelines.told()
        if kind == "models":
            return self.pipelines.store.told()
        if kind in ("model", PREDICT):
            return self._model(kind, message)
        raise Mistake("kind", "is not one that a site answers")

    def _model(self, kind: str, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """A model of the store, or what it says of rows; None where there is none of that name and version."""
        name, version = checked(message.get("name", "")), message.get("version")
        if version is not None and (isinstance(version, bool) or not isinstance(version, int)):
            raise Mistake("version", "must be a whole number")
        if kind == PREDICT:
            return self.pipelines.store.predict(name, message.get("rows"), version)
        return self.pipelines.model(name, version)

    def _append(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """More rows of a growing data set, from whoever holds the token of the site's interface."""
        name, rows, key = message.get("dataset"), message.get("rows"), message.get("key")
        dataset = self.datasets.get(name) if isinstance(name, str) else None
        if dataset is None:
            raise Mistake("dataset", "is not declared here")
        if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
            raise Mistake("rows", "must be a list of objects, at least one")
        if not isinstance(key, str) or not 0 < len(key) <= 200 or not key.isprintable():
            raise Mistake(
                "key",
                "must be a printable text of 1 to 200 characters that names these rows, so that what is sent twice "
                "comes in once",
            )
        came = self.streams(dataset).ingest(rows, key=key)
        return {"rows": came.rows, "again": came.again}

    def lane(self, message: Mapping[str, Any]) -> str:
        """Name the lane in which a message waits: asks by data set, and the end of a task behind its asks."""
        if message["kind"] in (Word.ASK, Word.QUOTE):
            return self._lane_of(self.desk.datasets_of(message))
        if message["kind"] == Word.CLOSED:
            request = self.outbox.request(str(message.get("task")))
            return _FRONT if request is None else self._lane_of(request.datasets)
        if message["kind"] in (PREDICT, Word.HELP):
            return str(message["kind"])
        if message["kind"] == APPEND:
            named = str(message.get("dataset"))
            return f"{APPEND} {named}" if named in self.datasets else _FRONT
        return _FRONT

    def _lane_of(self, asked: Sequence[str]) -> str:
        """Two data sets that are joined have a lane of their own: their rows are opened anew for it."""
        declared = asked and all(name in self.datasets for name in asked)
        return " joined with ".join(sorted(asked)) if declared else _FRONT

    def recalls(self, message: Mapping[str, Any]) -> bool:
        """Return whether a message may be answered without a row."""
        return message["kind"] == Word.QUOTE or (message["kind"] == Word.ASK and self.desk.recalls(message))

    def again(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return what belongs into the answer to an ask or a quote that reads no rows; None where it must take its
        turn."""
        return self.desk.quote(message) if message["kind"] == Word.QUOTE else self.desk.again(message)


def serve(office: Office, pipe: BlockingPipe) -> None:
    """Hear and answer until the pipe ends. Rows of a data set are read for two tasks side by side, and whoever asks
    what was released before, or what something would cost, waits beside them; who is first is up to the ledger."""
    lanes, turn = Lanes(), threading.Lock()

    def say(message: Mapping[str, Any], told: Mapping[str, Any]) -> None:
        with turn:
            if isinstance(told, frames.WrittenMessage):
                pipe.send_blocks(told.blocks(id=message["id"]))
            else:
                pipe.send({**told, "kind": str(told["kind"]), "id": message["id"]})

    def work(message: Mapping[str, Any]) -> None:
        try:
            told = office.answer(message)
        except ThebesError as error:
            told = {"kind": "problem", "field": getattr(error, "argument", ""), "reason": str(error)}
        say(message, told)

    def first(message: Mapping[str, Any], lane: str, size: int) -> None:
        told = office.again(message)
        if told is None:
            wait(message, lane, partial(work, message), size)
        else:
            say(message, told)

    def wait(message: Mapping[str, Any], lane: str, what: Callable[[], None], size: int) -> None:
        bounded, readers = message["kind"] in _BOUNDED, READERS if lane in office.datasets else 1
        task = str(message.get("task"))
        if lanes.put(lane, what, size, task=task, readers=readers, bounded=bounded):
            return
        ask = message.get("ask")
        about = {"task": message.get("task"), "part": ask.get("part") if isinstance(ask, Mapping) else None}
        busy = {"kind": Word.REFUSAL, **about, "code": str(Code.BUSY), "reason": "the site has too much to do"}
        lanes.put(_FRONT, partial(say, message, busy), 0, bounded=False)

    leave = office.helper.watch()
    while (body := pipe.receive_bytes()) is not None:
        message, size = read_envelope(body), len(body)
        del body
        lane = office.lane(message)
        if lane and size <= _SHORT and office.recalls(message):
            wait(message, f"again {lane}", partial(first, message, lane, size), size)
        else:
            wait(message, lane, partial(work, message), size)
        del message  # a long ask is not held here until the next one comes
    leave()


def warm() -> None:
    """Load what answers are computed with: seconds for which the first ask need not wait."""
    try:
        registry.load_site_owners()
        for module in _HEAVY:
            import_module(module)
    except ImportError as error:  # whatever is asked for will say so
        log.warning(
            "cannot load what answers are computed with: %s",
            type(error).__name__,
            extra={"event": "library.unloadable"},
        )


def main() -> None:
    """Run until the pipe ends."""
    parser = argparse.ArgumentParser(prog="thebes.site.algorithm_process")
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--name", default=LOCAL)
    told = parser.parse_args()
    die_with_parent()
    hide_memory()
    os.umask(0o077)
    for number in machine.signals("SIGINT", "SIGHUP"):
        signal.signal(number, signal.SIG_IGN)  # whoever started it ends it
    log_output.to_stderr("thebes site: %(message)s")
    try:
        end = socket.socket(fileno=int(os.environ.pop(PIPE)))
    except (KeyError, ValueError, OSError):
        sys.exit("thebes.site.algorithm_process is started by `thebes site` or `thebes coordinator`, with a pipe")
    home = SiteHome(told.home)
    hold = _held(home)
    threading.Thread(target=warm, name="warm", daemon=True).start()
    try:
        office = Office(home, told.name)
        if not office.ledger.notices_older_copies:
            log.warning("%s; %s", UNNOTICED, WHAT_HELPS, extra={"event": "ledger.copies-unnoticed"})
        serve(office, BlockingPipe(end))
    except (Mistake, ThebesError) as error:
        log.error("%s", error, extra={"event": "site.unstartable"})
        os._exit(1)
    del hold
    os._exit(0)  # whatever is being computed can be computed again: nobody is there to hear it


def _held(home: SiteHome) -> object:
    """The home, waiting for one who is just leaving it."""
    until = time.monotonic() + _HOLD_SECONDS
    while True:
        try:
            return home.hold_rows()
        except HomeInUse:
            if time.monotonic() >= until:
                sys.exit(f"another process works in {home.folder}")
            time.sleep(0.05)


if __name__ == "__main__":
    main()
