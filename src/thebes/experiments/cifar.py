"""CIFAR-10, pictures of ten kinds, as its bytes lie in an archive of JPEG files."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from thebes.experiments import datasets

KINDS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

#: of each part, "train" and "test": (pictures, 3, side, side), and the number of each one's kind
Parts = dict[str, tuple[NDArray[np.uint8], NDArray[np.int64]]]


def pictures(side: int, most: Mapping[str, int]) -> Parts | None:
    """The first `most` pictures of every kind in each part, shrunk; None where they are absent, or Pillow is, which
    reads them."""
    held = datasets.opened("cifar10/cifar10_jpeg.tar.xz")
    try:
        from PIL import Image
    except ImportError:
        return None
    if held is None:
        return None
    dots: dict[str, list[NDArray[np.uint8]]] = {part: [] for part in most}
    kinds: dict[str, list[int]] = {part: [] for part in most}
    with tarfile.open(fileobj=held, mode="r:xz") as files:
        for entry in files:
            part, kind, name = [*entry.name.split("/"), "", ""][:3]
            if part not in most or kind not in KINDS or not name[:4].isdigit() or int(name[:4]) >= most[part]:
                continue
            content = files.extractfile(entry)
            assert content is not None  # noqa: S101
            raw = Image.open(io.BytesIO(content.read()))
            small = raw.convert("RGB").resize((side, side), Image.Resampling.BOX)
            dots[part].append(np.asarray(small).transpose(2, 0, 1))
            kinds[part].append(KINDS.index(kind))
    return {part: (np.stack(dots[part]), np.array(kinds[part])) for part in most}
