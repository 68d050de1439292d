"""`python -m evidence.chaos`: strike a world for some minutes, or ask it a day's worth and restart its roles in between
(`--soak`), then ask its databases what they know of it."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from evidence.chaos.blows import storm
from evidence.chaos.soak import DAY, soak
from evidence.chaos.world import KINDS, World

STORES = ("sqlite", "postgresql")
SETTLE_SECONDS = 120.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m evidence.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="for how long blows fall (default: 1)")
    parser.add_argument(
        "--soak", type=int, nargs="?", const=DAY, help=f"instead of blows: so many asks (default: {DAY}) and restarts"
    )
    parser.add_argument("--seed", type=int, default=1, help="which blows (default: 1)")
    parser.add_argument("--people", type=int, default=2)
    parser.add_argument("--sites", type=int, default=2)
    parser.add_argument(
        "--store", choices=STORES, default="sqlite", help="where the coordinator keeps what it knows (default: sqlite)"
    )
    parser.add_argument(
        "--processes", type=int, default=1, help="of the coordinator behind one port, on postgresql (default: 1)"
    )
    parser.add_argument(
        "--also", action="append", default=[], choices=KINDS, help="a further kind of tasks, may be said again"
    )
    parser.add_argument("--keep", type=Path, help="leave the world's folders here, which must be empty or new")
    parser.add_argument("--quiet", action="store_true", help="do not tell of every blow")
    options = parser.parse_args()
    if options.processes > 1 and options.store != "postgresql":
        parser.error("--processes above 1 needs --store postgresql")
    with tempfile.TemporaryDirectory(prefix="thebes-chaos-") as scratch:
        return run(options.keep or Path(scratch) / "world", options)


def run(folder: Path, options: argparse.Namespace) -> int:
    """0 where everything held."""
    begun = time.monotonic()

    def tell(what: str) -> None:
        if not options.quiet:
            print(f"{time.monotonic() - begun:7.1f}  {what}", flush=True)

    folder.mkdir(parents=True, exist_ok=True)
    store = None
    if options.store == "postgresql":
        from tests.support.postgres import running_cluster

        cluster = running_cluster()
        if cluster is None:
            sys.exit("PostgreSQL's server programs are not installed")
        store = cluster.new_database()
    some = {"people": options.people, "sites": options.sites, "seed": options.seed}
    with World(folder, **some, store=store, processes=options.processes, kinds=options.also) as world:
        tell("everything runs")
        if options.soak:
            blows, what = soak(world, options.soak, tell), "restarts"
        else:
            blows, what = storm(world, random.Random(options.seed), 60 * options.minutes, tell), "blows"
        tell("calm")
        left = world.settle(within=SETTLE_SECONDS)
        tell("stopping")
        left += world.stop()
        found = world.broken()
        released, ended = len(world.witnessed), world.ended()
    tell("asked: " + ", ".join(f"{count} {kind}" for kind, count in sorted(world.asked.items())))
    tell("ended: " + ", ".join(f"{count} {status}" for status, count in sorted(ended.items())))
    for each in [*left, *map(str, found)]:
        print(each)
    print(
        f"seed {options.seed}: {blows} {what}, {len(world.posted)} tasks of which {released} were released; "
        f"{len(found)} broken invariants, {len(left)} things that did not come to rest."
    )
    return 1 if found or left else 0


if __name__ == "__main__":
    sys.exit(main())
