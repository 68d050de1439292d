"""A peer, and a piece of work that it and Thebes both do. Nothing but the standard library: every environment imports
this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Work:
    """One function in `ours.py` and one in `theirs.py`, called `name` where `ours` and `theirs` do not say otherwise.

    `tables` names the function of `peers.tables` that makes what both are handed, and `score` the one that judges what
    they return; `better` says whether more of `measure` is better, or less, or neither. They are called on every table
    with every one of `settings`, `calls` times; `warm` first once, which loads what later calls find in memory; the
    first `spare` tables are for that alone.
    `ours_promises` and `theirs_promises` say what is protected, where that is not the peer's.
    """

    name: str
    does: str
    tables: str
    score: str
    measure: str
    better: str = "more"
    settings: tuple[Mapping[str, Any], ...] = ({},)
    calls: int = 1
    warm: bool = True
    spare: int = 0
    ours_promises: str
    theirs_promises: str
    #: what a user must write where that is not the function: paths below the peer's folder
    our_files: tuple[str, ...] = ()
    their_files: tuple[str, ...] = ()
    ours: str = ""
    theirs: str = ""
    #: why one is better than the other, in a sentence
    why: str = ""

    def function(self, side: str) -> str:
        """Name the function that is called in `SIDE.py`."""
        return str(getattr(self, side)) or self.name


@dataclass(frozen=True, kw_only=True)
class Peer:
    """`requirements.txt` of its folder pins what is installed; `title` is what people call it."""

    title: str
    about: str
    works: tuple[Work, ...] = field(default=())
