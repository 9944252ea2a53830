"""The rights that a role of PostgreSQL needs and does not have."""

from __future__ import annotations

import json

import sqlalchemy as sa

from models.database.tables import metadata

#: What schedulers and workers do to each table.
_NEEDED = ("SELECT", "INSERT", "UPDATE", "DELETE")

#: To these they do less, so that a role without more cannot do it either.
_LESS = {"changes": ("SELECT", "INSERT")}

#: Alembic's table, which says which schema the database has.
_VERSION = "alembic_version"

#: A table that does not exist is left out: its migration has not been applied.
_MISSING = sa.text(
    """
    SELECT current_user AS role, pair->>0 AS named, pair->>1 AS needed
    FROM jsonb_array_elements(CAST(:pairs AS jsonb)) WITH ORDINALITY
        AS pairs (pair, place)
    WHERE NOT has_table_privilege(to_regclass(pair->>0), pair->>1)
    ORDER BY place
    """
)


def find_missing_grants(connection: sa.Connection) -> list[str]:
    """
    Return which rights the role of *connection* lacks, and how to grant them.

    Args:
        connection: To a migrated database. SQLite has no rights.

    Returns:
        A sentence for each table; empty if every right is granted.
    """
    if connection.dialect.name != "postgresql":
        return []
    pairs = [
        *(
            (table, right)
            for table in sorted(metadata.tables)
            for right in _LESS.get(table, _NEEDED)
        ),
        (_VERSION, "SELECT"),
    ]
    rows = connection.execute(_MISSING, {"pairs": json.dumps(pairs)})
    missing: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        missing.setdefault((row.role, row.named), []).append(row.needed)
    return [
        f"the role {role} lacks {', '.join(rights)} on {table}."
        f" Run: GRANT {', '.join(rights)} ON {table} TO {role}"
        for (role, table), rights in missing.items()
    ]
