"""The experiments that there are: every module `figure_*` or `table_*` in a paper's folder that holds an EXPERIMENT,
and every `figures_*` that holds several EXPERIMENTS."""

from __future__ import annotations

import difflib
import pkgutil
import re
from functools import cache
from importlib import import_module
from types import ModuleType

import papers
from papers.experiment import Experiment
from thebes.privacy.faults import Fault, Mistake


@cache
def experiments() -> dict[str, Experiment]:
    """All of them by name: paper by paper, in the order of their numbers."""
    found: dict[str, Experiment] = {}
    for folder in sorted(_folders(), key=lambda package: package.__name__):
        modules = [info.name for info in pkgutil.iter_modules(folder.__path__)]
        for module in sorted(filter(_is_one, modules), key=_by_number):
            for made in _made(import_module(f"{folder.__name__}.{module}")):
                if made.name in found:
                    raise Fault(f"two experiments are called {made.name!r}")
                found[made.name] = made
    return found


def experiment(name: str) -> Experiment:
    """The one of that name; a Mistake that says which there are."""
    known = experiments()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "see: python -m papers list"
        raise Mistake("NAME", f"there is no experiment {name[:60]!r}; {hint}")
    return known[name]


def _folders() -> list[ModuleType]:
    packages = pkgutil.iter_modules(papers.__path__, "papers.")
    return [import_module(info.name) for info in packages if info.ispkg]


def _is_one(module: str) -> bool:
    return module.startswith(("figure_", "figures_", "table_"))


def _made(module: ModuleType) -> tuple[Experiment, ...]:
    several: tuple[Experiment, ...] = getattr(module, "EXPERIMENTS", ())
    return several or (module.EXPERIMENT,)


def _by_number(module: str) -> list[tuple[bool, int, str]]:
    """`figure_10` after `figure_9`."""
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in re.split(r"_", module)]
