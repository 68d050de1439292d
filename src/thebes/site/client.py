"""The `thebes site` that runs, from another process of the same user on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from thebes.privacy.faults import Refusal
from thebes.site.home import SiteHome
from thebes.wire.access import read_secret
from thebes.wire.local_server import TOKEN, HomeInUse, Local, announced


class SiteClient(Local):
    """The site that runs, as its steward asks things of it."""

    def address(self) -> str:
        """A new one-time address for a browser."""
        return str(self._ask("POST", "/api/session")["url"])

    def standing(self) -> dict[str, Any]:
        """Tell whether it is linked, and whether its process with the rows runs."""
        return dict(self._ask("GET", "/api/site"))


def running(folder: Path) -> SiteClient:
    """The site that holds this home. The token is shown only while the home is held: an address that was left behind
    may belong to somebody else by now."""
    url = announced(folder).get("url")
    if folder.is_dir() and isinstance(url, str) and url.startswith("http://127.0.0.1:"):
        try:
            SiteHome(folder).hold(shared=True).close()  # others who only look are not taken for one who holds it
        except HomeInUse:
            return SiteClient(url, read_secret(folder / TOKEN))
    raise Refusal(f"no `thebes site` runs in {str(folder)!r}; start one, and it prints an address")
