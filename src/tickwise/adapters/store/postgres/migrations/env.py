"""Alembic's entry: runs the migrations on the connection that `schema.upgrade` hands over."""

from __future__ import annotations

from alembic import context

context.configure(
    connection=context.config.attributes["connection"],
    version_table="schema_version",
    version_table_schema="tickwise",
)
with context.begin_transaction():
    context.run_migrations()
