"""Every way to declare a data set that grows works to the end, or is refused where it is declared, saying why."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from thebes.curator.pipelines.scheduler import Turns
from thebes.curator.streams.stream import Stream, Terms
from thebes.curator.streams.terms import within
from thebes.curator.streams.user_counts import EVERYONE, UserCounts
from thebes.data.growing.block_rule import USER, block_by
from thebes.data.schema import schema_of
from thebes.data.table import Sums, Term
from thebes.ledger import Ledger, NoKeeper
from thebes.ledger.filters import FILTERS
from thebes.privacy.faults import Mistake, Refusal
from thebes.privacy.losses import Concentrated, Pure, concentrated_to_approximate, pure_to_concentrated, repeat
from thebes.privacy.mechanisms.additive import Laplace
from thebes.privacy.mechanisms.concentrated import noise_of
from thebes.privacy.randomness import seeded_for_simulation
from thebes.privacy.stability import Sensitivity
from thebes.site.dataset import BlockDeclaration, BudgetDeclaration, DataSet

ZONES = ["eu", "us"]
RIDES = schema_of({
    "unit": "event",
    "time": "at",
    "columns": {
        "at": {"type": "timestamp"},
        "zone": {"type": "string", "values": ZONES},
        "kind": {"type": "string", "values": ["taxi", "tram"]},
    },
})  # fmt: skip
VISITS = schema_of({
    "unit": "person",
    "max_rows_per_unit": 1,
    "columns": {"who": {"type": "integer", "key": True}, "zone": {"type": "string", "values": ZONES}},
})  # fmt: skip
NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
MANY = 5_000  #: users, so that most counts below find some
BUDGETS = [("0", "basic"), ("1e-6", "basic"), ("1e-6", "zcdp"), ("1e-6", "either"), ("1e-6", "renyi")]
BUDGETS += [("0", "zcdp"), ("0", "either"), ("0", "renyi")]
EPSILONS = ["0.02", "10"]
SHARES = ["0.05", "0.6"]
APART = ["", "developer", "zone"]
#: what may be said where a declaration is refused
REASONS = {
    "budget": "needs a delta greater than 0",
    "filter": "too small for the renyi filter",
    "separate": "separate_by",
    "share": "leaves no epsilon",
}


def schema(by: str) -> Any:
    return VISITS if by.startswith("user") else RIDES


def declared(by: str, epsilon: str, delta: str, filter: str, apart: str, periods: int | None, share: str) -> DataSet:
    """As `thebes dataset create` makes it."""
    more: dict[str, Any] = {"size_share": Decimal(share)}
    if apart:
        more |= {"separate_by": apart, "accept_separate_ledgers": True}
    if periods is not None:
        more["periods"] = periods
    columns = schema(by)
    return DataSet(
        "s",
        columns,
        {"kind": "growing"},
        BudgetDeclaration.of(epsilon, delta, filter),
        BlockDeclaration(block_by(by, columns), more),
    )


def opened(made: DataSet, folder: Path, seed: int = 1) -> Stream:
    terms = made.stream_terms
    assert terms is not None
    assert made.blocks is not None
    return Stream(
        made.name,
        schema=made.schema,
        by=made.blocks.by,
        terms=terms,
        ledger=Ledger("memory://", keeper=NoKeeper()),
        folder=folder,
        clock=lambda: NOW,
        randomness=lambda: seeded_for_simulation(seed),
    )


def rows(by: str) -> pd.DataFrame:
    if by.startswith("user"):
        return pd.DataFrame({"who": np.arange(1, MANY + 1), "zone": ["eu"] * MANY})
    return pd.DataFrame({"at": [datetime(2026, 1, 1)] * 50, "zone": ["eu", "us"] * 25, "kind": ["taxi"] * 50})


def combinations() -> Iterator[tuple[Any, ...]]:
    for by, (delta, filter), apart in product(["time:1d", "attribute:kind", "user:500"], BUDGETS, APART):
        yield by, delta, filter, apart


@pytest.mark.few(1, slow=8)
@pytest.mark.parametrize(("by", "delta", "filter", "apart"), list(combinations()))
def test_what_can_be_declared_pays_for_its_sizes_and_answers_a_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, delta: str, filter: str, apart: str
) -> None:
    """The periods that a steward may name are counted all; what is left pays for a count."""
    monkeypatch.setattr(UserCounts, "_true", lambda _: (MANY, MANY))  # as it is; others see to that it is counted so
    worked, refused = 0, set()
    for epsilon, share, periods in product(EPSILONS, SHARES, [1, 5] if by.startswith("user") else [None]):
        try:
            stream = opened(declared(by, epsilon, delta, filter, apart, periods, share), tmp_path / f"{worked}")
        except (Mistake, Refusal) as why:
            refused.add(next(name for name, said in REASONS.items() if said in str(why)))
            continue
        worked += 1
        stream.ingest(rows(by))
        for period in range(periods or 0):
            stream.count_users(f"{period}")
        if stream.by.kind == USER and not stream.blocks():
            assert stream.count_widths()[0] > MANY / 3  # type: ignore[index]  # so coarse that chance may find nobody
            stream.close()
            continue
        asker = {"": None, "developer": "ana", "zone": "eu"}[apart]
        names = [block.name for block in stream.offered(context=asker, loss=Pure(Decimal("0.0001")))]
        claim = stream.reserve(names[:1], epsilon="0.0001", purpose="count", spender="ana", context=asker)
        table = stream.rows(stream.named(claim))
        assert table.sums(Sums((Term(),))).shape == (1, 1)
        claim.consume()
        table.close()
        assert stream.size(names[:1]) >= 1
        stream.close()
    if by.startswith("user") and apart == "zone":
        assert (worked, refused) == (0, {"separate"})
    elif delta == "0" and filter != "basic":
        assert (worked, refused) == (0, {"budget"})
    else:
        assert refused <= ({"filter"} if filter == "renyi" else set())
        assert worked >= 2


@pytest.mark.parametrize("filter", ["basic", "zcdp", "either", "renyi"])
@pytest.mark.parametrize("share", ["0.01", "0.05", "0.5", "0.95"])
def test_a_size_takes_its_share_of_a_block_as_the_block_counts(filter: str, share: str) -> None:
    terms = Terms(Decimal(1), Decimal("1e-6"), filter, size_share=Decimal(share), retire_below=Decimal(0))
    counting = FILTERS[filter]
    capacity = counting.capacity(terms.epsilon, terms.delta)
    cost = counting.price(Pure(terms.size_epsilon), capacity)
    shares = [cost[place] / steps for place, steps in capacity.items() if place in cost]
    # Of two sums it takes no more than its share of either, so that whatever is bought next finds the rest.
    taken = min(shares) if filter == "renyi" else max(shares)
    assert 0.99 * float(share) < taken <= float(share)


@pytest.mark.parametrize(("filter", "answers"), [("basic", 5), ("zcdp", 1), ("either", 5)])
def test_pure_answers_about_a_block_that_bought_its_size(tmp_path: Path, filter: str, answers: int) -> None:
    """In rho alone there was room for one beside the size."""
    stream = opened(declared("time:1d", "1", "1e-6", filter, "", None, "0.05"), tmp_path / "s")
    stream.ingest(rows("time:1d"))
    wanted, paid = Pure(Decimal("0.19")), 0
    while names := [block.name for block in stream.offered(loss=wanted)]:
        assert len(names) == 1
        stream.reserve(names, loss=wanted, purpose="mean", spender="ana").consume()
        paid += 1
    assert paid == answers
    assert stream.ledger.verify()
    stream.close()


def test_sizes_beside_the_rest_are_within_the_whole(tmp_path: Path) -> None:
    """With a block of their own for sizes, what it can pay and what a block beside it can are the declared budget."""
    terms = Terms(Decimal(1), Decimal("1e-6"), "zcdp", size_share=Decimal("0.2"), periods=7)
    sizes, rest = (terms.of_ledger("person", share=share) for share in ("sizes", "rest"))
    assert (sizes["filter"], sizes["delta"]) == ("basic", 0)
    assert sizes["epsilon"] + rest["epsilon"] <= terms.epsilon
    assert rest["delta"] <= terms.delta
    count = within(sizes["filter"], sizes["epsilon"], sizes["delta"], Fraction(1, 7))
    assert 7 * count <= sizes["epsilon"] < 7 * (count + Decimal("1e-11"))


def test_counts_of_an_earlier_home_are_paid_as_its_block_counts(tmp_path: Path) -> None:
    """Blocks for counts once counted with the filter of the others: all periods are paid there, too."""
    made = declared("user:500", "10", "1e-6", "zcdp", "", 5, "0.2")
    terms = made.stream_terms
    assert terms is not None
    ledger = Ledger("memory://", keeper=NoKeeper())
    ledger.open_block(f"s/{EVERYONE}", **terms.of_ledger("person", share="earlier"))
    assert made.blocks is not None
    stream = Stream(
        "s", schema=VISITS, by=made.blocks.by, terms=terms, ledger=ledger, folder=tmp_path / "s", clock=lambda: NOW
    )
    stream.ingest(rows("user:500"))
    for period in range(5):
        stream.count_users(f"{period}")
    losses = {claim.loss for claim in ledger.claims()}
    (loss,) = losses
    assert isinstance(loss, Concentrated)
    together = concentrated_to_approximate(repeat(loss, 5), Decimal("2e-7"))
    assert Decimal("1.9") < together.epsilon <= 2


def test_counts_of_a_home_whose_block_adds_up_epsilons_are_paid_there(tmp_path: Path) -> None:
    """Blocks for counts once added up epsilons whatever the others did: they pay as they were opened."""
    made = declared("user:500", "10", "1e-6", "zcdp", "", 100, "0.2")
    terms = made.stream_terms
    assert terms is not None
    assert made.blocks is not None
    ledger = Ledger("memory://", keeper=NoKeeper())
    ledger.open_block(f"s/{EVERYONE}", **terms.of_ledger("person", share="sizes"))
    stream = Stream(
        "s", schema=VISITS, by=made.blocks.by, terms=terms, ledger=ledger, folder=tmp_path / "s", clock=lambda: NOW
    )
    stream.ingest(rows("user:500"))
    stream.count_users("a")
    assert [claim.loss for claim in ledger.claims()] == [Pure(Decimal("0.02"))]


@pytest.mark.parametrize(
    ("filter", "periods", "kind"),
    [("basic", 40, Pure), ("either", 4, Pure), ("either", 60, Concentrated), ("zcdp", 60, Concentrated)],
)
def test_counts_of_users_are_bought_with_the_noise_that_is_quieter(
    tmp_path: Path, filter: str, periods: int, kind: type
) -> None:
    """All counts together keep the share that lies in their block, and are never coarser than epsilons that add up."""
    stream = opened(declared("user:500", "1", "1e-6", filter, "", periods, "0.05"), tmp_path / "s")
    stream.ingest(rows("user:500"))
    widths = stream.count_widths()
    assert widths is not None
    plain = Laplace(Decimal("0.05") / periods).noise(Sensitivity(1, 1, 2)).width(0.95)
    assert widths[1] < 0.5 * plain if kind is Concentrated else widths[1] == plain
    for period in range(periods):
        stream.count_users(f"{period}")
    assert {type(claim.loss) for claim in stream.ledger.claims()} == {kind}
    paid = stream.earlier(block.name for block in stream.blocks())
    assert Decimal("0.049") < paid.epsilon <= Decimal("0.05")
    assert paid.delta == (0 if kind is Pure else Decimal("5e-8"))
    assert stream.ledger.verify()
    stream.close()


@pytest.mark.parametrize("filter", ["basic", "zcdp", "either", "renyi"])
def test_a_size_is_bought_with_the_quieter_noise_that_its_block_has_a_price_for(filter: str) -> None:
    """One that counts in rho alone has Gaussian noise, of half the variance; one with a pure place keeps it."""
    terms = Terms(Decimal(1), Decimal("1e-6"), filter, size_share=Decimal("0.05"))
    plain = Laplace(terms.size_epsilon).noise(Sensitivity(1, 1, 1))
    drawn = noise_of(terms.size_loss).noise(Sensitivity(1, 1, 1))
    wanted = {"zcdp": "gaussian", "renyi": drawn.kind}.get(filter, "laplace")  # of orders, whichever is quieter
    assert drawn.kind == wanted
    assert drawn.deviation <= (0.72 if filter == "zcdp" else 1.0) * plain.deviation
    counting = FILTERS[filter]
    capacity = counting.capacity(terms.epsilon, terms.delta)
    cost = counting.price(terms.size_loss, capacity)
    shares = [cost[place] / steps for place, steps in capacity.items() if place in cost]
    taken = min(shares) if filter == "renyi" else max(shares)
    assert 0.99 * 0.05 < taken <= 0.05


def test_blocks_of_users_are_waited_for_without_the_block_that_pays_for_counts(tmp_path: Path) -> None:
    stream = opened(declared("user:5000", "10", "1e-6", "zcdp", "", 1, "0.2"), tmp_path / "s")
    stream.ingest(rows("user:5000"))
    stream.count_users("a")
    names = [block.name for block in stream.offered()]
    turns = Turns(tmp_path / "turns.db", stream.ledger, prefix="s/", policy="even")
    turns.arrive("one")
    assert set(turns.shares("one")) == set(names)
    assert turns.offered("one", names, pure_to_concentrated(Pure(1))) == tuple(names)
    turns.close()
