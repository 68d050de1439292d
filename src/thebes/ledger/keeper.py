"""Where the head of a file ledger is remembered outside the file, so that an older copy put in its place is seen.

What must stay true: a machine without a keyring works just the same, only without this memory.
"""

from __future__ import annotations

from typing import Protocol

from thebes.ledger.journal import Head
from thebes.privacy.faults import Mistake

_SERVICE = "thebes ledger"


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
    """Remembers in the system keyring. A keyring that is locked or gone is as good as none."""

    def kept(self, ledger: str) -> Head | None:
        import keyring
        from keyring.errors import KeyringError

        try:
            text = keyring.get_password(_SERVICE, ledger)
            return None if text is None else Head.read(text)
        except (KeyringError, Mistake):
            return None

    def keep(self, ledger: str, head: Head) -> None:
        import contextlib

        import keyring
        from keyring.errors import KeyringError

        with contextlib.suppress(KeyringError):
            keyring.set_password(_SERVICE, ledger, str(head))


def system_keeper() -> HeadKeeper:
    """The keyring of this system, or none: a headless machine has only backends that fail or forget."""
    import keyring
    from keyring.errors import KeyringError

    try:
        backend = keyring.get_keyring()
        backend.get_password(_SERVICE, "is there a keyring")
    except KeyringError:  # NoKeyringError among them
        return NoKeeper()
    return NoKeeper() if type(backend).__module__ == "keyring.backends.null" else KeyringKeeper()
