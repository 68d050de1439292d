"""Growing data sets: the sizes that blocks buy and the counts of users, and the statistics of ready pipelines, with one
unit there or not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from papers.sage.frames import FrameRows
from thebes.curator.pipelines import ready
from thebes.curator.pipelines.allowance import Allowance
from thebes.curator.pipelines.data import Data
from thebes.curator.pipelines.pipeline import Trial
from thebes.curator.streams.stream import Stream, Terms
from thebes.curator.streams.user_counts import UserCounts
from thebes.data.growing.block_rule import block_by
from thebes.data.schema import schema_of
from thebes.data.table import Sums
from thebes.ledger import Ledger
from thebes.privacy.losses import Concentrated, Pure, concentrated_to_approximate
from thebes.privacy.promise import Adjacency
from thebes.privacy.randomness import system
from thebes.tasks.audit.case import Audited, Case, Draw, repeatedly

ADD = Adjacency.ADD_REMOVE_ONE
FAST = system()
FIRST = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = 3  #: that count of a person at most
TERMS = Terms(Decimal(20), size_share=Decimal("0.05"), periods=1)  # sizes and counts have epsilon 1
_DELTA = 1e-2
SMOOTH = Terms(Decimal(5), Decimal(str(_DELTA)), "zcdp", size_share=Decimal("0.05"))  # sizes have Gaussian noise
_EPSILON = float(concentrated_to_approximate(Concentrated(SMOOTH.size_loss.rho), _DELTA).epsilon)  # type: ignore[union-attr]
RIDES = schema_of({"unit": "event", "time": "at", "columns": {"at": {"type": "timestamp"}}})
VISITS = schema_of({"unit": "person", "max_rows_per_unit": ROWS, "columns": {"who": {"type": "integer", "key": True}}})
TRIPS = schema_of(
    {
        "unit": "event",
        "columns": {
            "hour": {"type": "integer", "values": [0, 1, 2]},
            "took": {"type": "float", "low": 0, "high": 1},
        },
    }
)
OTHERS = pd.DataFrame({"hour": [0, 0, 1], "took": [0.0, 1.0, 0.5]})
MINE = pd.DataFrame({"hour": [2], "took": [1.0]})
STATISTICS: dict[str, dict[str, Any]] = {
    "means by group": {"model": "GroupMeans", "inputs": ["hour"], "output": "took"},
    "shares of values": {"model": "Histogram", "inputs": ["hour"]},
    "shares of bins": {"model": "Histogram", "inputs": ["took"], "bins": {"took": 4}},
}


def cases() -> list[Case]:
    """List what is told of how many there are, and every statistic with the bound that is read off it."""
    made: list[Case] = [
        Audited("growing: a block's size", 1.0, 0.0, ADD, _sizes(3), _sizes(4), draws=3000),
        Audited(
            "growing: a block's size in rho", _EPSILON, _DELTA, ADD, _sizes(3, SMOOTH), _sizes(4, SMOOTH), draws=3000
        ),
        Audited(
            "growing: users in rho, one with a row more", _EPSILON, _DELTA, ADD, *_both(6, 10, SMOOTH), draws=20_000
        ),
        Audited(
            "growing: users in rho, one with all rows",
            _EPSILON,
            _DELTA,
            ADD,
            *_both(6, 9 + ROWS, SMOOTH),
            draws=20_000,
        ),
        Audited("growing: users, one with a row more", 1.0, 0.0, ADD, *_both(6, 10), draws=20_000),
        Audited("growing: users, one with all rows", 1.0, 0.0, ADD, *_both(6, 9 + ROWS), draws=20_000),
    ]
    with_mine = pd.concat([OTHERS, MINE], ignore_index=True)
    for name, document in STATISTICS.items():
        pair = _told(document, OTHERS), _told(document, with_mine)
        made.append(Audited(f"pipeline: {name}", 1.0, 0.0, ADD, *pair, draws=3000))
    return made


def broken() -> list[Case]:
    """Users and rows, each with the noise of one row of a person who has several."""

    def draw(users: int, rows: int) -> Draw:
        exact = np.array([users, rows])
        return lambda n: exact + np.random.default_rng().laplace(scale=2.0, size=(n, 2))

    pair = draw(5, 9), draw(6, 9 + ROWS)
    return [Audited("growing: users, and rows as if each had one", 1.0, 0.0, ADD, *pair, True, draws=100_000)]


def _sizes(rows: int, terms: Terms = TERMS) -> Draw:
    """Of a stream with a block for each draw, all of so many rows: sealed together, as they are when they are asked."""

    def draw(count: int) -> NDArray[np.float64]:
        with TemporaryDirectory(prefix="thebes-") as folder, Ledger("memory://") as ledger:
            stream = Stream(
                "s",
                schema=RIDES,
                by=block_by("time:1h", RIDES),
                terms=terms,
                ledger=ledger,
                folder=Path(folder),
                clock=lambda: FIRST + timedelta(days=4000),
                randomness=lambda: FAST,
            )
            first = stream.by.window(FIRST)
            parts: dict[int | None, list[tuple[str, int]]] = {
                first + place: [(f"{place}", rows)] for place in range(count)
            }
            stream._manifest.admit(folder="f", digest="d", key=None, at="", rows=count * rows, parts=parts)
            stream._open()
            stream.seal(block.name for block in stream.blocks())
            sizes = [[float(block.size or 0)] for block in stream.blocks()]
            stream.close()
        return np.array(sizes)

    return draw


def _both(users: int, rows: int, terms: Terms = TERMS) -> tuple[Draw, Draw]:
    """Counts of five users with nine rows in all, and of so many with so many."""
    price: Pure | Concentrated = Pure(Decimal(1)) if terms is TERMS else terms.size_loss
    made = counts()

    def draw(users: int, rows: int) -> Draw:
        return repeatedly(lambda: list(map(float, made.noisy(users, rows, FAST, price=price))))

    return draw(5, 9), draw(users, rows)


def counts() -> UserCounts:
    """The counts of a data set whose blocks are its users."""
    nothing: Any = None
    return UserCounts("s", VISITS, block_by("user", VISITS), TERMS, nothing, nothing, nothing)


def _told(document: dict[str, Any], frame: pd.DataFrame) -> Draw:
    """The statistic, and what its validation says."""
    pipeline: Any = ready.of({**document, "stream": "s", "epsilon": 1, "target": {"absolute_error": 0.1}})
    data = Data(_Counted(TRIPS, frame), 4.0, randomness=FAST)

    def told() -> list[float]:
        model = pipeline.train(data, Allowance(1, 0))
        found = pipeline.validate(model, data, Trial(1, 0, {"absolute_error": 0.1}, 0.1))
        return [*model.numbers.values(), found.bound or 0.0, found.rows or 0.0, float(len(str(found.verdict)))]

    return repeatedly(told)


class _Counted(FrameRows):
    """Exact totals, reckoned once."""

    def __init__(self, *told: Any) -> None:
        super().__init__(*told)
        reckoned: Callable[[Sums], NDArray[np.int64]] = cache(super().sums)
        object.__setattr__(self, "sums", reckoned)
