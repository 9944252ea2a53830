"""What a role of PostgreSQL must be allowed, and is not."""

from __future__ import annotations

import json
from itertools import product

import sqlalchemy as sa

from models.database.tables import metadata

#: What schedulers and workers do to each table.
_NEEDED = ("SELECT", "INSERT", "UPDATE", "DELETE")

#: Of Alembic, which says what schema there is.
_VERSION = "alembic_version"

#: What there is no table for is not asked about: its migration is missing.
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
    Say which rights the role of *connection* lacks, and how each is given.

    Args:
        connection: To a migrated database. SQLite knows no rights.

    Returns:
        Sentences; none if all is granted.
    """
    if connection.dialect.name != "postgresql":
        return []
    pairs = [
        *product(sorted(metadata.tables), _NEEDED),
        (_VERSION, "SELECT"),
    ]
    rows = connection.execute(_MISSING, {"pairs": json.dumps(pairs)})
    missing: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        missing.setdefault((row.role, row.named), []).append(row.needed)
    return [
        f"the role {role} may not {' or '.join(rights)} in {table}:"
        f" GRANT {', '.join(rights)} ON {table} TO {role}"
        for (role, table), rights in missing.items()
    ]
