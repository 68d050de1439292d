"""The errors to expect by how many people answer: documents people could be asked, and laws that the errors follow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from papers import datasets
from papers.tiresias import table_people
from papers.tiresias.table_people import ASKED, CHANCE, MEAN, SHARE, TRUSTED, UNTRUSTED
from thebes.tasks import registry

PEOPLE = datasets.made_up("adult")
SEEDS = range(12)


def error(panel: str, trust: str, epsilon: float, size: int) -> float:
    crowd = table_people.drawn(PEOPLE, size, 0)
    return float(np.mean([ASKED[panel][trust](crowd, epsilon, seed) for seed in SEEDS]))


def test_every_question_costs_a_person_its_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def heard(document: Any, columns: Any, seed: int) -> Any:
        asked.append(registry.check({**document, "min_count": 11}))
        raise LookupError

    monkeypatch.setattr(table_people, "_released", heard)
    for panel, by_trust in ASKED.items():
        for trust, ask in by_trust.items():
            if (panel, trust) != (CHANCE, UNTRUSTED):  # figure 5 of AnonML asks that one
                with pytest.raises(LookupError):
                    ask(PEOPLE, 0.1, 0)
    assert [float(registry.kind(one.type).price(one).epsilon) for one in asked] == [0.1] * 5
    assert [one.type for one in asked] == ["basic", "bounded", "basic", "bounded", "integrated"]


@pytest.mark.parametrize("panel", [SHARE, MEAN])
def test_trust_and_people_and_epsilon_make_errors_smaller(panel: str) -> None:
    """Equal seeds draw equal noise in units of its scale, so what is compared are the scales: of some counts, since
    the noise of a count is a whole number."""
    trusted, untrusted = (error(panel, trust, 0.3, 1000) for trust in (TRUSTED, UNTRUSTED))
    assert trusted < 0.3 * untrusted
    assert error(panel, TRUSTED, 0.03, 1000) == pytest.approx(10 * trusted, rel=0.15)
    assert error(panel, TRUSTED, 0.3, 100) == pytest.approx(10 * trusted, rel=0.15)


def test_crowds_are_drawn_of_the_people_and_the_same_seed_gives_the_same() -> None:
    first, again, other = (table_people.drawn(PEOPLE, 50, seed) for seed in (1, 1, 2))
    assert (first.train["age"] == again.train["age"]).all()
    assert (first.train["age"] != other.train["age"]).any()
    assert {len(values) for values in first.train.values()} == {50}
    assert first.test is PEOPLE.test
