"""Alembic's entry: runs on the connection that `bring_up_to_date` hands over."""

from alembic import context

from demur.core.database.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transaction_per_migration=False,
)
context.run_migrations()
