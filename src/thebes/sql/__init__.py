"""Questions to sites in SQL: one SELECT over a data set, read into a `query` document and the arithmetic after it.

No text is executed: every accepted part is made anew from words of this package. What noise hides are the totals of the
document; everything else (arithmetic over them, HAVING, ORDER BY, LIMIT) is done with what was released, and free.
"""

from __future__ import annotations

from thebes.sql.answer import SqlAnswer
from thebes.sql.question import SqlQuestion, read

__all__ = ["SqlAnswer", "SqlQuestion", "read"]
