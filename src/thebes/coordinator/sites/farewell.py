"""The farewell in which a site is told that a task is over, and says whether the task was charged anything there.

What must stay true: that is asked of nobody before, because only a task that is closed at a site can never be charged
there again; who does not say yes or no has said nothing.
"""

from __future__ import annotations

import asyncio

from thebes.coordinator.sites.session import Conversation, LinkLost
from thebes.coordinator.sites.site_store import Noted
from thebes.privacy.faults import ThebesError
from thebes.wire.link import Word

_SECONDS = 5.0  #: in which a site notes that a task is over


async def farewell(conversation: Conversation, task_id: str) -> Noted | None:
    """Tell a site that a task is over, and return its word that it has noted that; None where it has not."""
    try:
        async with asyncio.timeout(_SECONDS):
            answer = await conversation.ask(Word.CLOSED, {"task": task_id})
    except (LinkLost, TimeoutError, ThebesError):
        return None
    charged = answer.get("charged")
    known = charged if isinstance(charged, bool) else None
    return Noted(conversation.site, task_id, known) if answer["kind"] == Word.NOTED else None
