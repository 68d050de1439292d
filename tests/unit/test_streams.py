"""Growing data sets: which block a row goes to, what is offered, what sizes and users cost, what retires and goes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

from thebes.curator.streams.stream import BlockStage, Stream, Terms
from thebes.data.growing import writer
from thebes.data.growing.block_rule import block_by
from thebes.data.schema import schema_of
from thebes.data.table import Sums, Term
from thebes.ledger import BudgetExceeded, Ledger, NoKeeper
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.losses import Pure
from thebes.privacy.randomness import seeded_for_simulation

RIDES = schema_of({
    "unit": "event",
    "time": "at",
    "columns": {
        "at": {"type": "timestamp"},
        "km": {"type": "float", "low": 0, "high": 100},
        "zone": {"type": "string", "values": ["eu", "us"]},
    },
})  # fmt: skip
VISITS = schema_of({
    "unit": "person",
    "max_rows_per_unit": 2,
    "columns": {"who": {"type": "integer", "key": True}, "km": {"type": "float", "low": 0, "high": 100}},
})  # fmt: skip
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


def rides(*days: str, zone: str = "eu") -> pd.DataFrame:
    return pd.DataFrame(
        {"at": pd.to_datetime(list(days), format="ISO8601"), "km": [7.0] * len(days), "zone": [zone] * len(days)}
    )


def stream(
    folder: Path,
    by: str = "time:1d",
    schema: Any = RIDES,
    ledger: Ledger | None = None,
    clock: Callable[[], datetime] = lambda: NOW,
    randomness: Callable[[], Any] = lambda: seeded_for_simulation(1),
    **terms: Any,
) -> Stream:
    return Stream(
        "s",
        schema=schema,
        by=block_by(by, schema),
        terms=Terms(**{"epsilon": Decimal(1), **terms}),
        ledger=ledger or Ledger("memory://"),
        folder=folder / "s",
        clock=clock,
        randomness=randomness,
    )


def count(made: Stream, *names: str) -> int:
    return int(made.rows(names).sums(Sums((Term(),)))[0, 0])


def names(made: Stream) -> list[str]:
    return [block.name for block in made.blocks()]


# --- where rows go ------------------------------------------------------------------------------------------------


def test_rows_go_to_the_block_of_their_own_time_and_windows_between_are_there_too(tmp_path: Path) -> None:
    made = stream(tmp_path)
    made.ingest(rides("2026-01-01 10:00", "2026-01-04 23:59:59", "2026-01-01"))
    assert names(made) == ["s/2026-01-01", "s/2026-01-02", "s/2026-01-03", "s/2026-01-04"]
    assert [count(made, name) for name in names(made)] == [2, 0, 0, 1]


def test_with_a_declared_first_day_which_blocks_there_are_follows_from_the_clock_alone(tmp_path: Path) -> None:
    clock = [datetime(2026, 1, 4, 12, tzinfo=UTC)]

    def opened(folder: Path) -> Stream:
        by, ledger = block_by("time:1d", RIDES).beginning("2026-01-02"), Ledger(f"sqlite:///{folder}.db")
        terms = Terms(epsilon=Decimal(1))
        place = folder / "s"
        return Stream("s", schema=RIDES, by=by, terms=terms, ledger=ledger, folder=place, clock=lambda: clock[0])

    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    full, empty = opened(tmp_path / "a"), opened(tmp_path / "b")
    full.ingest(rides("2026-01-02", "2026-01-05"))
    expected = [f"s/2026-01-0{day}" for day in (2, 3, 4, 5)]  # the next one, too: clocks differ by a little
    assert names(full) == names(empty) == expected
    clock[0] = datetime(2026, 1, 6, 0, 1, tzinfo=UTC)
    assert names(full) == names(empty) == [*expected, "s/2026-01-06", "s/2026-01-07"]
    assert [block.name for block in empty.offered()] == expected
    assert {block.name for block in empty.ledger.blocks()} == set(names(empty))
    with pytest.raises(Mistake, match="row 2 lies before"):
        full.ingest(rides("2026-01-03", "2026-01-01"))
    assert names(opened(tmp_path / "a")) == names(full)
    for wrong in ("soon", "1600-01-01", "99999-01-01"):
        with pytest.raises(Mistake, match="since"):
            block_by("time:1d", RIDES).beginning(wrong)
    with pytest.raises(Mistake, match="since"):
        block_by("attribute:zone", RIDES).beginning("2026-01-01")


def test_hours_and_weeks_are_windows_too(tmp_path: Path) -> None:
    hours = stream(tmp_path / "a", "time:6h")
    hours.ingest(rides("2026-01-01 05:59", "2026-01-01 06:00"))
    assert names(hours) == ["s/2026-01-01T00", "s/2026-01-01T06"]
    weeks = stream(tmp_path / "b", "time:1w")
    weeks.ingest(rides("2026-01-04", "2026-01-05"))  # a Sunday, a Monday
    assert names(weeks) == ["s/2025-12-29", "s/2026-01-05"]


def test_a_late_row_goes_to_the_oldest_open_block_and_never_into_a_sealed_one(tmp_path: Path) -> None:
    made = stream(tmp_path)
    made.ingest(rides("2026-01-01", "2026-01-02", "2026-01-03"))
    made.seal(["s/2026-01-01"])
    made.ingest(rides("2026-01-01 03:00"))
    assert count(made, "s/2026-01-01") == 1
    assert count(made, "s/2026-01-02") == 2


def test_a_block_that_is_sealed_while_rows_are_written_does_not_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = stream(tmp_path)
    made.ingest(rides("2026-01-01", "2026-01-02"))
    elsewhere = stream(tmp_path, ledger=made.ledger)
    write = made._writer._written

    def and_sealed(*told: Any) -> Any:
        parts = write(*told)
        elsewhere.seal(["s/2026-01-01"])
        return parts

    monkeypatch.setattr(made._writer, "_written", and_sealed)
    made.ingest(rides("2026-01-01", "2026-01-01 12:00"))
    assert [count(made, name) for name in names(made)] == [1, 3]


def test_a_block_that_retires_before_it_bought_its_size_keeps_nobody_else_from_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = stream(tmp_path)
    made.ingest(rides("2026-01-01", "2026-01-02", "2026-01-03"))
    with monkeypatch.context() as killed:
        killed.setattr(made._sizes, "buy", lambda *_: None)  # as if the process had ended there
        made.seal(["s/2026-01-01", "s/2026-01-02"])
    made.retire(["s/2026-01-01"])
    made.reserve(["s/2026-01-03"], epsilon="0.5", purpose="p", spender="ana")
    sizes = {block.name: block.size for block in made.blocks()}
    assert sizes["s/2026-01-01"] is None
    assert isinstance(sizes["s/2026-01-02"], int)
    spent = {block.name: block.meters["epsilon"].spent for block in made.ledger.blocks("s/")}
    assert spent["s/2026-01-01"] == 0 < spent["s/2026-01-02"]


def test_where_every_block_is_sealed_a_late_row_opens_another(tmp_path: Path) -> None:
    made = stream(tmp_path)
    made.ingest(rides("2026-01-01", "2026-01-02"))
    made.seal(names(made))
    made.ingest(rides("2026-01-01 03:00"))
    assert names(made)[-1] == "s/2026-01-02+2"
    assert count(made, "s/2026-01-02+2") == 1


def test_blocks_of_an_attribute_are_all_there_from_the_start(tmp_path: Path) -> None:
    made = stream(tmp_path, "attribute:zone")
    assert names(made) == ["s/eu", "s/us"]
    made.ingest(rides("2026-01-01"))
    made.seal(["s/eu"])
    made.ingest(rides("2026-01-02", zone="us"))
    assert names(made) == ["s/eu", "s/eu+2", "s/us"], "which blocks there are does not follow from the rows"
    made.ingest(rides("2026-01-02"))
    assert [count(made, name) for name in names(made)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("by", "schema", "says"),
    [
        ("time:1d", VISITS, "type timestamp"),
        ("user", RIDES, "protect persons"),
        ("attribute:km", RIDES, "declared values"),
        ("time:5h", RIDES, "divide a day"),
        ("month", RIDES, "must be time:1d"),
        ("user:0", VISITS, "how many users"),
    ],
)
def test_what_does_not_go_together_is_refused_with_a_sentence(by: str, schema: Any, says: str) -> None:
    with pytest.raises(Mistake, match=says):
        block_by(by, schema)


def test_a_person_has_rows_in_many_windows(tmp_path: Path) -> None:
    columns = {"who": {"type": "integer", "key": True}, "at": {"type": "timestamp"}}
    with pytest.raises(Mistake, match="single rows"):
        block_by("time:1d", schema_of({"unit": "person", "time": "at", "columns": columns}))


# --- what comes in ------------------------------------------------------------------------------------------------


def test_rows_are_never_compared_with_each_other_nor_batches_by_what_is_in_them(tmp_path: Path) -> None:
    made, rows = stream(tmp_path), rides("2026-01-01", "2026-01-01")
    assert not made.ingest(rows).again
    assert not made.ingest(rows).again
    assert count(made, "s/2026-01-01") == 4


def test_one_row_more_in_a_batch_is_one_row_more_whatever_came_before(tmp_path: Path) -> None:
    """1,000 rows twice, and 999 of them followed by the 1,000: these once were 1,000 and 1,999."""
    many, kept = rides(*["2026-01-01"] * 1000), []
    for first, folder in ((many, "a"), (many[1:], "b")):
        made = stream(tmp_path / folder)
        made.ingest(first)
        made.ingest(many)
        kept.append(count(made, "s/2026-01-01"))
    assert kept == [2000, 1999]


def test_a_key_says_which_batch_it_is(tmp_path: Path) -> None:
    made, rows = stream(tmp_path), rides("2026-01-01")
    made.ingest(rows, key="monday")
    assert made.ingest(rows, key="monday").again
    assert not made.ingest(rows, key="tuesday").again
    with pytest.raises(Mistake, match="used before"):
        made.ingest(rides("2026-01-02"), key="monday")
    assert count(made, "s/2026-01-01") == 2


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"at": [pd.Timestamp("2026-01-01"), None]}, r"columns\.at: row 2 says no time"),
        ({"km": [1.0, "SECRET"]}, r"columns\.km: row 2 holds something that is not of type float"),
        ({"at": [pd.Timestamp("2026-03-01"), pd.Timestamp("2026-01-01")]}, "row 1 lies in the future"),
        ({"km": None}, "no column km"),
    ],
)
def test_one_wrong_row_refuses_all_of_them(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    made, rows = stream(tmp_path), rides("2026-01-01", "2026-01-01")
    for name, values in change.items():
        rows = rows.drop(columns=name) if values is None else rows.assign(**{name: pd.Series(values, dtype=object)})
    with pytest.raises(Mistake, match=says) as refused:
        made.ingest(rows)
    assert "SECRET" not in str(refused.value)
    assert names(made) == []
    assert list((tmp_path / "s" / "rows").iterdir()) == []


UNFIT: tuple[tuple[str, dict[str, Any]], ...] = (
    ("time:1d", {"at": None}),
    ("time:1d", {"at": pd.Timestamp("2026-03-01")}),
    ("time:1d", {"at": pd.Timestamp("2025-12-31")}),
    ("time:1d", {"zone": "xx"}),
    ("time:1d", {"zone": None}),
    ("time:1d", {"km": "far"}),
    ("attribute:zone", {"zone": None}),
    ("attribute:zone", {"zone": "xx"}),
    ("user", {"who": 0}),
    ("user", {"who": None}),
)


@pytest.mark.few(1)
@pytest.mark.parametrize(("written", "change"), UNFIT)
def test_who_asks_cannot_tell_a_refused_batch_from_none_and_mended_it_comes_in_whole(
    tmp_path: Path, written: str, change: dict[str, Any]
) -> None:
    """Only who brings it is told; there is no block, budget, claim or file of it, and its key is free."""
    users = written == "user"

    def opened(place: str) -> Stream:
        schema = VISITS if users else RIDES
        by = block_by(written, schema)
        if written.startswith("time"):
            by = by.apart_by("zone", schema).beginning("2026-01-01")
        return Stream(
            "s",
            schema=schema,
            by=by,
            terms=Terms(epsilon=Decimal(1)),
            ledger=Ledger(f"sqlite:///{tmp_path / place}.db", keeper=NoKeeper()),
            folder=tmp_path / place,
            clock=lambda: NOW,
            randomness=lambda: seeded_for_simulation(1),
        )

    def seen(made: Stream) -> list[Any]:
        shown = [*made.blocks(), made.count_users("today") if users else None, *made.offered()]
        _, *books = [(entry.event, entry.facts) for entry in made.ledger.journal()]  # the first names the ledger
        told = map(str, (*made.ledger.claims(), *books))
        by_chance = re.compile(r"(?<=count s 0 )\w{16}")
        return [*shown, *made.ledger.blocks(), *(by_chance.sub("", each) for each in told)]

    good = people(1, 3) if users else rides("2026-01-01", "2026-01-02", "2026-01-03")
    bad = good.astype(object)
    for name, value in change.items():
        bad.loc[1, name] = value
    tried, spared = opened("tried"), opened("spared")
    with pytest.raises(Mistake, match="row 2"):
        tried.ingest(bad, key="monday")
    assert list((tmp_path / "tried" / "rows").iterdir()) == []
    assert seen(tried) == seen(spared)
    assert not tried.ingest(good, key="monday").again
    assert tried.ingest(good, key="monday").again


def test_what_a_certificate_speaks_of_is_said_where_a_batch_can_be_refused(tmp_path: Path) -> None:
    for place, by, schema in (("a", "time:1d", RIDES), ("b", "attribute:zone", RIDES), ("c", "user", VISITS)):
        (tmp_path / place).mkdir()
        assert "about the rows that were kept" in stream(tmp_path / place, by, schema).assumption


def test_a_column_that_is_not_declared_is_left_out_and_said(tmp_path: Path) -> None:
    made = stream(tmp_path)
    assert made.ingest(rides("2026-01-01").assign(note="x")).left_out == ("note",)
    with pytest.raises(Mistake, match="row 1 has 'note'"):
        made.ingest([{"at": "2026-01-01", "km": 1.0, "zone": "eu", "note": "x"}])


def test_rows_come_from_csv_parquet_arrow_and_dictionaries(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.feather as feather

    made, rows = stream(tmp_path), rides("2026-01-01", "2026-01-02")
    rows.to_csv(tmp_path / "a.csv", index=False)
    rows.to_csv(tmp_path / "b.csv.gz", index=False)
    rows.to_parquet(tmp_path / "a.parquet")
    table = pa.Table.from_pandas(rows)
    feather.write_feather(table, str(tmp_path / "a.arrow"), compression="uncompressed")
    for place, batch in enumerate([
        tmp_path / "a.csv", tmp_path / "b.csv.gz", tmp_path / "a.parquet", tmp_path / "a.arrow", table,
        table.to_reader(), rows, rows.to_dict("list"), [{"at": "2026-01-01T00:00:00Z", "km": 1, "zone": None}],
    ], 1):  # fmt: skip
        came = made.ingest(batch, key=str(place))
        assert (came.rows, came.again) == (1 if place == 9 else 2, False)
    assert count(made, *names(made)) == 17
    assert count(made, "s/2026-01-01") == 9


def test_two_slices_of_one_arrow_table_are_two_batches(tmp_path: Path) -> None:
    import pyarrow as pa

    made, table = stream(tmp_path), pa.Table.from_pandas(rides("2026-01-01", "2026-01-02"))
    made.ingest(table.slice(0, 1), key="first")
    made.ingest(table.slice(1, 1), key="second")
    assert made.ingest(table.slice(1, 1), key="second").again
    with pytest.raises(Mistake, match="used before"):
        made.ingest(table.slice(0, 1), key="second")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("at,km,zone\n2026-01-01,1,eu\n2026-01-01,SECRET,eu\n", r"columns\.km: row 2"),
        ("at,km,zone\n2026-01-01,1,eu\n2026-01-01,1,eu,SECRET\n", "line 3 cannot be read"),
        ("at,km\n2026-01-01,1\n", "no column zone"),
        ("at,km,zone\n,1,eu\n", r"columns\.at: row 1"),
    ],
)
def test_a_file_that_is_not_as_declared_is_refused_whole(tmp_path: Path, text: str, says: str) -> None:
    made, path = stream(tmp_path), tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(Mistake, match=says) as refused:
        made.ingest(path)
    assert "SECRET" not in str(refused.value)
    assert names(made) == []


def test_what_is_out_of_bounds_comes_in_and_counts_as_the_bound(tmp_path: Path) -> None:
    made = stream(tmp_path)
    made.ingest(rides("2026-01-01").assign(km=1e9, zone="mars"))
    (only,) = made.rows(["s/2026-01-01"]).arrays(["km"])
    assert only.tolist() == [[100.0]]
    assert not list(made.rows(["s/2026-01-01"]).arrays(["zone"])), "what is not declared is missing"


def test_an_empty_batch_is_a_batch(tmp_path: Path) -> None:
    made = stream(tmp_path)
    assert made.ingest(rides()).rows == 0
    assert names(made) == []


# --- what is read -------------------------------------------------------------------------------------------------


def test_arrays_are_what_batches_are(tmp_path: Path) -> None:
    random, n = np.random.default_rng(3), 5000
    made = stream(tmp_path)
    made.ingest(
        pd.DataFrame({
            "at": pd.Timestamp("2026-01-01") + pd.to_timedelta(random.uniform(0, 3 * 86400, n), unit="s"),
            "km": np.where(random.random(n) < 0.1, np.nan, random.uniform(-10, 120, n)),
            "zone": random.choice(np.array(["eu", "us", "mars"]), n),
        })
    )  # fmt: skip
    table = made.rows(names(made))
    fast = np.concatenate(list(table.arrays(["zone", "km"])))
    slow = np.concatenate([batch.numbers for batch in table.batches(["zone", "km"])])
    assert np.array_equal(fast[np.lexsort(fast.T)], slow[np.lexsort(slow.T)])
    assert 2000 < len(fast) < n


def test_every_row_is_for_training_or_for_testing_by_a_coin_of_its_own(tmp_path: Path) -> None:
    made = stream(tmp_path)
    made.ingest(pd.DataFrame({"at": pd.Timestamp("2026-01-01"), "km": np.arange(20_000) / 1e3, "zone": "eu"}))
    table = made.rows(names(made))
    train, test = (np.concatenate(list(table.part(which).arrays(["km"]))) for which in ("train", "test"))  # type: ignore[arg-type]
    assert 1700 < len(test) < 2300
    assert sorted(np.concatenate([train, test])[:, 0]) == sorted(np.concatenate(list(table.arrays(["km"])))[:, 0])


def test_all_rows_of_one_person_are_in_the_same_part(tmp_path: Path) -> None:
    made = stream(tmp_path, "user:100", VISITS)
    for _ in range(2):
        made.ingest(pd.DataFrame({"who": np.arange(1, 201), "km": 1.0}), key=str(_))
    made.count_users("first")
    table = made.rows(names(made))
    people = table.part("train").people(10)[0] + table.part("test").people(10)[0]
    assert people == table.people(10)[0]


# --- budget -------------------------------------------------------------------------------------------------------


def test_only_windows_that_are_over_are_offered(tmp_path: Path) -> None:
    made = stream(tmp_path)
    made.ingest(rides("2026-01-29", "2026-01-31 11:00"))
    assert [block.name for block in made.offered()] == ["s/2026-01-29", "s/2026-01-30"]
    assert len(made.offered(complete=False)) == 3
    since = datetime(2026, 1, 30, tzinfo=UTC)
    assert [block.name for block in made.offered(since=since)] == ["s/2026-01-30"]
    assert [block.name for block in made.offered(until=since)] == ["s/2026-01-29"]


def test_a_block_buys_its_size_once_when_it_is_sealed(tmp_path: Path) -> None:
    ledger = Ledger("memory://")
    made = stream(tmp_path, ledger=ledger)
    made.ingest(rides(*["2026-01-01"] * 300, *["2026-01-02"] * 300))
    made.reserve(names(made), epsilon=0.5, purpose="p", spender="ana", key="k")
    sizes = [block.size for block in made.blocks()]
    assert all(size is not None and abs(size - 300) < 300 for size in sizes)
    assert float(ledger.remaining("s/2026-01-01").epsilon) == pytest.approx(0.45)
    made.seal(names(made))
    made.reserve(names(made), epsilon=0.5, purpose="p", spender="ana", key="k")
    assert [block.size for block in made.blocks()] == sizes
    assert float(ledger.remaining("s/2026-01-01").epsilon) == pytest.approx(0.45)
    assert made.size(names(made)) == sum(sizes)  # type: ignore[arg-type]


def test_who_is_refused_by_a_cap_makes_no_block_buy_its_size(tmp_path: Path) -> None:
    ledger = Ledger("memory://")
    made = stream(tmp_path, ledger=ledger)
    made.ingest(rides(*["2026-01-01"] * 300))
    ledger.cap("ana", 0.01)
    before = ledger.remaining("s/2026-01-01")
    with pytest.raises(BudgetExceeded, match="the cap of 'ana'"):
        made.reserve(names(made), epsilon=0.3, purpose="p", spender="ana", key="k")
    assert ledger.remaining("s/2026-01-01") == before
    assert [block.size for block in made.blocks()] == [None]


def test_a_size_is_charged_before_it_is_drawn(tmp_path: Path) -> None:
    ledger = Ledger("memory://")

    def killed() -> Any:
        raise KeyboardInterrupt

    made = stream(tmp_path, ledger=ledger)
    made.ingest(rides("2026-01-01"))
    dying = stream(tmp_path, ledger=ledger, randomness=killed)
    with pytest.raises(KeyboardInterrupt):
        dying.seal(names(made))
    assert float(ledger.remaining("s/2026-01-01").epsilon) == pytest.approx(0.95)
    again = stream(tmp_path, ledger=ledger)
    again.seal(names(again))
    assert again.blocks()[0].size is not None
    assert float(ledger.remaining("s/2026-01-01").epsilon) == pytest.approx(0.95)


def test_a_claim_is_made_in_all_of_its_blocks_or_in_none(tmp_path: Path) -> None:
    ledger = Ledger("memory://")
    made = stream(tmp_path, ledger=ledger)
    made.ingest(rides("2026-01-01", "2026-01-02"))
    made.reserve(["s/2026-01-01"], epsilon=0.5, purpose="p", spender="ana")
    with pytest.raises(BudgetExceeded):
        made.reserve(names(made), epsilon=0.6, purpose="p", spender="ana")
    assert made.blocks()[1].state is BlockStage.OPEN or float(ledger.remaining("s/2026-01-02").epsilon) >= 0.95
    assert [block.name for block in made.offered(loss=Pure(Decimal("0.6")))] == ["s/2026-01-02"]
    with pytest.raises(BudgetExceeded):
        made.reserve(["s/2026-01-02"], epsilon=0.97, purpose="p", spender="ana")
    assert made.blocks()[1].size is None or float(ledger.remaining("s/2026-01-02").epsilon) == pytest.approx(0.95)


@pytest.mark.slow
def test_new_blocks_keep_coming_while_old_ones_run_dry(tmp_path: Path) -> None:
    made = stream(tmp_path)
    for day in range(1, 25):
        made.ingest(rides(f"2026-01-{day:02}"))
        names = [block.name for block in made.offered(loss=Pure(Decimal("0.3")))]
        assert names, "a stream never runs dry while it grows"
        made.reserve(names, epsilon=0.3, purpose="daily", spender="ana").consume()
    assert {block.state for block in made.blocks()[:10]} == {BlockStage.SEALED}


def test_spent_blocks_retire_and_only_their_rows_can_be_deleted(tmp_path: Path) -> None:
    ledger = Ledger("memory://")
    made = stream(tmp_path, ledger=ledger, retire_below=Decimal("0.1"))
    made.ingest(rides("2026-01-01", "2026-01-02"))
    with pytest.raises(Refusal, match="only rows of retired blocks"):
        made.drop(["s/2026-01-01"])
    claim = made.reserve(["s/2026-01-01"], epsilon=0.9, purpose="p", spender="ana")
    assert made.retire() == [], "what is only set aside may come back"
    claim.consume(epsilon=0.88)
    assert made.retire() == ["s/2026-01-01"]
    with pytest.raises(Refusal, match="still works"):
        made.drop(["s/2026-01-01"])
    claim.release()
    files = len(list((tmp_path / "s").rglob("*.parquet")))
    made.drop(["s/2026-01-01"])
    assert len(list((tmp_path / "s").rglob("*.parquet"))) == files - 1
    assert [block.state for block in made.blocks()] == [BlockStage.DROPPED, BlockStage.OPEN]
    assert [block.name for block in made.offered()] == ["s/2026-01-02"]
    with pytest.raises(Refusal, match="were deleted"):
        made.rows(["s/2026-01-01"])
    assert count(made, "s/2026-01-02") == 1
    ledger.verify()


def test_a_steward_retires_a_block_by_hand(tmp_path: Path) -> None:
    made = stream(tmp_path)
    made.ingest(rides("2026-01-01"))
    assert made.retire(["s/2026-01-01"]) == ["s/2026-01-01"]
    assert made.offered() == []


# --- users --------------------------------------------------------------------------------------------------------


def people(first: int, last: int, rows: int = 1) -> pd.DataFrame:
    return pd.DataFrame({"who": np.repeat(np.arange(first, last + 1), rows), "km": 1.0})


def test_users_are_offered_up_to_the_private_maximum_only(tmp_path: Path) -> None:
    made = stream(tmp_path, "user:100", VISITS, epsilon=Decimal(100))
    made.ingest(people(1, 1000, rows=3))
    assert made.offered() == [], "nobody has counted yet"
    counted = made.count_users("january")
    assert counted.users is not None
    assert counted.rows is not None
    assert abs(counted.users - 1000) < 100
    assert abs(counted.rows - 2000) < 200, "of one person two rows count"
    assert len(made.offered()) == counted.users // 100
    assert made.offered()[0].name == "s/users-1-100"
    assert abs(made.size(names(made)[:2]) - 400) < 60


def test_a_period_is_paid_once_by_everyone(tmp_path: Path) -> None:
    ledger = Ledger("memory://")
    made = stream(tmp_path, "user:10", VISITS, ledger=ledger, periods=2)
    made.ingest(people(1, 500))
    first = made.count_users("a")
    assert made.count_users("a") == first
    assert float(ledger.remaining("s/everyone").epsilon) == pytest.approx(0.025)
    made.count_users("b")
    with pytest.raises(Refusal, match="2 periods were counted"):
        made.count_users("c")
    assert float(ledger.block(names(made)[0]).budget.epsilon) == pytest.approx(0.95)


def test_a_period_that_its_folder_forgot_is_paid_anew(tmp_path: Path) -> None:
    """The folder comes back as it was before the count, while the ledger goes on: one charge pays for one draw."""
    ledger = Ledger("memory://")

    def opened() -> Stream:
        return stream(tmp_path, "user:10", VISITS, ledger=ledger, periods=2)

    made = opened()
    made.ingest(people(1, 500))
    made.close()
    shutil.copytree(tmp_path / "s", tmp_path / "copy")
    for paid in (0.025, 0.05):
        made = opened()
        made.count_users("a")
        assert float(ledger.block("s/everyone").budget.epsilon - ledger.remaining("s/everyone").epsilon) == paid
        assert float(made.earlier([]).epsilon) == paid
        made.close()
        shutil.rmtree(tmp_path / "s")
        shutil.copytree(tmp_path / "copy", tmp_path / "s")
    made = opened()
    with pytest.raises(BudgetExceeded):  # and never more often than was set aside for
        made.count_users("a")
    made.close()


def test_a_users_later_rows_stay_in_the_users_block(tmp_path: Path) -> None:
    made = stream(tmp_path, "user", VISITS, epsilon=Decimal(200))
    made.ingest(people(1, 50))
    made.count_users("a")
    made.reserve(["s/user-7"], epsilon=1, purpose="p", spender="ana").consume()
    made.ingest(people(7, 7), key="later")
    assert count(made, "s/user-7") == 2
    assert made.blocks()[6].state is BlockStage.OPEN


def test_ids_that_do_not_count_up_from_one_are_refused(tmp_path: Path) -> None:
    made = stream(tmp_path, "user", VISITS)
    with pytest.raises(Mistake, match="row 1 has an id that is not"):
        made.ingest(people(0, 3))


def test_rows_of_dropped_users_are_gone_from_the_files(tmp_path: Path) -> None:
    made = stream(tmp_path, "user:10", VISITS, epsilon=Decimal(200))
    made.ingest(people(1, 100))
    made.count_users("a")
    made.retire(["s/users-11-20"])
    made.drop(["s/users-11-20"])
    kept = pd.concat(pd.read_parquet(path) for path in (tmp_path / "s").rglob("*.parquet"))
    assert len(kept) == 90
    assert not kept["who"].between(11, 20).any()
    assert count(made, "s/users-21-30") == 10


# --- contexts -----------------------------------------------------------------------------------------------------


def test_separate_ledgers_are_spent_apart_and_say_so(tmp_path: Path) -> None:
    made = stream(tmp_path, separate="developer")
    made.ingest(rides("2026-01-01"))
    for who in ("ana", "ben"):
        made.reserve(["s/2026-01-01"], epsilon=0.9, purpose="p", spender=who).consume()
    with pytest.raises(BudgetExceeded):
        made.reserve(["s/2026-01-01"], epsilon=0.1, purpose="p", spender="ana")
    assert made.offered(context="ana", loss=Pure(Decimal("0.1"))) == []
    assert len(made.offered(context="cem", loss=Pure(Decimal("0.1")))) == 1
    assert "by itself" in made.assumption
    assert made.blocks(context="ana")[0].left < 0.1


def test_a_context_by_column_is_one_of_its_values(tmp_path: Path) -> None:
    made = stream(tmp_path, separate="zone")
    made.ingest(rides("2026-01-01"))
    claim = made.reserve(["s/2026-01-01@eu"], epsilon=0.9, purpose="p", spender="ana", context="eu")
    assert made.named(claim) == list(claim.blocks) == ["s/2026-01-01@eu"]
    for context in (None, "us", "eu-west", ()):
        with pytest.raises(Mistake, match="declared values of zone"):
            made.reserve(["s/2026-01-01@eu"], epsilon=0.01, purpose="p", spender="ana", context=context)
    assert "by itself" not in made.assumption
    for wrong in ("km", "at", "nothing"):
        with pytest.raises(Mistake, match="separate_by"):
            stream(tmp_path / "x", separate=wrong)
    with pytest.raises(Mistake, match="cut by already"):
        stream(tmp_path / "x", "attribute:zone", separate="zone")
    with pytest.raises(Mistake, match="does not go with blocks of users"):
        stream(tmp_path / "x", "user:10", VISITS, separate="zone")


def test_rows_of_a_context_are_in_its_blocks_alone_and_each_pays_once(tmp_path: Path) -> None:
    """No row is in two blocks, each block has a size of its own rows, and all it ever pays is one budget."""
    made = stream(tmp_path, separate="zone", size_share=Decimal("0.5"), epsilon=Decimal(40))
    day = "2026-01-01"
    made.ingest(pd.concat([rides(*[day] * 300), rides(*[day] * 20, zone="us"), rides("2026-01-03")]))
    assert names(made) == [f"s/2026-01-0{d}@{zone}" for d in (1, 2, 3) for zone in ("eu", "us")]
    assert [count(made, name) for name in names(made)] == [300, 20, 0, 0, 1, 0]
    assert [b.name for b in made.offered(context="us")] == [f"s/2026-01-0{d}@us" for d in (1, 2, 3)]
    assert [b.name for b in made.blocks(context=("eu", "us"))] == names(made)
    both = [f"s/{day}@eu", f"s/{day}@us"]
    made.reserve(both, epsilon=20, purpose="p", spender="ana", context=("eu", "us")).consume()
    assert [abs(size - true) < 5 for size, true in zip(made.sizes(both).values(), (300, 20), strict=True)] == [True] * 2
    with pytest.raises(BudgetExceeded):
        made.reserve(both[:1], epsilon="0.001", purpose="p", spender="bob", context="eu")
    assert {block.name for block in made.ledger.blocks()} == set(names(made))
    assert all(block.budget.epsilon == 40 for block in made.ledger.blocks())
    assert sum(b.meters["epsilon"].capacity or 0 for b in made.ledger.blocks(f"s/{day}")) == 2 * 40 * 10**12


def test_late_rows_stay_in_their_context_and_open_blocks_for_all_alike(tmp_path: Path) -> None:
    made = stream(tmp_path, separate="zone")
    made.ingest(rides("2026-01-01", "2026-01-02"))
    made.seal(["s/2026-01-01@eu", "s/2026-01-02@eu"])
    made.ingest(rides("2026-01-01", zone="us"))
    assert "s/2026-01-02+2@eu" in names(made), "whether or not rows of it came"
    made.ingest(rides("2026-01-01"))
    assert count(made, "s/2026-01-01@us") == 1
    assert count(made, "s/2026-01-02+2@eu") == 1
    assert count(made, "s/2026-01-01@eu") == 1
    with pytest.raises(Mistake, match=r"columns\.zone.*row 2 has none of the declared values"):
        made.ingest(pd.concat([rides("2026-01-03"), rides("2026-01-03", zone="xx")]))
    with pytest.raises(Mistake, match="lies in the future"):
        made.ingest(rides("2026-02-03", zone="us"))


def test_rows_are_never_charged_to_other_blocks_by_another_declaration(tmp_path: Path) -> None:
    """In another order of values, or with contexts where there were none, a place would be another block's."""
    turned = schema_of({**RIDES.as_json(), "columns": {**RIDES.as_json()["columns"], "zone": {
        "type": "string", "values": ["us", "eu"]}}})  # fmt: skip
    more = schema_of({**RIDES.as_json(), "columns": {**RIDES.as_json()["columns"], "zone": {
        "type": "string", "values": ["eu", "us", "asia"]}}})  # fmt: skip
    for by, terms in (("attribute:zone", {}), ("time:1d", {"separate": "zone"})):
        folder = tmp_path / by.partition(":")[0]
        stream(folder, by, **terms).close()
        with pytest.raises(Refusal, match="cannot be changed"):
            stream(folder, by, turned, **terms)
        stream(folder, by, **terms).close()
    with pytest.raises(Refusal, match="cannot be changed"):
        stream(tmp_path / "time", "time:1d")
    with pytest.raises(Refusal, match="cannot be changed"):
        stream(tmp_path / "time", "time:1d", more, separate="zone")
    stream(tmp_path / "plain", "time:1d").close()
    with pytest.raises(Refusal, match="cannot be changed"):
        stream(tmp_path / "plain", "time:1d", separate="zone")
    assert names(stream(tmp_path / "attribute", "attribute:zone", more)) == ["s/eu", "s/us", "s/asia"]


