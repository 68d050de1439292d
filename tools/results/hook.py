"""Lay the pages of what was measured into the documentation while that is built, with pictures and outcomes."""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parents[2]))  # MkDocs loads this file by its path, from wherever it is called
from evidence.bars import page as bars
from evidence.bars.results import kept as bars_kept
from evidence.growth import page as growth
from evidence.growth.results import kept as growth_kept
from evidence.peers import page as peers
from evidence.peers.results import kept as peers_kept
from evidence.peers.running import worded
from papers.results import Results, published
from tools.results import targets
from tools.results.page import page


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is written out of the outcomes that were committed to the files of the documentation."""
    outcomes = Results(published()).kept()
    beside = {name: worded(name, found) for name, found in peers_kept().items()}
    pages = {"bars.md": bars.written(bars_kept()), "peers.md": peers.written(beside)}
    pages["growth.md"] = growth.written(growth_kept())
    pages["targets.md"] = targets.written(outcomes)
    for name, content in {**page(outcomes), **pages}.items():
        files.append(File.generated(config, name, content=content))
    for path in sorted((published() / "results").glob("*.json")):
        files.append(File.generated(config, f"results/{path.name}", abs_src_path=str(path)))
    return files
