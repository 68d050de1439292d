"""Lay every notebook into the documentation as a page, with the output and the pictures of its last run."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parents[2]))  # MkDocs loads this file by its path, from wherever it is called
from tools.notebooks.run import notebooks, read, source_of


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each notebook; the file itself is there to be downloaded."""
    for path in notebooks():
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=page(read(path), path.name)))
    return files


def page(notebook: Mapping[str, Any], name: str) -> str:
    """Write one notebook as Markdown."""
    pieces = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            pieces.append(source_of(cell))
        else:
            pieces.append(f"```python\n{source_of(cell)}\n```")
            pieces += [written for output in cell["outputs"] for written in _put_out(output)]
    pieces.append(f"[This notebook as a file]({name})")
    return "\n\n".join(pieces) + "\n"


def _put_out(output: Mapping[str, Any]) -> Iterator[str]:
    if output["output_type"] == "stream":
        yield _plain("".join(output["text"]))
        return
    data = output["data"]
    if "text/html" in data:
        # Markdown ends a block of HTML at an empty line, and would read what follows as its own.
        yield "<div>" + "\n".join(line for line in "".join(data["text/html"]).splitlines() if line.strip()) + "</div>"
    else:
        yield _plain("".join(data["text/plain"]))


def _plain(text: str) -> str:
    return f"<pre class='told'>{escape(text.rstrip()).replace(chr(10), '<br>')}</pre>"
