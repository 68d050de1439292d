"""Lay the pages of reference into the documentation while that is built, and lead the links there.

In a clone these pages do not exist. A link such as `built.md?documents.md#train` leads there to the page that says so,
and on the built site to the page itself; a link to a notebook leads to the file, or to its page."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

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


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead the links of one page to what was built."""
    built = re.sub(r"\]\(built\.md\?", "](", markdown)
    return re.sub(r"\]\((notebooks/[a-z-]+)\.ipynb\)", r"](\1.md)", built)
