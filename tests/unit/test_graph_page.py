"""The page on models as data: its examples run as printed."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "models-as-data.md"


@pytest.mark.slow
def test_examples_of_the_page_run_in_order():
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 4
    names: dict = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert names["clipped"].shape == (5, 33)
    assert names["document"]["loss"].startswith('{"format":"thebes-graph"')
    assert "network" in names["confinement"]
