"""The collectors that there are: entry points of the group `thebes.collectors`, ours and other people's.

What must stay true: of a package that is not part of Thebes nothing is imported before its publication was verified.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from thebes.collectors.declaration import Collector, checked
from thebes.collectors.publication import Publication, Unverified, verify
from thebes.data.store.declaration import Declaration
from thebes.privacy.faults import Mistake

GROUP = "thebes.collectors"
_OURS, _US = "thebes.collectors.shipped.", "thebes"


@dataclass(frozen=True, slots=True)
class InstallableCollector:
    """A collector that could be installed. `package` is None for those that are part of Thebes."""

    name: str
    entry: str
    package: str | None

    @property
    def folder(self) -> Path:
        """The folder of the offer's package; found without running any of it."""
        top = self.entry.partition(":")[0].partition(".")[0]
        try:
            found = importlib.util.find_spec(top)
        except (ImportError, ValueError):
            found = None
        if found is None or found.origin is None or Path(found.origin).name != "__init__.py":
            raise Unverified(f"{self.name} must come as an ordinary package with a folder of its own")
        return Path(found.origin).parent

    def publication(self) -> Publication | None:
        """Verified anew whenever it is asked for; None for a part of Thebes, which nobody signs apart from it."""
        if self.package is None:
            return None
        told = verify(self.folder)
        if (told.name, told.entry) != (self.name, self.entry):
            raise Unverified(f"the package offers {self.name!r} but was signed for {told.name!r} at {told.entry!r}")
        return told


def offers() -> list[InstallableCollector]:
    """Every collector of this installation, by name; names of ours are ours."""
    found: dict[str, InstallableCollector] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda p: (not _is_ours(p), p.name)):
        package = None if _is_ours(point) else (point.dist.name if point.dist is not None else "?")
        held = found.get(point.name)
        if held is None:
            found[point.name] = InstallableCollector(point.name, point.value, package)
        elif held.entry != point.value and held.package is not None:
            raise Mistake("collector", f"{point.name!r} is offered by {held.package} and {package}; uninstall one")
    return [found[name] for name in sorted(found)]


def _is_ours(point: EntryPoint) -> bool:
    """Return whether Thebes itself offers the entry point: another distribution may name a module of ours, or write one
    of that name."""
    return point.value.startswith(_OURS) and point.dist is not None and point.dist.name == _US


def offer(name: str) -> InstallableCollector:
    """The collector of that name, or a Mistake that says where to look."""
    for each in offers():
        if each.name == name:
            return each
    raise Mistake("NAME", f"there is no collector {name[:60]!r} here; `thebes collector list` shows those there are")


def load(found: InstallableCollector) -> tuple[Collector, Publication | None]:
    """The collector itself and its verified publication; refuses one that is not what was published."""
    told = found.publication()
    if told is not None:
        _forget(found.entry)
    made = loaded(found.entry)
    if made.name != found.name:
        raise Mistake("collector", f"the package calls it {found.name!r} and the program {made.name!r}")
    if told is not None:
        plain = Declaration(tuple(made.tables)).plain()
        if (told.version, dict(told.tables)) != (made.version, plain):
            raise Unverified(f"{found.name} does not declare the version and tables that were published")
    return made, told


def loaded(entry: str) -> Collector:
    """The collector at `module:Class`. This runs its code."""
    module, _, name = entry.partition(":")
    if not entry.startswith(_OURS):
        _from_sources_only()
    try:
        made = getattr(importlib.import_module(module), name)()
    except ImportError as error:
        missing = error.name or "a part of it"
        raise Mistake("collector", f"{entry!r} cannot be loaded: {missing} is missing") from None
    except (AttributeError, TypeError, ValueError, SyntaxError) as error:
        raise Mistake("collector", f"{entry!r} is not a collector's class ({type(error).__name__})") from None
    return checked(made)


def _forget(entry: str) -> None:
    """Forget an entry's imported modules, so that what runs is what was just verified, also in a process that ran an
    earlier version."""
    top = entry.partition(":")[0].partition(".")[0]
    for module in [name for name in sys.modules if name.partition(".")[0] == top]:
        del sys.modules[module]


def _from_sources_only() -> None:
    """From now on this process compiles modules from the sources that were verified, never from a `__pycache__` beside
    them: a collector also imports while it runs."""
    sys.pycache_prefix, sys.dont_write_bytecode = _empty().name, True


@cache
def _empty() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="thebes-")
