"""A store whose process is killed at any moment has everything it said it had, and nothing by halves."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from thebes.data.store import Store

KEY = bytes(32)
BATCH = 7

WRITER = f"""
import sys
from thebes.data.store import Store
store = Store.open(sys.argv[1], key=bytes(32))
columns = {{"n": {{"type": "integer"}}}}
store.register("app", {{"t": {{"columns": columns}}}})
start = store.describe()[0]["tables"][0]["rows"] // {BATCH}
for n in range(start, start + 100_000):
    store.insert("app", "t", [{{"n": n}}] * {BATCH})
    print(n + 1, flush=True)
"""

MIGRATOR = """
import sys
from thebes.data.store import Store
store = Store.open(sys.argv[1], key=bytes(32))
print("ready", flush=True)
for n in range(100_000):
    store.register("app", {f"t{k}": {"columns": {"x": {"type": "integer"}}} for k in range(n % 5 + 1)})
    store.insert("app", "t0", [])
    if n % 3 == 2:
        store.remove("app", keep_data=False)
"""


def killed(program: str, home: Path, *, after_seconds: float) -> list[str]:
    """Return what the program said before it was killed, `after_seconds` after its first line."""
    process = subprocess.Popen([sys.executable, "-c", program, str(home)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    first = process.stdout.readline()
    assert first, "the program did not begin"
    time.sleep(after_seconds)
    process.kill()
    rest = process.stdout.read()
    process.wait()
    return [line for line in [first, *rest.splitlines(keepends=True)] if line.endswith("\n")]


@pytest.mark.slow
def test_no_acknowledged_insert_is_lost_and_none_is_halved(tmp_path: Path) -> None:
    moments = random.Random(7)
    for _ in range(6):
        said = killed(WRITER, tmp_path, after_seconds=moments.uniform(0.0, 0.3))
        with Store.open(tmp_path, key=KEY) as store:
            rows = [row["n"] for row in store.export()["collectors"]["app"]["tables"]["t"]["rows"]]
        assert len(rows) >= int(said[-1]) * BATCH
        assert rows == [n for n in range(len(rows) // BATCH) for _ in range(BATCH)]


@pytest.mark.slow
def test_a_killed_migration_happened_or_did_not(tmp_path: Path) -> None:
    moments = random.Random(8)
    for _ in range(6):
        killed(MIGRATOR, tmp_path, after_seconds=moments.uniform(0.0, 0.2))
        with Store.open(tmp_path, key=KEY) as store:
            described = store.describe()
            files = [p for p in (tmp_path / "store").glob("*.db") if p.name != "metadata.db"]
            assert len(files) == len(described)
            for collector in described:
                assert collector["version"] >= 1
                for table in collector["tables"]:
                    assert store.newest("app", table["name"], 1) == []
                    assert store.preview(f"SELECT x FROM app.{table['name']}") == []
