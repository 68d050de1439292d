"""The samples of each kind that meet all checks in CI, and those that meet a few."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import pytest

#: of a kind's other samples, CI tries every one with each so manieth check
EACH = 6


class _Sample(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def document(self) -> dict[str, Any]: ...


def cases(samples: Sequence[_Sample], checks: Sequence[Callable[..., None]]) -> list[Any]:
    """Return every sample with every check. CI tries the first sample of a kind with all of them, so that each check
    meets each kind, and the others with a few checks each, so that each sample meets some: the rest is heavy."""
    first = {sample.document["type"]: sample for sample in reversed(samples)}
    return [
        pytest.param(
            check,
            sample,
            id=f"{sample.name}-{check.__name__.removeprefix('check_')}",
            marks=[] if first[sample.document["type"]] is sample or (row + column) % EACH == 0 else [pytest.mark.heavy],
        )
        for row, sample in enumerate(samples)
        for column, check in enumerate(checks)
    ]
