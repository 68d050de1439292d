"""Models of the institution on a coordinator's own machine, as a coordinator meets them: whoever starts it brings
them along, for the room in which they are made is not one that a coordinator knows."""

from __future__ import annotations

from typing import Any, Protocol


class Models(Protocol):
    """The questions that can be asked of the models of one home."""

    def told(self) -> list[dict[str, Any]]:
        """The newest version of every model, without the model itself."""
        ...

    def whole(self, name: str, version: int | None = None) -> dict[str, Any] | None:
        """One of them whole, the newest version where none is named; None where there is none."""
        ...

    def predict(self, name: str, rows: Any, version: int | None = None) -> dict[str, Any] | None:
        """Return what a model says of rows, and which version it was; None where there is none."""
        ...


class NoModels:
    """Of a coordinator that was started without any."""

    def told(self) -> list[dict[str, Any]]:
        return []

    def whole(self, name: str, version: int | None = None) -> dict[str, Any] | None:
        return None

    def predict(self, name: str, rows: Any, version: int | None = None) -> dict[str, Any] | None:
        return None
