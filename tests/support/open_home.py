"""A person's home that does nothing by itself, behind its pages and before a coordinator in this process."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import uvicorn

from tests.support.coordinator_in_memory import CoordinatorInMemory
from thebes.person.home import Person
from thebes.person.rest import guarded
from thebes.simulation import example
from thebes.web.person.pages import put_on
from thebes.wire.access import Access, make_token
from thebes.wire.server_options import manners


class OpenHome:
    """`me` works when it is told to (`turn`)."""

    def __init__(self, folder: Path) -> None:
        self.server = CoordinatorInMemory()
        self.me = Person(folder, client=self.server, delay=False)  # type: ignore[arg-type]
        example.fill(self.me, seed=4)
        self.me.set_settings({"task": {"epsilon": 1, "delta": 1e-5}})
        make_token(folder)
        self.access = Access(folder)
        listening = socket.create_server(("127.0.0.1", 0))
        port = int(listening.getsockname()[1])
        self.origin = f"http://127.0.0.1:{port}"
        app = guarded(self.me, self.access, port=port, stop=lambda: None, pages=put_on)
        self.running = uvicorn.Server(uvicorn.Config(app, **manners()))
        self.thread = threading.Thread(target=self.running.run, kwargs={"sockets": [listening]}, daemon=True)
        self.thread.start()

    def front(self) -> str:
        return f"{self.origin}/?code={self.access.new_code()}"

    def close(self) -> None:
        self.running.should_exit = True
        self.thread.join()
        self.me.close()
