"""How every server of ours treats connections and what it says of itself, whichever role it plays."""

from __future__ import annotations

import resource
from contextlib import suppress
from typing import Any

from thebes.wire import logs

#: How long a connection that asks nothing stays open. Clients commonly keep one for five seconds; a server that gives
#: up at that same moment now and then closes one on which a request is just arriving, and a POST is not repeated.
KEPT_SECONDS = 9


def manners() -> dict[str, Any]:
    """What a server is told: nothing is written of who asked for what, and no name or version is shown."""
    return {
        "access_log": False,  # who sent what when is nobody's business, and addresses carry ids
        "log_level": "warning",
        "server_header": False,
        "timeout_keep_alive": KEPT_SECONDS,
        **logs.of_uvicorn(),
    }


def hold_many() -> None:
    """Let this process hold as many connections and files as the system allows it."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(ValueError, OSError):  # a system may not allow what it says it does
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
