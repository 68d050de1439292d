"""The key of a coordinator's list that somebody holds it against, as the key itself or as its fingerprint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from thebes.wire import task_log
from thebes.wire.refusals import BrokenLog

_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


def is_fingerprint(text: str) -> bool:
    """Return whether this could be a key's fingerprint."""
    return _FINGERPRINT.fullmatch(text) is not None


def meant(pinned: str, body: Mapping[str, Any]) -> str:
    """Return the key with the pinned fingerprint: the one that signs the list, or one that did before it."""
    if not is_fingerprint(pinned):
        return pinned
    told = body.get("successions")
    before = [step.get("key") for step in told if isinstance(step, Mapping)] if isinstance(told, list) else []
    for key in (body.get("key"), *before):
        try:
            if isinstance(key, str) and task_log.fingerprint(key) == pinned:
                return key
        except ValueError:
            continue
    raise BrokenLog(
        "no key of the coordinator's list has the fingerprint that was pinned; compare it over another way than this"
    )
