"""Questions to sites about costs, from processes that do not speak with them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "coordinator_question",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("asked", sa.Float(53), nullable=False),
        sa.Column("sites", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("answer", sa.Text),
    )
