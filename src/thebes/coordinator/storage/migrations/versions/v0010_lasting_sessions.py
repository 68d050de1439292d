"""Sessions of programs that somebody let in on a page, and the codes for that."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "coordinator_device_code",
        sa.Column("device", sa.Text, primary_key=True),
        sa.Column("code", sa.Text, nullable=False),
        sa.Column("client", sa.Text, nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("until", sa.Float(53), nullable=False),
        sa.Column("user", sa.Text, sa.ForeignKey("coordinator_user.name")),
        sa.Column("refused", sa.Integer, nullable=False),
        sa.UniqueConstraint("code"),
    )
    op.create_table(
        "coordinator_wrong_code",
        sa.Column("user", sa.Text, primary_key=True),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("until", sa.Float(53), nullable=False),
    )
    op.create_table(
        "coordinator_lasting_session",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("user", sa.Text, sa.ForeignKey("coordinator_user.name"), nullable=False),
        sa.Column("client", sa.Text, nullable=False),
        sa.Column("token", sa.Text, nullable=False),
        sa.Column("began", sa.Float(53), nullable=False),
        sa.Column("until", sa.Float(53), nullable=False),
    )
