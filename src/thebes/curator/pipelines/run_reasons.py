"""Reasons that a run gives: what would help it, and where a developer's code failed; never what that said."""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from pathlib import Path

from thebes.curator.pipelines.attempt_store import Attempt
from thebes.curator.pipelines.validators import Verdict, is_met
from thebes.privacy.faults import ThebesError

_HOUSE = Path(__file__).parents[2]


def last_judged(attempts: Sequence[Attempt]) -> Attempt | None:
    """The last of these that has a verdict."""
    return next((one for one in reversed(attempts) if one.verdict is not None), None)


def metrics_missed(attempts: Sequence[Attempt]) -> list[str]:
    """Return the metrics by which the last attempt that was judged missed its target, as was released."""
    last = last_judged(attempts)
    told = [] if last is None else (last.validation or {}).get("metrics", ())
    return [
        one["metric"]
        for one in told
        if one.get("value") is not None and not is_met(one["metric"], one["value"], one["target"])
    ]


def what_helps(attempts: Sequence[Attempt]) -> str:
    """Say what would help after attempts of which none was accepted, by what the last one with a verdict released."""
    last = last_judged(attempts)
    if last is None:
        return ""
    found = [one for one in (last.validation or {}).get("metrics", ()) if one["verdict"] != Verdict.ACCEPT]
    missed = [one for one in found if (one.get("value") is None or is_met(one["metric"], one["value"], one["target"]))]
    helps = ["more blocks", "a larger epsilon"]
    if missed and len(missed) == len(found):
        # what was measured is good enough, and only its bound is not: that is as wide as what one row may lose
        helps += ["a smaller largest"] if any("clipped" in one for one in missed) else []
    else:
        helps += ["another target", "another model"]
    return f"; what would help: {', '.join(helps[:-1])} or {helps[-1]}"


def _ours(path: Path) -> bool:
    return path.is_relative_to(_HOUSE) or "site-packages" in path.parts


def failure_of(error: Exception) -> str:
    """Tell what went wrong in a developer's code, and where: never what it said, which may hold rows."""
    if isinstance(error, ThebesError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)
    where = next((f for f in reversed(frames) if not _ours(Path(f.filename))), frames[-1])
    return f"{type(error).__name__} in line {where.lineno} of {Path(where.filename).name} ({where.name})"
