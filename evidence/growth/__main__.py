"""`make growth`: measure every series, or those that are named, and keep it for the page that `make docs` writes."""

from __future__ import annotations

import sys

from evidence.growth.page import of_series
from evidence.growth.results import written_with
from evidence.growth.series import ALL


def main(wanted: list[str]) -> None:
    """Measure the named series, or all; what was kept of others stays."""
    if unknown := [name for name in wanted if name not in ALL]:
        raise SystemExit(f"growth: there is no {unknown[0]!r}; there are {', '.join(ALL)}")
    for name in wanted or ALL:
        print("\n".join(of_series(written_with(name, ALL[name]()))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
