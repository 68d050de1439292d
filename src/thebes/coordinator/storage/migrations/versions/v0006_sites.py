"""Institutions that answer tasks: what they describe, how their tasks go, who speaks with them, who may ask them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("coordinator_task", sa.Column("sites", sa.Text))
    op.create_table(
        "coordinator_capability",
        sa.Column("user", sa.Text, sa.ForeignKey("coordinator_user.name"), primary_key=True),
        sa.Column("site", sa.Text, primary_key=True),
        sa.Column("kind", sa.Text, primary_key=True),
    )
    op.create_table(
        "coordinator_site",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("linked", sa.Integer, nullable=False),
        sa.Column("seen", sa.Float(53), nullable=False),
        sa.Column("datasets", sa.Text, nullable=False),
    )
    op.create_table(
        "coordinator_run",
        sa.Column("task", sa.Text, sa.ForeignKey("coordinator_task.id"), primary_key=True),
        sa.Column("progress", sa.Text, nullable=False),
    )
    op.create_table(
        "coordinator_farewell",
        sa.Column("site", sa.Text, primary_key=True),
        sa.Column("task", sa.Text, sa.ForeignKey("coordinator_task.id"), primary_key=True),
    )
    op.create_table(
        "coordinator_seat",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("open", sa.Integer, nullable=False),
        sa.Column("until", sa.Float(53), nullable=False),
    )
