"""All that a coordinator writes to a connection leaves together, in order, and before the connection closes."""

from __future__ import annotations

import asyncio
from typing import Any

from thebes.wire.whole import _Collecting


class Line:
    def __init__(self) -> None:
        self.written: list[Any] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.written.append("closed")

    def get_extra_info(self, name: str) -> str:
        return name


def test_what_is_written_in_one_step_leaves_as_one_piece_and_before_the_end() -> None:
    async def talk() -> list[Any]:
        line: Any = Line()
        transport = _Collecting(line, asyncio.get_running_loop())
        transport.write(b"head ")
        transport.write(b"body")
        assert line.written == []
        await asyncio.sleep(0)
        transport.write(b"alone")
        await asyncio.sleep(0)
        transport.write(b"last ")
        transport.write(b"words")
        transport.close()
        await asyncio.sleep(0)
        assert transport.get_extra_info("peername") == "peername"
        return list(line.written)

    assert asyncio.run(talk()) == [b"head body", b"alone", b"last words", "closed"]
