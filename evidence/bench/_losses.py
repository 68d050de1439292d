"""The ratios of a run that are worse than those of the run before it on this machine."""

from __future__ import annotations

from collections.abc import Mapping

NOISE = 1.3  #: between two runs of one ratio on a machine with other work
_RATIOS = ("ratio", "overhead", "private over plain", "over the private steps")
_RATES = ("endpoint", "bare sum", "ratio to raw")  #: ratios of rates, of which more is better; less of all others


def losses(before: Mapping[str, object], now: Mapping[str, object]) -> dict[str, str]:
    """Name every ratio, by its place among the results, that is worse than before by more than noise, and how."""
    found = {}
    for name, was in before.items():
        last, then = name.rsplit(".", 1)[-1], now.get(name)
        if not any(word in last for word in _RATIOS) or not _positive(was) or not _positive(then):
            continue
        worse = was / then if any(word in last for word in _RATES) else then / was  # type: ignore[operator]
        if worse > NOISE:
            found[name] = f"{then:.3g} instead of {was:.3g}"
    return found


def _positive(figure: object) -> bool:
    return isinstance(figure, int | float) and not isinstance(figure, bool) and figure > 0
