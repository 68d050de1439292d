"""Phases of several packets: how many contributions each of their parts has."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("coordinator_task", sa.Column("counts", sa.Text))
