"""The summary, and the page behind it, from their beginnings to their ends."""

from __future__ import annotations

from collections.abc import Iterator

from papers.registry import experiments
from tools.results.cells import NEARLY, PARTLY, Kept
from tools.results.epsilons import IN_SHORT, NOBODY, SOMEBODY, matrix
from tools.results.failures import failures, in_short
from tools.results.papers import drawn, file, papers
from tools.results.people import expected
from tools.results.questions import questions
from tools.results.trust import by_trust

BEHIND = "results-tables.md"
BEGIN = f"""\
---
hide: [toc]
---

# Results

*For everybody who wants to know what works, with how many people, at which epsilon.* Epsilon is what one person pays in
all. Every table and figure of the papers, run again through the code that people run, stands [behind this
page]({BEHIND}).
"""

BEGIN_TABLES = """\
# Results, table by table

*For readers of the papers, and planners of a study.* The tables behind the [summary](results.md): by people, by
trust, by epsilon, then every table and figure of the papers. `make docs` writes this page from the outcomes that lie
beside it.

Epsilon is what one person pays in all: at 1, what one person says makes no result more than e = 2.72 times likelier, at
.1 no more than 1.11 times (where there is a delta, but for odds of about that).
"""

READING = """
All of it [can be run again](experiments.md); what was wanted of it stands [beside it](targets.md). {made}
"""

WORDS = """
## How to read what follows

| | |
|---|---|
| **ours** | what came out here: the mean over the seeds, ± how far they lie apart (standard deviation) |
| **printed** | what the paper prints; a curve without numbers prints none |
| **not private** | what the same questions reach without noise, or with all the data in one place |
| **epsilon** | what one person pays in all; of a site's table one row of it, where the text says so |
"""

SCALE = f"""\
Each cell says what came out, and how much of what there is to learn that is: nothing (0 %) is what somebody reaches
who knows no row, everything (100 %) what the same data give without privacy. **Bold** is at least {100 * NEARLY:.0f} %
of it; what is in (brackets) is less than {100 * PARTLY:.0f} %.
"""


QUICK = (
    "*People*, or rows, are what was learned from. *quick*: only a quick run is kept so far, of few seeds and settings."
)


def summary(kept: Kept) -> Iterator[str]:
    """Yield what fits on two screens."""
    yield BEGIN
    yield from expected(kept, epsilons=(1.0,))
    yield "\n## What is learned, at epsilon 1 and at 8\n"
    yield SCALE
    yield from (line.replace("<br>", " ") for line in matrix(kept, IN_SHORT, epsilons=(1.0, 8.0)))
    yield from in_short(kept)
    yield READING.format(made=made(kept))


def tables(kept: Kept) -> Iterator[str]:
    """Yield what stands behind the summary, before the papers."""
    yield BEGIN_TABLES
    yield from expected(kept)
    yield from by_trust(kept)
    yield from failures(kept)
    yield "## What works at which epsilon\n"
    yield f"{SCALE.rstrip()} {QUICK}\n"
    yield "### Nobody is trusted: noise is added before anything leaves a person\n"
    yield from matrix(kept, NOBODY)
    yield "\n### Somebody is trusted with rows: a site, or their collector\n"
    yield from matrix(kept, SOMEBODY)
    yield from questions(kept)
    yield WORDS


def made(kept: Kept) -> str:
    """With what, and on which days."""
    days: dict[str, set[str]] = {}
    for outcome in kept.values():
        if outcome.made is not None:
            days.setdefault(str(outcome.made).removesuffix(f", {outcome.made.day}"), set()).add(outcome.made.day)
    return " ".join(f"Made with {what}, {min(on)} to {max(on)}." for what, on in sorted(days.items()))


def page(kept: Kept) -> dict[str, str]:
    """Return the two pages and their pictures, by their names in the documentation."""
    known = experiments()
    short = "\n".join(summary(kept)).replace("](#", f"]({BEHIND}#")
    files = {"results.md": short, BEHIND: "\n".join([*tables(kept), *papers(kept, known)])}
    files = {name: f"{text.rstrip()}\n" for name, text in files.items()}
    for name in (name for name in known if name in kept):
        for number, (_, picture) in enumerate(drawn(known[name], kept[name]), 1):
            files[file(kept[name], number)] = picture
    return files
