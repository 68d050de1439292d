"""The section of every answer that is a model: what it was shown to be worth, beside guessing."""

from __future__ import annotations

from collections.abc import Sequence

from thebes.privacy.model_quality import Quality
from thebes.tasks.answer_view import AnswerTable, Section, short
from thebes.tasks.release import Release

_TITLE = "What the model is worth"


def sections(release: Release) -> Sequence[Section]:
    """Return what a page says of a release's quality: one section, or none where there is no model to be checked."""
    if "quality" not in release.extra:
        return ()
    found = release.quality
    if found is None:
        return (Section(_TITLE, f"{release.unchecked[0].upper()}{release.unchecked[1:]}."),)
    said = f"{found.line[0].upper()}{found.line[1:]}."
    return (Section(_TITLE, said, table=AnswerTable.of(("measure", "value"), _lines(found))),)


def _lines(found: Quality) -> list[tuple[str, str]]:
    bar = (
        f"{found.interval.level:.0%} interval {short(float(found.interval.low))} to {short(float(found.interval.high))}"
    )
    return [
        (found.metric, f"{short(found.value)} ({bar})"),
        *([] if found.guessing is None else [("guessing", short(found.guessing))]),
        ("tested on", f"{short(found.people)} {found.of}"),
        ("epsilon of the test", short(found.epsilon)),
    ]
