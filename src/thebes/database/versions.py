"""The way an older database is brought up to date, the same in SQLite and PostgreSQL.

What must stay true: a change of the tables is one transaction; processes and threads that open at the same time make
it once; a database of a newer Thebes is left alone.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

#: Of indices and constraints, so that a later change can name them.
NAMES = {
    "pk": "pk_%(table_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ix": "ix_%(table_name)s_%(column_0_name)s",
}
_UPGRADING = threading.Lock()  # alembic keeps what it works on in variables of its module


@dataclass(frozen=True, slots=True)
class Versions:
    """A set of tables and the changes (`migrations`, a folder for alembic) that lead to its `newest` version.

    `table` holds the version a database is at; `lock` is the number of an advisory lock in PostgreSQL.
    """

    metadata: sa.MetaData
    table: str
    newest: str
    migrations: Path
    lock: int

    def of(self, connection: sa.Connection) -> str | None:
        """The version a database is at; None where it has none of the tables."""
        if not sa.inspect(connection).has_table(self.table):
            return None
        row = connection.execute(sa.text(f"SELECT version_num FROM {self.table}")).first()  # noqa: S608
        return None if row is None else str(row[0])

    def reach_newest(self, connection: sa.Connection) -> bool:
        """Make or change the tables inside the caller's writing transaction; False, and no change, if they are of a
        version that is not known here.

        In SQLite the transaction must have begun as a writing one: nobody else is between looking and changing.
        """
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(self.lock)))
        version = self.of(connection)
        if version is None or version < self.newest:
            self._upgrade(connection)
        return self.of(connection) == self.newest

    def _upgrade(self, connection: sa.Connection) -> None:
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(self.migrations))
        config.set_main_option("path_separator", "os")
        config.attributes.update(connection=connection, versions=self)
        with _UPGRADING:
            command.upgrade(config, self.newest)


def run_migrations() -> None:
    """Do what every `migrations/env.py` does: apply the changes on the connection handed over, in its transaction."""
    from alembic import context

    versions: Versions = context.config.attributes["versions"]
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=versions.metadata,
        version_table=versions.table,
        render_as_batch=True,
    )
    with context.begin_transaction():
        context.run_migrations()
