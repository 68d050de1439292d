"""Sessions that somebody ended before they would have ended by themselves."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "coordinator_ended_session",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("until", sa.Float(53), nullable=False),
    )
