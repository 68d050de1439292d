"""The failure of a kind where a list or a page is drawn: told in a sentence, and logged by name, so that it costs one
entry and not everybody's page.

What must stay true: nothing of what was raised but its class and its place is told or logged: a message may hold data.
"""

from __future__ import annotations

import inspect
import logging
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

from thebes.privacy.faults import Refusal, ThebesError

log = logging.getLogger("thebes.tasks")
T = TypeVar("T")

#: what a kind could not do, by the part of it that was asked
_WORK = {
    **dict.fromkeys(("subject", "explain"), "describe this task"),
    "check": "read this document",
    "price": "price this task",
    **dict.fromkeys(("sections", "table"), "show this answer"),
    **dict.fromkeys(("going", "learned", "history"), "show how this task goes"),
    "scene.py": "give its scenes",
    "judge": "judge this scene",
}


class KindFailed(Refusal):
    """The refusal where a kind raised what is no refusal of its own, or gave something else than it must."""

    def __init__(self, type_: str, part: str, what: str) -> None:
        super().__init__(f"the kind {type_} could not {_WORK.get(part, 'do its part of this')}: its {part} {what}")
        tell(str(self))


@lru_cache(maxsize=256)
def tell(failed: str) -> None:
    """Log a failure, once: lists are drawn every few seconds."""
    log.error("%s; whoever wrote it can mend that", failed, extra={"event": "kind.failed"})


@contextmanager
def guarded(type_: str, part: str, *, may: tuple[type[Exception], ...] = (ThebesError,)) -> Iterator[None]:
    """Raise `KindFailed` for whatever a part of a kind raises inside, but for what it `may`: a refusal of its own."""
    try:
        yield
    except may:
        raise
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        # What reads documents raises for whoever asked wrongly, which is where there is something to mend.
        last = next(each for each in reversed(frames) if "pydantic" not in Path(each.filename).parts)
        place = f"{Path(last.filename).name}, line {last.lineno}"
        raise KindFailed(type_, part, f"raised {type(error).__name__} ({place})") from None


class _Guard:
    def __init__(self, half: object, type_: str, gives: Mapping[str, type]) -> None:
        self._half, self._type, self._gives = half, type_, gives

    def __getattr__(self, name: str) -> Any:
        if not hasattr(self._half, name):
            raise KindFailed(self._type, name, "is missing")
        found, wanted = getattr(self._half, name), self._gives.get(name, object)
        if inspect.isclass(found) or not callable(found):
            return found

        @wraps(found)
        def call(*given: Any, **named: Any) -> Any:
            with guarded(self._type, name):
                made = found(*given, **named)
                made = list(made) if inspect.isgenerator(made) else made
            if not isinstance(made, wanted):
                raise KindFailed(self._type, name, f"returned {type(made).__name__} instead of {wanted.__name__}")
            return made

        return call


def guard(half: T, type_: str, **gives: type) -> T:
    """Return a part of a kind each of whose calls is `guarded`; `gives` says what some of them must return."""
    return cast(T, _Guard(half, type_, gives))
