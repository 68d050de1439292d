"""The helpers that a person confirmed, held against the one that a task names.

What must stay true: nothing is agreed to, computed or sent for a task of two servers whose helper's key is not the one
that this person confirmed; its coordinator could have invented it, and would hold both shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from thebes.privacy.faults import Mistake
from thebes.tasks.document import PeopleDocument
from thebes.wire.list_pin import is_fingerprint
from thebes.wire.refusals import Conflict, NotFound


def stranger(document: PeopleDocument, confirmed: Mapping[str, str]) -> str | None:
    """Say why a task's helper is none that may be trusted with a share; None where it may be, or there is none. The
    document's own key is not told: whoever copied it from here would confirm whatever the coordinator wrote."""
    if document.server != "split":
        return None
    named, key = (document.as_json().get(field) for field in ("helper", "helper_key"))
    known = confirmed.get(str(named))
    if key is None or known is None:
        return (
            f"this task's helper is {named}, whom you have not confirmed; look the fingerprint up where this "
            "institution itself publishes it, then confirm that one"
        )
    if known != key:
        return (
            f"the key of the helper {named} is not the one that you confirmed; ask that institution, and not the "
            "coordinator"
        )
    return None


def confirmed(helpers: Mapping[str, str], document: Mapping[str, Any], fingerprint: str) -> dict[str, str]:
    """Return the confirmed helpers with that of a task, by the fingerprint that the person found. Refused where another
    was confirmed under this name: that one is to be forgotten first, on purpose."""
    found = "".join(fingerprint.split()).lower()
    if not is_fingerprint(found):
        raise Mistake("fingerprint", "must be the 64 hexadecimal digits that the institution publishes")
    if found != document.get("helper_key"):
        raise Mistake("fingerprint", "is not that of this task's helper: do not agree, and tell the institution")
    name = document["helper"]
    if helpers.get(name, found) != found:
        raise Conflict(
            f"you confirmed another key for {name}; ask that institution whether it has a new one, and only then "
            "forget the key that you confirmed"
        )
    return {**helpers, name: found}


def forgotten(helpers: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the confirmed helpers without one."""
    if name not in helpers:
        raise NotFound("you confirmed no key for a helper of this name")
    return {each: key for each, key in helpers.items() if each != name}


def none_replaced(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Refuse settings that let go of a confirmed key, or put another in its place."""
    for name, key in before.items():
        if after.get(name) != key:
            raise Conflict(
                f"you confirmed another key for the helper {name}, which only the page of a task of this helper "
                "lets go; leave it as it is in helpers"
            )
