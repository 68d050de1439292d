"""The answer to a query: which sites are in it, what it cost at each, and where it came from."""

from __future__ import annotations

from typing import Any

from thebes.tasks.release import Release


class QueryRelease(Release):
    form = "query"

    @property
    def coverage(self) -> dict[str, Any]:
        """`answered`: the sites in the answer; `missing`: those that are not, each with the reason."""
        return dict(self.extra.get("coverage", {}))

    @property
    def cost(self) -> dict[str, float]:
        """Epsilon and delta that one unit paid at each site that answered."""
        return dict(self.extra.get("cost", {}))

    @property
    def source(self) -> str:
        """What gave the answer: a mechanism over the rows."""
        return str(self.extra.get("source", "mechanism"))

    def _beside(self) -> list[str]:
        covered = self.coverage
        lines = [f"answered by: {', '.join(covered.get('answered', ()))}"]
        return [*lines, *(f"without {site}: {why}" for site, why in covered.get("missing", {}).items())]
