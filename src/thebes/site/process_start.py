"""The start of a site's two processes, and what each is given and not given."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import thebes
from thebes.wire.log_output import CHOICE

#: names the descriptor of the socket over which the two speak
PIPE = "THEBES_PIPE"
#: what of the environment the process that talks is given: how to reach the network (in small letters or capitals), to
#: tell the time, to write a log
_FOR_THE_NETWORK = ("grpc_proxy", "https_proxy", "no_grpc_proxy", "no_proxy")
_FOR_WORDS = ("TZ", "LANG", CHOICE)


def algorithm_command(home: Path, name: str) -> list[str]:
    """The command line of the process that holds the rows of a home and speaks for the site `name`. It finds its end
    of the pipe, a Unix socket that it inherits, under the number in the environment variable `PIPE`, and ends with
    it."""
    return [*_python("thebes.site.algorithm_process"), "--home", str(home), "--name", name]


def connector_command() -> list[str]:
    """The command line of the process that talks; all it needs it is told through the socket that `PIPE` names."""
    return _python("thebes.site.link.connector")


def algorithm_environment(pipe: int) -> dict[str, str]:
    """Everything: passwords of data sources may stand there."""
    return {**os.environ, **_path(), PIPE: str(pipe)}


def connector_environment(control: int) -> dict[str, str]:
    """Nothing that says where rows lie or how to get at them."""
    kept = {n: value for n, value in os.environ.items() if n.lower() in _FOR_THE_NETWORK or n in _FOR_WORDS}
    return {**kept, **_path(), "HOME": "/nonexistent", PIPE: str(control)}


def library_places() -> list[str]:
    """List where the interpreter and what it imports lie."""
    package = str(Path(thebes.__file__).resolve().parent.parent)
    places = [sys.prefix, sys.base_prefix, sys.exec_prefix, package, *sys.path]
    return sorted({str(Path(place).resolve()) for place in places if place and Path(place).is_absolute()})


def _python(module: str) -> list[str]:
    return [sys.executable, "-P", "-s", "-B", "-m", module]


def _path() -> dict[str, str]:
    package = str(Path(thebes.__file__).parent.parent)
    return {"PYTHONPATH": os.pathsep.join([package, *(p for p in sys.path if p and "site-packages" in p)])}
