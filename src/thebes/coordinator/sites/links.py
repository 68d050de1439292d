"""Links of sites: who is linked now, and since when who is not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from thebes.coordinator.sites.session import Conversation


class Links:
    """One conversation with each linked site; the newest counts. Used from the event loop only. `changed` is told the
    name of a site that came or went."""

    def __init__(self, *, seconds: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._linked: dict[str, Conversation] = {}
        self._left: dict[str, float] = {}
        self._waiting: dict[str, asyncio.Event] = {}
        self.changed: Callable[[str], None] = lambda _: None

    def expect(self, sites: Mapping[str, float]) -> None:
        """These were linked until so many seconds ago: a process that began anew waits for them as for any that was
        cut off then."""
        for site, ago in sites.items():
            self._left.setdefault(site, self._seconds() - max(0.0, ago))

    def put(self, conversation: Conversation) -> None:
        """Speak with the site here from now on."""
        before = self._linked.get(conversation.site)
        self._linked[conversation.site] = conversation
        if before is not None:
            before.end()
        self._left.pop(conversation.site, None)
        self._waiting.pop(conversation.site, asyncio.Event()).set()
        self.changed(conversation.site)

    def drop(self, conversation: Conversation) -> None:
        """This one is over; a newer one of the same site stays."""
        conversation.end()
        if self._linked.get(conversation.site) is conversation:
            del self._linked[conversation.site]
            self._left[conversation.site] = self._seconds()
            self.changed(conversation.site)

    def forget(self, site: str) -> None:
        """It is not going to come back: nobody waits for it."""
        self._left.pop(site, None)

    def of(self, site: str) -> Conversation | None:
        return self._linked.get(site)

    def all(self) -> list[Conversation]:
        return list(self._linked.values())

    async def back(self, site: str, patience: float) -> Conversation | None:
        """The site's conversation, waiting for one that left less than `patience` seconds ago; None once it has been
        away for longer."""
        while (found := self._linked.get(site)) is None:
            left = self._left.get(site)
            rest = 0.0 if left is None else left + patience - self._seconds()
            if rest <= 0:
                return None
            event = self._waiting.setdefault(site, asyncio.Event())
            try:
                await asyncio.wait_for(event.wait(), rest)
            except TimeoutError:
                continue
        return found
