"""Numbers as people read them: one formatter, and no exponent in what people count."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import thebes
from thebes.ledger import Ledger, NoKeeper
from thebes.privacy.figures import at_most, figure, percent, spaced
from thebes.tasks.drawings import interval

HOUSE = Path(thebes.__file__).parent
#: what prints nothing that a person meets, and where numbers are made
ELSEWHERE = ("testing", "privacy/accounting", "privacy/figures.py")
#: what a machine reads, or a name that must stay what it is
NOT_FOR_EYES = {
    "web/coordinator/epsilon_curve.py": "rounds an epsilon that is offered",
    "web/site/words.py": "an option of a command line",
    "learning/features.py": "the name of a feature, a part of models",
    "tasks/draw_discard/example.py": "a number again, rounded",
    "tasks/draw_discard/rates.py": "a number again, rounded",
    "ledger/amounts.py": "losses as the journal spells them",
}


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (10_000_000, "10,000,000"),
        (1e7, "10,000,000"),
        (1234567.8, "1,234,568"),
        (-1234567.8, "-1,234,568"),
        (999999.96, "1,000,000"),
        (99999.97, "100,000"),
        (12345.678, "12,345.7"),
        (1000.5, "1,000.5"),
        (0.285493, "0.285493"),
        (0.1 + 0.2, "0.3"),
        (100.0, "100"),
        (-0.0, "0"),
        (999_999_999_999_999, "999,999,999,999,999"),
        (1e-6, "1e-06"),
        (1e20, "1e+20"),
        (True, "True"),
        ("age", "age"),
        (None, "None"),
    ],
)
def test_a_number_is_written_as_people_write_it(number: object, said: str) -> None:
    assert figure(number) == said


@given(st.floats(1e-4, 1e15, exclude_max=True) | st.integers(1, 10**15 - 1), st.integers(2, 12), st.booleans())
def test_nothing_that_people_count_has_an_exponent(number: float, digits: int, below_zero: bool) -> None:
    told = figure(-number if below_zero else number, digits)
    assert "e" not in told
    read = float(told.replace(",", ""))
    assert math.isclose(abs(read), number, rel_tol=0.5000001 * 10.0 ** (1 - digits))
    assert number < 1 or abs(abs(read) - number) <= max(0.5, number * 10.0 ** (1 - digits))
    assert isinstance(number, float) or read == (-number if below_zero else number)


@given(st.floats(1e-9, 1e12), st.integers(2, 8))
def test_what_may_still_be_spent_is_never_said_to_be_more(number: float, digits: int) -> None:
    told = float(at_most(number, digits).replace(",", ""))
    assert number * (1 - 10.0 ** (1 - digits)) <= told <= number or number >= 10**digits


def test_what_is_spent_is_never_said_to_be_less() -> None:
    assert (percent(0), percent(1e-9), percent(0.0201), percent(0.996), percent(1)) == (
        "0 %",
        "0.1 %",
        "2.1 %",
        "100 %",
        "100 %",
    )


def test_pages_write_the_same_digits_as_every_other_text() -> None:
    for number in (10_000_000, 1234.5, 0.285493, 1e-6, 12_345_678.9):
        assert spaced(number, 6).replace(" ", ",") == figure(number, 6)
    assert "12 345 678" in interval(12_345_678.0, 12_000_000.0, 13_000_000.0, title="A sum")


def formats() -> Iterator[tuple[str, str]]:
    """Every format of a number in the sources that gives an exponent: `g` and `e`."""
    for path in sorted(HOUSE.rglob("*.py")):
        name = path.relative_to(HOUSE).as_posix()
        text = path.read_text(encoding="utf-8")
        if name.startswith(ELSEWHERE) or not re.search("[geEGn]}", text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FormattedValue) and isinstance(node.format_spec, ast.JoinedStr):
                spec = "".join(str(p.value) for p in node.format_spec.values if isinstance(p, ast.Constant))
                if spec[-1:] in ("g", "e", "G", "E", "n"):
                    yield name, spec


@pytest.mark.slow
def test_there_is_one_formatter_of_numbers_for_people() -> None:
    found = {name for name, _ in formats()}
    assert found <= set(NOT_FOR_EYES), sorted(found - set(NOT_FOR_EYES))
    for template in sorted((HOUSE / "web" / "templates").rglob("*.html")):
        text = template.read_text(encoding="utf-8")
        assert not [spec for spec in ("%g", "%.3g", "%.4g", "%e", "%.6g") if spec in text], template


@pytest.mark.parametrize(
    ("filter", "fresh", "later"),
    [
        (
            "basic",
            "of epsilon 1, delta 1e-06: nothing spent; an answer may cost up to 1",
            "of epsilon 1, delta 1e-06: 13 % spent or set aside; an answer may cost up to 0.875",
        ),
        (
            "zcdp",
            "of epsilon 1, delta 1e-06: nothing spent; one more answer without a delta may cost epsilon 0.2211 (by the "
            "filter zcdp)",
            "of epsilon 1, delta 1e-06: 33 % spent or set aside; one more answer without a delta may cost epsilon "
            "0.1822 (by the filter zcdp)",
        ),
    ],
)
def test_what_is_left_of_a_block_is_told_in_one_sentence(filter: str, fresh: str, later: str) -> None:
    with Ledger("memory://", keeper=NoKeeper()) as ledger:
        ledger.open_block("people", epsilon=1, delta=1e-6, filter=filter)
        assert ledger.block("people").account == fresh
        ledger.reserve(["people"], epsilon=0.125, purpose="mean", spender="ana").consume()
        block = ledger.block("people")
        assert block.account == later
        ledger.freeze()
        assert ledger.block("people").account.endswith("; no answer can be paid for")
        ledger.thaw()
        assert ledger.retire_block("people").account.endswith("; it is retired and pays for nothing more")
