"""Alembic's entry: runs on the connection and metadata that `bring_up_to_date` hands over."""

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=context.config.attributes["metadata"],
    render_as_batch=True,
    transaction_per_migration=False,
)
context.run_migrations()
