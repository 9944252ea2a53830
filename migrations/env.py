"""
What Alembic runs for each migration command: on the connection it is handed.

``migrations.schema`` opens that connection; there is no other way in, so a
migration has the deadlines and the pragmas of every other statement.
"""

from __future__ import annotations

from typing import Literal

from alembic import context
from alembic.autogenerate.api import AutogenContext

from models.database.engine import Identifier, Json, UtcDateTime
from models.database.tables import metadata

_OURS = {id(UtcDateTime): "UtcDateTime", id(Identifier): "Identifier", id(Json): "Json"}


def _render(
    kind: str, item: object, _autogenerate: AutogenContext
) -> str | Literal[False]:
    """Write our types by name, so that one migration serves both databases."""
    return _OURS.get(id(item), False) if kind == "type" else False


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_item=_render,
)
with context.begin_transaction():
    context.run_migrations()
