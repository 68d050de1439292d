"""The blocks of a growing data set as its manifest has them, and the periods in which users were counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from thebes.data.growing.block_rule import BlockBy


class BlockStage(StrEnum):
    """The state that a block has come to."""

    OPEN = "open"  #: takes rows. -> SEALED
    SEALED = "sealed"  #: takes no more rows; may be charged. -> RETIRED
    RETIRED = "retired"  #: takes no more charges. -> DROPPED
    DROPPED = "dropped"  #: its rows are deleted. Final


@dataclass(frozen=True, slots=True)
class BlockRecord:
    """A block as the manifest has it. `size` is its noisy number of rows, once that is bought."""

    number: int
    place: int
    copy: int
    state: BlockStage
    purchase: str | None = None
    size: int | None = None

    def label(self, by: BlockBy) -> str:
        """Its name within its data set."""
        return by.label(self.place, self.copy)


@dataclass(frozen=True, slots=True)
class Period:
    """A named time for which the users and their rows were counted once."""

    name: str
    number: int
    users: int | None
    rows: int | None
    purchase: str | None = field(default=None, compare=False)  #: by which its charge is found; older ones have none
