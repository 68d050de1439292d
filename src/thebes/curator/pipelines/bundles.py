"""Models that were accepted, with all that is needed to use and to judge them: FOLDER/NAME/N.json, counted from 1.

What must stay true: a version is there whole or not at all, is never changed, and is never two.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from thebes.database import private_files
from thebes.privacy.faults import Mistake

FORMAT = 1
NAME = r"^[a-z0-9][a-z0-9._-]{0,62}\Z"
_LOCK = ".lock"


class Bundles:
    """The bundles below one folder, which is made with mode 0700 if need be."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> list[str]:
        """Models that have a version."""
        if not self.folder.is_dir():
            return []
        found = sorted(path.name for path in self.folder.iterdir() if re.match(NAME, path.name))
        return [name for name in found if self.versions(name)]

    def versions(self, name: str) -> list[int]:
        """Oldest first."""
        place = self.folder / checked(name)
        found = (re.fullmatch(r"([1-9][0-9]{0,8})\.json", path.name) for path in place.glob("*.json"))
        return sorted(int(one[1]) for one in found if one)

    def get(self, name: str, version: int | None = None) -> dict[str, Any]:
        """A bundle; the newest where no version is named."""
        versions = self.versions(name)
        chosen = version if version is not None else (versions[-1] if versions else 0)
        if chosen not in versions:
            which = f"version {version} of it" if versions else "model of that name"
            raise Mistake("name", f"{name!r}: there is no {which} here")
        body: dict[str, Any] = json.loads((self.folder / name / f"{chosen}.json").read_text(encoding="utf-8"))
        return body

    def newest(self, name: str) -> dict[str, Any] | None:
        """The newest version, or None before the first."""
        return self.get(name) if self.versions(name) else None

    def publish(self, name: str, body: Mapping[str, Any], *, origin: str) -> int:
        """Make it the next version and give its number. `origin` names where it came from: the same again is the
        version that it is already, so that whoever was interrupted can say it again."""
        place = self.folder / checked(name)
        with private_files.alone(place / _LOCK):
            versions = self.versions(name)
            for version in reversed(versions):
                if self.get(name, version).get("origin") == origin:
                    return version
            version = versions[-1] + 1 if versions else 1
            whole = {"format": FORMAT, "name": name, "version": version, "origin": origin, **body}
            private_files.put(place / f"{version}.json", f"{written(whole)}\n")
            return version


def written(body: Mapping[str, Any]) -> str:
    """As JSON; a Mistake where it holds what JSON cannot: numbers that are not finite, objects."""
    try:
        return json.dumps(body, allow_nan=False, ensure_ascii=False)
    except ValueError:
        raise Mistake("model", "holds a number that is not finite, so it cannot be kept or used") from None
    except TypeError:
        raise Mistake(
            "model", "must be made of what JSON has: numbers, texts, lists, objects with texts as keys"
        ) from None


def checked(name: str) -> str:
    """A model's or pipeline's name, which is also a folder's."""
    if not isinstance(name, str) or re.match(NAME, name) is None:
        raise Mistake("name", "must be lower-case letters, digits, '.', '_' and '-', beginning with a letter or digit")
    return name
