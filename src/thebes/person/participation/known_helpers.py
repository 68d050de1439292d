"""The helpers that a person confirmed, held against the one that a task names.

What must stay true: nothing is agreed to, computed or sent for a task of two servers whose helper's key is not the one
that this person confirmed; its coordinator could have invented it, and would hold both shares.
"""

from __future__ import annotations

from collections.abc import Mapping

from thebes.tasks.document import PeopleDocument


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
