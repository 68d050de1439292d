"""Progress of a task that is waited for, in one place that is drawn anew: a line in a terminal, one display in a
notebook, nothing in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import Any, Literal, Protocol

from markupsafe import Markup

from thebes.privacy.faults import Mistake
from thebes.wire.problems import printable

Look = Callable[[Mapping[str, Any]], None]
#: "auto" draws where somebody looks; None draws nothing; a function is told what the coordinator says, each time
Progress = Literal["auto"] | Look | None
_BAR = 20  #: letters
_CLEARED = "\r\x1b[K"


class _Place(Protocol):
    """The place in which progress is drawn."""

    def show(self, words: str, share: float | None) -> None: ...

    def end(self) -> None: ...


@contextmanager
def looking(progress: Progress, words: Callable[[Mapping[str, Any]], str]) -> Iterator[Look | None]:
    """Give what is told how far a task is; `words` says it. What was drawn in a terminal is gone afterwards."""
    if progress is None or callable(progress):
        yield progress
        return
    if progress != "auto":
        raise Mistake("progress", 'must be "auto", None, or a function that is told how far the task is')
    place = _place()
    if place is None:
        yield None
        return
    last: tuple[str, float | None] | None = None

    def look(body: Mapping[str, Any]) -> None:
        nonlocal last
        status = printable(body.get("status"), 20) or "unknown"
        now = (": ".join(filter(None, [status, words(body)])), _share(body))
        if now != last:
            last = now
            place.show(*now)

    try:
        yield look
    finally:
        place.end()


def _place() -> _Place | None:
    if _in_notebook():
        return _Display()
    return _Line() if sys.stderr is not None and sys.stderr.isatty() else None


def _in_notebook() -> bool:
    """Return whether a notebook's kernel runs this; nothing is imported for it."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def _share(body: Mapping[str, Any]) -> float | None:
    heard, wanted = body.get("contributions"), body.get("min_count")
    if type(heard) is not int or type(wanted) is not int or wanted <= 0:
        return None
    return min(1.0, max(0.0, heard / wanted))


class _Line:
    """The last line of a terminal."""

    def show(self, words: str, share: float | None) -> None:
        done = 0 if share is None else round(_BAR * share)
        bar = "" if share is None else f"[{'#' * done}{'-' * (_BAR - done)}] "
        sys.stderr.write(_CLEARED + (bar + words)[: get_terminal_size().columns - 1])
        sys.stderr.flush()

    def end(self) -> None:
        sys.stderr.write(_CLEARED)
        sys.stderr.flush()


class _Display:
    """One display of a notebook, changed where it stands."""

    _shown: Any = None

    def show(self, words: str, share: float | None) -> None:
        from IPython.display import display

        bar = "" if share is None else Markup('<progress max="1" value="{}"></progress> ').format(f"{share:.3f}")
        told = {"text/plain": words, "text/html": str(Markup('<div role="status">{}{}</div>').format(bar, words))}
        if self._shown is None:
            self._shown = display(told, raw=True, display_id=True)
        else:
            self._shown.update(told, raw=True)

    def end(self) -> None:
        """Leave what was shown last: the notebook keeps it as it would any output."""
