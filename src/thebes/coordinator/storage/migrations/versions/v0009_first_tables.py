"""The first tables: those of Thebes 0.1.0. Versions 0001 to 0008 were never released."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "coordinator_task",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("requestor", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("document", sa.Text, nullable=False),
        sa.Column("created", sa.Float(53), nullable=False),
        sa.Column("expires", sa.Float(53)),
        sa.Column("trusted", sa.Integer, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("phase", sa.Integer, nullable=False),
        sa.Column("part", sa.Text, nullable=False),
        sa.Column("least", sa.Integer, nullable=False),
        sa.Column("wanted", sa.Integer, nullable=False),
        sa.Column("accepted", sa.Integer, nullable=False),
        sa.Column("snapshot", sa.LargeBinary),
        sa.Column("following", sa.Text),
        sa.Column("leftovers", sa.Integer, nullable=False),
        sa.Column("holder", sa.Text),
        sa.Column("held_until", sa.Float(53)),
        sa.Column("counts", sa.Text),
        sa.Column("sites", sa.Text),
        sa.CheckConstraint("accepted >= 0 AND accepted <= wanted", name="accepted"),
    )
    op.create_index("ix_coordinator_task_status", "coordinator_task", ["status"])
    op.create_index("ix_coordinator_task_leftovers", "coordinator_task", ["leftovers"])
    op.create_table(
        "coordinator_contribution",
        sa.Column("task", sa.Text, sa.ForeignKey("coordinator_task.id"), primary_key=True),
        sa.Column("part", sa.Text, primary_key=True),
        sa.Column("contributor", sa.Text, primary_key=True),
        sa.Column("fingerprint", sa.LargeBinary, nullable=False),
        sa.Column("receipt", sa.Text, nullable=False),
        sa.Column("record", sa.LargeBinary),
        sa.Column("withdrawn", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "coordinator_release",
        sa.Column("task", sa.Text, sa.ForeignKey("coordinator_task.id"), primary_key=True),
        sa.Column("phase", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_table(
        "coordinator_entry",
        sa.Column("index", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("task_id", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("previous", sa.Text, nullable=False),
        sa.Column("hash", sa.Text, nullable=False),
    )
    op.create_table(
        "coordinator_user",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("password", sa.Text, nullable=False),
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("disabled", sa.Integer, nullable=False),
    )
    op.create_table(
        "coordinator_collector",
        sa.Column("app", sa.Text, primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("tables", sa.Text, nullable=False),
    )
    op.create_table(
        "coordinator_group",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("epoch", sa.Text, primary_key=True),
        sa.Column("parameters", sa.Text, nullable=False),
        sa.Column("created", sa.Float(53), nullable=False),
        sa.Column("size", sa.Integer),
    )
    op.create_table(
        "coordinator_member",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("epoch", sa.Text, primary_key=True),
        sa.Column("identity", sa.Text, primary_key=True),
        sa.Column("code", sa.Text, nullable=False),
        sa.Column("request", sa.Text),
        sa.ForeignKeyConstraint(["name", "epoch"], ["coordinator_group.name", "coordinator_group.epoch"]),
        sa.UniqueConstraint("code"),
        sa.UniqueConstraint("name", "epoch", "request"),
        sqlite_with_rowid=False,
    )
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
    op.create_table(
        "coordinator_question",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("asked", sa.Float(53), nullable=False),
        sa.Column("sites", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("answer", sa.Text),
    )
    op.create_table(
        "coordinator_called",
        sa.Column("place", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, nullable=False),
    )
    op.create_table(
        "coordinator_ended_session",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("until", sa.Float(53), nullable=False),
    )
