"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_Number = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "ledger_standing",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("ledger", sa.Text, nullable=False),
        sa.Column("length", sa.BigInteger, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
        sa.Column("frozen", sa.Integer, nullable=False),
        sa.CheckConstraint("id = 1", name="only_one"),
        sa.CheckConstraint("frozen IN (0, 1)", name="frozen"),
    )
    op.create_table(
        "ledger_block",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("unit", sa.Text, nullable=False),
        sa.Column("adjacency", sa.Text, nullable=False),
        sa.Column("filter", sa.Text, nullable=False),
        sa.Column("epsilon", sa.BigInteger, nullable=False),
        sa.Column("delta", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "ledger_meter",
        sa.Column("block", sa.Text, sa.ForeignKey("ledger_block.name"), primary_key=True),
        sa.Column("spender", sa.Text, primary_key=True),
        sa.Column("place", sa.Text, primary_key=True),
        sa.Column("capacity", sa.BigInteger),
        sa.Column("reserved", sa.BigInteger, nullable=False),
        sa.Column("spent", sa.BigInteger, nullable=False),
        sa.Column("firm", sa.Integer, nullable=False),
        sa.CheckConstraint("reserved >= 0 AND spent >= 0", name="not_negative"),
        sa.CheckConstraint("firm = 0 OR reserved + spent <= capacity", name="within_capacity"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "ledger_cap",
        sa.Column("spender", sa.Text, primary_key=True),
        sa.Column("block", sa.Text, primary_key=True),
        sa.Column("epsilon", sa.BigInteger, nullable=False),
        sa.Column("delta", sa.BigInteger),
    )
    op.create_table(
        "ledger_claim",
        sa.Column("id", _Number, primary_key=True),
        sa.Column("key", sa.Text, unique=True),
        sa.Column("spender", sa.Text, nullable=False),
        sa.Column("purpose", sa.Text, nullable=False),
        sa.Column("unit", sa.Text, nullable=False),
        sa.Column("adjacency", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("loss", sa.Text, nullable=False),
        sa.Column("left", sa.Text, nullable=False),
    )
    op.create_table(
        "ledger_charge",
        sa.Column("claim", _Number, sa.ForeignKey("ledger_claim.id"), primary_key=True, autoincrement=False),
        sa.Column("block", sa.Text, sa.ForeignKey("ledger_block.name"), primary_key=True),
        sa.Column("place", sa.Text, primary_key=True),
        sa.Column("reserved", sa.BigInteger, nullable=False),
        sa.Column("spent", sa.BigInteger, nullable=False),
        sa.CheckConstraint("reserved >= 0 AND spent >= 0", name="not_negative"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_ledger_charge_block", "ledger_charge", ["block"])
    op.create_table(
        "ledger_part",
        sa.Column("claim", _Number, sa.ForeignKey("ledger_claim.id"), primary_key=True, autoincrement=False),
        sa.Column("part", sa.Text, primary_key=True),
        sa.Column("loss", sa.Text, nullable=False),
    )
    op.create_table(
        "ledger_journal",
        sa.Column("number", _Number, primary_key=True, autoincrement=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
    )


def downgrade() -> None:
    raise NotImplementedError("a ledger never goes back: restore a copy of it, which is then frozen")
