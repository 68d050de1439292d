"""What alembic runs: apply the changes on the connection that the store hands over, in its transaction."""

from __future__ import annotations

from alembic import context

from thebes.coordinator.schema import METADATA, VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
