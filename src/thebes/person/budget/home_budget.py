"""The budget of a person's home: what was spent, what is left, and the settings that say how much that may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from thebes.ledger import Ledger
from thebes.person.budget import spending_report
from thebes.person.budget.budget import PersonBudget
from thebes.person.participation import known_helpers
from thebes.person.settings import PersonSettings
from thebes.person.tasks.task_store import TaskStore
from thebes.privacy.faults import Mistake


class HomeBudget:
    """The part of a home that its ledger and its settings answer."""

    home: Path
    _ledger: Ledger
    _task_store: TaskStore
    _budget: PersonBudget

    def ledger(self) -> dict[str, Any]:
        """Tell what was spent, on which task, for whom, and what is left; what a server only promises stands apart."""
        return spending_report.ledger(self._budget, self._task_store)

    def balance(self) -> dict[str, Any]:
        """Tell what is left, and whether the ledger is frozen: the part of `ledger` that costs next to nothing to
        tell."""
        return spending_report.balance(self._budget)

    def under_cap(self, requestor: str, trust: str) -> dict[str, Any] | None:
        """Tell what this person's cap for a requestor leaves in this period; None without one."""
        return self._budget.under_cap(requestor, trust)

    def remembers(self) -> dict[str, Any]:
        """Tell since when this home counts what is spent, and when it was brought back from a copy or moved."""
        entries = list(self._ledger.journal())
        return {"since": entries[0].at if entries else None, "restored": [e.at for e in entries if e.event == "thaw"]}

    def verify(self) -> dict[str, Any]:
        """Tell whether the ledger's journal is whole and every balance is what it says."""
        return spending_report.verified(self._ledger)

    def settings(self) -> PersonSettings:
        return PersonSettings.read(self.home)

    def set_settings(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Change limits, caps and delay; what was spent is carried over. Coordinator and proxy are set when
        starting, and no helper's key that was confirmed is replaced."""
        if not isinstance(body, Mapping):
            raise Mistake("settings", "must be an object")
        for name in ("coordinator", "proxy"):
            if name in body:
                raise Mistake(name, f"is set when starting: --{name}")
        now = self.settings()
        changed = now.changed(body)
        known_helpers.none_replaced(now.helpers, changed.helpers)
        return self._set(changed)

    def forget_helper(self, name: str) -> None:
        """Take back that a helper's key was confirmed: no task of this helper is answered until one is again."""
        now = self.settings()
        self._set(replace(now, helpers=known_helpers.forgotten(now.helpers, name)))

    def _set(self, changed: PersonSettings) -> dict[str, Any]:
        changed.write(self.home)
        self._budget.view()
        return changed.as_json()
