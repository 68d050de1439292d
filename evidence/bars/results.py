"""The measured cells, as JSON beside the code; each stands until it is measured again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from evidence.bars.measured import BarCell

KEPT = Path(__file__).parent / "results.json"


def kept(path: Path = KEPT) -> list[BarCell]:
    """All cells; none where nothing was measured yet."""
    if not path.is_file():
        return []
    return [BarCell(**told) for told in json.loads(path.read_text(encoding="utf-8"))]


def written_with(found: Iterable[BarCell], path: Path = KEPT) -> None:
    """Keep what was found in the place of what was known of the same cells."""
    everything = {_key(cell): cell for cell in (*kept(path), *found)}
    told = ",\n".join(json.dumps(everything[key].as_json()) for key in sorted(everything))
    new = path.with_suffix(".new")
    new.write_text(f"[\n{told}\n]\n", encoding="utf-8")
    new.replace(path)


def _key(cell: BarCell) -> tuple[str, str, str, int, float]:
    return cell.statistic, cell.way, cell.law, cell.n, cell.epsilon
