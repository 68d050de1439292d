"""The intervals at which things are looked at, and for how long silence is borne."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """All in seconds."""

    ping: float = 10.0  #: a linked site is asked whether it is there
    silence: float = 30.0  #: of a site that said nothing for so long the link is cut
    check: float = 1.0  #: certificates of linked sites are looked at again
    describe: float = 2.0  #: linked sites are asked what they have
    look: float = 0.2  #: tasks that other processes put up or cancelled are looked for
    note: float = 5.0  #: it is written down who is linked
    seat: float = 4.0  #: a process that has said nothing for so long no longer speaks with the sites
