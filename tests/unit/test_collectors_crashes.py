"""A collector and its store killed together at any moment: the rows are those that the state says, each once."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from thebes.testing.collectors import HomeOnDisk

RUNNER = """
import sys
from thebes.collector import Collector, table
from thebes.collectors import session
from thebes.testing.collectors import HomeOnDisk

session.ROWS_IN_PART = 3


class Counter(Collector):
    name, description, reads = "counter", "Counts.", "Nothing."
    tables = (table("numbers", "", n=("integer", "")),)

    def collect(self, session):
        begin = session.state.get("next", 0)
        for n in range(begin, begin + 10):
            session.insert("numbers", {"n": n})
        session.state["next"] = begin + 10


home = HomeOnDisk(sys.argv[1])
for _ in range(100_000):
    home.collect(Counter())
    print(home.progress("counter")["state"]["next"], flush=True)
"""


@pytest.mark.slow
def test_rows_and_state_never_part(tmp_path: Path) -> None:
    moments = random.Random(9)
    for _ in range(6):
        process = subprocess.Popen([sys.executable, "-c", RUNNER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said, "the program did not begin"
        time.sleep(moments.uniform(0.0, 0.3))
        process.kill()
        said = [line for line in [said, *process.stdout.read().splitlines(keepends=True)] if line.endswith("\n")][-1]
        process.wait()
        home = HomeOnDisk(tmp_path)
        state, rows = home.progress("counter")["state"], home.rows("counter", "numbers")
        home.close()
        assert [row["n"] for row in rows] == list(range(state["next"]))
        assert state["next"] >= int(said)
