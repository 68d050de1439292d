"""One Chromium for each file of browser tests, and visitors that must not meet trouble."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import browser as real


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """One for each file: while it runs, this thread has a running event loop, which other tests must not meet."""
    with real.browser() as running:
        yield running


@pytest.fixture(scope="session")
def pictures() -> Path | None:
    """The folder for screenshots: THEBES_SCREENSHOTS. Without it none are made: each takes half a second."""
    wanted = os.environ.get(real.SCREENSHOTS)
    return Path(wanted) if wanted else None


@pytest.fixture
def visit(chromium: Any, pictures: Path | None) -> Iterator[Callable[..., real.Visitor]]:
    """Makes visitors: `visit(origin, **look)`; look is what Playwright's `new_context` takes. At the end none of
    them may have seen an error on the console or a request to elsewhere."""
    made: list[real.Visitor] = []

    def come(origin: str, **look: Any) -> real.Visitor:
        made.append(real.Visitor(chromium, origin, pictures, **look))
        return made[-1]

    yield come
    for visitor in made:
        visitor.close()
    troubles = [trouble for visitor in made for trouble in visitor.troubles]
    assert not troubles, "\n".join(troubles)
