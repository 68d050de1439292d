"""Flower's deployment: a SuperLink, three SuperNodes, and the app in `app/`."""

from typing import Any

import numpy as np

from evidence.peers.flower.deployment import SITES, asked, once, standing


def federated(given: Any, rounds: int) -> Any:
    """Lines are those of the files, not of this."""
    folder = standing("theirs")
    rows = {site: folder / f"{site}.npz" for site in SITES}
    for site, part in zip(SITES, np.array_split(np.arange(len(given.rows)), len(SITES)), strict=True):
        if not rows[site].exists():
            np.savez(rows[site], rows=given.rows[part], labels=given.labels[part])
    seconds = asked("theirs", once("theirs", rows), rounds=rounds)
    weights = np.load(folder / "model.npy")
    said = np.column_stack([given.unseen, np.ones(len(given.unseen))]) @ weights > 0
    return {"seconds": seconds, "said": said.astype(int)}
