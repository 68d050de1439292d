"""The models of a home as somebody asks for them: told, given whole, and asked.

What must stay true: a version never changes, so one that was read once is read for ever.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

from thebes.curator.pipelines.bundles import Bundles
from thebes.curator.pipelines.served_model import Served
from thebes.curator.pipelines.workspace import MODELS

_KEPT = 16  #: models that are kept open
_WHOLE = ("model", "features", "lineage", "format", "origin")  #: of a bundle, what a list leaves out


class ModelStore:
    """HOME/models of one home; safe for several threads."""

    def __init__(self, home: Path) -> None:
        self._bundles = Bundles(home / MODELS)
        self._open: OrderedDict[tuple[str, int], Served] = OrderedDict()
        self._lock = threading.Lock()

    def told(self) -> list[dict[str, Any]]:
        """The newest version of every model, without the model itself."""
        found = (self.whole(name) for name in self._bundles.names())
        return [_told(bundle) for bundle in found if bundle is not None]

    def whole(self, name: str, version: int | None = None) -> dict[str, Any] | None:
        """A bundle with the versions there are; the newest where none is named, None where there is none."""
        versions = self._bundles.versions(name)
        if not versions or (version is not None and version not in versions):
            return None
        return {**self._bundles.get(name, version), "versions": versions}

    def predict(self, name: str, rows: Any, version: int | None = None) -> dict[str, Any] | None:
        """Return what a model says of rows in the stream's own columns, and which version it was; None where there is
        none."""
        versions = self._bundles.versions(name)
        chosen = version if version is not None else (versions[-1] if versions else 0)
        if chosen not in versions:
            return None
        return {"model": name, "version": chosen, "predictions": self._served(name, chosen).answer(rows)}

    def _served(self, name: str, version: int) -> Served:
        with self._lock:
            known = self._open.get((name, version))
            if known is not None:
                self._open.move_to_end((name, version))
                return known
        made = Served(self._bundles.get(name, version))
        with self._lock:
            self._open[name, version] = made
            while len(self._open) > _KEPT:
                self._open.popitem(last=False)
        return made


def _told(bundle: dict[str, Any]) -> dict[str, Any]:
    model, lineage = bundle["model"], bundle["lineage"]
    return {
        **{name: value for name, value in bundle.items() if name not in _WHOLE},
        "kind": model.get("kind") if isinstance(model, dict) else None,
        "stream": lineage["stream"],
        "developer": lineage["developer"],
        "blocks": len(lineage["blocks"]),
    }
