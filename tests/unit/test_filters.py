"""A filter is one class in one file: nobody else tells filters apart, and whoever adds one changes nothing else."""

from __future__ import annotations

import ast
import re
from contextlib import suppress
from decimal import Decimal, localcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from thebes.curator.cache.cost_account import loss_in
from thebes.curator.cache.purchase import Purchase, loss_of
from thebes.curator.cache.synthesis.allowance import SynthesisAllowance
from thebes.curator.pipelines import prices
from thebes.curator.streams.terms import Terms
from thebes.ledger import BudgetExceeded, Ledger, NoKeeper
from thebes.ledger.filters import (
    BASIC,
    BEYOND,
    CONCENTRATED,
    EITHER,
    FILTERS,
    RENYI,
    ZCDP,
    charging_events,
    firm,
    usual,
)
from thebes.ledger.memory import MemoryStore
from thebes.privacy.accounting import concentrated
from thebes.privacy.events import Event, GaussianEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import (
    Approximate,
    Concentrated,
    Loss,
    Pure,
    concentrated_to_approximate,
    order_to_epsilon,
)
from thebes.privacy.promise import Adjacency
from thebes.site.dataset import BudgetDeclaration
from thebes.tasks.block_price import cost

ROOT = Path(__file__).parents[2]
HERE = Path("src/thebes/ledger/filters.py")
#: files that say the same words of something else: kinds of losses and of guarantees, and how both are accounted for
OTHER_MEANINGS = {
    Path("src/thebes/coordinator/api/bodies.py"),
    Path("src/thebes/ledger/losses.py"),
    Path("src/thebes/privacy/certificate.py"),
    Path("src/thebes/privacy/guarantees.py"),
    Path("src/thebes/privacy/losses.py"),
    Path("src/thebes/privacy/accounting/report.py"),
    Path("src/thebes/testing/site_kinds.py"),
}
ADDED = Adjacency.ADD_REMOVE_ONE
EVENT = GaussianEvent(5.0)


def told_apart(text: str) -> list[int]:
    """The lines of a source where a filter's name is compared, chosen by, or written as a default; of the names that
    mean nothing else, every line with one."""
    names = set(FILTERS)
    if not any(name in text for name in names):  # most: reading each takes long
        return []
    tree, found = ast.parse(text), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in names - {BASIC.name}:
            found.append(node.lineno)
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            words = {each.value for side in sides for each in ast.walk(side) if isinstance(each, ast.Constant)}
            if words & names and any("filter" in ast.unparse(side) for side in sides):
                found.append(node.lineno)
        elif isinstance(node, ast.arguments):
            both = [*zip(node.args[::-1], node.defaults[::-1], strict=False)]
            both += [(each, value) for each, value in zip(node.kwonlyargs, node.kw_defaults, strict=True) if value]
            found += [each.lineno for each, value in both if each.arg == "filter" and isinstance(value, ast.Constant)
                      and value.value in names]  # fmt: skip
        elif isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Constant):
            if ast.unparse(node.target) == "filter" and node.value.value in names:
                found.append(node.lineno)
        elif isinstance(node, ast.keyword) and isinstance(node.value, ast.IfExp) and node.arg == "filter":
            words = {each.value for each in ast.walk(node.value) if isinstance(each, ast.Constant)}
            found += [node.lineno] if words & names else []
    return sorted(set(found))


def test_only_the_file_of_filters_tells_one_from_another() -> None:
    found = {}
    for path in sorted((ROOT / "src" / "thebes").rglob("*.py")):
        name = path.relative_to(ROOT)
        if name != HERE and name not in OTHER_MEANINGS and (lines := told_apart(path.read_text(encoding="utf-8"))):
            found[str(name)] = lines
    for path in sorted((ROOT / "src" / "thebes").rglob("*.html")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if re.search(r"filter *[!=]= *[\"']", line):
                found[str(path.relative_to(ROOT))] = [number]
    assert not found, f"how a filter prices stands in {HERE} alone; ask thebes.ledger.filters instead: {found}"


def test_the_words_that_mean_something_else_are_never_compared_with_a_filter() -> None:
    for name in OTHER_MEANINGS:
        for node in ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Compare):
                assert not re.search(r"\bfilter\b", ast.unparse(node)), f"{name}:{node.lineno}"


@pytest.mark.parametrize(
    "fault",
    [
        "def a(filter):\n    return filter == 'basic'",
        "def a(block):\n    return block.filter != 'basic'",
        "def a(told):\n    return told['filter'] in ('basic', 'other')",
        "price = {'zcdp': 1}",
        "def a(*, filter: str = 'basic'): ...",
        "def a(filter: str = 'basic'): ...",
        "class A:\n    filter: str = 'basic'",
        "a(filter='basic' if smooth else other)",
    ],
)
def test_a_filter_that_is_told_apart_elsewhere_would_be_found(fault: str) -> None:
    assert told_apart(fault)


def test_the_word_basic_of_a_task_or_a_choice_of_a_filter_is_no_fault() -> None:
    assert not told_apart("type = 'basic'\nif kind == 'basic': pass\nopen_block(filter='basic')")


class Twice(ZCDP):
    """A filter that charges every event twice: nobody knows it but `FILTERS`."""

    name = guarantee = "twice"

    def of_event(self, event: Event, *, adjacency: str | Adjacency) -> Loss:
        return concentrated.price(event, adjacency=adjacency) * 2


