"""Byte for byte what the draft of verifiable aggregation says: Prio3 over Field64 ours, over Field128 the plain one.

The vectors are read from the folder THEBES_VECTORS (default ../shared/vectors) and not kept here. Each lists the
operations that must succeed, and the one that must not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.plain_prio3 import FIELD64, FIELD128, PlainCircuit, PlainPrio3
from tests.support.plain_prio3 import turboshake128 as plain_turboshake128
from thebes.sharing import Prio3, opened, signed
from thebes.sharing.circuits import CountCircuit, SumCircuit, VectorCircuit
from thebes.sharing.field import Bytes, read, written
from thebes.sharing.turboshake import turboshake128

FOLDER = Path(os.environ.get("THEBES_VECTORS") or Path(__file__).parents[2] / "../shared/vectors").resolve() / "vdaf"

pytestmark = pytest.mark.skipif(
    not FOLDER.is_dir() and "vectors" not in os.environ.get("THEBES_REQUIRE", ""),
    reason="the draft's vectors are read from THEBES_VECTORS, which is absent here",
)

FIELD64_KINDS = ("Prio3Count_", "Prio3Sum_", "Prio3SumVecWithMultiproof_")
FIELD128_KINDS = ("Prio3SumVec_", "Prio3Histogram_")


def named(kinds: Sequence[str]) -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.json") if path.stem.startswith(tuple(kinds)))


def row(text: str) -> Bytes:
    return np.frombuffer(bytes.fromhex(text), dtype=np.uint8)[None]


@dataclass
class Ran:
    """One implementation as a vector wants it: everything hex, one report at a time."""

    shard: Callable[[list[int], str, str], tuple[str, list[str]]]
    #: (server, nonce, public share, share) -> (outputs, verifier share, seed)
    prepare: Callable[[int, str, str, str], tuple[str, str, str]]
    decide: Callable[[list[str]], tuple[bool, str]]
    unshard: Callable[[list[list[str]]], tuple[list[str], list[int]]]


def ours(vector: dict[str, Any]) -> Ran:
    context, shares = bytes.fromhex(vector["ctx"]), vector["shares"]
    if "length" in vector:
        circuit = VectorCircuit([vector["max_measurement"]] * vector["length"], vector["chunk_length"])
        prio = Prio3(circuit, context, algorithm=0xFFFFFFFF, shares=shares)
    elif "max_measurement" in vector:
        prio = Prio3(SumCircuit(vector["max_measurement"]), context, algorithm=2, shares=shares)
    else:
        prio = Prio3(CountCircuit(), context, algorithm=1, shares=shares)
    key = bytes.fromhex(vector["verify_key"])

    def shard(measurement: list[int], nonce: str, rand: str) -> tuple[str, list[str]]:
        made = prio.shard(np.array([measurement], dtype=np.int64), row(nonce), row(rand))
        return made.public.tobytes().hex(), [share.tobytes().hex() for share in made.shares]

    def prepare(server: int, nonce: str, public: str, share: str) -> tuple[str, str, str]:
        found = prio.prepare(server, key, row(nonce), row(public), row(share))
        return tuple(each.tobytes().hex() for each in (written(found.outputs), found.verifier, found.seed))

    def decide(verifiers: list[str]) -> tuple[bool, str]:
        held, seed = prio.decide([row(verifier) for verifier in verifiers])
        return bool(held[0]), seed.tobytes().hex()

    def unshard(outputs: list[list[str]]) -> tuple[list[str], list[int]]:
        sums = [opened([prio.nothing(), *(read(row(report[i]))[0] for report in outputs)]) for i in range(shares)]
        return [written(one).tobytes().hex() for one in sums], signed(opened(sums))

    return Ran(shard, prepare, decide, unshard)


def plain(name: str, vector: dict[str, Any]) -> Ran:
    context, shares = bytes.fromhex(vector["ctx"]), vector["shares"]
    field, proofs = (FIELD64, 1) if name.startswith(FIELD64_KINDS) else (FIELD128, 1)
    largest, chunk = vector.get("max_measurement", 1), vector.get("chunk_length", 1)
    kind, algorithm = {"Prio3Count": ("count", 1), "Prio3Sum": ("sum", 2), "Prio3SumVec": ("vector", 3)}.get(
        name.split("_")[0], ("histogram", 4)
    )
    if "Multiproof" in name:
        kind, algorithm, proofs = "vector", 0xFFFFFFFF, 3
    circuit = PlainCircuit(kind, field, (largest,) * vector.get("length", 1), chunk)
    prio = PlainPrio3(circuit, algorithm, context, proofs, shares)
    key = bytes.fromhex(vector["verify_key"])

    def shard(measurement: list[int], nonce: str, rand: str) -> tuple[str, list[str]]:
        if kind == "histogram":
            measurement = [int(cell == measurement[0]) for cell in range(vector["length"])]
        public, made = prio.shard(measurement, bytes.fromhex(nonce), bytes.fromhex(rand))
        return public.hex(), [share.hex() for share in made]

    def prepare(server: int, nonce: str, public: str, share: str) -> tuple[str, str, str]:
        outputs, verifier, seed = prio.prepare(server, key, *map(bytes.fromhex, (nonce, public, share)))
        return field.written(outputs).hex(), verifier.hex(), seed.hex()

    def decide(verifiers: list[str]) -> tuple[bool, str]:
        held, seed = prio.decide([bytes.fromhex(verifier) for verifier in verifiers])
        return held, seed.hex()

    def unshard(outputs: list[list[str]]) -> tuple[list[str], list[int]]:
        sums = []
        for server in range(shares):
            columns = zip(*(field.read(bytes.fromhex(report[server])) for report in outputs), strict=True)
            sums.append([sum(column) % field.order for column in columns])
        result = [sum(column) % field.order for column in zip(*sums, strict=True)]
        return [field.written(one).hex() for one in sums], result

    return Ran(shard, prepare, decide, unshard)


def hold(vector: dict[str, Any], ran: Ran) -> None:
    """Do the operations of a vector one after the other; each must give what it says, or fail where it says so."""
    seeds: dict[tuple[int, int], str] = {}
    outputs: dict[int, dict[int, str]] = {}
    for step in vector["operations"]:
        if step["operation"] in ("aggregate", "unshard"):
            continue
        number, server = step["report_index"], step.get("aggregator_id")
        report = vector["reports"][number]
        if step["operation"] == "shard":
            given = report["measurement"]
            numbers = [int(each) for each in (given if isinstance(given, list) else [given])]
            made = ran.shard(numbers, report["nonce"], report["rand"])
            assert made == (report["public_share"], report["input_shares"])
        elif step["operation"] == "verify_init":
            share = report["input_shares"][server]
            told, verifier, seed = ran.prepare(server, report["nonce"], report["public_share"], share)
            assert verifier == report["verifier_shares"][0][server]
            seeds[number, server], outputs.setdefault(number, {})[server] = seed, told
        elif step["operation"] == "verifier_shares_to_message":
            held, message = ran.decide(report["verifier_shares"][0])
            assert held == step["success"]
            assert not held or message == report["verifier_messages"][0]
        else:
            assert step["operation"] == "verify_next"
            assert (seeds[number, server] == report["verifier_messages"][0]) == step["success"]
            assert not step["success"] or outputs[number][server] == report["out_shares"][server]
    if vector["agg_result"] is not None:
        shares, result = ran.unshard([report["out_shares"] for report in vector["reports"]])
        expected = vector["agg_result"]
        assert shares == vector["agg_shares"]
        assert result == (expected if isinstance(expected, list) else [expected])


@pytest.mark.parametrize("name", named(FIELD64_KINDS))
def test_reports_are_those_of_the_draft_and_bad_ones_are_refused_where_it_says(name: str) -> None:
    vector = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    hold(vector, ours(vector))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if "Vec" in name and "bad" not in name else [])
        for name in named((*FIELD64_KINDS, *FIELD128_KINDS))
    ],
)
def test_the_plain_implementation_is_the_drafts_too(name: str) -> None:
    vector = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    hold(vector, plain(name, vector))


def test_every_kind_of_vector_is_there_with_bad_ones() -> None:
    found = named((*FIELD64_KINDS, *FIELD128_KINDS))
    assert {name.split("_")[0] for name in found} == {k.rstrip("_") for k in (*FIELD64_KINDS, *FIELD128_KINDS)}
    assert sum("_bad_" in name for name in found) == 8


def test_a_seed_is_stretched_as_the_draft_says() -> None:
    vector = json.loads((FOLDER / "XofTurboShake128.json").read_text(encoding="utf-8"))
    dst, seed, binder = (bytes.fromhex(vector[key]) for key in ("dst", "seed", "binder"))
    message = len(dst).to_bytes(2, "little") + dst + bytes([len(seed)]) + seed + binder
    # of 40 elements of 16 bytes none is beyond Field128's order, so they are the stream itself
    for expected in (vector["derived_seed"], vector["expanded_vec_field128"]):
        length = len(expected) // 2
        assert turboshake128(row(message.hex()), length).tobytes().hex() == expected
        assert plain_turboshake128(message, length).hex() == expected
