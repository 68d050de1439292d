"""`python -m tools.notebooks`: run every notebook again, and keep what it puts out."""

from __future__ import annotations

from tools.notebooks.run import executed, notebooks, read, written

for path in notebooks():
    path.write_text(written(executed(read(path))), encoding="utf-8")
    print(path.name)
