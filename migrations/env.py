"""
What Alembic runs for each of its commands, on the connection that it is given.

``migrations.schema`` opens that connection. There is no other way in, so a migration
has the same deadlines and pragmas as every other statement.
"""

from __future__ import annotations

from alembic import context

from models.database.tables import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata
)
with context.begin_transaction():
    context.run_migrations()