# --- what stays after a crash -------------------------------------------------------------------------------------


def test_what_the_manifest_does_not_name_is_swept_away(tmp_path: Path) -> None:
    made = stream(tmp_path)
    made.ingest(rides("2026-01-01"))
    left = tmp_path / "s" / "rows" / "0123456789abcdef"
    left.mkdir()
    (left / "data_0.parquet").write_bytes(b"half")
    again = stream(tmp_path, ledger=made.ledger)
    assert not left.exists()
    assert count(again, "s/2026-01-01") == 1


# --- many small files -----------------------------------------------------------------------------------------------


def lying(folder: Path) -> list[str]:
    return sorted(str(path) for path in (folder / "s" / "rows").rglob("*.parquet"))


def own(made: Stream, *blocks: str) -> list[tuple[Any, ...]]:
    """Every row with its own number."""
    paths = made.rows(blocks)._paths
    read = duckdb.sql(f"SELECT * FROM read_parquet({[str(path) for path in paths]}, hive_partitioning=false)")
    return sorted(read.fetchall())


def drops(made: Stream, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        made.ingest(
            [{"at": "2026-01-01", "km": number, "zone": "eu"}, {"at": "2026-01-02", "km": number, "zone": "us"}]
        )


def test_many_small_files_become_one_with_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MANY", 5)
    clock = [NOW]
    made = stream(tmp_path, clock=lambda: clock[0])
    drops(made, 4)
    before, blocks = {name: own(made, name) for name in names(made)}, names(made)
    reading = made.rows(blocks)
    parts = [
        sorted(v for a in reading.part(which, test=0.4).arrays(["km"]) for v in a[:, 0]) for which in ("train", "test")
    ]
    drops(made, 1, first=4)  # the fifth of each block
    assert {name: [r for r in own(made, name) if r[1] < 4] for name in blocks} == before
    assert [len(made.rows([name])._paths) for name in blocks] == [1, 1]
    assert len(lying(tmp_path)) == 12  # those who read the small ones may finish
    assert reading.sums(Sums((Term(),)))[0, 0] == 8
    joined = made.rows(blocks)
    again = [[v for a in joined.part(which, test=0.4).arrays(["km"]) for v in a[:, 0]] for which in ("train", "test")]
    assert [sorted(set(a) - {4.0}) for a in again] == [sorted(set(p)) for p in parts]
    made.seal(blocks)
    sizes = [block.size for block in made.blocks()]
    stream(tmp_path, ledger=made.ledger)
    assert len(lying(tmp_path)) == 12
    clock[0] += writer.READING
    stream(tmp_path, ledger=made.ledger, clock=lambda: clock[0])
    assert len(lying(tmp_path)) == 2
    assert len(list((tmp_path / "s" / "rows").iterdir())) == 2  # nor are empty folders left
    assert {name: [r for r in own(made, name) if r[1] < 4] for name in blocks} == before
    assert [block.size for block in made.blocks()] == sizes


@pytest.mark.parametrize("where", ["_copied", "join"])
def test_a_process_that_dies_while_it_joins_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    made = stream(tmp_path)
    drops(made, 3)
    before, files = own(made, *names(made)), lying(tmp_path)

    def dies(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    owner = made._writer if where == "_copied" else made._manifest
    with monkeypatch.context() as patched:
        patched.setattr(writer, "MANY", 3)
        patched.setattr(owner, where, dies)
        with pytest.raises(KeyboardInterrupt):
            made._writer.join(NOW)
    again = stream(tmp_path, ledger=made.ledger)
    assert own(again, *names(again)) == before
    assert lying(tmp_path) == files


def test_what_changed_while_files_were_joined_is_not_joined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "MANY", 3)
    made = stream(tmp_path)
    write = made._writer._copied

    def meanwhile(*told: Any) -> Any:
        found = write(*told)
        made.retire(["s/2026-01-01"])
        made.drop(["s/2026-01-01"])
        return found

    monkeypatch.setattr(made._writer, "_copied", meanwhile)
    drops(made, 3)
    assert count(made, "s/2026-01-02") == 3
    stream(tmp_path, ledger=made.ledger)  # what nobody names is swept away
    read = duckdb.sql(f"SELECT DISTINCT zone FROM read_parquet({lying(tmp_path)}, hive_partitioning=false)").fetchall()
    assert read == [("us",)]


@pytest.mark.parametrize(("by", "schema"), [("time:1d", RIDES), ("user", VISITS)])
def test_rows_that_are_dropped_do_not_lie_on_in_files_that_were_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, schema: Any
) -> None:
    monkeypatch.setattr(writer, "MANY", 3)
    made = stream(tmp_path, by, schema, **({"epsilon": Decimal(1000)} if by == "user" else {}))
    if by == "user":
        for km in range(3):
            made.ingest([{"who": who, "km": float(km)} for who in range(1, 200)])
        made.count_users("now")
        gone, left = "s/user-7", "who = 7"
    else:
        drops(made, 3)
        gone, left = "s/2026-01-01", "zone = 'eu'"
    assert len(lying(tmp_path)) > 3
    made.retire([gone])
    made.drop([gone])
    read = f"SELECT count(*) FROM read_parquet({lying(tmp_path)}, hive_partitioning=false) WHERE {left}"
    assert duckdb.sql(read).fetchall() == [(0,)]


def test_how_it_is_cut_cannot_change(tmp_path: Path) -> None:
    stream(tmp_path).close()
    with pytest.raises(Refusal, match="cut into blocks by time:1d"):
        stream(tmp_path, "time:1h")
