"""Processes that spend, for the tests beside this file: run as a script, never imported.

kill WHERE FRESH LIVES SEED   forks LIVES spenders one after another, kills each at a random moment with SIGKILL
                              (some while they make the ledger FRESH/n.db) and prints what they were told
together WHERE NAME           spends steps of 0.02 from two blocks until refused, telling of every charge
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time

import alembic.command  # noqa: F401  imported before the forks, so that a new ledger is made in an instant
import sqlalchemy.dialects.sqlite  # noqa: F401

from thebes.ledger import BudgetExceeded, Ledger, NoKeeper

BLOCKS = [f"day {n}" for n in range(6)]


def opened(where: str) -> Ledger:
    ledger = Ledger(where, keeper=NoKeeper())
    for block in set(BLOCKS) - {block.name for block in ledger.blocks()}:
        ledger.open_block(block, epsilon=1000, delta=1e-3)
    return ledger


def spend(where: str, life: str, told: int, chance: random.Random) -> None:
    """Reserve, consume in parts, release; say what happened only once the ledger said so."""
    ledger = opened(where)
    for n in range(10**6):
        key = f"{life}-{n}"
        blocks = chance.sample(BLOCKS, chance.randint(1, 4))
        claim = ledger.reserve(blocks, epsilon="0.003", delta="1e-12", purpose="killed", spender="ana", key=key)
        os.write(told, f"reserved {key}\n".encode())
        for part in ("a", "b"):
            claim.consume(epsilon="0.001", part=part)
            os.write(told, f"consumed-{part} {key}\n".encode())
        (claim.consume if n % 2 else claim.release)()
        os.write(told, f"ended {key}\n".encode())


def kill(where: str, fresh: str, lives: int, seed: int) -> None:
    chance = random.Random(seed)
    heard: dict[str, list[str]] = {}
    for life in range(lives):
        makes_new = life % 5 == 0
        place = f"sqlite:///{fresh}/{seed}-{life}.db" if makes_new else where
        listen, tell = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(listen)
            try:
                spend(place, f"{seed}-{life}", tell, random.Random(chance.random() + life))
            finally:
                os._exit(3)  # only reached when the ledger failed
        os.close(tell)
        with os.fdopen(listen, "rb") as pipe:
            # Let it live for some words and then some moments; without a word it dies while it opens the ledger.
            words = chance.randint(0, 12)
            lines = [pipe.readline() for _ in range(words)]
            time.sleep(chance.uniform(0, 0.005 if words else 0.05))
            os.kill(child, signal.SIGKILL)
            lines += pipe.readlines()
        _, status = os.waitpid(child, 0)
        heard.setdefault(place, []).extend(b"".join(lines).decode().splitlines())
        if not os.WIFSIGNALED(status):
            raise SystemExit("a spender ended by itself")
    json.dump(heard, sys.stdout)


def together(where: str, name: str) -> None:
    ledger = Ledger(where, keeper=NoKeeper())
    for block in ("first", "second"):
        ledger.open_block(block, epsilon=1, delta=0)
    order = ["first", "second"] if name < "c" else ["second", "first"]
    n = 0
    while True:
        try:
            ledger.reserve(order, epsilon="0.02", purpose="together", spender=name, key=f"{name}-{n}").consume()
        except BudgetExceeded:
            break
        print(f"{name}-{n}", flush=True)
        n += 1


if __name__ == "__main__":
    if sys.argv[1] == "kill":
        kill(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        together(sys.argv[2], sys.argv[3])
