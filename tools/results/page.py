"""The page, from its beginning to its end."""

from __future__ import annotations

from collections.abc import Iterator

from papers.registry import experiments
from tools.results.cells import NEARLY, PARTLY, Kept
from tools.results.epsilons import NOBODY, SOMEBODY, matrix
from tools.results.failures import failures
from tools.results.papers import drawn, file, papers
from tools.results.people import expected
from tools.results.questions import questions
from tools.results.trust import by_trust

BEGIN = """\
# Results

What works at which epsilon, with how many people; what does not, and why; then every table and figure of the papers,
run again through the code that people run. `make docs` writes this page from the outcomes that lie beside it.

Epsilon is what one person pays in all: at 1, what one person says makes no result more than e = 2.72 times likelier, at
.1 no more than 1.11 times (where there is a delta, but for odds of about that).
"""

READING = """
## How to read what follows

| | |
|---|---|
| **ours** | what came out here: the mean over the seeds, ± how far they lie apart (standard deviation) |
| **printed** | what the paper prints; a curve without numbers prints none |
| **not private** | what the same questions reach without noise, or with all the data in one place |
| **epsilon** | what one person pays in all; of a site's table one row of it, where the text says so |

Any of it can be run again with `python -m papers run NAME`, and `python -m papers check NAME` says whether it fell
behind this page ([Experiments](experiments.md)). {made}
"""

SHORT = f"""\
## What works at which epsilon

Each cell says what came out, and how much of what there is to learn that is: nothing (0 %) is what somebody reaches
who knows no row, everything (100 %) what the same data give without privacy. **Bold** is at least {100 * NEARLY:.0f} %
of it; what is in (brackets) is less than {100 * PARTLY:.0f} %. *quick*: a quick run, of few seeds and settings, is all
that is kept so far. *People*, or rows, are what was learned from.
"""


def summary(kept: Kept) -> Iterator[str]:
    yield from expected(kept)
    yield from by_trust(kept)
    yield from failures(kept)
    yield SHORT
    yield "### Nobody is trusted: noise is added before anything leaves a person\n"
    yield from matrix(kept, NOBODY)
    yield "\n### Somebody is trusted with rows: a site, or whoever collects them\n"
    yield from matrix(kept, SOMEBODY)
    yield from questions(kept)
    yield READING.format(made=made(kept))


def made(kept: Kept) -> str:
    """With what, and on which days."""
    days: dict[str, set[str]] = {}
    for outcome in kept.values():
        if outcome.made is not None:
            days.setdefault(str(outcome.made).removesuffix(f", {outcome.made.day}"), set()).add(outcome.made.day)
    return " ".join(f"Made with {what}, {min(on)} to {max(on)}." for what, on in sorted(days.items()))


def page(kept: Kept) -> dict[str, str]:
    """Return the page and its pictures, by their names in the documentation."""
    known = experiments()
    lines = [BEGIN, *summary(kept), *papers(kept, known)]
    files = {"results.md": "\n".join(lines).rstrip("\n") + "\n"}
    for name in (name for name in known if name in kept):
        for number, (_, picture) in enumerate(drawn(known[name], kept[name]), 1):
            files[file(kept[name], number)] = picture
    return files
