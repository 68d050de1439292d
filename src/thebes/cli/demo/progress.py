"""Tell how far the demo is: a bar for each step on a terminal, lines anywhere else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import typer

from thebes.cli.output import LINE_SECONDS

if TYPE_CHECKING:
    from rich.progress import Progress


def bars() -> Any:
    """Return a bar for each step, on a terminal only."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        return nullcontext()
    words = TextColumn("{task.description:<26}")
    return Progress(words, BarColumn(30), MofNCompleteColumn(), TimeElapsedColumn(), console=console, transient=True)


@contextmanager
def step(progress: Progress | None, what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Give a function that is told how far a step is."""
    if progress is None:
        with _lines(what, total) as told:
            yield told
        return
    bar = progress.add_task(what, total=total)
    yield lambda done: progress.update(bar, completed=done)
    progress.update(bar, completed=total)


@contextmanager
def _lines(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Say every few seconds how far it is, also where nothing moves: whoever reads sees that it lives."""
    latest, over = 0, threading.Event()

    def told(done: int) -> None:
        nonlocal latest
        latest = done

    def speak() -> None:
        while not over.wait(LINE_SECONDS):
            typer.echo(f"{what}: {latest} of {total}", err=True)

    speaking = threading.Thread(target=speak, name="telling how far it is", daemon=True)
    speaking.start()
    try:
        yield told
    finally:
        over.set()
        speaking.join()
