"""The place where the pipelines of a home keep what they do: the journal of attempts, the store of models, who runs
what."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from thebes import machine
from thebes.curator.pipelines.attempt_store import Attempts
from thebes.curator.pipelines.bundles import Bundles, checked
from thebes.privacy.faults import Refusal

JOURNAL, MODELS, _LOCKS = "pipelines.db", "models", "pipelines"


class Workspace:
    """Of one home, whose folder is its owner's alone."""

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.folder, self.clock = folder, clock
        self.attempts = Attempts(folder / JOURNAL, clock=clock)
        self.bundles = Bundles(folder / MODELS)

    def close(self) -> None:
        self.attempts.close()

    def alone(self, pipeline: str) -> AbstractContextManager[None]:
        """The right to run a pipeline, until this or its process ends; a Refusal where another has it."""
        return self._only(
            f"{checked(pipeline)}.lock", f"the pipeline {pipeline!r} is being run already; wait until that has ended"
        )

    def staying(self, pipeline: str) -> AbstractContextManager[None]:
        """The right to begin a pipeline again and again, in the same way: two who did would buy everything twice."""
        return self._only(
            f".{checked(pipeline)}.every",
            f"the pipeline {pipeline!r} is begun again and again already; stop that first",
        )

    @contextmanager
    def _only(self, file: str, refusal: str) -> Iterator[None]:
        descriptor = self._lock(file)
        try:
            try:
                machine.hold(descriptor, wait=False)
            except BlockingIOError:
                raise Refusal(refusal) from None
            yield
        finally:
            os.close(descriptor)

    def deciding(self) -> AbstractContextManager[None]:
        """See `deciding`."""
        return deciding(self.folder)

    def _lock(self, file: str) -> int:
        return _opened(self.folder, file)


@contextmanager
def deciding(folder: Path) -> Iterator[None]:
    """While it is held nobody else at this home is told whether a rule allows a claim on a growing data set: what rules
    count does not change between looking and claiming."""
    descriptor = _opened(folder, ".rights")
    try:
        machine.hold(descriptor)
        yield
    finally:
        os.close(descriptor)


def _opened(folder: Path, file: str) -> int:
    locks = folder / _LOCKS
    locks.mkdir(mode=0o700, exist_ok=True)
    return os.open(locks / file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


Workshop = Workspace  #: its name in 0.1.0
