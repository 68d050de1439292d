"""`python -m evidence.fuzz [TARGET...] --minutes 1`: each target in turn; 1 where something was found."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from evidence.fuzz.running import FOUND, NAMES, by_chance, guided, loaded, with_coverage

_SEEN = re.compile(r"^#(\d+)\s+(\w+)(?:\s+cov: (\d+))?", re.MULTILINE)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m evidence.fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"some of {', '.join(NAMES)}; all without")
    parser.add_argument("--minutes", type=float, default=1.0, help="for each target (default: 1)")
    parser.add_argument("--seed", type=int, default=1, help="which inputs are tried (default: 1)")
    parser.add_argument("--input", type=Path, help="hand this one file to the target instead")
    parser.add_argument("--plain", action="store_true", help="by chance, though atheris is installed")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if unknown := sorted(set(asked.targets) - set(NAMES)):
        parser.error(f"there is no target {unknown[0]!r}; there are {', '.join(NAMES)}")
    looking = guided() and not asked.plain
    if asked.input is not None:
        if len(asked.targets) != 1:
            parser.error("--input needs exactly one target")
        print("taken" if loaded(asked.targets[0], instrumented=False)(asked.input.read_bytes()) else "refused")
        return 0
    if asked.here:
        (name,) = asked.targets
        if looking:
            with_coverage(name, 60 * asked.minutes, asked.seed)
        return by_chance(name, 60 * asked.minutes, asked.seed)
    print("guided by coverage (atheris)" if looking else "by chance: atheris is not installed, or --plain", flush=True)
    return max([tried(name, asked, looking) for name in asked.targets or NAMES])


def tried(name: str, asked: argparse.Namespace, looking: bool) -> int:
    """One target in a process of its own, and a line about it."""
    command = [
        sys.executable,
        "-m",
        "evidence.fuzz",
        name,
        "--here",
        "--minutes",
        str(asked.minutes),
        "--seed",
        str(asked.seed),
    ]
    done = subprocess.run(
        [*command, *(["--plain"] if not looking else [])], capture_output=True, text=True, check=False
    )
    said = done.stdout + done.stderr
    seen = _SEEN.findall(said)
    covered = [int(cov) for _, _, cov in seen if cov]
    count = max((int(number) for number, _, _ in seen), default=0)
    growth = f", {covered[0]} to {covered[-1]} edges" if covered else ""
    print(f"{name:14} {count:>9,} inputs{growth}{'' if done.returncode == 0 else ', BROKEN'}", flush=True)
    if done.returncode:
        print("\n".join(_telling(said)), f"\nwhat did it lies below {FOUND / name}", flush=True)
    return int(done.returncode != 0)


def _telling(said: str) -> list[str]:
    """Return what a broken run said of its end, without libFuzzer's diary."""
    lines = [line for line in said.splitlines() if not line.startswith(("#", "INFO:", "stat::", "NEW_FUNC"))]
    return lines[-30:]


if __name__ == "__main__":
    sys.exit(main())
