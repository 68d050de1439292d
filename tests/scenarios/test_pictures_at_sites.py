"""A network learns to tell real pictures apart at two real sites: files at one, bytes in Parquet at the other."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import httpx
import numpy as np
import pandas as pd
import pytest
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent))
from institutions import Institutions
from processes import PATIENCE

from papers import cifar
from tests.support.command import exit_status
from tests.support.pictures import encoded, hostile
from thebes.coordinator.auth.accounts import ADMIN
from thebes.privacy.faults import Mistake

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from thebes.torch import encode  # noqa: E402

pytestmark = pytest.mark.slow
KINDS = ("airplane", "frog", "horse", "truck")
EACH, TESTED = 200, 50  #: pictures of each kind, for training and for the test
EPSILON = 100_000.0
SCHEMA: dict[str, Any] = {
    "unit": "person",
    "columns": {
        "who": {"type": "string", "key": True},
        "photo": {"type": "image", "height": 32, "width": 32, "channels": 3},
        "kind": {"type": "string", "values": list(KINDS)},
    },
}


def some(part: tuple[Any, Any]) -> tuple[Any, Any]:
    """(pictures, kinds) of these kinds only, in an order that has nothing to do with them."""
    wanted = [cifar.KINDS.index(kind) for kind in KINDS]
    chosen = np.flatnonzero(np.isin(part[1], wanted))
    chosen = np.random.default_rng(1).permutation(chosen)
    return part[0][chosen], np.array([KINDS[wanted.index(kind)] for kind in part[1][chosen]])


@pytest.fixture(scope="module")
def parts() -> Any:
    found = cifar.pictures(32, {"train": EACH, "test": TESTED})
    if found is None:
        pytest.skip("CIFAR-10 is not there: THEBES_DATA says where data lie")
    return {name: some(part) for name, part in found.items()}


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory, parts: Any) -> Iterator[Institutions]:
    made = Institutions(tmp_path_factory.mktemp("institutions"))
    points, kinds = parts["train"]
    half = len(kinds) // 2
    declared(made.folder, "north", points[:half], kinds[:half], as_files=True)
    declared(made.folder, "south", points[half:], kinds[half:], as_files=False)
    end = time.monotonic() + PATIENCE
    while not all("scans" in site["datasets"] for site in made.server.sites()) and time.monotonic() < end:
        time.sleep(0.1)
    yield made
    assert set(made.close()) == {0}


def declared(folder: Path, site: str, points: Any, kinds: Any, *, as_files: bool) -> None:
    """Declare the data set of a site as its steward would, with one picture that nobody can decode."""
    place = folder / f"scans-{site}"
    (place / "photos").mkdir(parents=True)
    whole = [encoded(Image.fromarray(each.transpose(1, 2, 0))) for each in points]
    whole[0] = hostile()["cut"]
    names = [f"p{number}" for number in range(len(whole))]
    (place / "schema.json").write_text(json.dumps(SCHEMA))
    if as_files:
        for name, content in zip(names, whole, strict=True):
            (place / "photos" / f"{name}.png").write_bytes(content)
        rows = pd.DataFrame({"who": names, "photo": [f"{name}.png" for name in names], "kind": kinds})
        rows.to_csv(place / "rows.csv", index=False)
        (place / "source.toml").write_text('kind = "csv"\npath = "rows.csv"\nfiles = "photos"\n')
    else:
        rows = pd.DataFrame({"who": names, "photo": whole, "kind": kinds})
        with duckdb.connect() as opened:
            opened.register("given", rows)
            told = "SELECT who, photo::BLOB AS photo, kind FROM given"
            opened.execute(f"COPY ({told}) TO '{place}/rows.parquet' (ROW_GROUP_SIZE 2048)")
        (place / "source.toml").write_text('kind = "parquet"\npath = "rows.parquet"\n')
    home = ("--home", folder / f"site-{site}")
    asked = ("--schema", place / "schema.json", "--source", place / "source.toml", "--epsilon", "1000000")
    assert exit_status("dataset", "create", "scans", *home, *asked, "--delta", "1e-4") == 0
    rule = ("--to", ADMIN.name, "--kinds", "train,query", "--epsilon", "1000000", "--delta", "1e-4")
    assert exit_status("dataset", "grant", "scans", *home, *rule) == 0


def document(**more: Any) -> dict[str, Any]:
    torch.manual_seed(1)
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.GroupNorm(2, 8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, stride=2, padding=1),
        nn.GroupNorm(2, 8),
        nn.ReLU(),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(128, len(KINDS)),
    )
    model, loss = encode(module, nn.CrossEntropyLoss(), inputs=(3, 32, 32))
    return {
        "type": "train", "dataset": "scans", "model": model, "loss": loss, "inputs": ["photo"], "output": "kind",
        "rounds": 15, "learning_rate": 0.5, "momentum": 0.9, "average": "last", "epsilon": EPSILON, "delta": 1e-5,
        "patience": PATIENCE, **more,
    }  # fmt: skip


def test_two_sites_learn_to_tell_pictures_apart_and_only_a_steward_hears_of_a_broken_one(
    there: Institutions, parts: Any
) -> None:
    release = there.server.submit(document()).wait(timeout=PATIENCE)
    points, kinds = parts["test"]
    right = float(np.mean(release.model.predict({"photo": list(points)}) == kinds))
    assert right > 0.35, f"{right:.0%} right; a guess is 25 %"
    assert "not a whole" not in json.dumps(release.as_json())
    for site in ("north", "south"):
        address = there.pages[f"site {site}"]
        with httpx.Client(follow_redirects=True, base_url="/".join(address.split("/")[:3])) as steward:
            steward.get(address)
            page = steward.get("/datasets")
        assert "1 are not a whole PNG or JPEG" in page.text


def test_a_question_about_pictures_is_refused_by_every_site_in_words(there: Institutions) -> None:
    with pytest.raises(Mistake, match="which holds pictures: only a network takes them"):
        there.server.query("scans", "count", by="photo", epsilon=1, timeout=PATIENCE)
