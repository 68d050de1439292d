"""The process with SQLite that forks a child for each sandbox: `python -m thebes.data.sandbox.child_server`."""

from thebes.confinement.fork_server import fork_for_each
from thebes.data.sandbox.child import serve

if __name__ == "__main__":
    fork_for_each(lambda: None, serve)
