"""Learn from data that stays with its owners.

Try a question over rows of your own, and see its error bar before anybody is asked:

    import thebes

    question = thebes.task.median("SELECT age FROM profile.demographics", epsilon=1, bounds={"age": (0, 120)})
    print(thebes.simulate(question, {"age": range(20, 90)}))

Ask people, or the institutions that keep rows, at a coordinator:

    server = thebes.connect("https://thebes.example")
    print(server.query("patients", "mean", column="age", epsilon=0.5))

Ask rows of your own under a budget, and be somebody who is asked:

    table = thebes.open_data("patients.csv", schema, epsilon=1, ledger="budget.db")
    me = thebes.open_person("~/thebes")

`thebes.task` writes documents, `thebes.learning` has private estimators, `thebes.ledger` keeps budgets, `thebes.sql`
reads SQL, `thebes.torch` makes networks into data.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from thebes import parts

if TYPE_CHECKING:
    from thebes import learning as learning
    from thebes import ledger as ledger
    from thebes import sql as sql
    from thebes import task as task
    from thebes import torch as torch
    from thebes.person.access import open_person as open_person
    from thebes.requestor.server import connect as connect
    from thebes.simulation.world import simulate as simulate
    from thebes.sql.private_table import open_data as open_data

__version__ = "0.1.0"

parts.watch()

#: name -> where it lives; loaded when first used, so that `import thebes` stays quick
_FACE = {
    "connect": "thebes.requestor.server",
    "open_data": "thebes.sql.private_table",
    "open_person": "thebes.person.access",
    "simulate": "thebes.simulation.world",
}

#: modules that `import thebes` promises without loading them
_ROOMS = ("learning", "ledger", "sql", "task", "torch")

__all__ = ["__version__", *_FACE]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _FACE:
        return getattr(import_module(_FACE[name]), name)
    if name in _ROOMS:
        return import_module(f"thebes.{name}")
    raise AttributeError(f"module 'thebes' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
