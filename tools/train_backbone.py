"""Trains the project's small convolutional backbone on public pictures and writes it as safetensors and as a graph.

    python tools/train_backbone.py --out FOLDER [--pictures 10000] [--epochs 6] [--generated]

Pictures: five of the ten CIFAR-10 classes from THEBES_DATA (needs Pillow to read them), so that the other five are
left for transfer; with --generated, or when the data are absent, pictures drawn by this script. No private data.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import tarfile
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from thebes.learning.graph.architectures import architecture
from thebes.learning.graph.backbones import SUFFIX, digest_of, write_backbone
from thebes.torch import encode_weights

SIDE = 32
LEARNED = ("airplane", "automobile", "bird", "cat", "deer")
LEFT_FOR_TRANSFER = ("dog", "frog", "horse", "ship", "truck")
Pictures = tuple[NDArray[np.float32], NDArray[np.int64]]


def cifar(archive: Path, classes: tuple[str, ...], most: int, *, part: str = "train") -> Pictures:
    """Up to `most` pictures of these classes, as (n, 3, 32, 32) numbers around zero, and their class numbers."""
    from PIL import Image

    each = -(-most // len(classes))
    taken = dict.fromkeys(classes, 0)
    pictures, labels = [], []
    with tarfile.open(archive, "r:xz") as files:
        for entry in files:
            folder, _, rest = entry.name.partition("/")
            label = rest.partition("/")[0]
            if folder != part or not entry.isfile() or taken.get(label, each) >= each:
                continue
            content = files.extractfile(entry)
            if content is None:
                continue
            pixels = np.asarray(Image.open(io.BytesIO(content.read())).convert("RGB"), dtype=np.float32)
            pictures.append((pixels.transpose(2, 0, 1) - 127.5) / 64.0)
            labels.append(classes.index(label))
            taken[label] += 1
    return np.stack(pictures).astype(np.float32), np.array(labels, dtype=np.int64)


def generated(most: int, *, seed: int = 1) -> Pictures:
    """Five kinds of pattern (stripes both ways, rings, checks, blobs) in random colours, places and noise."""
    draw = np.random.default_rng(seed)
    rows, columns = np.mgrid[0:SIDE, 0:SIDE].astype(np.float32)
    pictures, labels = [], []
    for index in range(most):
        label = index % len(LEARNED)
        width, shift = draw.uniform(0.4, 1.2), draw.uniform(0, 6)
        down, across = draw.uniform(8, 24, size=2)
        distance = np.hypot(rows - down, columns - across)
        pattern = (
            np.sin(width * rows + shift),
            np.sin(width * columns + shift),
            np.sin(width * distance),
            np.sign(np.sin(width * rows + shift) * np.sin(width * columns + shift)),
            2 * np.exp(-((distance / (8 * width)) ** 2)) - 1,
        )[label]
        colour = draw.uniform(-1, 1, size=(3, 1, 1))
        pictures.append(colour * pattern + draw.normal(0, 0.3, size=(3, SIDE, SIDE)))
        labels.append(label)
    return np.stack(pictures).astype(np.float32), np.array(labels, dtype=np.int64)


def train(pictures: NDArray[np.float32], labels: NDArray[np.int64], *, epochs: int, seed: int = 1) -> nn.Module:
    """The small backbone, trained under a linear head that is then thrown away."""
    torch.manual_seed(seed)
    backbone = architecture("small")
    with torch.no_grad():
        features = backbone(torch.from_numpy(pictures[:1])).shape[1]
    network = nn.Sequential(backbone, nn.Linear(features, len(LEARNED)))
    steps = epochs * -(-len(pictures) // 64)
    optimiser = torch.optim.AdamW(network.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=6e-3, total_steps=steps)
    loss_of = nn.CrossEntropyLoss()
    everything, truths = torch.from_numpy(pictures), torch.from_numpy(labels)
    for epoch in range(epochs):
        right = 0
        for batch in torch.randperm(len(everything)).split(64):
            rows = everything[batch]
            rows = rows.flip(3) if torch.rand(()) < 0.5 else rows
            scores = network(rows)
            optimiser.zero_grad()
            loss_of(scores, truths[batch]).backward()
            optimiser.step()
            schedule.step()
            right += int((scores.argmax(1) == truths[batch]).sum())
        print(json.dumps({"epoch": epoch + 1, "accuracy": round(right / len(everything), 4)}))
    return backbone


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pictures", type=int, default=10_000)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--generated", action="store_true")
    options = parser.parse_args()
    root = Path(__file__).resolve().parent.parent
    archive = Path(os.environ.get("THEBES_DATA", root / "../shared/data")) / "cifar10" / "cifar10_jpeg.tar.xz"
    real = archive.exists() and not options.generated
    pictures, labels = cifar(archive, LEARNED, options.pictures) if real else generated(options.pictures)
    backbone = train(pictures, labels, epochs=options.epochs)
    for parameter in backbone.parameters():
        parameter.requires_grad_(True)
    text = write_backbone(backbone, shape=(3, SIDE, SIDE))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "small.safetensors").write_bytes(encode_weights(backbone))
    (options.out / f"small{SUFFIX}").write_text(text, encoding="ascii")
    source = "cifar10" if real else "generated"
    print(json.dumps({"source": source, "pictures": len(pictures), "bytes": len(text), "digest": digest_of(text)}))


if __name__ == "__main__":
    main()
