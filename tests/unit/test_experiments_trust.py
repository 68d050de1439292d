"""Errors by trust: every question is one that people or sites could be asked, with the promise that its line names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from papers import datasets
from papers.results import Results, published
from papers.tiresias.table_people import CHANCE, EPSILONS, MEAN, SHARE, drawn
from papers.tiresias.table_trust import ASKED, GRADIENT, MEDIAN, REPEATS, AskedError
from papers.tiresias.table_trust_sites import COUNT, SITES, WHERE
from thebes.tasks import registry
from thebes.tasks.trust_models import MIXED, NOBODY, SPLIT, TRUSTED, trust_model

PEOPLE = datasets.made_up("adult")
CROWD = drawn(PEOPLE, 3000, 0)


@pytest.mark.parametrize("panel", [panel for panel in ASKED if "sites" not in panel])
def test_every_line_asks_in_its_trust_model_and_with_its_promise(panel: str) -> None:
    for trust, ask in ASKED[panel].items():
        if isinstance(ask, AskedError):
            document: Any = registry.check(ask.document(CROWD, 1.0))
            assert trust_model(document) == trust
            assert (document.mixed.epsilon if trust == MIXED else document.epsilon) == 1.0


@pytest.mark.parametrize("panel", [SHARE, MEAN])
def test_trust_makes_errors_smaller(panel: str) -> None:
    off = {trust: np.mean([ask(CROWD, 1.0, seed) for seed in range(6)]) for trust, ask in ASKED[panel].items()}
    assert off[NOBODY] > off[MIXED] > 1.5 * off[SPLIT]
    assert off[NOBODY] > 20 * off[TRUSTED]


@pytest.mark.slow
def test_what_was_committed_comes_out_again_with_the_same_draws() -> None:
    """A part of the whole run that takes seconds: means of ages by a thousand people, whoever is trusted."""
    kept, everybody = Results(published()).kept(quick=False)["tiresias-trust"], datasets.people("adult")
    if everybody.made_up:
        pytest.skip("the data that it reads are not here")
    crowds = [drawn(everybody, 1000, seed) for seed in kept.seeds]
    for trust, ask in ASKED[MEAN].items():
        row = next(r for r in kept.rows if (r.panel, r.series, r.at) == (MEAN, f"{trust}, epsilon 1", 1000.0))
        drawn_with = [(crowd, seed * REPEATS) for seed, crowd in zip(kept.seeds, crowds, strict=True)]
        again = np.mean([ask(crowd, 1.0, first + n) for crowd, first in drawn_with for n in range(REPEATS)])
        assert again == pytest.approx(row.ours, rel=0.02), trust


def test_what_was_committed_orders_the_models_as_their_proofs_do() -> None:
    """Of the whole run, by the most people at epsilon 1: two servers cost less than two noises' worth over one, mixing
    more than that, and noise at home most of all."""
    kept = Results(published()).kept(quick=False)["tiresias-trust"]
    most = max(row.at for row in kept.rows if isinstance(row.at, float))
    for panel in (SHARE, MEAN, MEDIAN, GRADIENT, CHANCE):
        found = {row.series: row for row in kept.rows if row.panel == panel and row.at == most}
        ours = {name.partition(",")[0]: row.ours for name, row in found.items() if name.endswith("epsilon 1")}
        assert set(ours) == set(ASKED[panel])
        if panel == CHANCE:
            assert ours[NOBODY] <= ours[MIXED] <= ours[TRUSTED]
            continue
        assert ours[NOBODY] > ours[MIXED] > ours[SPLIT]
        assert ours.get(TRUSTED, 0.0) < ours[MIXED]
    promised = [row for row in kept.rows if row.series.startswith(MIXED)]
    assert {row.series for row in promised} == {f"{MIXED}, epsilon {epsilon:g}" for epsilon in EPSILONS}
    assert all(row.epsilon is not None and row.epsilon >= float(row.series.rpartition(" ")[2]) for row in promised)


def test_what_was_committed_of_institutions_grows_with_their_number_only_where_each_adds_noise() -> None:
    kept = Results(published()).kept(quick=False)["tiresias-trust-sites"]
    off = {(row.panel, row.series, row.at): row.ours for row in kept.rows}
    for panel in (COUNT, MEAN):
        for epsilon in EPSILONS:
            lines = {
                noise: [off[panel, f"{told}, epsilon {epsilon:g}", n] for n in SITES] for noise, told in WHERE.items()
            }
            site, split, coordinator = lines["site"], lines["split"], lines["coordinator"]
            assert site[-1] > 2 * site[0]
            assert max(split) < 2 * min(split)
            assert all(one < two for one, two in zip(coordinator, split, strict=True))
            assert all(two < own for two, own in zip(split[1:], site[1:], strict=True)), (
                "of three they are nearly alike"
            )
