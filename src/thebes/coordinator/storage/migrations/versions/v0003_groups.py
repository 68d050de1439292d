"""Groups whose members hold tokens; the signed list names their digests beside the tasks'."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "coordinator_group",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("epoch", sa.Text, primary_key=True),
        sa.Column("parameters", sa.Text, nullable=False),
        sa.Column("created", sa.Float(53), nullable=False),
        sa.Column("size", sa.Integer),
        sa.Column("names", sa.Integer, nullable=False),
    )
    op.create_table(
        "coordinator_member",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("epoch", sa.Text, primary_key=True),
        sa.Column("identity", sa.Text, primary_key=True),
        sa.Column("code", sa.Text, nullable=False),
        sa.Column("request", sa.Text),
        sa.ForeignKeyConstraint(["name", "epoch"], ["coordinator_group.name", "coordinator_group.epoch"]),
        sa.UniqueConstraint("code"),
        sa.UniqueConstraint("name", "epoch", "request"),
        sqlite_with_rowid=False,
    )
    with op.batch_alter_table("coordinator_entry") as entry:
        entry.drop_constraint("fk_coordinator_entry_task_id", type_="foreignkey")