@pytest.fixture
def twice(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(FILTERS, Twice.name, Twice())
    return Twice.name


def rho(times: int) -> Concentrated:
    return concentrated.price(EVENT, adjacency=ADDED) * times


def pipeline() -> Any:
    return SimpleNamespace(shares=SimpleNamespace(preprocess=0), event=lambda epsilon, delta: EVENT, name="p")


def test_a_filter_that_is_added_prices_everything_that_a_data_set_sells(twice: str) -> None:
    purchase = Purchase(EVENT, Decimal(2), Decimal("1e-6"))
    assert loss_of([purchase, purchase], twice) == rho(4)
    assert loss_in(twice, [purchase]) == float(rho(1).rho)
    assert SynthesisAllowance(2, "1e-6").loss(EVENT, twice) == rho(2)
    assert prices.price(pipeline(), Decimal(2), Decimal("1e-6"), twice).loss == rho(2)
    document: Any = SimpleNamespace(epsilon=2, delta=1e-6, phases=3)
    assert cost(document, EVENT, twice).whole == rho(6)
    assert cost(document, EVENT, twice).phase == rho(2)


def test_a_filter_that_is_added_is_declared_counted_and_told(twice: str) -> None:
    assert BudgetDeclaration.of(2, 1e-6, twice).filter == twice
    assert Terms(Decimal(2), Decimal("1e-6"), twice).of_ledger("event")["filter"] == twice
    assert Terms(Decimal(2), Decimal("1e-6"), twice).of_ledger("event", share="sizes")["delta"] == 0
    ledger = Ledger(MemoryStore(), keeper=NoKeeper())
    block = ledger.open_block("a", epsilon=2, delta=1e-6, filter=twice)
    assert block.account.endswith(f"(by the filter {twice})")
    ledger.reserve(["a"], loss=loss_of([Purchase(EVENT, Decimal(2), Decimal("1e-6"))], twice), purpose="p", spender="s")
    assert ledger.block("a").meters["rho"].reserved == int(rho(2).rho * 10**12)
    assert twice in charging_events()


def test_a_basic_filter_charges_what_was_promised_and_the_others_what_was_released() -> None:
    purchase = Purchase(EVENT, Decimal(2), Decimal("1e-6"))
    assert loss_of([purchase, purchase], "basic") == Approximate(4, Decimal("2e-6"))
    assert loss_of([Purchase.pure(1)], "basic") == Pure(1)
    assert loss_of([purchase], "zcdp") == rho(1)
    assert loss_of([purchase], "renyi") == RENYI.of_event(EVENT, adjacency=ADDED)
    assert BASIC.size(EVENT, Decimal(2), adjacency=ADDED) == 2
    assert CONCENTRATED.size(EVENT, Decimal(2), adjacency=ADDED) == rho(1).rho


def test_a_filter_that_nobody_knows_is_refused_and_never_priced_as_another() -> None:
    """It was counted as the last of those that are known."""
    with pytest.raises(Mistake) as refused:
        loss_of([Purchase.pure(1)], "twice")
    assert refused.value.argument == "filter"
    with pytest.raises(Mistake):
        BudgetDeclaration.of(1, 0, "twice")


def test_a_budget_that_names_no_filter_has_the_one_for_its_delta() -> None:
    assert (usual(Decimal(0)), usual(Decimal("1e-6"))) == (BASIC, EITHER)
    assert [firm(name) for name in ("basic", "zcdp", "either", "renyi", "nobody's")] == [
        True,
        True,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("name", [name for name in FILTERS if name != "basic"])
def test_a_block_holds_the_most_that_converts_to_its_epsilon_whatever_a_callers_decimal_settings(name: str) -> None:
    epsilon, delta = Decimal("1.2345678"), Decimal("1.2345678e-7")
    with localcontext() as careless:
        careless.prec = 3
        capacity = FILTERS[name].capacity(epsilon, delta)
    share = delta / len(capacity)
    step = Decimal("1e-12")
    for place, held in capacity.items():
        if place == "pure":
            assert held * step == epsilon
        elif place == "rho":
            assert concentrated_to_approximate(Concentrated(held * step), delta).epsilon <= epsilon
            assert concentrated_to_approximate(Concentrated((held + 2) * step), delta).epsilon > epsilon
        else:
            assert order_to_epsilon(float(place), held * step, share) <= epsilon
            assert order_to_epsilon(float(place), (held + 2) * step, share) > epsilon


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("left", [0, 1, 7, 10**6, 10**12, BEYOND - 1, BEYOND])
def test_whatever_is_left_can_be_told_at_once_and_costs_no_more(name: str, left: int) -> None:
    counting = FILTERS[name]
    places = list(counting.capacity(Decimal(1), Decimal("1e-6") if name != "basic" else Decimal(0)))
    for place in places:
        told = counting.reading({place: left}, 0).epsilon
        assert told >= 0
        if told:
            assert counting.price(Pure(min(told, Decimal(10**6))), [place])[place] <= left
        if 0 < told < 10**6:
            assert counting.price(Pure(told + Decimal("2e-12")), [place])[place] >= left


FITTING = {
    "basic": [100, 20, 10, 5, 2],
    "zcdp": [487, 19, 4, 1, 0],
    "renyi": [422, 21, 9, 4, 1],
    "either": [487, 20, 10, 5, 2],
}


@pytest.mark.parametrize("filter_", FITTING)
def test_a_budget_is_told_to_pay_as_many_equal_answers_as_a_ledger_grants(filter_: str) -> None:
    told = BudgetDeclaration.of(1, "1e-6", filter_).answers
    assert list(told.values()) == FITTING[filter_]
    for each, count in list(told.items())[1:]:
        ledger = Ledger(MemoryStore(), keeper=NoKeeper())
        ledger.open_block("a", epsilon=1, delta="1e-6", filter=filter_)
        granted = 0
        with suppress(BudgetExceeded):
            while True:
                ledger.reserve(["a"], epsilon=each, delta=0, purpose="p", spender="s").consume()
                granted += 1
        assert granted == count, each
