"""Tasks that are trained without end: their models, each a row, and what else is remembered of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "coordinator_instance",
        sa.Column("task", sa.Text, sa.ForeignKey("coordinator_task.id"), primary_key=True),
        sa.Column("place", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("updates", sa.BigInteger, nullable=False),
        sa.Column("model", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "coordinator_training",
        sa.Column("task", sa.Text, sa.ForeignKey("coordinator_task.id"), primary_key=True),
        sa.Column("facts", sa.Text, nullable=False),
    )
