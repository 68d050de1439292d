"""The one page there is so far: which tasks are open. Everything else is in the command line and the interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from thebes.wire.problems import printable

_FRAME = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Thebes coordinator</title><link rel="icon" href="data:,">
<style>body{{font:1rem/1.5 system-ui;margin:2rem auto;max-width:60rem;padding:0 1rem}}
td,th{{text-align:left;padding:.2rem 1rem .2rem 0;vertical-align:top}}</style></head>
<body><h1>Open tasks</h1>{content}<p>Tasks are put up with <code>thebes task submit</code> and answered with
<code>thebes person</code>.</p></body></html>
"""


def open_tasks(tasks: Sequence[Mapping[str, Any]]) -> str:
    """A table of tasks. What requestors wrote is shown as plain text."""
    if not tasks:
        return _FRAME.format(content="<p>There are none just now.</p>")
    head = "<tr><th>Task</th><th>Kind</th><th>Status</th><th>Contributions</th><th>Price</th></tr>"
    rows = "".join(_row(task) for task in tasks)
    return _FRAME.format(content=f"<table>{head}{rows}</table>")


def _row(task: Mapping[str, Any]) -> str:
    name = printable(task["document"].get("name"), 200) or task["task_id"]
    price = f"epsilon {task['price']['epsilon']:g}" + (
        f", delta {task['price']['delta']:g}" if task["price"]["delta"] else ""
    )
    have = f"{task['contributions']} of {task['min_count']}"
    cells = (name, task["type"], task["status"], have, price)
    return "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in cells) + "</tr>"
