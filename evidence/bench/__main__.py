"""`make bench`: every measure as a ratio within this run; absolute figures are goals, reported and never asserted.

`python -m evidence.bench NAME --OPTION VALUE` runs one of them otherwise than by default; its file says what it takes.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
RESULTS = HERE / "results"


def main(wanted: list[str]) -> None:
    """Run the named benchmarks, or all; print their tables and write one JSON file each."""
    console = Console()
    wanted, options = chosen(wanted)
    names = sorted(p.stem for p in HERE.glob("*.py") if not p.stem.startswith("_"))
    for name in wanted or names:
        if name not in names:
            raise SystemExit(f"bench: there is no {name!r}; there are {', '.join(names)}")
        started = time.perf_counter()
        measured = import_module(f"evidence.bench.{name}").run(**options)
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.json").write_text(json.dumps(measured, indent=2, default=float) + "\n", encoding="utf-8")
        table = Table(title=f"{name} ({time.perf_counter() - started:.1f} s)", title_justify="left")
        table.add_column("measure")
        table.add_column("figure", justify="right")
        for measure, figure in flat(measured):
            table.add_row(measure, f"{figure:.4g}" if isinstance(figure, float) else str(figure))
        console.print(table)


def chosen(words: list[str]) -> tuple[list[str], dict[str, object]]:
    """Names, and the options of the one that is named with some."""
    first = next((place for place, word in enumerate(words) if word.startswith("--")), len(words))
    names, rest = words[:first], words[first:]
    if rest and (len(names) != 1 or len(rest) % 2):
        raise SystemExit("bench: options are --NAME VALUE, after the name of one benchmark")
    pairs = zip(rest[::2], rest[1::2], strict=True)
    return names, {name.removeprefix("--"): int(value) if value.isdecimal() else value for name, value in pairs}


def flat(tree: object, prefix: str = "") -> list[tuple[str, object]]:
    """A nested dict as lines."""
    if not isinstance(tree, dict):
        return [(prefix, tree)]
    return [line for key, value in tree.items() for line in flat(value, f"{prefix}.{key}" if prefix else str(key))]


if __name__ == "__main__":
    main(sys.argv[1:])
