"""A catalogue of backbones: networks trained elsewhere that an owner installed, each known by the digest of its text.

A backbone is a model as data like any other, only larger. A document names a digest; the owner computes features with
the very bytes of that digest or not at all.
"""

from __future__ import annotations

import hashlib
import os
import re
from importlib import resources
from pathlib import Path
from typing import Any

from thebes.learning.graph.document import BACKBONE, GraphLimits, read_model, write_model
from thebes.privacy.faults import Mistake, Refusal

SUFFIX = ".graph"
_DIGEST = re.compile(r"[0-9a-f]{64}")


def digest_of(text: str) -> str:
    """Hex SHA-256 of a backbone's text: graph and weights together."""
    return hashlib.sha256(text.encode()).hexdigest()


def write_backbone(module: Any, *, shape: tuple[int, int, int]) -> str:
    """A backbone's text from a torch module and the (channels, height, width) of its pictures. Requestor's side."""
    from thebes.learning.graph.export import export_model

    graph, values = export_model(module, shape)
    text = write_model(graph, values)
    read_model(text, argument="backbone", limits=BACKBONE)
    return text


class Catalogue:
    """The backbones in one folder, and those that come with Thebes. Installing one is its owner's decision."""

    def __init__(self, folder: str | Path, *, limits: GraphLimits = BACKBONE) -> None:
        self._folder = Path(folder)
        self._limits = limits

    def digests(self) -> tuple[str, ...]:
        """List what is installed, in alphabetical order."""
        own = {path.stem for path in self._folder.glob(f"*{SUFFIX}") if _DIGEST.fullmatch(path.stem)}
        return tuple(sorted(own | set(_shipped())))

    def add(self, text: str) -> str:
        """Installs a backbone after reading it to its last byte; returns its digest."""
        read_model(text, argument="backbone", limits=self._limits)
        digest = digest_of(text)
        self._folder.mkdir(parents=True, exist_ok=True)
        unfinished = self._folder / f"{digest}.{os.getpid()}.part"
        unfinished.write_text(text, encoding="ascii")
        unfinished.replace(self._folder / f"{digest}{SUFFIX}")
        return digest

    def text(self, digest: str) -> str:
        """The text of an installed backbone, for `GradientWorker(backbone=...)`; compared with its digest first."""
        if not isinstance(digest, str) or _DIGEST.fullmatch(digest) is None:
            raise Mistake("backbone", "must be the hex SHA-256 of a backbone")
        path = self._folder / f"{digest}{SUFFIX}"
        try:
            found = path.read_text(encoding="ascii") if path.exists() else _shipped()[digest]
        except KeyError as error:
            raise Refusal(f"the backbone {digest} is not installed here") from error
        except (OSError, UnicodeDecodeError) as error:
            raise Refusal(f"the backbone {digest} cannot be read") from error
        if digest_of(found) != digest:
            raise Refusal(f"the file of the backbone {digest} holds something else")
        return found


def _shipped() -> dict[str, str]:
    """The backbones inside the package, by digest."""
    folder = resources.files("thebes.learning.graph").joinpath("shipped")
    files = folder.iterdir() if folder.is_dir() else ()
    texts = [file.read_text(encoding="ascii") for file in files if file.name.endswith(SUFFIX)]
    return {digest_of(text): text for text in texts}
