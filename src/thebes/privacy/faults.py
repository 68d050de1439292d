"""The three families of error, so that a caller can tell whose move it is.

A message names the argument, the rule and what to do next. It never holds a data value: errors
travel to logs and to strangers, rows must not.
"""

from __future__ import annotations


class ThebesError(Exception):
    """Everything Thebes raises on purpose."""


class Mistake(ThebesError, ValueError):
    """The caller can mend this: `argument` names what was wrong, the message says how to mend it."""

    def __init__(self, argument: str, message: str) -> None:
        super().__init__(f"{argument}: {message}")
        self.argument = argument
        self.message = message

    def __reduce__(self) -> tuple[type[Mistake], tuple[str, str]]:
        return (type(self), (self.argument, self.message))


class MissingPart(ThebesError, ModuleNotFoundError):
    """Something needs a package that this installation was made without: the message names the extra that brings it."""


class Refusal(ThebesError):
    """A policy said no: a budget, a permission, a closed task. Nothing was spent and nothing changed."""


class Fault(ThebesError, RuntimeError):
    """A promise of ours does not hold. Nothing is released; please report it."""
