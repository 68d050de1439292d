"""The tables of a ledger, the same in SQLite and PostgreSQL, and how an older database is brought up to date.

What must stay true: every amount is a whole number; `migrations/` builds exactly these tables.
"""

from __future__ import annotations

import threading
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Index, Integer, MetaData, Table, Text

VERSION_TABLE = "ledger_version"
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
_Number = BigInteger().with_variant(Integer, "sqlite")

STANDING = Table(
    "ledger_standing",
    METADATA,
    Column("id", Integer, CheckConstraint("id = 1", name="only_one"), primary_key=True, autoincrement=False),
    Column("ledger", Text, nullable=False),
    Column("length", BigInteger, nullable=False),
    Column("hash", Text, nullable=False),
    Column("frozen", Integer, CheckConstraint("frozen IN (0, 1)", name="frozen"), nullable=False),
)

BLOCK = Table(
    "ledger_block",
    METADATA,
    Column("name", Text, primary_key=True),
    Column("unit", Text, nullable=False),
    Column("adjacency", Text, nullable=False),
    Column("filter", Text, nullable=False),
    Column("epsilon", BigInteger, nullable=False),
    Column("delta", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    sqlite_with_rowid=False,
)

METER = Table(
    "ledger_meter",
    METADATA,
    Column("block", Text, ForeignKey("ledger_block.name"), primary_key=True),
    Column("spender", Text, primary_key=True),
    Column("place", Text, primary_key=True),
    Column("capacity", BigInteger),
    Column("reserved", BigInteger, nullable=False),
    Column("spent", BigInteger, nullable=False),
    Column("firm", Integer, nullable=False),
    CheckConstraint("reserved >= 0 AND spent >= 0", name="not_negative"),
    CheckConstraint("firm = 0 OR reserved + spent <= capacity", name="within_capacity"),
    sqlite_with_rowid=False,
)

CAP = Table(
    "ledger_cap",
    METADATA,
    Column("spender", Text, primary_key=True),
    Column("block", Text, primary_key=True),
    Column("epsilon", BigInteger, nullable=False),
    Column("delta", BigInteger),
)

CLAIM = Table(
    "ledger_claim",
    METADATA,
    Column("id", _Number, primary_key=True),
    Column("key", Text, unique=True),
    Column("spender", Text, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("unit", Text, nullable=False),
    Column("adjacency", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("loss", Text, nullable=False),
    Column("left", Text, nullable=False),
)

CHARGE = Table(
    "ledger_charge",
    METADATA,
    Column("claim", _Number, ForeignKey("ledger_claim.id"), primary_key=True, autoincrement=False),
    Column("block", Text, ForeignKey("ledger_block.name"), primary_key=True),
    Column("place", Text, primary_key=True),
    Column("reserved", BigInteger, nullable=False),
    Column("spent", BigInteger, nullable=False),
    CheckConstraint("reserved >= 0 AND spent >= 0", name="not_negative"),
    Index("ix_ledger_charge_block", "block"),
    sqlite_with_rowid=False,
)

PART = Table(
    "ledger_part",
    METADATA,
    Column("claim", _Number, ForeignKey("ledger_claim.id"), primary_key=True, autoincrement=False),
    Column("part", Text, primary_key=True),
    Column("loss", Text, nullable=False),
)

JOURNAL = Table(
    "ledger_journal",
    METADATA,
    Column("number", _Number, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
    Column("hash", Text, nullable=False),
)


def version_of(connection: sa.Connection) -> str | None:
    """The version a database is at; None where there is no ledger yet."""
    if not sa.inspect(connection).has_table(VERSION_TABLE):
        return None
    row = connection.execute(sa.text(f"SELECT version_num FROM {VERSION_TABLE}")).first()  # noqa: S608
    return None if row is None else str(row[0])


_UPGRADING = threading.Lock()  # alembic keeps what it works on in variables of its module


def upgrade(connection: sa.Connection) -> None:
    """Bring the database up to `VERSION`, inside the caller's transaction."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    with _UPGRADING:
        command.upgrade(config, VERSION)
