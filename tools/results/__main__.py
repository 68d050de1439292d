"""Write the page of results and its pictures anew."""

from __future__ import annotations

import argparse
from pathlib import Path

from papers.results import Results, published
from tools.results.page import page


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--home", type=Path, default=published(), help="where the outcomes are, and the page goes")
    home: Path = parser.parse_args().home
    files = page(Results(home).kept())
    for old in (home / "results").glob("*.svg"):
        if f"results/{old.name}" not in files:
            old.unlink()
    for name, content in files.items():
        (home / name).write_text(content, encoding="utf-8")
    print(f"{home / 'results.md'} and {len(files) - 1} pictures")


if __name__ == "__main__":
    main()
