"""The form of a bounded task."""

from __future__ import annotations

from thebes.tasks.form import Form, Hint

FORM = Form(rank=3, fields={"mechanism": Hint(help="split: each column by itself")})
