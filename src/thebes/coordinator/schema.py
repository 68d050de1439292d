"""The tables of a coordinator, the same in SQLite and PostgreSQL, and how an older database is brought up to date.

What must stay true: `migrations/` builds exactly these tables; no table orders contributions by their arrival.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import CheckConstraint, Column, Float, ForeignKey, Index, Integer, LargeBinary, MetaData, Table, Text

VERSION_TABLE = "coordinator_version"
#: The newest file in migrations/versions.
VERSION = "0001"

METADATA = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_name)s",
    }
)

TASK = Table(
    "coordinator_task",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("requestor", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("document", Text, nullable=False),
    Column("created", Float(53), nullable=False),  # seconds since 1970
    Column("expires", Float(53)),
    Column("trusted", Integer, nullable=False),  # contributions are sealed under the task's key
    Column("status", Text, nullable=False),
    Column("phase", Integer, nullable=False),
    Column("part", Text, nullable=False),  # what contributions to this phase are called
    Column("least", Integer, nullable=False),  # so many are enough at the deadline
    Column("wanted", Integer, nullable=False),  # so many close the phase
    Column("accepted", Integer, nullable=False),  # so many it has
    Column("snapshot", LargeBinary),  # the aggregator as it was when this phase began
    Column("following", Text),  # the status that comes once the key of a concluded task is gone
    Column("leftovers", Integer, nullable=False),  # contributions of closed phases are still to be removed
    Column("holder", Text),  # the worker that computes
    Column("held_until", Float(53)),
    CheckConstraint("accepted >= 0 AND accepted <= wanted", name="accepted"),
    Index("ix_coordinator_task_status", "status"),
    Index("ix_coordinator_task_leftovers", "leftovers"),
)

CONTRIBUTION = Table(
    "coordinator_contribution",
    METADATA,
    Column("task", Text, ForeignKey("coordinator_task.id"), primary_key=True),
    Column("part", Text, primary_key=True),
    Column("contributor", Text, primary_key=True),
    Column("fingerprint", LargeBinary, nullable=False),  # tells the same body from another one
    Column("receipt", Text, nullable=False),
    Column("record", LargeBinary),  # gone once it was used or taken back
    Column("withdrawn", Integer, nullable=False),
    # By pseudonym, so that the table does not remember who came when.
    sqlite_with_rowid=False,
)

RELEASE = Table(
    "coordinator_release",
    METADATA,
    Column("task", Text, ForeignKey("coordinator_task.id"), primary_key=True),
    Column("phase", Integer, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
)

ENTRY = Table(
    "coordinator_entry",
    METADATA,
    Column("index", Integer, primary_key=True, autoincrement=False),
    Column("task_id", Text, ForeignKey("coordinator_task.id"), nullable=False),
    Column("digest", Text, nullable=False),
    Column("previous", Text, nullable=False),
    Column("hash", Text, nullable=False),
)

USER = Table(
    "coordinator_user",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("password", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("disabled", Integer, nullable=False),
)

COLLECTOR = Table(
    "coordinator_collector",
    METADATA,
    Column("app", Text, primary_key=True),
    Column("version", Integer, nullable=False),
    Column("tables", Text, nullable=False),
)


def version_of(connection: sa.Connection) -> str | None:
    """The version a database is at; None where there is no coordinator's state yet."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    row = connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")).first()  # noqa: S608
    return None if row is None else str(row[0])


def upgrade(connection: sa.Connection) -> None:
    """Bring the database up to `VERSION`, inside the caller's transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, VERSION)
