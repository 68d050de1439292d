"""The proof of whose contribution it is: tokens are verified beside everything else, and together where they wait
together.

What must stay true: nothing is counted here and nothing remembered, so a process that dies between a verified token
and its contribution has lost neither; a refusal says the same whatever was wrong with a token.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from thebes.coordinator.people.contribution_check import Sent
from thebes.coordinator.storage.write_queue import settle
from thebes.privacy.faults import ThebesError
from thebes.tokens import Context, GroupParameters, Presented, TokenRefused, verify_many
from thebes.wire.refusals import Busy, NotAllowed

MOST_WAITING = 2048  #: tokens; about two seconds of one core
_TOGETHER = 64
_BUSY_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class TokenContribution:
    """A contribution with a token, sent to a part of a task of that group."""

    parameters: GroupParameters
    task_id: str
    digest: str
    sent: Sent


class Admission:
    """Verifies on all cores; the event loop never waits for a curve."""

    def __init__(self, *, threads: int | None = None, most_waiting: int = MOST_WAITING) -> None:
        self._threads = threads or os.cpu_count() or 1
        self._most_waiting = most_waiting
        self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="thebes-verifier")
        self._waiting: list[tuple[TokenContribution, asyncio.Future[str]]] = []
        self._verifying = 0

    async def pseudonym(self, shown: TokenContribution) -> str:
        """The pseudonym that the token proves for this part, this document and this very report; or the refusal."""
        if len(self._waiting) >= self._most_waiting:
            raise Busy("too many contributions wait just now", _BUSY_SECONDS)
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting.append((shown, answer))
        self._verify_next()
        return await answer

    def close(self) -> None:
        self._pool.shutdown()

    def _verify_next(self) -> None:
        if not self._waiting or self._verifying >= self._threads:
            return
        batch, self._waiting = self._waiting[:_TOGETHER], self._waiting[_TOGETHER:]
        batch = [(shown, answer) for shown, answer in batch if not answer.cancelled()]  # who asked has hung up
        self._verifying += 1
        verified = asyncio.get_running_loop().run_in_executor(self._pool, _verified, [shown for shown, _ in batch])
        verified.add_done_callback(lambda done: self._answer([answer for _, answer in batch], done))

    def _answer(self, answers: Sequence[asyncio.Future[str]], done: asyncio.Future[list[str | ThebesError]]) -> None:
        self._verifying -= 1
        self._verify_next()
        settle(answers, done)


def _verified(batch: Sequence[TokenContribution]) -> list[str | ThebesError]:
    """Each token's pseudonym or refusal; those of one group in one sum."""
    results: list[str | ThebesError] = [_refused()] * len(batch)
    groups: dict[str, list[tuple[int, Presented]]] = {}
    for place, shown in enumerate(batch):
        try:
            context = Context(shown.task_id, shown.digest, shown.sent.part)
            presented = Presented(context, context.report_digest(shown.sent.report()), shown.sent.token)
        except ThebesError as error:
            results[place] = error
        else:
            groups.setdefault(shown.parameters.digest, []).append((place, presented))
    for members in groups.values():
        parameters = batch[members[0][0]].parameters
        for (place, _), found in zip(members, verify_many(parameters, [one for _, one in members]), strict=True):
            results[place] = _refused() if isinstance(found, TokenRefused) else found
    return results


def _refused() -> NotAllowed:
    return NotAllowed("the token does not show that a member of this task's group sent this; nothing was taken")
