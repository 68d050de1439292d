"""Backbones: the published architectures to the last parameter, a catalogue that trusts digests only, transfer."""

import numpy as np
import pytest
import torch
from torch import nn

import thebes.torch
from thebes.learning.graph import read_loss, read_model
from thebes.learning.graph.architectures import ARCHITECTURES, architecture
from thebes.learning.graph.backbones import Catalogue, digest_of, write_backbone
from thebes.learning.graph.document import BACKBONE
from thebes.learning.graph.interpret import outputs_of, per_example_gradients
from thebes.privacy.faults import Mistake, Refusal
from thebes.tasks.train.plan import network as trained_at_sites

# Parameters of the convolutional part in the published weight files.
PUBLISHED = {"squeezenet1_1": 722_496, "vgg11": 9_220_480, "vgg16": 14_714_688, "small": 8_436}


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_architecture_has_the_published_number_of_parameters(name):
    assert sum(p.numel() for p in architecture(name).parameters()) == PUBLISHED[name]


def test_names_are_those_of_the_published_files():
    squeezenet = dict(architecture("squeezenet1_1").named_parameters())
    assert squeezenet["features.0.weight"].shape == (64, 3, 3, 3)
    assert squeezenet["features.3.squeeze.weight"].shape == (16, 64, 1, 1)
    assert squeezenet["features.12.expand3x3.bias"].shape == (256,)
    vgg = [name for name, _ in architecture("vgg11").named_parameters() if name.endswith("weight")]
    assert vgg == [f"features.{place}.weight" for place in (0, 3, 6, 8, 11, 13, 16, 18)]
    with pytest.raises(Mistake, match="backbone"):
        architecture("resnet50")


@pytest.fixture(scope="module")
def squeezenet() -> str:
    torch.manual_seed(1)
    return write_backbone(architecture("squeezenet1_1"), shape=(3, 64, 64))


def test_backbone_as_data_gives_the_features_of_the_module(squeezenet):
    torch.manual_seed(1)
    module = architecture("squeezenet1_1")
    pictures = torch.randn(3, 3, 64, 64)
    model = read_model(squeezenet, limits=BACKBONE)
    with torch.no_grad():
        expected = module(pictures).numpy()
    assert expected.shape == (3, 512)
    assert np.abs(outputs_of(model, model.initial, pictures.numpy()) - expected).max() < 1e-5


def test_fine_tuning_has_the_backbone_inside_the_graph_and_extraction_freezes_it():
    torch.manual_seed(1)
    for frozen, expected in ((False, 8_436 + 129 * 5), (True, 129 * 5)):
        backbone = architecture("small").requires_grad_(not frozen)
        text, loss_text = thebes.torch.encode(
            nn.Sequential(backbone, nn.Linear(128, 5)), nn.CrossEntropyLoss(), inputs=(3, 32, 32)
        )
        model = read_model(text)
        found = per_example_gradients(
            model, read_loss(loss_text, model), model.initial, np.ones((2, 3 * 32 * 32)), np.array([0, 4])
        )
        assert found.shape == (2, expected)
        assert found.any(axis=1).all()


def test_a_backbone_too_large_for_a_document_is_named():
    network = nn.Sequential(architecture("vgg11"), nn.Linear(512, 2))
    model, loss = thebes.torch.encode(network, nn.CrossEntropyLoss(), inputs=(3, 32, 32))
    assert trained_at_sites(model, loss)[0].graph.parameter_count > 5_000_000  # institutions may train it
    with pytest.raises(Mistake, match="5,000,000"):
        read_model(model)


def test_catalogue_gives_back_exactly_what_was_installed(tmp_path, squeezenet):
    catalogue = Catalogue(tmp_path / "backbones")
    shipped = catalogue.digests()
    digest = catalogue.add(squeezenet)
    assert digest == digest_of(squeezenet)
    assert set(catalogue.digests()) == {digest, *shipped}
    assert catalogue.text(digest) == squeezenet
    with pytest.raises(Mistake, match="backbone"):
        catalogue.add("nonsense")


def test_catalogue_refuses_changed_files_unknown_digests_and_paths(tmp_path, squeezenet):
    catalogue = Catalogue(tmp_path)
    digest = catalogue.add(squeezenet)
    (tmp_path / f"{digest}.graph").write_text(squeezenet[:-4] + "AAA=")
    with pytest.raises(Refusal, match="something else"):
        catalogue.text(digest)
    with pytest.raises(Refusal, match="not installed"):
        catalogue.text("0" * 64)
    for wrong in ("../../etc/passwd", "", digest.upper(), None, 7):
        with pytest.raises(Mistake, match="backbone"):
            catalogue.text(wrong)


def test_shipped_backbone_sees_what_raw_pixels_hide():
    """Rings against stripes at random places and colours: separable in its features by a line, hardly in pixels."""
    catalogue = Catalogue("/nonexistent")
    (digest,) = catalogue.digests()
    model = read_model(catalogue.text(digest), limits=BACKBONE)
    assert model.input.shape == (1, 3, 32, 32)
    pictures, labels = patterns(600)
    features = outputs_of(model, model.initial, pictures).astype(float)
    pixels = pictures.reshape(len(pictures), 3, 8, 4, 8, 4).mean((3, 5)).reshape(len(pictures), -1)

    def score(values):
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        line = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000, C=0.1))
        return line.fit(values[:400], labels[:400]).score(values[400:], labels[400:])

    assert score(features) > 0.9
    assert score(features) > score(pixels) + 0.15


def patterns(count: int):
    draw = np.random.default_rng(3)
    down, across = np.mgrid[0:32, 0:32]
    pictures, labels = [], np.arange(count) % 2
    for label in labels:
        width, shift, place = draw.uniform(0.5, 1.0), draw.uniform(0, 6), draw.uniform(10, 22, 2)
        distance = np.hypot(down - place[0], across - place[1])
        pattern = np.sin(width * distance + shift) if label else np.sin(width * across + shift)
        pictures.append(draw.uniform(-1, 1, (3, 1, 1)) * pattern + draw.normal(0, 0.2, (3, 32, 32)))
    return np.stack(pictures).astype(np.float32), labels


def test_project_script_writes_a_backbone_that_can_be_installed(tmp_path, monkeypatch, capsys):
    import importlib.util
    import json
    import sys
    from pathlib import Path

    path = Path(__file__).resolve().parents[2] / "tools" / "train_backbone.py"
    spec = importlib.util.spec_from_file_location("train_backbone", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    options = ["--out", str(tmp_path), "--pictures", "120", "--epochs", "1", "--generated"]
    monkeypatch.setattr(sys, "argv", ["train_backbone", *options])
    script.main()
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    digest = Catalogue(tmp_path / "installed").add((tmp_path / "small.graph").read_text())
    assert report["digest"] == digest
    assert report["source"] == "generated"
    module = thebes.torch.to_module(architecture("small"), (tmp_path / "small.safetensors").read_bytes())
    model = read_model((tmp_path / "small.graph").read_text(), limits=BACKBONE)
    picture = torch.zeros(1, 3, 32, 32)
    with torch.no_grad():
        expected = module(picture).numpy()
    assert np.abs(outputs_of(model, model.initial, picture.numpy()) - expected).max() < 1e-5
