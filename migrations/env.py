"""
What Alembic runs for each migration command: on the connection it is handed.

``migrations.schema`` opens that connection; there is no other way in, so a
migration has the deadlines and the pragmas of every other statement.
"""

from __future__ import annotations

from alembic import context

from models.database.tables import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata
)
with context.begin_transaction():
    context.run_migrations()
