"""Every table and figure, paper by paper."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase as fnmatch
from itertools import groupby

from papers.experiment import Experiment, Headline
from papers.outcome import Outcome
from papers.page import pictures
from tools.results.cells import Kept, plain
from tools.results.tables import table


def papers(kept: Kept, known: Mapping[str, Experiment]) -> Iterator[str]:
    ordered = [(known[name], kept[name]) for name in known if name in kept]
    for paper, of_it in groupby(ordered, key=lambda pair: pair[0].paper):
        yield f"\n## {paper}\n"
        for _, alike in groupby(of_it, key=lambda pair: (pair[1].shows, pair[1].across, pair[1].notes)):
            yield from section(list(alike))


def section(alike: Sequence[tuple[Experiment, Outcome]]) -> Iterator[str]:
    """One heading for figures that show the same of several tables."""
    first, told = alike[0]
    places = [outcome.place for _, outcome in alike]
    place = places[0] if len(alike) == 1 else f"figures {places[0].split()[-1]} to {places[-1].split()[-1]}"
    yield "\n" + "".join(f'<a id="{one.name}"></a>' for one, _ in alike) + "\n"
    yield f"### {place[0].upper()}{place[1:]}\n\n{told.shows}\n"
    if any(outcome.quick for _, outcome in alike):
        yield "A quick run: fewer seeds and settings than the whole one.\n"
    for experiment, outcome in alike:
        if len(alike) > 1:
            yield f"**{outcome.place[0].upper()}{outcome.place[1:]}**\n"
        for number, (panel, _) in enumerate(drawn(experiment, outcome), 1):
            words = plain(outcome.of(panel))
            yield f"![{words}]({file(outcome, number)})\n\n*{words}*\n"
        yield from table(outcome, experiment.told(outcome))
        yield "\n" + run_of(outcome) + "\n"
    yield from differences(told, 0 if first.headline is None else first.headline.differs)


def drawn(experiment: Experiment, outcome: Outcome) -> list[tuple[str, str]]:
    """(panel, picture) of the panels that the headline draws."""
    words = (experiment.headline or Headline()).drawn
    return [(panel, standing(picture)) for panel, picture in pictures(outcome) if any(fnmatch(panel, w) for w in words)]


STYLE = (
    "text{fill:#1d2426;font:13px system-ui,sans-serif}.axis{stroke:#5a6669}.grid{stroke:#dcdad3}"
    ".curve{fill:none;stroke:var(--line);stroke-width:2}.dot{fill:var(--line)}.bar{fill:#0d5c63}"
    ".spread{stroke:var(--line);stroke-width:1.5;opacity:.6}.error{stroke:#b4540a;stroke-width:2.5}"
    ".kind0{--line:#0d5c63}.kind1{--line:#b4540a}.kind2{--line:#6a3d9a}.kind3{--line:#1d6b3a}.kind4{--line:#a4262c}"
    ".kind5{--line:#5a6669}.curve.kind1{stroke-dasharray:7 3}.curve.kind2{stroke-dasharray:2 3}"
    ".curve.kind3{stroke-dasharray:9 3 2 3}.curve.kind5{stroke-dasharray:4 4}"
    "@media(prefers-color-scheme:dark){text{fill:#e6eaea}.axis{stroke:#a3b0b2}.grid{stroke:#384347}.bar{fill:#4ba6ad}"
    ".error{stroke:#f0a35e}.kind0{--line:#7fd0d6}.kind1{--line:#f0a35e}.kind2{--line:#c7a6f0}.kind3{--line:#7ccf98}"
    ".kind4{--line:#ff8f8f}.kind5{--line:#a3b0b2}}"
)


def standing(picture: str) -> str:
    """A picture that stands alone, with its colours in it."""
    opened = str(picture).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return opened.replace("</title>", f"</title><style>{STYLE}</style>", 1) + "\n"


def file(outcome: Outcome, number: int) -> str:
    return f"results/{outcome.name}-{number}.svg"


def run_of(outcome: Outcome) -> str:
    seeds = "1 seed" if len(outcome.seeds) == 1 else f"{len(outcome.seeds)} seeds"
    took = f"{outcome.seconds:.1f} s" if outcome.seconds < 100 else f"{outcome.seconds / 60:.0f} min"
    pays = any(row.epsilon is not None for row in outcome.rows)
    who = f" Epsilon is what one {outcome.unit} pays in all." if pays else " Nothing here is private."
    measure = f"{outcome.measure[0].upper()}{outcome.measure[1:]}".replace("its panel says", "the first column says")
    every = f"[all {len(outcome.rows)} rows](results/{outcome.name}{'.quick' if outcome.quick else ''}.json)"
    return f"{measure}; {every}.{who} Data: {outcome.data}. `{outcome.name}`: {seeds}, {took}."


def differences(outcome: Outcome, first: int) -> Iterator[str]:
    """The sentence where we differ; the others folded away."""
    notes = list(outcome.notes)
    if not notes:
        return
    yield f"Where we differ: {notes.pop(min(first, len(notes) - 1))}\n"
    if notes:
        told = "".join(f"<li>{html.escape(note)}</li>" for note in notes)
        yield f"<details><summary>More about how it was run</summary><ul>{told}</ul></details>\n"
