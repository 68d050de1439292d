"""Charges per second of a SQLite ledger beside raw sqlite3 writing the same rows as durably, in the same run.

A charge is reserve and consume: two durable transactions. The raw side reads, checks, hashes and prices nothing.
The goal is at least a third of raw. `disk` waits for a real disk; `memory` shows what the ledger itself costs.
"""

from __future__ import annotations

import os
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from thebes.ledger import Ledger, NoKeeper

ROUNDS, SECONDS = 7, 0.4


def run() -> dict[str, dict[str, float]]:
    """Ratios to raw sqlite3, and both rates, for claims on 1 and on 30 blocks."""
    measured: dict[str, dict[str, float]] = {}
    for where, directory in (("disk", None), ("memory", "/dev/shm")):
        if directory is None or os.access(directory, os.W_OK):
            for blocks in (1, 30):
                measured[f"{where}, {blocks} blocks"] = _beside_raw(directory, blocks)
    return measured


def _beside_raw(directory: str | None, blocks: int) -> dict[str, float]:
    names = [f"day {n:02}" for n in range(blocks)]
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        ours, raw = Path(folder) / "ours.db", Path(folder) / "raw.db"
        for path in (ours, raw):
            opened(path, names)
        with Ledger(f"sqlite:///{ours}", keeper=NoKeeper()) as ledger:
            sides = {"ledger": lambda: charge(ledger, names), "raw": raw_charge(raw, names)}
            rates: dict[str, list[float]] = {side: [] for side in sides}
            for _ in range(ROUNDS):  # in turns, so that both meet the same neighbours on the machine
                for side, work in sides.items():
                    rates[side].append(_rate(work))
            ledger.verify()
    ratios = [a / b for a, b in zip(rates["ledger"], rates["raw"], strict=True)]
    return {
        "ratio to raw": round(statistics.median(ratios), 3),
        "charges/s": round(statistics.median(rates["ledger"])),
        "raw charges/s": round(statistics.median(rates["raw"])),
    }


def _rate(work: Callable[[], None]) -> float:
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < SECONDS:
        work()
        count += 1
    return count / (time.perf_counter() - start)


def opened(path: Path, names: list[str]) -> Path:
    """A ledger with these blocks."""
    with Ledger(f"sqlite:///{path}", keeper=NoKeeper()) as ledger:
        ledger.open_blocks(names, epsilon=1e6)
    return path


def charge(ledger: Ledger, names: list[str]) -> None:
    """Two durable transactions of ours."""
    ledger.reserve(names, epsilon=0.001, purpose="bench", spender="ana").consume()


def raw_charge(path: Path, names: list[str]) -> Callable[[], None]:
    """The same rows written by SQLite alone."""
    connection = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode = wal", "synchronous = full", "foreign_keys = on"):
        connection.execute(f"PRAGMA {pragma}")
    execute, many = connection.execute, connection.executemany
    (number,) = execute("SELECT length FROM ledger_standing").fetchone()
    body, digest, amount = "x" * (450 + 10 * len(names)), "0" * 64, 10**9

    def journal() -> None:
        nonlocal number
        number += 1
        execute("INSERT INTO ledger_journal VALUES (?, ?, ?)", (number, body, digest))
        execute("UPDATE ledger_standing SET length = ?, hash = ?", (number, digest))

    def charge() -> None:
        execute("BEGIN IMMEDIATE")
        claim = execute(
            "INSERT INTO ledger_claim VALUES (NULL, NULL, 'ana', 'bench', 'event', 'a', 'reserved', '{}', '{}')"
        ).lastrowid
        many("INSERT INTO ledger_charge VALUES (?, ?, 'epsilon', ?, 0)", [(claim, name, amount) for name in names])
        reserving = (
            "UPDATE ledger_meter SET reserved = reserved + ? WHERE block = ? AND spender = '' AND place = 'epsilon'"
        )
        many(f"{reserving} AND reserved + spent + ? <= capacity", [(amount, name, amount) for name in names])
        journal()
        execute("COMMIT")
        execute("BEGIN IMMEDIATE")
        execute("UPDATE ledger_claim SET state = 'closed', \"left\" = '{}' WHERE id = ?", (claim,))
        charging = (
            "UPDATE ledger_charge SET reserved = 0, spent = ? WHERE claim = ? AND block = ? AND place = 'epsilon'"
        )
        many(charging, [(amount, claim, name) for name in names])
        spending = "UPDATE ledger_meter SET reserved = reserved - ?, spent = spent + ?"
        many(f"{spending} WHERE block = ? AND spender = '' AND place = 'epsilon'", [(amount, amount, n) for n in names])
        journal()
        execute("COMMIT")

    return charge
