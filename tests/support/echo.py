"""A fork server whose children say what they hear: `python -m tests.support.echo`."""

import os

from thebes.confinement.fork_server import fork_for_each


def echo(source: int, sink: int) -> None:
    while part := os.read(source, 2**16):
        os.write(sink, part)


if __name__ == "__main__":
    fork_for_each(lambda: None, echo)
