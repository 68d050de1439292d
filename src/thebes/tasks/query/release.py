"""The answer to a query: which sites are in it, what it cost at each, and where it came from."""

from __future__ import annotations

from typing import Any

from thebes.privacy.figures import figure
from thebes.tasks.release import Release

MIXED = "mixed"  #: where the answer came from, where that differs by site (`sites`)


class QueryRelease(Release):
    form = "query"

    @property
    def coverage(self) -> dict[str, Any]:
        """`answered`: the sites in the answer; `missing`: those that are not, each with the reason."""
        return dict(self.extra.get("coverage", {}))

    @property
    def cost(self) -> dict[str, float]:
        """Epsilon and delta that one unit paid at the site where it paid most, by the sites' own word."""
        return dict(self.extra.get("cost", {}))

    @property
    def threshold(self) -> int | None:
        """The noisy number of people from which on a group was found, at the site where that is highest; None where
        all groups were declared."""
        found = self.extra.get("found")
        return None if found is None else int(found["threshold"])

    @property
    def source(self) -> str:
        """The source of the answer: a mechanism over the rows, an earlier answer (`cache`), a `synopsis` of earlier
        answers, or `mixed`: then `sites` says which where."""
        return str(self.extra.get("source", "mechanism"))

    @property
    def sites(self) -> dict[str, dict[str, Any]]:
        """Of each site that answered its `cost` and `source`."""
        own = {"cost": self.cost, "source": self.source}
        return dict(self.extra.get("sites") or dict.fromkeys(self.coverage.get("answered", ()), own))

    def _beside(self) -> list[str]:
        covered = self.coverage
        lines = [f"answered by: {', '.join(covered.get('answered', ()))}"]
        if self.source == MIXED:
            told = (
                f"{site} {own['source']}, epsilon {figure(own['cost']['epsilon'])}" for site, own in self.sites.items()
            )
            lines.append(f"from: {'; '.join(told)}")
        elif self.source != "mechanism":
            lines.append(f"from: {self.source}, epsilon {figure(self.cost['epsilon'])}")
        lines += [f"without {site}: {why}" for site, why in covered.get("missing", {}).items()]
        return [*lines, *super()._beside()]
