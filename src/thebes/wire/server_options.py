"""The options of every server of ours: how it treats connections and what it says of itself, whichever role it plays.

What must stay true: nothing of a request reaches anybody whom the server does not serve; whatever else is installed or
set up in the process or its environment is offered none of it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from fastapi import FastAPI

from thebes import __version__, machine
from thebes.wire import log_output
from thebes.wire.routes import Exact
from thebes.wire.whole import WholeAnswers

#: How long a connection that asks nothing stays open. Clients commonly keep one for five seconds; a server that gives
#: up at that same moment now and then closes one on which a request is just arriving, and a POST is not repeated.
KEPT_SECONDS = 9


def application(title: str, kind: type[FastAPI] = FastAPI, **more: Any) -> FastAPI:
    """An application as every server has it. There are no interactive pages: they would fetch programs from elsewhere;
    and an address is that address only: to send those on who put a slash more or less there, the framework would name
    whatever host stands in the request.

    The framework would give traces, figures and logs of every request to whatever OpenTelemetry finds in the process,
    with addresses, bodies and the words of errors, and ask for each request whether there is any.
    """
    off = ("tracing", "metrics", "logs", "operation_spans", "auto_configure")
    made = kind(
        title=title,
        version=__version__,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        telemetry=dict.fromkeys(off, False),  # type: ignore[arg-type]
        **more,
    )
    made.router.route_class = Exact
    return made


def manners() -> dict[str, Any]:
    """Return what a server is told: nothing is written of who asked for what, no name or version is shown, and a
    request arrives in time."""
    return {
        "http": WholeAnswers,
        "access_log": False,  # who sent what when is nobody's business, and addresses carry ids
        "log_level": "warning",
        "server_header": False,
        "timeout_keep_alive": KEPT_SECONDS,
        **log_output.of_uvicorn(),
    }


def hold_many() -> None:
    """Let this process hold as many connections and files as the system allows it."""
    with suppress(ValueError, OSError):  # a system may not allow what it says it does, or know no such limit
        most = machine.limits("NOFILE")[1]
        machine.set_limits("NOFILE", most, most)
