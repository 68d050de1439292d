"""The look of what blocks made: that of a question, or of a model over sites."""

from __future__ import annotations

from typing import Any

from thebes.tasks.answer_view import Cells, Section
from thebes.tasks.query import view as question
from thebes.tasks.release import Release
from thebes.tasks.train import view as training


def sections(release: Release, document: Any) -> list[Section]:
    if release.form == "query":
        return question.sections(release, document.question)
    return training.sections(release, document)


def table(release: Release) -> Cells:
    return question.table(release) if release.form == "query" else training.table(release)
