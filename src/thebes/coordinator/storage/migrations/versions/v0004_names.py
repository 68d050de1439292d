"""Whether a group's names become public stands in its parameters, which its members pin."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_column("coordinator_group", "names")
