"""No acknowledged charge is ever forgotten: spenders are killed, many at once, and every word they got still holds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from tests.support.postgres import new_database
from thebes.ledger import Ledger, NoKeeper

SPENDER = Path(__file__).parent / "ledger_spender.py"


@pytest.fixture
def quick_directory() -> Iterator[Path]:
    """A directory in memory where there is one: SIGKILL tests the process, not the disk, and lives are short."""
    memory = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as directory:
        yield Path(directory)


def check(where: str, heard: list[str]) -> int:
    """Everything that was acknowledged is there, nothing was charged that nobody asked for; how many were told."""
    with Ledger(where, keeper=NoKeeper()) as ledger:
        ledger.verify()
        claims = {claim.key: claim for claim in ledger.claims()}
        blocks = {block.name: block.meters["epsilon"] for block in ledger.blocks()}
    spent_at_least = dict.fromkeys(blocks, Decimal(0))
    last: dict[str, str] = {}
    for line in heard:
        what, key = line.split()
        last[key] = what
    for key, what in last.items():
        claim = claims[key]
        taken = {"reserved": "0", "consumed-a": "0.001", "consumed-b": "0.002", "ended": "0.002"}[what]
        if claim.state != "closed":
            assert Decimal("0.003") - claim.remaining.epsilon >= Decimal(taken)
        assert claim.state == "closed" or what != "ended"
        for block in claim.blocks:
            spent_at_least[block] += Decimal(taken)
    # A life can have had at most one claim of which nothing was heard.
    lives = {key.rsplit("-", 1)[0] for key in claims}
    assert len(claims) - len(last) <= len(lives)
    for name, meter in blocks.items():
        assert meter.spent >= spent_at_least[name] * 10**12
    return len(heard)


@pytest.mark.slow
def test_hundreds_of_killed_spenders_lose_no_acknowledged_charge(quick_directory: Path) -> None:
    where = f"sqlite:///{quick_directory}/budget.db"
    acknowledged = 0
    everything: list[str] = []
    for seed in range(3):
        command = [sys.executable, SPENDER, "kill", where, quick_directory, "80", str(seed)]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        for place, heard in json.loads(output).items():
            if place == where:
                everything += heard
            else:
                acknowledged += check(place, heard)
        check(where, everything)
    acknowledged += len(everything)
    assert acknowledged > 1000


@pytest.mark.slow
@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_processes_together_never_exceed_a_block_although_some_are_killed(store: str, quick_directory: Path) -> None:
    """Four processes make the ledger together and spend in opposite orders; the fifth and sixth are killed midway."""
    where = new_database() if store == "postgres" else f"sqlite:///{quick_directory}/budget.db"
    names = "abcdef"
    spenders = {
        name: subprocess.Popen([sys.executable, SPENDER, "together", where, name], stdout=subprocess.PIPE, text=True)
        for name in names
    }
    told: dict[str, list[str]] = {}
    for name in "ef":
        out = spenders[name].stdout
        assert out is not None
        first = out.readline()
        time.sleep(0.01)
        spenders[name].send_signal(signal.SIGKILL)
        told[name] = [first.strip(), *out.read().split()]
        spenders[name].wait()
        out.close()
    for name in "abcd":
        told[name] = spenders[name].communicate(timeout=240)[0].split()
        assert spenders[name].returncode == 0
    with Ledger(where, keeper=NoKeeper()) as ledger:
        ledger.verify()
        closed = {claim.key for claim in ledger.claims(state="closed")}
        left = [ledger.block(name).meters["epsilon"].left for name in ("first", "second")]
        reserved = ledger.block("first").meters["epsilon"].reserved
    acknowledged = {key for keys in told.values() for key in keys if key}
    assert acknowledged <= closed
    assert len(closed - acknowledged) <= 2  # consumed by a killed process that could not tell any more
    assert reserved <= 4 * 10**10  # reserved by a killed process
    assert left == [0, 0]  # what is neither spent nor held by a killed process was used up by the others
