"""The state of a site, in figures for its steward's Prometheus: nothing that depends on rows, nor on who asked.

What must stay true: of what was asked no figure tells more than what is left of a data set's budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry, Gauge

MOST_DATASETS = 200  #: of which the budget is told


def figures_of(
    shown: Mapping[str, Any], confined: bool, now: datetime, budgets: Mapping[str, Any] | None = None
) -> CollectorRegistry:
    """Return the figures of a link as the steward is shown it, at this moment; and of the site's `budgets`, where the
    process with the rows tells them."""
    registry = CollectorRegistry()

    def say(name: str, what: str, value: float) -> None:
        Gauge(f"thebes_site_{name}", what, registry=registry).set(value)

    say("linked", "Whether the coordinator is reached and knows this site.", shown["state"] == "connected")
    say("algorithm_up", "Whether the process with the rows runs.", shown["algorithm"] == "up")
    say("confined", "Whether the process that talks is kept away from the rows by the system.", confined)
    ends = shown["certificate_ends"]
    left = 0.0 if ends is None else (datetime.fromisoformat(ends) - now).total_seconds()
    say("certificate_days", "Days for which the certificate still counts.", int(max(left, 0.0) // 86400))
    if budgets is not None:
        say("ledger_frozen", "Whether nothing is spent until the steward thaws the ledger.", budgets["frozen"])
        say("policy_readable", "Whether the policy is in force as it stands in its file.", budgets["policy"] is None)
        shares = Gauge(
            "thebes_site_budget_left",
            "Share of a data set's budget that is left; where it grows, of the open block that has most.",
            ["dataset"],
            registry=registry,
        )
        for name, share in sorted(budgets["left"].items())[:MOST_DATASETS]:
            shares.labels(name).set(share)
    return registry
