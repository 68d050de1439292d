"""The terms of a promise, whom it protects and against which change: without both, an epsilon means nothing."""

from __future__ import annotations

from enum import StrEnum

from thebes.privacy.faults import Mistake


class Unit(StrEnum):
    """The unit whose whole influence is hidden."""

    PERSON = "person"  #: one human; claimed only where admission proves one human per contribution
    DEVICE = "device"  #: one installation; a human with two devices counts twice
    EVENT = "event"  #: one row; a person with many rows is protected less
    WEIGHT = "weight"  #: one released coordinate seen alone; the weakest reading

    @property
    def sentence(self) -> str:
        return {
            Unit.PERSON: "everything one person contributed",
            Unit.DEVICE: "everything one device contributed",
            Unit.EVENT: "one single row",
            Unit.WEIGHT: "one released number seen alone",
        }[self]


class Adjacency(StrEnum):
    """The adjacency that says which two worlds must look alike."""

    REPLACE_ONE = "replace-one"  #: a unit's contribution is exchanged for any other; the number of units is public
    ADD_REMOVE_ONE = "add-remove-one"  #: a unit is there or not; the number of units is private

    @property
    def sentence(self) -> str:
        return {
            Adjacency.REPLACE_ONE: "had been replaced by anything else",
            Adjacency.ADD_REMOVE_ONE: "had been left out altogether",
        }[self]


def adjacency_of(value: str | Adjacency) -> Adjacency:
    """Read an adjacency; there is no default, because every sensitivity depends on it."""
    try:
        return Adjacency(value)
    except ValueError:
        known = " or ".join(repr(str(a)) for a in Adjacency)
        raise Mistake("adjacency", f"must be {known}") from None


def unit_of(value: str | Unit) -> Unit:
    """Read a unit of privacy."""
    try:
        return Unit(value)
    except ValueError:
        known = ", ".join(repr(str(u)) for u in Unit)
        raise Mistake("unit", f"must be one of {known}") from None
