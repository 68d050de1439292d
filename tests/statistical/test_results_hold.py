"""Quick experiments give what was committed: the same seeds, so nothing here hangs on luck.

Where draws were changed on purpose, `python -m papers check NAME --quick` says whether that was only the draws, and
`python -m papers run NAME --quick --home papers/published` renews what is kept.
"""

from __future__ import annotations

import pytest

from papers.comparing import compare
from papers.registry import experiment
from papers.results import Results, published

#: some of every paper, about 20 seconds of one core in all; the first five read no data
FAST = (
    "anonml-2",
    "anonml-3",
    "draw-discard-5",
    "draw-discard-theorem-1",
    "sage-8",
    "anonml-classifiers",
    "sage-7",
    "smartcache-figure-10-7",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAST)
def test_a_quick_experiment_has_not_fallen_behind_what_was_committed(name: str) -> None:
    before = Results(published()).kept(quick=True)[name]
    now = experiment(name).run(quick=True, seeds=before.seeds)
    if now.made_up:
        pytest.skip("the data that it reads are not here")
    found = compare([(experiment(name), before, now)], same_draws=True)[0]
    assert found.why_not == ""
    assert found.rows > 0
    assert not found.fell
