"""All that fuzzing begins with or found once is taken or refused as each reader promises; and whatever else
happened would be noticed."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))
from evidence.fuzz import judging, kept, mutating
from evidence.fuzz.running import NAMES, inputs
from thebes.privacy.faults import Fault, Mistake


@pytest.fixture(autouse=True, scope="module")
def closed() -> Iterator[None]:
    """Close what targets keep open with the last test of this file."""
    yield
    kept.OPEN.close()


def outcomes(name: str) -> dict[str, bool]:
    one = import_module(f"evidence.fuzz.targets.{name}").one
    return {file.name: judging.judged(one, file.read_bytes()) for file in inputs(name)}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", NAMES)
def test_everything_in_the_corpus_is_taken_or_refused_as_promised(name: str) -> None:
    found = outcomes(name)
    taken = {file for file, well in found.items() if well}
    assert taken  # else nothing is reached behind the first refusal
    assert found
    assert not {file for file in taken if file.startswith("mended-")}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", [name for name in NAMES if name != "documents"])
def test_a_hundred_changes_of_it_are_too(name: str) -> None:
    one, chance = import_module(f"evidence.fuzz.targets.{name}").one, random.Random(7)
    kept = [file.read_bytes() for file in inputs(name)]
    outcomes(name)
    for _ in range(100):
        judging.judged(one, mutating.mutated(chance.choice(kept), kept, chance))


@pytest.mark.parametrize("error", [KeyError, OverflowError, RecursionError, MemoryError, AssertionError, Fault])
def test_another_error_than_ours_is_no_refusal(error: type[Exception]) -> None:
    def one(data: bytes) -> None:
        raise error("no")

    with pytest.raises(error):
        judging.judged(one, b"")


def test_a_refusal_is_one_and_slowness_is_not() -> None:
    def refusing(data: bytes) -> None:
        raise Mistake("data", "must be other data")

    def slow(data: bytes) -> None:
        end = time.process_time() + 0.02
        while time.process_time() < end:
            pass

    first: list[bytes] = []

    def slow_at_first(data: bytes) -> None:
        if not first:
            first.append(data)
            slow(data)

    assert judging.judged(refusing, b"") is False
    assert judging.judged(slow, b"") is True
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(judging, "SECONDS", 0.01)
        with pytest.raises(judging.Broken, match="5 times for 3 bytes"):
            judging.judged(slow, b"abc")
        assert judging.judged(slow_at_first, b"abc") is True


def test_a_reader_that_wants_more_memory_does_not_get_it() -> None:
    def greedy(data: bytes) -> None:
        assert bytes(2 * judging.BYTES)

    assert judging.judged(greedy, b"") is True
    with pytest.raises(MemoryError):
        judging.judged(greedy, b"", memory=True)
    assert judging.judged(greedy, b"") is True


def test_the_same_seed_changes_the_same_and_values_are_reached() -> None:
    kept = [b'{"kind":"query","epsilon":1.0,"columns":["a","b"]}', b"other"]

    def run(seed: int) -> list[bytes]:
        chance = random.Random(seed)
        return [mutating.mutated(kept[0], kept, chance) for _ in range(200)]

    assert run(1) == run(1) != run(2)
    assert len(set(run(1))) > 150
    assert any(b"NaN" in made for made in run(1))
    assert mutating.revalued(b"no object", random.Random(1)) is None
    head, tail = b"\x01\xff", b"\xfe tail"
    whole = mutating.revalued(head + b'{"a":1}' + tail, random.Random(1))
    assert whole is not None
    assert whole.startswith(head)
    assert whole.endswith(tail)


@pytest.mark.slow
def test_changes_leave_the_values_they_put_in_as_they_are() -> None:
    values = repr(mutating._VALUES)
    for seed in range(2000):
        chance, data = random.Random(seed), b'{"a":{"b":[]},"c":[1]}'
        for _ in range(6):
            data = mutating.revalued(data, chance) or data
    assert repr(mutating._VALUES) == values
    deep = b'{"a":' + b"[" * 900 + b"]" * 900 + b"}"
    for seed in range(50):  # what is nested even more deeply then is not written
        chance, data = random.Random(seed), deep
        for _ in range(6):
            data = mutating.revalued(data, chance) or data
