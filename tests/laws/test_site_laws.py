"""Laws of a site: what is declared is read again as it was, and whatever comes over the link is answered."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.site_home import ask, site_home
from thebes.data.schema import schema_of
from thebes.privacy.events import GaussianEvent, LaplaceEvent, PureEvent
from thebes.privacy.faults import Mistake
from thebes.privacy.losses import Approximate, Concentrated, Pure
from thebes.site.algorithm_process import Office
from thebes.site.dataset import BudgetDeclaration, DataSet, read
from thebes.tasks.block_price import cost

texts = st.text(st.characters(codec="utf-8"), max_size=20)
names = st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,10}", fullmatch=True)
numbers = st.integers(-(10**6), 10**6)


@st.composite
def columns(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["integer", "float", "string", "boolean", "timestamp"]))
    told: dict[str, Any] = {"type": kind}
    if kind in ("integer", "float") and draw(st.booleans()):
        low = draw(numbers)
        told |= {"low": low, "high": low + draw(st.integers(1, 10**6))}
    elif kind == "string" and draw(st.booleans()):
        told["values"] = draw(st.lists(texts, min_size=1, max_size=4, unique=True))
    if draw(st.booleans()):
        told["description"] = draw(texts)
    return told


sources = st.recursive(
    st.one_of(texts, st.booleans(), st.integers(-(2**60), 2**60), st.floats(allow_nan=False, allow_infinity=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts.filter(bool), inner, max_size=3)),
    max_leaves=8,
)


@pytest.mark.slow
@given(
    st.dictionaries(names, columns(), min_size=1, max_size=5),
    st.dictionaries(names, sources.filter(lambda v: not _tables_in_lists(v)), max_size=4),
    st.decimals("0.000001", "1000", places=6),
    st.sampled_from([Decimal(0), Decimal("1e-6"), Decimal("0.001")]),
    st.booleans(),
)
def test_a_data_set_that_is_written_is_read_again(
    tmp_path_factory: pytest.TempPathFactory,
    told: dict[str, dict[str, Any]],
    source: dict[str, Any],
    epsilon: Decimal,
    delta: Decimal,
    public: bool,
) -> None:
    try:
        schema = schema_of({"unit": "event", "columns": told, "public": public})
    except Mistake:
        return
    made = DataSet("patients", schema, {"kind": "csv", **source}, BudgetDeclaration.of(epsilon, delta))
    path = tmp_path_factory.mktemp("site") / "patients.toml"
    path.write_text(made.as_toml(), encoding="utf-8")
    assert read(path, "patients") == made


def _tables_in_lists(value: object) -> bool:
    if isinstance(value, list):
        return any(isinstance(inner, dict) or _tables_in_lists(inner) for inner in value)
    return isinstance(value, dict) and any(_tables_in_lists(inner) for inner in value.values())


@given(st.text(max_size=300))
def test_whatever_stands_in_a_data_sets_file_it_is_one_or_a_mistake(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.mktemp("site") / "patients.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(Mistake):
        read(path, "patients")


anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=10), inner, max_size=4)),
    max_leaves=10,
)
COUNT = {"type": "query", "dataset": "patients", "statistic": "count", "epsilon": 0.5}


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Office:
    return Office(site_home(tmp_path_factory.mktemp("site"), epsilon=1e6), "north")


@pytest.mark.slow
@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.sampled_from(["task", "requestor", "document", "ask", "payload"]), anything, max_size=5),
    st.dictionaries(
        st.sampled_from(["type", "dataset", "statistic", "epsilon", "sites", "noise"]), anything, max_size=3
    ),
)
def test_whatever_is_asked_is_answered_and_stands_in_the_log(
    office: Office, message: dict[str, Any], document: dict[str, Any]
) -> None:
    before = office.audit.head().length
    told = {**ask({**COUNT, **document}), **message}
    answer = office.answer(told)
    assert answer["kind"] in ("refusal", "contribution")
    assert answer.get("code") in (None, "policy", "budget", "dataset", "schema", "document")
    assert office.audit.head().length > before


# --- what a task costs ------------------------------------------------------------------------------------------


def document_of(epsilon: float, delta: float, rounds: int) -> Any:
    return SimpleNamespace(epsilon=epsilon, delta=delta, phases=rounds)


@given(st.decimals("0.01", "10", places=2), st.integers(1, 50), st.sampled_from([0.0, 1e-6]))
def test_phases_together_never_cost_more_than_was_set_aside(epsilon: Decimal, rounds: int, delta: float) -> None:
    document = document_of(float(epsilon), delta, rounds)
    for filter in ("basic", "zcdp", "either", "renyi"):
        for event in (PureEvent(epsilon / rounds), LaplaceEvent(rounds / float(epsilon)), GaussianEvent(30.0)):
            if filter == "basic" and not delta and isinstance(event, GaussianEvent):
                continue
            price = cost(document, event, filter)
            if price.phase is None:
                continue
            together = price.phase * rounds
            if isinstance(together, Pure) and isinstance(price.whole, Pure):
                assert together.epsilon <= price.whole.epsilon
            elif isinstance(together, Concentrated):
                assert together == price.whole


@given(st.decimals("0.01", "10", places=2), st.integers(1, 50))
def test_a_basic_block_never_charges_a_phase_less_than_it_costs(epsilon: Decimal, rounds: int) -> None:
    pure = PureEvent(epsilon / rounds * 2)  # a kind that spends more in one phase than its share
    price = cost(document_of(float(epsilon), 0.0, rounds), pure, "basic")
    assert price.phase is None or rounds == 1
    approximate = cost(document_of(float(epsilon), 1e-6, rounds), GaussianEvent(100.0), "basic")
    assert approximate.phase is None
    assert approximate.whole == Approximate(epsilon, Decimal("0.000001"))


def test_the_folder_of_a_site_is_not_told_to_anybody(tmp_path: Path) -> None:
    office = Office(site_home(tmp_path / "site"), "north")
    answers = [office.answer(ask(COUNT)), office.answer({"kind": "describe", "id": "d"}), office.answer(ask({}))]
    assert str(tmp_path) not in repr(answers)
