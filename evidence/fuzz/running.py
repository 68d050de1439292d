"""One target for some time, in a process of its own: guided by coverage where atheris is installed, else by chance.

Nothing of Thebes is imported before atheris can look at it.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import random
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from evidence.fuzz.mutating import MOST_BYTES, mutated, revalued

HERE = Path(__file__).parent
CORPUS, FOUND = HERE / "corpus", HERE / "found"
NAMES = tuple(sorted(file.stem for file in (HERE / "targets").glob("[a-z]*.py")))


def guided() -> bool:
    """Return whether coverage guides."""
    return importlib.util.find_spec("atheris") is not None


def inputs(name: str) -> list[Path]:
    """The kept inputs of a target."""
    return sorted(file for file in (CORPUS / name).iterdir() if file.is_file())


def loaded(name: str, *, instrumented: bool) -> Callable[[bytes], object]:
    """The target as something that raises where it is broken, after it has read its corpus once."""
    looking: AbstractContextManager[object] = nullcontext()
    if instrumented:
        import atheris

        looking = atheris.instrument_imports(include=["thebes", "evidence.fuzz.targets"])
    with looking:  # much is imported only where it is first needed
        one = importlib.import_module(f"evidence.fuzz.targets.{name}").one
        judging = importlib.import_module("evidence.fuzz.judging")
        refused = importlib.import_module("thebes.privacy.faults")
        for file in inputs(name):
            try:
                one(file.read_bytes())
            except (refused.Mistake, refused.Refusal):
                continue
    return lambda data: judging.judged(one, data, memory=True)


def with_coverage(name: str, seconds: float, seed: int) -> None:
    """Ends the process: with 0 where nothing was found."""
    import atheris

    target = loaded(name, instrumented=True)

    def changed(data: bytes, longest: int, number: int) -> bytes:
        """Half of the inputs are changed by the values in them, which bytes hardly ever reach."""
        chance = random.Random(number)
        made = revalued(data, chance) if chance.random() < 0.5 else None
        return made[:longest] if made is not None else bytes(atheris.Mutate(data, longest))

    (FOUND / name / "grown").mkdir(parents=True, exist_ok=True)
    options = [
        f"-max_total_time={max(1, round(seconds))}",
        f"-seed={seed}",
        f"-artifact_prefix={FOUND / name}/",
        "-print_final_stats=1",
        "-timeout=20",
        "-rss_limit_mb=0",
        f"-max_len={MOST_BYTES}",
    ]
    atheris.Setup(
        [sys.argv[0], *options, str(FOUND / name / "grown"), str(CORPUS / name)], target, custom_mutator=changed
    )
    atheris.Fuzz()


def by_chance(name: str, seconds: float, seed: int) -> int:
    """0 where nothing was found; what was lies in `found/`."""
    target, chance = loaded(name, instrumented=False), random.Random(seed)
    kept = [file.read_bytes() for file in inputs(name)]
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        data = mutated(chance.choice(kept), kept, chance)
        count += 1
        try:
            target(data)
        except Exception:
            place = FOUND / name / f"crash-{hashlib.sha1(data, usedforsecurity=False).hexdigest()}"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
            print(f"#{count} written to {place}", file=sys.stderr)
            raise
    print(f"#{count} DONE", file=sys.stderr)
    return 0
