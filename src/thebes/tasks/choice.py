"""The choice between ways to do what a document asks: each is made by itself, and the one that is expected to err least
is taken; or one is taken by a rule where that cannot be told.

What must stay true: what is compared follows from the document alone, never from anybody's rows, so that who asks, who
answers and who adds up choose alike, and choosing costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from thebes.privacy.faults import Mistake
from thebes.tasks.document import DocumentType, raw, read_as

Made = TypeVar("Made")


class DocumentChoice(Generic[Made]):
    """The ways between which a `field` of a document chooses, and which is `taken`: the one it names or, of "auto", the
    one with the least expected error. `errors` has that of each that can be made, as the error `of` what; `refused`
    says why the others cannot be."""

    def __init__(
        self,
        field: str,
        named: str,
        makers: Mapping[str, Callable[[], Made]],
        error: Callable[[Made], float],
        *,
        of: str,
    ) -> None:
        self.field, self.of = field, of
        self.made: dict[str, Made] = {}
        self.refused: dict[str, Mistake] = {}
        for name, make in makers.items():
            try:
                self.made[name] = make()
            except Mistake as refused:
                self.refused[name] = refused
        self.errors = {name: error(made) for name, made in self.made.items()}
        if named in self.refused:
            raise self.refused[named]
        if not self.made:
            each = "; ".join(f"{name}: {refused}" for name, refused in self.refused.items())
            raise Mistake(list(self.refused.values())[-1].argument, f"leaves nothing to choose from ({each})")
        self.least = min(self.errors, key=self.errors.__getitem__)
        self.taken = self.least if named == "auto" else named

    @property
    def value(self) -> Made:
        """The way that is taken, as it was made."""
        return self.made[self.taken]

    @property
    def sentence(self) -> str:
        """Tell people that the choice takes nothing from them; names and errors are for who asks, in `as_json`."""
        if len(self.errors) == 1:
            return "This is done in the only way that can keep this price." if self.refused else ""
        why = "is expected to make the answer most exact" if self.taken == self.least else "the task names"
        return f"There are several ways to do this, which protect you alike; the one that {why} is used."

    def as_json(self) -> dict[str, Any]:
        return {
            "field": self.field,
            "taken": self.taken,
            "expected_error": dict(self.errors),
            "of": self.of,
            "refused": {name: str(refused) for name, refused in self.refused.items()},
        }


@dataclass(frozen=True)
class RuledChoice:
    """The way that is `taken` for a `field` of a document by a rule, and `why`: how much each errs depends on people's
    rows, so that no error is expected of any beforehand."""

    field: str
    taken: str
    why: str

    @property
    def sentence(self) -> str:
        """Say what is used and why."""
        return f"Of the ways that protect you alike, {self.taken} is used: {self.why}."

    def as_json(self) -> dict[str, Any]:
        nothing: dict[str, Any] = {"expected_error": {}, "of": "", "refused": {}}
        return {"field": self.field, "taken": self.taken, **nothing, "why": self.why}


def settled(checked: DocumentType, given: object, choice: DocumentChoice[Any]) -> DocumentType:
    """Return a document that was `given` without a field with what was chosen for it written in.

    A choice is made once, by whoever reads the document first, and stands under its digest: machines of other versions,
    or with other floating point, do not choose again. A field that says "auto" in so many words stays as it is, and
    everybody chooses: documents were accepted that say so, and people agreed to their digests.
    """
    plain = raw(given, checked.ALIASES)
    return (
        checked
        if plain.get(choice.field) is not None
        else read_as(type(checked), {**plain, choice.field: choice.taken})
    )
