"""`make peers`: every peer beside Thebes; tables here, JSON in results.json."""

from __future__ import annotations

import argparse
import sys

from evidence.peers import page
from evidence.peers.environments import HERE, NotInstalled
from evidence.peers.results import written_with
from evidence.peers.running import compared, worded

NAMES = tuple(sorted(place.parent.name for place in HERE.glob("*/requirements.txt")))


def main(arguments: list[str]) -> None:
    """Run the named peers, or all; what was found of others stays as it was."""
    reading = argparse.ArgumentParser(prog="python -m evidence.peers", description=__doc__)
    reading.add_argument(
        "names", nargs="*", metavar="NAME", help=f"some of {', '.join(NAMES)}, or NAME.WORK; all without"
    )
    reading.add_argument("--rounds", type=int, default=5, help="how often each side does each work (5)")
    asked = reading.parse_args(arguments)
    if unknown := sorted({name.partition(".")[0] for name in asked.names} - set(NAMES)):
        raise SystemExit(f"peers: there is no {unknown[0]!r}; there are {', '.join(NAMES)}")
    if asked.rounds < 1:
        raise SystemExit("peers: --rounds must be at least 1")
    for name, _, only in (name.partition(".") for name in asked.names or NAMES):
        try:
            found = compared(name, asked.rounds, only)
        except NotInstalled as problem:
            print(f"peers: {name} is left out, it cannot be installed here: {problem}", file=sys.stderr)
            continue
        written_with(name, found, only=only)
        print("\n".join(page.of_peer(worded(name, found))), "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
