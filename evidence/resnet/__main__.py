"""`python -m evidence.resnet --people N --rounds R --epsilon E`: seconds, and how many pictures it tells right."""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from torch import nn

from evidence.resnet.network import resnet18
from papers import cifar
from tests.support.pictures import encoded
from tests.support.training import run
from thebes.data.engines.source import table_of
from thebes.data.engines.table import EngineTable
from thebes.data.schema import schema_of
from thebes.tasks.train import owner
from thebes.torch import encode

SITES = ("north", "south")
SCHEMA: dict[str, Any] = {
    "unit": "person",
    "columns": {
        "who": {"type": "string", "key": True},
        "photo": {"type": "image", "height": 32, "width": 32, "channels": 3},
        "kind": {"type": "integer", "values": list(range(len(cifar.KINDS)))},
    },
}


def main() -> None:
    asked = _asked()
    parts = cifar.pictures(32, {"train": -(-asked.people * len(SITES) // len(cifar.KINDS)), "test": asked.tested})
    if parts is None:
        sys.exit("CIFAR-10 is not there: THEBES_DATA says where data lie")
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        opened.callback(owner.OWNER.close)
        tables = {}
        order = np.random.default_rng(1).permutation(len(parts["train"][1]))
        for name, own in zip(SITES, np.array_split(order, len(SITES)), strict=True):
            tables[name] = _site(folder / name, *(each[own[: asked.people]] for each in parts["train"]))
            opened.callback(tables[name].close)
        document = _document(asked)
        begun = time.monotonic()
        aggregator, _ = run(document, tables)
        spent = time.monotonic() - begun
    points, kinds = parts["test"]
    said = aggregator.release().model.predict({"photo": list(points)})
    told = {
        "people": asked.people * len(SITES),
        "rounds": asked.rounds,
        "epsilon": asked.epsilon,
        "seconds": round(spent, 1),
        "seconds_each_person_and_round": round(spent / (asked.rounds * asked.people * len(SITES)), 2),
        "right": round(float(np.mean(said == kinds)), 3),
        "tested": len(kinds),
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    sys.stdout.write(json.dumps(told) + "\n")


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m evidence.resnet", description=__doc__)
    parser.add_argument("--people", type=int, default=10, help="at each of two sites (default: 10)")
    parser.add_argument("--rounds", type=int, default=2, help="steps (default: 2)")
    parser.add_argument("--epsilon", type=float, default=8.0, help="1000000 is as good as no noise (default: 8)")
    parser.add_argument("--rate", type=float, default=0.1, help="learning rate (default: 0.1)")
    parser.add_argument("--tested", type=int, default=10, help="pictures of each kind in the test (default: 10)")
    return parser.parse_args()


def _site(folder: Path, points: Any, kinds: Any) -> EngineTable:
    """The pictures of one site as files, and its rows beside them."""
    (folder / "photos").mkdir(parents=True)
    lines = ["who,photo,kind"]
    for number, (picture, kind) in enumerate(zip(points, kinds, strict=True)):
        (folder / "photos" / f"{number}.png").write_bytes(encoded(Image.fromarray(picture.transpose(1, 2, 0))))
        lines.append(f"{number},{number}.png,{kind}")
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    return table_of(schema_of(SCHEMA), {"kind": "csv", "path": "rows.csv", "files": "photos"}, folder=folder)


def _document(asked: argparse.Namespace) -> dict[str, Any]:
    model, loss = encode(resnet18(len(cifar.KINDS)), nn.CrossEntropyLoss(), inputs=(3, 32, 32))
    return {
        "type": "train", "dataset": "pictures", "model": model, "loss": loss, "inputs": ["photo"], "output": "kind",
        "rounds": asked.rounds, "learning_rate": asked.rate, "clip": 1.0, "epsilon": asked.epsilon, "delta": 1e-5,
        "average": "last",
    }  # fmt: skip


if __name__ == "__main__":
    main()
