"""Write the settings of a coordinator as one page, out of what the program reads."""

from __future__ import annotations

from thebes.coordinator.settings import CoordinatorSettings
from tools.reference.documents import HEAD, row

_TOP = """# Settings of a coordinator

*For operators: what `coordinator.toml` in the home of a [coordinator](coordinator.md) may say.* Everything has a
default; an unknown name is refused at the start. `deploy/coordinator.toml` is such a file with every default.

"""


def written() -> str:
    """Return the page."""
    schema = CoordinatorSettings.model_json_schema()
    found = schema["properties"].items()
    rows = [row(name, one, schema.get("$defs", {}), one["description"], must=False) for name, one in found]
    return _TOP + HEAD + "\n".join(rows) + "\n"
