"""Does one work with the interpreter that runs this, and prints one line of JSON.

    python -m evidence.peers.script diffprivlib.theirs naive_bayes '{"tables": ..., "settings": [{"epsilon": 1}], ...}'

Nothing but numpy and the standard library: every environment runs this. Returned figures are judged by whoever asked.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np


def main(module: str, work: str, order: dict[str, Any]) -> dict[str, Any]:
    """The seconds of the first call, and for each setting those of all others and what they returned."""
    function = getattr(import_module(f"evidence.peers.{module}"), work)
    held = np.load(order["tables"], allow_pickle=False)
    count = int(held["count"])
    tables = [
        SimpleNamespace(**{key.split("/")[1]: held[key] for key in held.files if key.startswith(f"{place}/")})
        for place in range(count)
    ]
    began = time.perf_counter()
    if order["warm"]:
        function(tables[0], **order["settings"][0])
    first, found = time.perf_counter() - began, []
    for setting in order["settings"]:
        seconds, said = [], []
        for table in tables[order["spare"] :]:
            for _ in range(order["calls"]):
                began = time.perf_counter()
                told = function(table, **setting)
                seconds.append(time.perf_counter() - began)
                if isinstance(told, dict):  # what prepares the work is not the work
                    seconds[-1], told = told["seconds"], told["said"]
                said.append(np.asarray(told).tolist())
        found.append({"seconds": seconds, "said": said})
    return {"first": first, "found": found}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))), flush=True)
