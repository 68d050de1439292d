"""Somebody who knows all of everybody but one bit each asks a site so many questions that every bit would follow from
the answers. The ledger ends it: what is guessed right is no more than the budget leaves to anybody."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from tests.support.site_home import EVERYBODY, ask, declare
from thebes.database import private_files
from thebes.privacy.accounting.odds import meaning
from thebes.privacy.guarantees import Guarantee, as_replace_one
from thebes.privacy.losses import Pure
from thebes.site.algorithm_process import Office
from thebes.site.home import SiteHome

PEOPLE, QUESTIONS = 48, 72
ODDS = 1e-9
SCHEMA = {
    "unit": "person",
    "columns": {
        "place": {"type": "integer", "low": 0, "high": PEOPLE},
        "ill": {"type": "string", "values": ["no", "yes"]},
    },
}
#: whom each question is about: the same in every run, since it is public anyway
ABOUT = np.random.default_rng(20261122).random((QUESTIONS, PEOPLE)) < 0.5


def document(number: int, epsilon: float) -> dict[str, Any]:
    """Ask how many of some are ill; another wording every third time, so that no answer looks like one from before."""
    asked = ", ".join(str(place) for place in np.flatnonzero(ABOUT[number]))
    where = [
        f"ill = 'yes' AND place IN ({asked})",
        f"place IN ({asked}) AND ill = 'yes'",
        f"NOT ill = 'no' AND place IN ({asked})",
    ]
    return {
        "type": "query",
        "dataset": "patients",
        "statistic": "count",
        "epsilon": epsilon,
        "where": where[number % 3],
    }


def attack(
    folder: Path, ill: NDArray[np.bool_], *, budget: float, epsilon: float
) -> tuple[NDArray[np.bool_], int, Any]:
    """Return what the attacker takes each bit to be, how many questions were answered, and what the block has paid."""
    home = SiteHome(folder)
    rows = pd.DataFrame({"place": np.arange(PEOPLE), "ill": np.where(ill, "yes", "no")})
    declare(home, rows, schema=SCHEMA, epsilon=budget)
    private_files.write(home.policy, EVERYBODY.replace("1000", "1000000"))
    office = Office(home, "north")
    try:
        told: dict[int, float] = {}
        for number in range(QUESTIONS):
            answer = office.answer(ask(document(number, epsilon), task=f"t{number}"))
            if answer["kind"] == "contribution":
                told[number] = float(np.ravel(next(iter(answer["payload"].values())))[0])
            else:
                assert answer["code"] == "budget"
        spent = sum(meter.spent for meter in office.ledger.block("patients").meters.values())
    finally:
        for each in (office.ledger, office.outbox, office.audit):
            each.close()
    seen = list(told)
    guess = np.linalg.lstsq(ABOUT[seen].astype(float), np.array([told[n] for n in seen]), rcond=None)[0]
    return guess > 0.5, len(told), Decimal(spent).scaleb(-12)


@pytest.fixture(scope="module")
def ill() -> NDArray[np.bool_]:
    return np.random.default_rng().random(PEOPLE) < 0.5


def most_right(budget: float) -> int:
    """So many right guesses, or fewer, but for one time in a thousand million. Given all that was answered and every
    other bit, each is guessed right no more often than the budget says for somebody who is replaced; so the number of
    right ones is at most as a binomial."""
    replaced = as_replace_one(Guarantee(Pure(budget), unit="person", adjacency="add-remove-one")).loss
    return int(binom.isf(ODDS, PEOPLE, meaning(replaced.epsilon).best_guess))


@pytest.mark.slow
def test_with_a_budget_hardly_anything_is_reconstructed(tmp_path: Path, ill: NDArray[np.bool_]) -> None:
    guessed, answered, spent = attack(tmp_path / "site", ill, budget=0.125, epsilon=0.0125)
    assert (answered, spent) == (10, Decimal("0.125"))  # of all those wordings the ledger took each for a question
    assert most_right(0.125) < PEOPLE - 2
    assert (guessed == ill).sum() <= most_right(0.125)


@pytest.mark.slow
def test_the_attack_takes_everything_where_nothing_ends_it(tmp_path: Path, ill: NDArray[np.bool_]) -> None:
    """Noise of a fiftieth of a person is none at all, but with odds below 1e-18 for any of the answers."""
    guessed, answered, _ = attack(tmp_path / "site", ill, budget=100_000.0, epsilon=50.0)
    assert answered == QUESTIONS
    assert (guessed == ill).all()
