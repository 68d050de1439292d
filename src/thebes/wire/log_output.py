"""The way in which a role writes its log: one line for everything that is said, in words or as JSON.

What must stay true: a line of JSON never holds an error's own words, which may repeat a value, and is one line. What is
said has a stable name, `event`, by which programs know it whatever its words are.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime
from typing import Any

from thebes.privacy.faults import Mistake

CHOICE = "THEBES_LOG"  #: of the environment, so that every process of a role says it alike
FORMS = ("text", "json")
OTHER = "other"  #: the event of whatever a library says
_IDS = ("task", "site")  #: whose number or name a line may tell by itself


def choose(form: str) -> None:
    """Choose the form that this process and those that it starts write."""
    if form not in FORMS:
        raise Mistake("--log", "must be text or json")
    os.environ[CHOICE] = form


def in_json() -> bool:
    return os.environ.get(CHOICE) == "json"


def to_stderr(text: str, *, level: int = logging.INFO) -> None:
    """Write what is said from `level` on to standard error, in words as `text` lays them out, or as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Lines() if in_json() else logging.Formatter(text))
    logging.basicConfig(handlers=[handler], level=level)


def of_uvicorn() -> dict[str, Any]:
    """Return what a server is told, so that it writes as everything else does."""
    return {"log_config": None} if in_json() else {}


class Lines(logging.Formatter):
    """A line of JSON: when, how grave, who, what happened, in a word and in words; the task and site that it is about,
    if any; of an error its kind and place."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        told = vars(record)
        line = {"at": moment, "level": record.levelname.lower(), "logger": record.name}
        line |= {"event": str(told.get("event", OTHER)), **{name: str(told[name]) for name in _IDS if name in told}}
        line["message"] = _said(record)
        if record.exc_info and record.exc_info[1] is not None:
            line["error"] = whereabouts(record.exc_info[1])
        return json.dumps(line)


def _said(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        return f"{record.filename}:{record.lineno} said something that cannot be written"


def whereabouts(error: BaseException) -> str:
    """An error's kind and place. Its words are left out: they may hold a value."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f" at {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    return f"{type(error).__name__}{place}"
