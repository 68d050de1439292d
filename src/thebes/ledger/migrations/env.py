"""The script that alembic runs."""

from thebes.database.versions import run_migrations

run_migrations()
