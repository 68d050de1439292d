"""`python -m evidence.audit`: attack everything, print the table, fail where a claim falls or a broken mechanism
passes."""

from __future__ import annotations

import argparse
import sys
import time

from rich.console import Console
from rich.table import Table

from evidence.audit.table import everything
from thebes.testing.audit import LEVEL, Finding


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m evidence.audit", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the draws: weaker bounds, same confidence")
    options = parser.parse_args()
    start = time.perf_counter()
    console = Console() if sys.stdout.isatty() else Console(width=150)
    findings = everything(effort=0.1 if options.quick else 1.0)
    console.print(table(findings))
    bad = [finding for finding in findings if not finding.good]
    console.print(
        f"{len(findings)} cases, {sum(f.positive_control for f in findings)} of them broken on purpose; all bounds "
        f"hold together except with probability {LEVEL:g}. {time.perf_counter() - start:.0f} s."
    )
    console.print(
        f"[red]{len(bad)} bad verdicts" if bad else "Every claim holds and every broken mechanism was caught."
    )
    return 1 if bad else 0


def table(findings: list[Finding]) -> Table:
    shown = Table(title="Certified lower bounds on epsilon, and on what an attacker gains (hits less false alarms)")
    for heading in ("mechanism", "adjacency"):
        shown.add_column(heading)
    for heading in ("delta", "claimed epsilon", "certified at least", "attack gains", "of at most"):
        shown.add_column(heading, justify="right")
    shown.add_column("verdict")
    for finding in findings:
        bound = f"{finding.lower_bound:.3f}" + (" exactly" if finding.exact else "")
        colour = "green" if finding.good else "red"
        shown.add_row(
            ("broken: " if finding.positive_control else "") + finding.name,
            str(finding.adjacency),
            f"{finding.delta:g}",
            f"{finding.epsilon:g}",
            bound,
            f"{finding.advantage:.3f}",
            f"{finding.most_advantage:.3f}",
            f"[{colour}]{finding.verdict}[/]",
        )
    return shown


if __name__ == "__main__":
    sys.exit(main())
