"""The drawing of how a task without end goes, from the pieces that its kind gives."""

from __future__ import annotations

from markupsafe import Markup

from thebes.tasks import drawings
from thebes.tasks.course_view import Line, Profiles, SmallBars


def drawn(picture: Line | Profiles | SmallBars) -> Markup:
    """Draw one picture."""
    if isinstance(picture, Line):
        return drawings.line(picture.points, title=picture.title, until=picture.until)
    if isinstance(picture, Profiles):
        return drawings.profiles(picture.models, title=picture.title)
    return drawings.small_bars(picture.values, title=picture.title)
