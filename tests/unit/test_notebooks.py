"""The notebooks of the documentation run as they stand, and what they show is what such a run put out."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from tools.notebooks.hook import page
from tools.notebooks.run import CHANCE, executed, notebooks, read, source_of

NAMES = {"a-private-table", "growing-data", "hospitals-in-sql", "people-and-a-model"}
NUMBER = re.compile(r"-?\d[\d.,]*(e-?\d+)?")


def told(cell: dict[str, Any]) -> list[str]:
    """Return what a cell put out, without its numbers: the last digits of a float are the machine's."""
    pieces = []
    for output in cell["outputs"]:
        lines = output.get("text") or output["data"]["text/plain"]
        pieces.append(re.sub(r"\s+", " ", NUMBER.sub("#", "".join(lines))))
        pieces += ["html"] if "text/html" in output.get("data", {}) else []
    return pieces


def test_the_four_notebooks_are_there_and_each_is_one_that_jupyter_opens() -> None:
    assert {path.stem for path in notebooks()} == NAMES
    for path in notebooks():
        notebook = read(path)
        assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
        assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
        assert path.stat().st_size < 200_000


@pytest.mark.slow
@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")
def test_a_notebook_puts_out_what_the_documentation_shows(path: Path) -> None:
    begun, notebook = time.process_time(), read(path)
    again = executed(notebook)
    assert time.process_time() - begun < 60
    for kept, now in zip(notebook["cells"], again["cells"], strict=True):
        if kept["cell_type"] != "code":
            continue
        if CHANCE in kept["metadata"].get("tags", ()):
            assert [output["output_type"] for output in kept["outputs"]] == [
                output["output_type"] for output in now["outputs"]
            ]
        else:
            assert told(kept) == told(now), source_of(kept)


def test_a_page_of_a_notebook_has_its_code_its_pictures_and_the_file() -> None:
    for path in notebooks():
        written = page(read(path), path.name)
        assert written.startswith("# ")
        assert written.count("```python") == sum(cell["cell_type"] == "code" for cell in read(path)["cells"])
        assert f"]({path.name})" in written
        assert not re.search(r"<div>[^`]*\n\n[^`]*</div>", written), "Markdown would read on after an empty line"
    pictured = [path.stem for path in notebooks() if "<svg" in page(read(path), path.name)]
    assert {"a-private-table", "hospitals-in-sql", "people-and-a-model"} <= set(pictured)
