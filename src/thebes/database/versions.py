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
#: What is wrong with tables that are `before_first`, and what to do.
UNRELEASED = (
    "was made by a Thebes before 0.1.0, the first version that was released, and cannot be brought up to date: "
    "move it away and begin with a new one"
)
_UPGRADING = threading.Lock()  # alembic keeps what it works on in variables of its module


@dataclass(frozen=True, slots=True)
class Versions:
    """A set of tables and the changes (`migrations`, a folder for alembic) that lead to its `newest` version.

    `table` holds the version a database is at; `lock` is the number of an advisory lock in PostgreSQL; `oldest` is the
    first version that was released, from which the changes lead.
    """

    metadata: sa.MetaData
    table: str
    newest: str
    migrations: Path
    lock: int
    oldest: str = "0001"

    def of(self, connection: sa.Connection) -> str | None:
        """The version a database is at; None where it has none of the tables."""
        if not sa.inspect(connection).has_table(self.table):
            return None
        row = connection.execute(sa.text(f"SELECT version_num FROM {self.table}")).first()  # noqa: S608
        return None if row is None else str(row[0])

    def before_first(self, version: str | None) -> bool:
        """Return whether tables of this version were never released, so that no change leads from them."""
        return version is not None and version < self.oldest

    def reach_newest(self, connection: sa.Connection) -> bool:
        """Make or change the tables inside the caller's writing transaction; False, and no change, if they are of a
        version that is not known here, or `before_first`.

        In SQLite the transaction must have begun as a writing one: nobody else is between looking and changing.
        """
        if connection.dialect.name == "postgresql":
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(self.lock)))
        version = self.of(connection)
        if version is None:
            self._create(connection)
        elif self.oldest <= version < self.newest:
            self.upgrade(connection)
        return self.of(connection) == self.newest

    def _create(self, connection: sa.Connection) -> None:
        """Make the tables of the newest version at once: going through all changes, each in a file that is looked for
        and read, takes longer than most of what a new database is for."""
        self.metadata.create_all(connection, checkfirst=False)
        at = sa.Table(self.table, sa.MetaData(), sa.Column("version_num", sa.String(32), nullable=False))
        at.append_constraint(sa.PrimaryKeyConstraint("version_num", name=f"{self.table}_pkc"))
        at.create(connection)
        connection.execute(at.insert().values(version_num=self.newest))

    def upgrade(self, connection: sa.Connection) -> None:
        """Apply the changes that lead from the version that is there, or from nothing, to the newest one."""
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
