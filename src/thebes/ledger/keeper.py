"""Keepers, which remember the head of a file ledger outside the file, so that an older copy put in its place is seen.

What must stay true: a machine without a keyring works just the same, only without this memory.
"""

from __future__ import annotations

from typing import Protocol

from thebes.ledger.journal import Head

_SERVICE = "thebes ledger"

#: What whoever runs a home is told where nothing outside it remembers its ledger, and what they can do.
UNNOTICED = (
    "nothing outside this home remembers what was spent: an older copy of it, put back in its place, would spend again "
    "what was spent since, and nobody would notice"
)
WHAT_HELPS = (
    "never put a copy back by hand, `thebes restore` freezes what it brings back; a system keyring remembers; or write "
    "down the head that `thebes ledger show` prints, and compare with `thebes ledger verify --head`"
)


class HeadKeeper(Protocol):
    """Remembers one head per ledger."""

    def kept(self, ledger: str) -> Head | None: ...
    def keep(self, ledger: str, head: Head) -> None: ...


class NoKeeper:
    """Remembers nothing: the head that `thebes ledger show` prints is the only witness."""

    def kept(self, ledger: str) -> Head | None:
        return None

    def keep(self, ledger: str, head: Head) -> None:
        return None


class KeyringKeeper:
    """Remembers in the system keyring. A keyring that is locked or gone is as good as none: backends raise what they
    like."""

    def kept(self, ledger: str) -> Head | None:
        import keyring

        try:
            text = keyring.get_password(_SERVICE, ledger)
            return None if text is None else Head.read(text)
        except Exception:
            return None

    def keep(self, ledger: str, head: Head) -> None:
        import contextlib

        import keyring

        with contextlib.suppress(Exception):
            keyring.set_password(_SERVICE, ledger, str(head))


def system_keeper() -> HeadKeeper:
    """The keyring of this system, or none: a headless machine has only backends that fail or forget."""
    import keyring

    try:
        backend = keyring.get_keyring()
        backend.get_password(_SERVICE, "is there a keyring")
    except Exception:  # NoKeyringError among them, and what a folder that cannot be read makes of its settings
        return NoKeeper()
    return NoKeeper() if type(backend).__module__ == "keyring.backends.null" else KeyringKeeper()
