"""The noise in what everybody is told of a growing data set: sizes of blocks, and counts of users."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from thebes.curator.streams.stream import Stream, Terms
from thebes.data.growing.block_rule import block_by
from thebes.data.schema import schema_of
from thebes.ledger import Ledger
from thebes.privacy.randomness import Randomness, system
from thebes.testing.statistics import assert_size

RIDES = {"unit": "event", "time": "at", "columns": {"at": {"type": "timestamp"}}}
VISITS = {"unit": "person", "max_rows_per_unit": 3, "columns": {"who": {"type": "integer", "key": True}}}


def made(folder: Path, schema: Any, by: str, terms: Terms, source: Any) -> Stream:
    read = schema_of(schema)
    return Stream(
        "s",
        schema=read,
        by=block_by(by, read),
        terms=terms,
        ledger=Ledger("memory://"),
        folder=folder,
        clock=lambda: datetime(2026, 6, 1, tzinfo=UTC),
        randomness=source,
    )


@pytest.mark.slow
@pytest.mark.parametrize("filter", ["basic", "zcdp"])
def test_a_blocks_size_has_the_noise_that_its_share_of_epsilon_pays_for(tmp_path: Path, filter: str) -> None:
    delta = Decimal(0 if filter == "basic" else "1e-6")
    terms = Terms(Decimal("0.5"), delta, filter, size_share=Decimal("0.1"))
    stream = made(tmp_path / "s", RIDES, "time:1h", terms, system)
    first = pd.Timestamp("2026-01-01")
    hours = [first, first + pd.Timedelta(hours=1999), *[first + pd.Timedelta(hours=7)] * 500]
    stream.ingest(pd.DataFrame({"at": hours}))
    stream.seal([block.name for block in stream.blocks()])
    true = np.zeros(2000)
    true[[0, 1999]] = 1
    true[7] = 500
    sizes = np.array([block.size for block in stream.blocks()])
    if filter == "basic":
        assert_size(sizes - true, "laplace", 1 / 0.05)
    else:
        (rho,) = {claim.loss.rho for claim in stream.ledger.claims()}  # type: ignore[union-attr]
        assert_size(sizes - true, "gaussian", 1 / np.sqrt(2 * float(rho)))


@pytest.mark.slow
def test_users_and_their_rows_share_one_gaussian_noise_where_a_period_pays_in_rho(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with noise of 3 / sqrt(2 rho), 3 being the rows that count of a user, however they lie in the two."""
    periods = 1200
    terms = Terms(Decimal(120), Decimal("1e-6"), "zcdp", size_share=Decimal("0.1"), periods=periods)
    source: Randomness = system()
    stream = made(tmp_path / "s", VISITS, "user:1000", terms, lambda: source)
    monkeypatch.setattr(stream._users, "_true", lambda: (10_000, 25_000))
    monkeypatch.setattr(stream, "_open", lambda *_: None)
    counted = [stream.count_users(f"period {number}") for number in range(periods)]
    (rho,) = {claim.loss.rho for claim in stream.ledger.claims()}  # type: ignore[union-attr]
    rows = np.array([period.rows for period in counted]) - 25_000  # type: ignore[operator]
    users = np.array([period.users for period in counted]) - 10_000  # type: ignore[operator]
    scale = 3 / np.sqrt(2 * float(rho))
    assert scale < 0.5 * 3 * np.sqrt(2) / 0.01  # of the noise that a sum of epsilons would buy
    assert_size(rows, "gaussian", scale)
    assert_size(3 * users - rows, "gaussian", scale)


@pytest.mark.slow
def test_users_and_their_rows_share_one_noise_of_a_periods_whole_epsilon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are there and rows that could be: each with noise of scale 3 / 0.01, users are a third of both."""
    periods = 1200
    terms = Terms(Decimal(120), size_share=Decimal("0.1"), periods=periods)
    source: Randomness = system()
    stream = made(tmp_path / "s", VISITS, "user:1000", terms, lambda: source)
    monkeypatch.setattr(stream._users, "_true", lambda: (10_000, 25_000))
    monkeypatch.setattr(stream, "_open", lambda *_: None)
    counted = [stream.count_users(f"period {number}") for number in range(periods)]
    rows = np.array([period.rows for period in counted]) - 25_000  # type: ignore[operator]
    users = np.array([period.users for period in counted]) - 10_000  # type: ignore[operator]
    assert_size(rows, "laplace", 3 / 0.01)
    assert_size(3 * users - rows, "laplace", 3 / 0.01)
    wide_users, wide_rows = stream._users.widths(0.95)
    assert wide_users == pytest.approx(4.11 / 0.01, rel=0.01)
    assert wide_rows == pytest.approx(3 * np.log(20) / 0.01, rel=0.01)
    for noise, wide in ((users, wide_users), (rows, wide_rows)):
        assert 0.9 < np.mean(np.abs(noise) <= wide) < 0.99  # of 1200; either end by chance less than once in 10^6
