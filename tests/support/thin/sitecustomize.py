"""Makes a Python process one in which only what people and requestors install is there, and what the extra brings that
THIN_WITH names: put on PYTHONPATH by tests."""

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

ROLES = {"dp_accounting", "duckdb", "grpc", "narwhals", "pandas", "prometheus_client"}
ABSENT = ROLES | {"adbc_driver_postgresql", "opendp", "psycopg", "pyarrow", "scipy", "sklearn", "torch"}
#: of what is absent, what these extras bring
BROUGHT = {"coordinator": {"dp_accounting", "grpc", "pandas", "prometheus_client", "scipy", "sklearn"}}
ABSENT -= BROUGHT.get(os.environ.get("THIN_WITH", ""), set())


class Thin:
    """The usual finder, which does not see the others' packages."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        return None if name in ABSENT else PathFinder.find_spec(name, path, target)


sys.meta_path[sys.meta_path.index(PathFinder)] = Thin
