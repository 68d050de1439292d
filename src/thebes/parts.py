"""The parts that an installation may be without, and the sentence that names the one that is missing.

`pip install thebes` is what people and requestors need; the other roles' packages come with extras. Whatever of ours
imports one that is not there hears which extra brings it, at the moment it is needed; nobody else's imports change.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

#: what is imported -> what people call it, and the extras that bring it
PARTS = {
    "PIL": ("Pillow", ("torch",)),
    "adbc_driver_postgresql": ("the ADBC driver", ("postgres",)),
    "deltalake": ("deltalake", ("delta",)),
    "dp_accounting": ("dp-accounting", ("learn", "site", "coordinator")),
    "duckdb": ("DuckDB", ("site",)),
    "grpc": ("gRPC", ("site", "coordinator")),
    "mbi": ("mbi", ("synth",)),
    "narwhals": ("Narwhals", ("site",)),
    "pandas": ("pandas", ("site", "learn", "coordinator")),
    "prometheus_client": ("prometheus-client", ("site", "coordinator")),
    "psycopg": ("psycopg", ("postgres",)),
    "pyarrow": ("pyarrow", ("postgres", "delta")),
    "pyspark": ("PySpark", ("spark",)),
    "scipy": ("SciPy", ("learn",)),
    "sklearn": ("scikit-learn", ("learn", "coordinator")),
    "torch": ("PyTorch", ("torch",)),
}

_EXTRA_OF_ROOM = {"coordinator": "coordinator", "learning": "learn", "site": "site"}


class Absent:
    """The last finder of imports: asked only for what no other one found."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return nothing, or raise the sentence where it is one of our own modules that imports."""
        room = _importing_room() if name in PARTS else None
        if room is None:
            return None
        from thebes.privacy.faults import MissingPart

        raise MissingPart(sentence(name, room), name=name)


def sentence(module: str, room: str = "") -> str:
    """Name the extra that brings a module, that of the room's own role where several do."""
    called, extras = PARTS[module]
    own = _EXTRA_OF_ROOM.get(room, "")
    return f"this needs {called}, which is not installed: pip install 'thebes[{own if own in extras else extras[0]}]'"


def _importing_room() -> str | None:
    """The room of ours whose import statement runs; nothing where somebody else's does, or `importlib` only looks."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("importlib._bootstrap"):
        frame = frame.f_back  # type: ignore[assignment]
    name = "" if frame is None else str(frame.f_globals.get("__name__", ""))
    return name.split(".")[1] if name.startswith("thebes.") else None


def watch() -> None:
    """Ask this finder after all others, once in a process."""
    if Absent not in sys.meta_path:
        sys.meta_path.append(Absent)
