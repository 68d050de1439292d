"""For authors of collectors: everything a program needs to fill a person's store, and nothing else.

class Steps(Collector): name, version, description, reads, tables = ...; def collect(self, session): ...
"""

from thebes.collectors.declaration import Collector, Option, State, table
from thebes.collectors.run import CollectorFailed, run
from thebes.collectors.session import Outcome, Session
from thebes.collectors.sources import broken, lines, members
from thebes.collectors.stream_parser import elements, items

__all__ = [
    "Collector",
    "CollectorFailed",
    "Option",
    "Outcome",
    "Session",
    "State",
    "broken",
    "elements",
    "items",
    "lines",
    "members",
    "run",
    "table",
]
