"""One step of a task with its helper: asked, and the answer once it is neither a refusal nor unreadable."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from thebes.coordinator.sites.session import Conversation, LinkLost
from thebes.privacy.faults import ThebesError
from thebes.wire import helping
from thebes.wire.link import Code, Word

_ANSWER_SECONDS = 120.0
_LATER = (Code.BUSY, Code.DOWN, Code.FAILED)  #: codes after which the same may be asked again


class HelperRefused(Exception):
    """The helper will not go on with a task."""


class NotNow(Exception):
    """The helper is gone or has too much to do, or the task went on elsewhere: it is looked at again later."""


async def taken(
    helper: Conversation, task: str, step: str, more: Mapping[str, Any], *, most: int = helping.MOST_ANSWER
) -> dict[str, Any]:
    """Take one step with the helper, whose answer has no more than so many bytes."""
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            answer = await helper.ask(Word.HELP, {"step": step, "task": task, **more}, most=most)
    except (LinkLost, TimeoutError):
        raise NotNow from None
    except ThebesError:
        raise HelperRefused("answered what cannot be read") from None
    if answer["kind"] == Word.REFUSAL:
        if answer.get("code") in set(_LATER):
            raise NotNow
        raise HelperRefused(f"refused: {_printable(answer.get('reason'))}")
    if answer["kind"] != Word.HELPED:
        raise HelperRefused("answered something else than it was asked")
    return answer


def _printable(text: object) -> str:
    return "".join(c for c in text[:300] if c.isprintable()) if isinstance(text, str) else ""
