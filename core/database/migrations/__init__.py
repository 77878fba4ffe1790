"""Alembic's migrations: one numbered file in `versions` for each change of the schema."""
