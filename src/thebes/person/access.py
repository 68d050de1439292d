"""A person's home from Python: through the process that runs on it, or where none does by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from thebes.person.client import PersonClient
from thebes.person.folder import prepared
from thebes.person.home import Person
from thebes.person.settings import DIRECT, PersonSettings
from thebes.privacy.faults import Mistake
from thebes.wire.address import base_url


def open_person(
    folder: str | Path,
    *,
    coordinator: str | None = None,
    proxy: str | None = None,
    delay: bool = True,
    passphrase: str | None = None,
) -> Any:
    """A person's home, to use from Python. While `thebes person` runs on it, this talks to that process instead; the
    same methods either way. Without it, what was accepted is sent while this home is open (`wait` waits for it)."""
    home = prepared(folder)
    running = PersonClient.running(home)
    if running is not None:
        there = running.settings()
        asked_there = there["coordinator"]
        if proxy is not None and PersonSettings().changed({"proxy": proxy}).proxy != there["proxy"]:
            running.close()
            way = there["proxy"] or DIRECT
            raise Mistake("proxy", f"is {way} for as long as `thebes person` runs on this home; stop it")
        if coordinator is not None and base_url(coordinator)[0] != base_url(asked_there)[0]:
            running.close()
            raise Mistake("coordinator", f"is {asked_there} for as long as `thebes person` runs on this home; stop it")
        return running
    person = Person(home, coordinator=coordinator, proxy=proxy, delay=delay, passphrase=passphrase)
    if person.coordinator is not None:
        person.start()
    return person
