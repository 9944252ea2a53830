"""Whether this program works with the schema of its database."""

from __future__ import annotations

from collections.abc import Iterator

from migrations.schema_revisions import check_schema
from models.errors import UsageError
from overview.doctor.finding import Finding, Health, View


def look_at_schema(view: View) -> Iterator[Finding]:
    """Compare the schema of the database with that of this version."""
    try:
        schema = check_schema(view.connection.engine)
    except UsageError as error:
        title = "the schema is of another version"
        yield Finding("schema", Health.BAD, str(error), title)
        return
    if schema.is_newer:
        found = (
            f"the database is at {schema.found}, newer than this program's own "
            f"({schema.wanted}) but compatible. Upgrade the program (docs/upgrades.md)."
        )
        title = "the database is newer than this program"
        yield Finding("schema", Health.DOUBTFUL, found, title)
    else:
        yield Finding("schema", Health.GOOD, "it is that of this version")
