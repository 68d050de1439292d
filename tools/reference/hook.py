"""Lay the pages of reference into the documentation while that is built."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parents[2]))  # MkDocs loads this file by its path, from wherever it is called
from tools.reference import addresses, commands, documents, rules, settings


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages to the files of the documentation."""
    with tempfile.TemporaryDirectory() as folder:
        pages = {
            "commands.md": commands.written(),
            "documents.md": documents.written(),
            "rules.md": rules.written(),
            "settings.md": settings.written(),
            "addresses.md": addresses.written(addresses.described(Path(folder))),
        }
    for name, content in pages.items():
        files.append(File.generated(config, name, content=content))
    return files
