"""Accidents of a person's machine in tests."""

from __future__ import annotations

from thebes.person.home import Person


def killed(person: Person) -> None:
    """Leave what is left of a process that was killed: nothing but the files and no lock."""
    person._hold.close()
