"""The process that has loaded torch and forks a child for each task: `python -m thebes.learning.graph.child_server`."""

from thebes.confinement.fork_server import fork_for_each
from thebes.learning.graph.child import prepare, serve

if __name__ == "__main__":
    fork_for_each(prepare, serve)
