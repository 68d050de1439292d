"""Whatever comes in and is sealed in whichever order: every row is in one block, a sealed block never changes, and one
row more is one row more."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.examples import examples
from thebes.curator.streams.stream import BlockStage, Stream, Terms
from thebes.data.growing.block_rule import block_by
from thebes.data.schema import schema_of
from thebes.ledger import Ledger
from thebes.privacy.faults import Mistake

SCHEMA = schema_of({
    "unit": "event",
    "time": "at",
    "columns": {"at": {"type": "timestamp"}, "zone": {"type": "string", "values": ["a", "b"]}},
})  # fmt: skip
_STEP = st.one_of(
    st.lists(st.tuples(st.integers(1, 6), st.sampled_from("ab")), min_size=1, max_size=4),
    st.integers(0, 7),
)


def counts(stream: Stream) -> dict[str, int]:
    blocks = {stream._name(kept): kept.number for kept in stream._manifest.blocks()}
    true = stream._manifest.true_rows(blocks.values())
    return {name: true[number] for name, number in blocks.items()}


@pytest.mark.slow
@examples(15)
@given(by=st.sampled_from(["time:1d", "attribute:zone"]), steps=st.lists(_STEP, min_size=1, max_size=7))
def test_rows_are_kept_once_and_sealed_blocks_stay_as_they_are(
    by: str, steps: list[int | list[tuple[int, str]]]
) -> None:
    with TemporaryDirectory() as folder:
        stream = Stream(
            "s",
            schema=SCHEMA,
            by=block_by(by, SCHEMA),
            terms=Terms(Decimal(1)),
            ledger=Ledger("memory://"),
            folder=Path(folder) / "s",
            clock=lambda: datetime(2026, 2, 1, tzinfo=UTC),
        )
        brought, sealed = 0, dict[str, int]()
        for number, step in enumerate(steps):
            before = counts(stream)
            if isinstance(step, int):
                names = list(before)[step : step + 2]
                stream.seal(names)
                sealed |= {name: before[name] for name in names}
                assert counts(stream) == before
            else:
                at = pd.to_datetime([f"2026-01-0{day}" for day, _ in step])
                stream.ingest(pd.DataFrame({"at": at, "zone": [zone for _, zone in step]}), key=str(number))
                brought += len(step)
            now = counts(stream)
            assert sum(now.values()) == brought
            assert {name: now[name] for name in sealed} == sealed
            for block in stream.blocks():
                assert (block.state is BlockStage.SEALED) == (block.name in sealed)
                assert (block.size is not None) == (block.name in sealed)
        stream.ledger.verify()
        stream.close()


_BATCH = st.tuples(
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from("ab")), min_size=1, max_size=3),
    st.sampled_from([None, None, "monday", "tuesday"]),
)


def kept(batches: list[tuple[list[tuple[int, str]], str | None]]) -> Counter[tuple[int, str]]:
    """Return what a stream holds once these came one after another, each refused or taken in."""
    with TemporaryDirectory() as folder:
        stream = Stream(
            "s",
            schema=SCHEMA,
            by=block_by("attribute:zone", SCHEMA),
            terms=Terms(Decimal(1)),
            ledger=Ledger("memory://"),
            folder=Path(folder) / "s",
            clock=lambda: datetime(2026, 2, 1, tzinfo=UTC),
        )
        for rows, key in batches:
            at = pd.to_datetime([f"2026-01-0{day}" for day, _ in rows])
            with suppress(Mistake):  # its key was used for other rows
                stream.ingest(pd.DataFrame({"at": at, "zone": [zone for _, zone in rows]}), key=key)
        files = [Path(folder) / "s" / "rows" / file for file in stream._manifest.files()]
        found = pd.concat([pd.read_parquet(file) for file in files])
        stream.close()
    return Counter(zip(found["at"].dt.day, found["zone"], strict=True))


@pytest.mark.slow
@examples(12)
@given(batches=st.lists(_BATCH, min_size=1, max_size=4), data=st.data())
def test_one_row_more_that_comes_in_is_at_most_one_row_more_that_is_kept(
    batches: list[tuple[list[tuple[int, str]], str | None]], data: st.DataObject
) -> None:
    batch = data.draw(st.integers(0, len(batches) - 1))
    rows, key = batches[batch]
    place = data.draw(st.integers(0, len(rows)))
    more = data.draw(_BATCH)[0][0]
    others = [*batches[:batch], ([*rows[:place], more, *rows[place:]], key), *batches[batch + 1 :]]
    one, other = kept(batches), kept(others)
    assert not one - other
    assert other - one in (Counter(), Counter([more]))
