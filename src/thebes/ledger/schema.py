"""The tables of a ledger, the same in SQLite and PostgreSQL.

What must stay true: every amount is a whole number; `migrations/` builds exactly these tables.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKey, Index, Integer, MetaData, Table, Text

from thebes.database.versions import NAMES, Versions

METADATA = MetaData(naming_convention=NAMES)
VERSIONS = Versions(
    metadata=METADATA,
    table="ledger_version",
    newest="0001",  # the last file in migrations/versions
    migrations=Path(__file__).parent / "migrations",
    lock=0x7468656265730001,
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
