"""Users whom an identity provider names."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "coordinator_federated_user",
        sa.Column("issuer", sa.Text, primary_key=True),
        sa.Column("subject", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, sa.ForeignKey("coordinator_user.name"), nullable=False),
        sa.Column("lost", sa.Integer, nullable=False),
        sa.UniqueConstraint("name"),
    )
