"""A process of a site that dies at any one moment of an ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from thebes.ledger import Ledger
from thebes.site.requests import contribution
from thebes.site.requests.response_store import ResponseStore
from thebes.site.steward.audit_log import Audit


class Killed(BaseException):
    """The process is gone."""


class Reaper:
    """Counts everything that is durable or visible outside, and kills the process at one of these moments."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.moments, self.at = 0, -1
        self.happens: Callable[[], None] = self._kill
        for owner, names in (
            (ResponseStore, ("begin", "first", "refuse", "keep", "finish", "_put", "_discard", "_forget")),
            (Audit, ("note",)),
            (Ledger, ("reserve", "_consume", "_release")),
            (contribution, ("carried",)),
        ):
            for name in names:
                monkeypatch.setattr(owner, name, self._around(getattr(owner, name)))

    def _around(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*arguments: Any, **more: Any) -> Any:
            self._moment()
            result = real(*arguments, **more)
            self._moment()
            return result

        return watched

    def _moment(self) -> None:
        if self.moments == self.at:
            self.moments += 1
            self.happens()
        self.moments += 1

    def _kill(self) -> None:
        raise Killed
