"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "coordinator_task",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("requestor", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("created", sa.Float(53), nullable=False),
        sa.Column("expires", sa.Float(53)),
        sa.Column("trusted", sa.Integer, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("phase", sa.Integer, nullable=False),
        sa.Column("part", sa.Text, nullable=False),
        sa.Column("least", sa.Integer, nullable=False),
        sa.Column("wanted", sa.Integer, nullable=False),
        sa.Column("accepted", sa.Integer, nullable=False),
        sa.Column("snapshot", sa.LargeBinary),
        sa.Column("following", sa.Text),
        sa.Column("leftovers", sa.Integer, nullable=False),
        sa.Column("holder", sa.Text),
        sa.Column("held_until", sa.Float(53)),
        sa.CheckConstraint("accepted >= 0 AND accepted <= wanted", name="accepted"),
    )
    op.create_index("ix_coordinator_task_status", "coordinator_task", ["status"])
    op.create_index("ix_coordinator_task_leftovers", "coordinator_task", ["leftovers"])
    op.create_table(
        "coordinator_contribution",
        sa.Column("task", sa.Text, sa.ForeignKey("coordinator_task.id"), primary_key=True),
        sa.Column("part", sa.Text, primary_key=True),
        sa.Column("contributor", sa.Text, primary_key=True),
        sa.Column("fingerprint", sa.LargeBinary, nullable=False),
        sa.Column("receipt", sa.Text, nullable=False),
        sa.Column("record", sa.LargeBinary),
        sa.Column("withdrawn", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "coordinator_release",
        sa.Column("task", sa.Text, sa.ForeignKey("coordinator_task.id"), primary_key=True),
        sa.Column("phase", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "coordinator_entry",
        sa.Column("index", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("task_id", sa.Text, sa.ForeignKey("coordinator_task.id"), nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("previous", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
    )
    op.create_table(
        "coordinator_user",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("password", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("disabled", sa.Integer, nullable=False),
    )
    op.create_table(
        "coordinator_collector",
        sa.Column("app", sa.Text, primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("tables", sa.Text, nullable=False),
    )
