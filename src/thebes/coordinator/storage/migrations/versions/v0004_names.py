"""A group's parameters, which its members pin, say whether its names become public."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_column("coordinator_group", "names")
