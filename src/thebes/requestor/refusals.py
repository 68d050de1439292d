"""The ways in which a task ends without an answer, or has not ended yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from thebes.privacy.faults import Refusal
from thebes.privacy.figures import figure


class TaskFailed(Refusal):
    """`task_id` ended without a release; `reason` says why, as far as the coordinator does."""

    ended = "failed"

    def __init__(self, task_id: str, reason: str) -> None:
        super().__init__(f"task {task_id} {self.ended}: {reason}")
        self.task_id = task_id
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.task_id, self.reason))


class TaskExpired(TaskFailed):
    """Too few people took part before the task's `expires_at`; nothing was released."""

    ended = "expired"


@dataclass(frozen=True, slots=True)
class SiteRefusal:
    """The reason that one site is not in an answer: `reason` in a word (policy, budget, dataset, schema, document,
    busy, down, failed, gone, late), `message` in its own. `charged`: whether the site was charged anything for the
    task, by its own word when it heard that the task is over, or because it was never asked; None: not known."""

    reason: str
    message: str
    charged: bool | None = None


class SitesRefused(TaskFailed):
    """Too few sites answered; nothing was released. `sites` says of each that did not why.

    Example:
        try:
            release = handle.wait()
        except SitesRefused as refused:
            for site, said in refused.sites.items():
                print(site, said.reason, said.message)  # such as: south budget ...

    """

    ended = "was not answered"

    def __init__(self, task_id: str, reason: str, sites: Mapping[str, SiteRefusal]) -> None:
        super().__init__(task_id, reason)
        self.sites = dict(sites)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.task_id, self.reason, self.sites))


class TaskCancelled(TaskFailed):
    """Its requestor or an operator ended the task; nothing was released."""

    ended = "was cancelled"


class NotFinished(Refusal, TimeoutError):
    """The task goes on, only this wait is over; wait again, or cancel it."""

    def __init__(self, task_id: str, seconds: float, heard: str) -> None:
        after = f"after {figure(seconds)} seconds"
        super().__init__(f"task {task_id} is not finished {after}{heard}; wait again, or cancel it")
        self.task_id = task_id
        self.seconds = seconds
        self.heard = heard

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.task_id, self.seconds, self.heard))
