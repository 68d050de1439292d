"""Networks that are trained on pictures at sites: like torch's own gradients, and one person's picture weighs no more
than one person, whatever it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.support.pictures import PHOTO, SCHEMA, SOURCE, hostile, noise, put
from tests.support.training import Silent, begun, run
from thebes.data.engines.source import frame_table, table_of
from thebes.data.schema import schema_of
from thebes.privacy.faults import Mistake
from thebes.tasks import registry
from thebes.tasks.audit.recorded_claim import RecordedClaim
from thebes.tasks.release_reader import release_from_json
from thebes.tasks.train import owner as half
from thebes.tasks.train.plan import SIZE, SUM, plan_of

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from thebes.torch import encode  # noqa: E402

CLIP = 0.5
HOSTILE = hostile()


def module() -> Any:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(16, 2)
    )


def document(made: Any = None, shape: tuple[int, ...] = (3, 8, 8), **more: Any) -> dict[str, Any]:
    model, loss = encode(made or module(), nn.CrossEntropyLoss(), inputs=shape)
    return {
        "type": "train", "dataset": "scans", "model": model, "loss": loss, "inputs": ["photo"], "output": "label",
        "rounds": 2, "learning_rate": 0.5, "clip": CLIP, "epsilon": 1e6, "delta": 1e-6, "average": "last", **more,
    }  # fmt: skip


@pytest.fixture(autouse=True)
def nobody_left() -> Iterator[None]:
    yield
    half.OWNER.close()


# --- what may be asked ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"model": "LogisticRegression", "loss": None}, "'photo', which holds pictures: only a network takes them"),
        ({"inputs": ["photo", "trace"]}, "beside others"),
        ({"inputs": ["label"], "output": "photo"}, "output: names 'photo', which holds pictures"),
        ({"where": "photo = 'a'"}, "where: names 'photo', which holds pictures"),
        ({"inputs": ["trace"]}, "give 6 numbers where the network takes 192"),
    ],
)
def test_pictures_are_a_networks_only_input_and_nothing_else(changed: dict[str, Any], said: str) -> None:
    trace = {"type": "array", "shape": [6], "low": 0, "high": 1}
    schema = schema_of({**SCHEMA, "columns": {**SCHEMA["columns"], "trace": trace}})
    asked = {name: value for name, value in {**document(), **changed}.items() if value is not None}
    checked: Any = registry.check(asked)
    with pytest.raises(Mistake) as refused:
        plan_of(checked.descent, schema)
    assert said in str(refused.value)


def test_a_network_of_another_shape_is_refused_also_where_it_takes_as_many_numbers() -> None:
    checked: Any = registry.check(document(nn.Sequential(nn.Flatten(), nn.Linear(192, 2)), (8, 8, 3)))
    with pytest.raises(Mistake, match=r"give arrays of \[3, 8, 8\], the network takes \[8, 8, 3\]"):
        plan_of(checked.descent, schema_of(SCHEMA))


# --- what is computed -----------------------------------------------------------------------------------------


def people(count: int, seed: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "who": [f"p{n}" for n in range(count)],
            "photo": [noise(1000 * seed + n) for n in range(count)],
            "label": [n % 2 for n in range(count)],
        }
    )


@pytest.mark.slow
def test_without_noise_sites_train_on_pictures_as_torch_does() -> None:
    sites = {"a": people(12, 1), "b": people(8, 2)}
    schema = schema_of(SCHEMA)
    aggregator, _ = run(document(), {name: frame_table(schema, rows) for name, rows in sites.items()}, Silent())
    found = release_from_json(aggregator.release().as_json()).model.weights
    own = module()
    read = [pictures(rows) for rows in sites.values()]
    points = np.concatenate([each for each, _ in read])
    truths = torch.tensor(np.concatenate([labels for _, labels in read]))
    for _ in range(2):
        total = [torch.zeros_like(p) for p in own.parameters()]
        for point, truth in zip(torch.tensor(points, dtype=torch.float32) / 255, truths, strict=True):
            own.zero_grad()
            nn.functional.cross_entropy(own(point[None]), truth[None]).backward()
            slopes = [p.grad for p in own.parameters()]
            length = float(torch.sqrt(sum((s**2).sum() for s in slopes)))
            for sum_, slope in zip(total, slopes, strict=True):
                sum_ += slope * min(1.0, CLIP / length)
        with torch.no_grad():
            for p, sum_ in zip(own.parameters(), total, strict=True):
                p -= 0.5 * sum_ / len(truths)
    wanted = torch.cat([p.detach().reshape(-1) for p in own.parameters()]).numpy()
    assert np.allclose(found, wanted, atol=1e-4)


def pictures(rows: pd.DataFrame) -> tuple[Any, Any]:
    """(points, labels) as a table gives them, in its order."""
    (batch,) = frame_table(schema_of(SCHEMA), rows).batches(("photo", "label"))
    return batch.tensors["photo"].reshape(-1, 3, 8, 8), batch.numbers[:, 1].astype(np.int64)


# --- one person's picture -------------------------------------------------------------------------------------


def told(folder: Path) -> tuple[Any, int]:
    """(everybody's sum of clipped gradients, everybody) as a site with these files tells a coordinator it trusts."""
    table = table_of(schema_of(SCHEMA), SOURCE, folder=folder)
    checked: Any = registry.check(document(noise="coordinator", rounds=1))
    ask = begun(checked, {"a": table}, Silent()).ask("a")
    given = half.OWNER.contribute(checked, ask, table, RecordedClaim(), randomness=Silent())
    step = plan_of(checked.descent, table.schema).sums.step
    table.close()
    return given.fields[SUM][0] * step, int(given.fields[SIZE][0])


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, int]:
    folder = tmp_path_factory.mktemp("before")
    put(folder, 6)
    return told(folder)


WAYS = ("gone", "link", "fifo", "folder", *sorted(HOSTILE))


@pytest.mark.few(1)
@pytest.mark.parametrize("way", WAYS)
def test_whatever_one_picture_becomes_one_gradient_changes_and_nobody_is_missing(
    tmp_path: Path, before: tuple[Any, int], way: str
) -> None:
    import os

    inside = put(tmp_path, 6)
    one = inside / "2.png"
    one.unlink()
    if way == "link":
        one.symlink_to(inside / "1.png")
    elif way == "fifo":
        os.mkfifo(one)
    elif way == "folder":
        one.mkdir()
    elif way in HOSTILE:
        one.write_bytes(HOSTILE[way])
    sums, count = told(tmp_path)
    assert count == before[1] == 6
    assert np.linalg.norm(sums - before[0]) <= 2 * CLIP + 1e-6
    assert np.linalg.norm(sums - before[0]) > 1e-6


@pytest.mark.slow
def test_a_model_of_pictures_predicts_from_arrays_and_says_which_it_wants() -> None:
    rows = people(6, 3)
    aggregator, _ = run(document(rounds=1), {"a": frame_table(schema_of(SCHEMA), rows)}, Silent())
    model = release_from_json(aggregator.release().as_json()).model
    assert len(model.predict({"photo": list(pictures(rows)[0])})) == 6
    with pytest.raises(Mistake, match="3 x 8 x 8 numbers, channels first"):
        model.predict({"photo": [np.zeros((8, 8))]})
    assert PHOTO["height"] == 8
