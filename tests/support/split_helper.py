"""A helper of split trust for tests: a real one over its home, spoken with in this process; and what leads it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.training import Silent
from thebes.data.rows import Rows
from thebes.privacy.promise import Unit
from thebes.privacy.randomness import system
from thebes.site.budget.policy_text import read_policy
from thebes.site.helping.second_server import Helper
from thebes.site.home import AUDIT
from thebes.site.steward.audit_log import Audit
from thebes.tasks import registry
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.contributions import Contributions
from thebes.tasks.protocols import Ask, Setting
from thebes.tasks.split_reports import reports_of
from thebes.wire import helping
from thebes.wire.link import Word

HELPS = '[[help]]\nrequestors = ["*"]\nepsilon = 10\nmin_count = 11\n'
VALUES = [0.0, 20.0, 30.5, 40.0, 40.0, 55.25, 70.0, 100.0, 130.0, -5.0, 50.0]


def helped() -> dict[str, Any]:
    until = datetime.now(UTC) + timedelta(hours=1)
    return {"server": "split", "helper": "ward", "expires_at": until.isoformat()}


def document(**more: Any) -> dict[str, Any]:
    return {
        **helped(),
        "type": "basic",
        "aggregator": "mean",
        "epsilon": 1.0,
        "min_count": 11,
        "featurizer": "SELECT age FROM p.t",
        "bounds": {"age": {"type": "range", "low": 0.0, "high": 100.0}},
        **more,
    }


class Ward:
    """The second institution: a real helper over its home; `heard` is every message that the leader sent it."""

    def __init__(
        self,
        home: Path,
        *,
        policy: str = HELPS,
        randomness: Callable[[], Any] = Silent,
        clock: Callable[[], float] = time.time,
    ) -> None:
        home.mkdir(exist_ok=True)
        self.home, self._policy, self._randomness, self._clock = home, read_policy(policy), randomness, clock
        self.heard: list[dict[str, Any]] = []
        self.said: list[dict[str, Any]] = []
        self.lie: Callable[[dict[str, Any], dict[str, Any]], dict[str, Any] | None] = lambda _, answer: answer
        self.start()

    def start(self) -> None:
        """Begin anew over what is on the disk, as after a kill."""
        self.helper = Helper(
            self.home,
            name="ward",
            apart=True,
            policy=lambda: self._policy,
            audit=Audit(self.home / AUDIT),
            randomness=self._randomness,
            clock=self._clock,
        )

    async def __call__(self, message: dict[str, Any]) -> dict[str, Any] | None:
        kind = message["kind"]
        if kind == Word.DESCRIBE:
            return {"kind": "described", "datasets": {}, "version": "1"}
        if kind == Word.PING:
            return {"kind": "pong"}
        if kind == Word.CLOSED:
            self.helper.over(message["task"])
            return {"kind": "noted"}
        if kind == Word.QUOTE:
            return self.helper.quote(message)
        self.heard.append(message)
        answer = self.lie(message, self.helper.step(message))
        self.said.append(answer or {})
        return answer


class Led:
    """A helper that is led by the test, which may do what it likes. `whole`: a document instead of the usual one."""

    def __init__(self, ward: Ward, *, task: str = "t", whole: dict[str, Any] | None = None, **more: Any) -> None:
        self.helper, self.task = ward.helper, task
        asked = document(**more) if whole is None else {**whole, **helped()}
        self.told = registry.check({**asked, "helper_key": ward.helper.fingerprint()}).as_json()
        self.opened = self.step("open", requestor="ana", document=self.told)
        self.document: Any = registry.check(self.told)
        shown = {n: v for n, v in self.opened.items() if n not in ("kind", "verify_key")}
        self.ask = Ask("a", "phase-0", 0, shown, task=task)
        setting = Setting(Unit.DEVICE, system(), helper=self.opened)
        self.leader: Any = registry.aggregator(self.document, setting)

    def step(self, step: str, **more: Any) -> dict[str, Any]:
        return self.helper.step({"kind": "help", "step": step, "task": self.task, **more})

    def rows(self, values: list[float]) -> tuple[str, list[bytes]]:
        """Return the message a leader sends of reports of these people, and their nonces."""
        owner, rows = registry.owner(self.document), Rows.one_each({"age": np.array(values)})
        return self._message(owner.contribute(self.document, self.ask, rows, RecordedClaim(), randomness=system()))

    def numbers(self, numbers: NDArray[np.int64]) -> tuple[str, list[bytes]]:
        """Return the same of people who encode these, one row each."""
        made = reports_of(self.document, self.leader.splitting, numbers, self.ask, simulated=False, randomness=system())
        return self._message(made)

    def _message(self, sent: Contributions) -> tuple[str, list[bytes]]:
        reports, prepared = self.leader.verified(sent)
        self.sent = reports, prepared
        sealed = np.stack([np.frombuffer(each, dtype=np.uint8) for each in reports.sealed])
        whole = np.concatenate([reports.nonces, reports.public, sealed, prepared.verifier], axis=1)
        return helping.packed(whole), self.leader.nonces(sent)

    def close(self, nonces: list[bytes], dropped: list[bytes] | None = None) -> dict[str, Any]:
        told = {"dropped": [n.hex() for n in dropped or []], "count": len(nonces)}
        return self.step("close", **told, nonces=helping.nonces_digest(nonces))
