"""CIFAR-10, pictures of ten kinds: the JPEG files of a public repository, or the archive that was published first.

Where both are there the JPEG files are read: the outcomes that are kept were found with them.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from papers import datasets

JPEG, LOSSLESS = "cifar10/cifar10_jpeg.tar.xz", "cifar10_lossless/cifar-10-binary.tar.gz"
KINDS = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
#: where the pictures of each part lie in the archive: a byte for the kind, then red, green and blue by rows
_FILES = {"train": tuple(f"data_batch_{part}.bin" for part in range(1, 6)), "test": ("test_batch.bin",)}
_SIDE = 32
_RECORD = 1 + 3 * _SIDE * _SIDE

#: of each part, "train" and "test": (pictures, 3, side, side), and the number of each one's kind
Parts = dict[str, tuple[NDArray[np.uint8], NDArray[np.int64]]]


def pictures(side: int, most: Mapping[str, int]) -> Parts | None:
    """The first `most` pictures of every kind in each part, shrunk; None where they are absent. `side` divides 32."""
    found = _from_jpeg(side, most)
    return found if found is not None else _lossless(side, most)


def called() -> str:
    """Name the pictures that are read here."""
    return "CIFAR-10 (re-encoded as JPEG)" if _readable() else "CIFAR-10"


def _readable() -> bool:
    """Return whether there are JPEG files, and Pillow, which reads them."""
    try:
        import PIL.Image  # noqa: F401
    except ImportError:
        return False
    return (datasets.data_folder() / JPEG).is_file()


def _from_jpeg(side: int, most: Mapping[str, int]) -> Parts | None:
    held = datasets.opened(JPEG) if _readable() else None
    if held is None:
        return None
    from PIL import Image

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


def _lossless(side: int, most: Mapping[str, int]) -> Parts | None:
    held = datasets.opened(LOSSLESS)
    if held is None:
        return None
    records: dict[str, NDArray[np.uint8]] = {}
    with tarfile.open(fileobj=held, mode="r:gz") as files:
        for entry in files:
            content = files.extractfile(entry)
            if content is not None:
                name = entry.name.rpartition("/")[2]
                if name.endswith(".bin"):
                    records[name] = np.frombuffer(content.read(), dtype=np.uint8).reshape(-1, _RECORD)
    return {part: _first(np.concatenate([records[name] for name in _FILES[part]]), side, most[part]) for part in most}


def _first(records: NDArray[np.uint8], side: int, most: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """By kind, as the JPEG files lie."""
    labels = records[:, 0].astype(np.int64)
    chosen = np.concatenate([np.flatnonzero(labels == kind)[:most] for kind in range(len(KINDS))])
    return _shrunk(records[chosen, 1:].reshape(-1, 3, _SIDE, _SIDE), side), labels[chosen]


def _shrunk(dots: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    """Each square of dots becomes its mean, rounded."""
    each = _SIDE // side
    sums = dots.reshape(-1, 3, side, each, side, each).sum(axis=(3, 5), dtype=np.int64)
    return np.asarray((sums + each * each // 2) // (each * each), dtype=np.uint8)
