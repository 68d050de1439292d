"""The file HOME/policy.toml: the policy in force, and how its steward changes it.

What must stay true: a change is made of exactly the text that its steward was shown, by one process at a time, and is
written whole or not at all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from thebes import machine
from thebes.database import private_files
from thebes.privacy.faults import Mistake, Refusal
from thebes.site.budget.policy import Policy
from thebes.site.budget.policy_text import edition, read_policy
from thebes.site.home import stamp


class PolicyChanged(Refusal):
    """The policy is not any more what its steward was shown; nothing was changed."""


class PolicyFile:
    """The policy in force, read anew when the file changes."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._stamp: Any = ()
        self._policy = Policy(trouble="not read yet")

    def __call__(self) -> Policy:
        with self._lock:
            now = stamp(self._path)
            if now != self._stamp:
                self._policy, self._stamp = _of(self._path), now
            return self._policy


def _of(path: Path) -> Policy:
    try:
        return read_policy(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Policy(trouble="there is no policy.toml, so everything is refused")
    except (OSError, UnicodeError) as error:
        return Policy(trouble=f"policy.toml cannot be read ({type(error).__name__}), so everything is refused")
    except Mistake as mistake:
        return Policy(trouble=f"{mistake}; everything is refused until that is mended")


def text_of(path: Path) -> str:
    """Return the text of a policy; empty where there is no file."""
    return path.read_text(encoding="utf-8") if path.exists() else ""


def change(
    path: Path, make: Callable[[str], str], *, shown: str | None = None, noted: Callable[[], object] = lambda: None
) -> str:
    """Change a policy's text and return it; refuse where it is not the edition that was `shown` any more. `noted`
    writes down elsewhere that it is changed, just before it is."""
    with _alone(path):
        text = text_of(path)
        if shown is not None and edition(text) != shown:
            raise PolicyChanged("policy.toml was changed since this page was loaded; reload it, then decide")
        made = make(text)
        if made != text:
            noted()
            private_files.write(path, made)
        return made


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep every other process from changing the policy meanwhile."""
    with path.with_name(".policy.lock").open("a") as lock:
        machine.hold(lock.fileno())
        yield
