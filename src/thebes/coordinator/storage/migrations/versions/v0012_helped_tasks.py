"""Tasks of people whose answers go to two servers, and the jobs in which both verify them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "coordinator_helped",
        sa.Column("task", sa.Text, sa.ForeignKey("coordinator_task.id"), primary_key=True),
        sa.Column("helper", sa.Text, nullable=False),
        sa.Column("opened", sa.LargeBinary),
        sa.Column("sum", sa.Text),
        sa.Column("told", sa.Integer, nullable=False),
    )
    op.create_table(
        "coordinator_helped_job",
        sa.Column("task", sa.Text, sa.ForeignKey("coordinator_task.id"), primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("reports", sa.Text, nullable=False),
        sa.Column("counted", sa.Text),
    )
