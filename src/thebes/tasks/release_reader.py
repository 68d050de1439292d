"""A release read back from its JSON, as the same kind of object that was written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from thebes.privacy.certificate import Certificate
from thebes.privacy.faults import Mistake
from thebes.privacy.measurement import Interval
from thebes.privacy.promise import Adjacency, Unit
from thebes.tasks.release import Release

_OWN = {"value", "interval", "intervals", "certificate", "form"}


def release_from_json(body: Mapping[str, Any]) -> Release:
    """Read what `Release.as_json` wrote; whatever code made it, nothing in it is executed."""
    try:
        form = body.get("form", "value")
        if form not in Release.FORMS and form != "value":
            from thebes.tasks import registry

            registry.load_releases()
        if form != "value" and form not in Release.FORMS:
            raise Mistake("release", "is of a form that is not known here")
        made = Release.FORMS.get(form, Release)
        written = body.get("intervals") or ([body["interval"]] if body.get("interval") else [])
        bars = {bar["level"]: Interval(bar["level"], _number(bar["low"]), _number(bar["high"])) for bar in written}
        extra = {name: value for name, value in body.items() if name not in _OWN}
        release = made(body["value"], certificate_of(body["certificate"]), bars, extra)
        _ = release.quality  # malformed: refused here, before anybody shows it
        return release
    except Mistake:
        raise
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise Mistake("release", f"is not a release ({type(error).__name__})") from None


def certificate_of(body: Mapping[str, Any]) -> Certificate:
    """Read what `Certificate.as_json` wrote; a KeyError, TypeError or ValueError where it is something else."""
    fields = {name: body[name] for name in body if name not in ("text", "unit", "adjacency", "estimated", "notes")}
    return Certificate(
        unit=Unit(body["unit"]),
        adjacency=Adjacency(body["adjacency"]),
        estimated=tuple(body["estimated"]),
        notes=tuple(body.get("notes", ())),
        **fields,
    )


def _number(value: Any) -> Any:
    if isinstance(value, Mapping):
        value = list(value.values())
    return np.asarray(value, dtype=np.float64) if isinstance(value, list) else float(value)
