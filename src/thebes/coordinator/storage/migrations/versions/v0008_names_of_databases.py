"""The name that a database is called by, so that a home tells the one that it works on from others."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "coordinator_called",
        sa.Column("place", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
    )
