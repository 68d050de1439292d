"""`make bench`: every measure as a ratio within this run; absolute figures are goals, reported and never asserted.

The first results on a machine are kept, so that small losses add up and are seen. A ratio that is worse than there,
beyond noise, is measured once more; where it is worse again, the run fails. After `python -m evidence.bench forget
NAME` the next results are kept instead.
`python -m evidence.bench NAME --OPTION VALUE` runs one of them otherwise than by default; its file says what it takes,
and nothing is kept or compared.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table

from evidence.bench._losses import losses

HERE = Path(__file__).parent
RESULTS = HERE / "results"


def main(wanted: list[str]) -> None:
    """Run the named benchmarks, or all; print their tables and write one JSON file each."""
    console = Console()
    wanted, options = chosen(wanted)
    names = sorted(p.stem for p in HERE.glob("*.py") if not p.stem.startswith("_"))
    forget = wanted[:1] == ["forget"]
    lost = []
    for name in wanted[forget:] or names:
        if name not in names:
            raise SystemExit(f"bench: there is no {name!r}; there are {', '.join(names)}")
        if forget:
            _place(name).unlink(missing_ok=True)
            continue
        started = time.perf_counter()
        measured = _run(name, options)
        worse = {} if options else losses(_kept(name), dict(flat(measured)))
        if worse:  # by luck perhaps
            measured = _run(name, options)
            again = losses(_kept(name), dict(flat(measured)))
            lost += [f"{name}.{which}: {how}" for which, how in again.items() if which in worse]
        for path in (RESULTS / f"{name}.json", *([] if options or _place(name).exists() else [_place(name)])):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(measured, indent=2, default=float) + "\n", encoding="utf-8")
        table = Table(title=f"{name} ({time.perf_counter() - started:.1f} s)", title_justify="left")
        table.add_column("measure")
        table.add_column("figure", justify="right")
        for measure, figure in flat(measured):
            table.add_row(measure, f"{figure:.4g}" if isinstance(figure, float) else str(figure))
        console.print(table)
    if lost:
        raise SystemExit("\n".join(["bench: worse than the kept results, twice:", *lost]))


def _run(name: str, options: dict[str, object]) -> dict[str, object]:
    measured: dict[str, object] = import_module(f"evidence.bench.{name}").run(**options)
    return measured


def _place(name: str) -> Path:
    return RESULTS / "kept" / f"{name}.json"


def _kept(name: str) -> dict[str, object]:
    """The figures kept on this machine, by their places."""
    path = _place(name)
    return dict(flat(json.loads(path.read_text(encoding="utf-8")))) if path.exists() else {}


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
