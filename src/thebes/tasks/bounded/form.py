"""The form of a bounded task."""

from __future__ import annotations

from thebes.tasks.form import Form, Hint

_WAYS = "auto: what is expected to err least; split: each column by itself; privunit: the row as one"

FORM = Form(rank=3, fields={"mechanism": Hint(help=_WAYS)})
