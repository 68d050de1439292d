"""Lay the page of results, its pictures and the outcomes it links to into the documentation while that is built."""

from __future__ import annotations

import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parents[2]))  # MkDocs loads this file by its path, from wherever it is called
from papers.results import Results, published
from tools.results.page import page


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is written out of the outcomes that were committed to the files of the documentation."""
    for name, content in page(Results(published()).kept()).items():
        files.append(File.generated(config, name, content=content))
    for path in sorted((published() / "results").glob("*.json")):
        files.append(File.generated(config, f"results/{path.name}", abs_src_path=str(path)))
    return files
