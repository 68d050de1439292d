"""`make bars`: draw every statistic often, say how often its bars hold and how wide they are, and keep it.

Fails where a bar holds less often than it says, luck aside, or is wider than is accepted.
"""

from __future__ import annotations

import argparse
import sys

from evidence.bars import page
from evidence.bars.asked import everything
from evidence.bars.results import kept
from evidence.bars.running import jobs, run, without


def main(arguments: list[str]) -> int:
    """Measure the named statistics, or all; what was found of others stays as it was."""
    reading = argparse.ArgumentParser(prog="python -m evidence.bars", description=__doc__)
    names = sorted({each.statistic for each in everything()})
    reading.add_argument("names", nargs="*", metavar="NAME", help=f"some of {'; '.join(names)}; all without")
    reading.add_argument("--way", default="", help="only ways that begin so")
    reading.add_argument("--draws", type=int, default=1000, help="of each cell (1000)")
    reading.add_argument("--resume", action="store_true", help="leave out cells that were drawn so often by this code")
    asked = reading.parse_args(arguments)
    if unknown := sorted(set(asked.names) - set(names)):
        raise SystemExit(f"bars: there is no {unknown[0]!r}; there are {'; '.join(names)}")
    wanted = list(jobs(set(asked.names or names), asked.way, asked.draws))
    for cell in run(without(wanted, kept()) if asked.resume else wanted):
        print(page.line(cell), flush=True)
    cells = kept()
    bad = page.bad(cells)
    print("\n".join(page.line(cell) for cell in (bad or cells)))
    print(f"{len(cells)} cells; {len(bad)} hold too rarely or are too wide" if bad else f"{len(cells)} cells, all good")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
