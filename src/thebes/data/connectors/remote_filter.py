"""The part of a condition that another system can be asked, so that it sends fewer rows.

What must stay true: a row for which the condition is true is never kept back. A part that the other system might see
differently is left out where all parts must hold, and takes the whole with it where one is enough; the engine asks the
whole condition again.
"""

from __future__ import annotations

from collections.abc import Callable

from thebes.data.filter import Among, Compared, Condition, Either, Every, Present, RowFilter

LONGEST = 8000  #: characters; what is longer is not asked
Leaf = Compared | Among | Present


def narrowed(where: RowFilter | None, spelled: Callable[[Leaf], str | None]) -> str | None:
    """The condition in the words of another system, which is true at least where `where` is; None to ask for all.
    `spelled` says one part, or None where it cannot be said safely. Words are the same for both: and, or, ()."""
    found = None if where is None else _said(where.condition, spelled)
    return found if found is not None and len(found) <= LONGEST else None


def _said(condition: Condition, spelled: Callable[[Leaf], str | None]) -> str | None:
    if isinstance(condition, Every):
        every = [said for part in condition.parts if (said := _said(part, spelled)) is not None]
        return joined("and", every) if every else None
    if isinstance(condition, Either):
        either = [_said(part, spelled) for part in condition.parts if part != Either(())]
        known = [said for said in either if said is not None]
        return joined("or", known) if known and len(known) == len(either) else None
    return spelled(condition)


def joined(word: str, parts: list[str]) -> str:
    """Parts with a word between them, in parentheses."""
    return parts[0] if len(parts) == 1 else "(" + f" {word} ".join(parts) + ")"
