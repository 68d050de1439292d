"""Pictures that people keep, and a network that learned to see from others: what is shared with whom, and how."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from papers import cifar
from papers.registry import experiment
from papers.tiresias import transfer
from papers.tiresias.backbone import FEATURES, Backbone, installed, learned
from papers.tiresias.pictures import KEPT, PUBLIC, Pictures, pictures
from thebes.learning.graph.backbones import Catalogue
from thebes.learning.graph.document import BACKBONE, read_model
from thebes.learning.graph.interpret import outputs_of
from thebes.privacy.faults import Refusal
from thebes.simulation.world import simulate


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Pictures:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("THEBES_DATA", str(tmp_path_factory.mktemp("nothing")))
        return pictures()


@pytest.fixture(scope="module")
def backbone(held: Pictures) -> Backbone:
    dots, kinds = held.public
    return learned(dots[:640], kinds[:640], epochs=2)


def test_made_up_pictures_stand_in_and_say_so(held: Pictures) -> None:
    assert held.made_up
    assert "made-up" in str(held)
    for dots, kinds in (held.public, held.kept, held.test):
        assert dots.shape == (len(kinds), 768)
        assert set(kinds) == set(range(5))


def test_what_the_network_learns_from_is_of_other_kinds_than_what_people_keep(
    held: Pictures, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not set(PUBLIC) & set(KEPT)
    assert {*PUBLIC, *KEPT} == set(cifar.KINDS)
    # Of each kind a picture whose every dot is the kind's number.
    kinds = np.arange(10)
    dots = np.broadcast_to(kinds[:, None, None, None], (10, 3, 16, 16)).astype(np.uint8)
    monkeypatch.setattr(cifar, "pictures", lambda side, most: dict.fromkeys(most, (dots, kinds)))
    found = pictures()
    assert sorted(found.public[0][:, 0] * 64 + 127.5) == [0, 1, 2, 3, 4]
    for seen, which in (found.kept, found.test):
        assert sorted(seen[:, 0] * 64 + 127.5) == [5, 6, 7, 8, 9]
        assert (seen[:, 0] * 64 + 127.5 - 5).tolist() == which.tolist()


@pytest.mark.slow
def test_features_of_public_pictures_are_on_one_scale(held: Pictures, backbone: Backbone) -> None:
    features = backbone.features(held.public[0][:640])
    assert features.shape == (640, FEATURES)
    assert np.abs(features.mean(axis=0)).max() < 0.01
    assert features.std(axis=0) == pytest.approx(np.ones(FEATURES), abs=0.02)


def test_an_owner_sees_the_same_features_as_whoever_trained_the_network(held: Pictures, backbone: Backbone) -> None:
    model = read_model(backbone.text, argument="backbone", limits=BACKBONE)
    dots = held.kept[0][:20]
    assert outputs_of(model, model.initial, dots) == pytest.approx(backbone.features(dots), abs=1e-3)


def test_a_backbone_is_installed_for_a_simulation_only(backbone: Backbone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THEBES_BACKBONES", "mine")
    with installed(backbone) as digest:
        folder = os.environ["THEBES_BACKBONES"]
        assert Catalogue(folder).text(digest) == backbone.text
    assert os.environ["THEBES_BACKBONES"] == "mine"
    assert not Path(folder).exists()
    monkeypatch.delenv("THEBES_BACKBONES")
    with installed(backbone) as digest:
        pass
    assert "THEBES_BACKBONES" not in os.environ
    with pytest.raises(Refusal, match="not installed"):
        Catalogue(folder).text(digest)


@pytest.mark.slow
@pytest.mark.parametrize("series", ["integrated, on features", "gradient, feature extraction", "gradient, fine-tuning"])
def test_every_way_tells_made_up_pictures_apart(series: str, held: Pictures, backbone: Backbone) -> None:
    """Seeded, so it is no matter of luck; guessing is right in a fifth."""
    learn = transfer.WAYS[series]
    people = 600 if series == "gradient, fine-tuning" else 1500
    guess = learn(backbone, held.kept[0][:people], held.kept[1][:people], 64.0, 1)
    assert np.mean(guess(held.test[0][:500]) == held.test[1][:500]) > 0.7


def test_a_report_of_the_first_features_tells_pictures_apart(held: Pictures, backbone: Backbone) -> None:
    guess = transfer.bounded(backbone, *held.kept, 32.0, 1)
    assert np.mean(guess(held.test[0]) == held.test[1]) > 0.7


@pytest.mark.slow
def test_owners_change_a_gradient_of_the_last_layer_only(
    held: Pictures, backbone: Backbone, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    told: list[Any] = []

    def noting(document: Any, *more: Any) -> Any:
        release = simulate(document, *more)
        asked.append(document)
        told.append(release.certificate)
        return release

    monkeypatch.setattr(transfer, "simulate", noting)
    guess = transfer.extraction(backbone, held.kept[0][:100], held.kept[1][:100], 8.0, 1)
    assert guess(held.test[0][:7]).shape == (7,)  # and without the catalogue, after it is gone
    assert asked[0]["backbone"]
    assert told[0].parameters["weights"] == (FEATURES + 1) * len(KEPT)
    assert (told[0].epsilon, told[0].delta, told[0].contributors) == (8.0, 0.0, 100)
    transfer.in_all_rounds(backbone, held.kept[0][:20], held.kept[1][:20], 8.0, 1)
    assert told[1].parameters["epsilon_per_round"] == pytest.approx(8 / transfer.ALL_ROUNDS)


@pytest.mark.slow
def test_a_quick_run_learns_from_real_pictures_what_it_should() -> None:
    outcome = experiment("tiresias-table-5-4").run(quick=True)
    if outcome.made_up:
        pytest.skip("THEBES_DATA holds no pictures, or Pillow is absent")
    found = {row.series: row.ours for row in outcome.rows}
    assert found["integrated, on features"] > 0.5
    assert found["bounded, on 16 features"] > 0.4
    assert found["gradient, feature extraction"] > 0.4
    assert all(row.ceiling is not None and row.ours < row.ceiling + 0.03 for row in outcome.rows)
