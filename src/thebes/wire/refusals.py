"""The refusals of another machine, what it says when it says no, or does not answer. Roles may subclass these to be
more exact."""

from __future__ import annotations

from typing import Any

from thebes.privacy.faults import Mistake, Refusal


class Malformed(Mistake):
    """The message itself cannot be read: not JSON, not a frame, the wrong media type."""


class NotFound(Refusal):
    """There is nothing by that name here."""


class Conflict(Refusal):
    """Something else was said under the same name before, or the thing is not in a state that allows this."""


class NotSignedIn(Refusal):
    """The refusal of somebody who is not known: the token is missing, unknown or no longer valid."""


class NotAllowed(Refusal):
    """The refusal of somebody who is known, and may not do this."""


class TooLarge(Refusal):
    """The message is larger than the reader takes."""


class Busy(Refusal):
    """Too much to do just now; `seconds` says when to come back."""

    def __init__(self, message: str, seconds: float = 1.0) -> None:
        super().__init__(message)
        self.message = message
        self.seconds = seconds

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.message, self.seconds))


class Unreachable(Refusal):
    """No Thebes server answered at `url`. Whether it heard the last message is not known."""

    def __init__(self, url: str, message: str) -> None:
        super().__init__(f"{url}: {message}")
        self.url = url
        self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.url, self.message))


class BrokenRecord(Refusal):
    """The record of a release is not what its coordinator published: something in it does not fit the signed list."""


class Unsigned(Refusal):
    """The signed list has no release of a task: nothing shows that its coordinator published this one."""


class BrokenLog(Refusal):
    """A server's signed task list does not hold together, or is not the one that was seen before."""
