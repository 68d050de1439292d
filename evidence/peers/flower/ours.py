"""A coordinator of Thebes, three sites with policies and ledgers of their own, and somebody who asks for a model."""

from typing import Any

import numpy as np

from evidence.peers.flower.deployment import SITES, asked, once, standing


def federated(given: Any, rounds: int) -> Any:
    """Lines are those of the files, not of this."""
    import json

    import pandas as pd

    from thebes.tasks.release_reader import release_from_json

    columns = [f"x{place}" for place in range(given.rows.shape[1])]
    folder = standing("ours")
    rows = {site: folder / f"{site}.csv" for site in SITES}
    for site, part in zip(SITES, np.array_split(np.arange(len(given.rows)), len(SITES)), strict=True):
        table = pd.DataFrame(given.rows[part], columns=columns).assign(rich=given.labels[part])
        if not rows[site].exists():
            table.to_csv(rows[site], index=False)
    seconds = asked("ours", once("ours", rows), rounds=rounds)
    release: Any = release_from_json(json.loads((folder / "model").read_text(encoding="utf-8")))
    said = release.model.predict(dict(zip(columns, given.unseen.T, strict=True)))
    return {"seconds": seconds, "said": np.asarray(said).astype(int)}
