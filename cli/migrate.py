"""``migrate``: migrates the database to the schema of this version."""

from __future__ import annotations

from cli.connection import get_settings
from cli.options import takes_json
from cli.output import err, out
from migrations.schema import migrate
from migrations.schema_revisions import check_schema, get_schema_revision
from models.database.engine import make_engine


@takes_json
def migrate_database() -> None:
    """
    Migrate the database to the schema of this version.

    Does nothing if the database has that schema already.
    """
    settings = get_settings()
    engine = make_engine(settings.database_url, timeout=settings.database_timeout)
    before = get_schema_revision(engine)
    migrate(engine)
    after = get_schema_revision(engine)
    schema = check_schema(engine)
    if not out().gave_json({"before": before, "after": after}):
        if before == after:
            out().say(f"The database is already at schema {after}.")
        elif before is None:
            out().say(f"The database was empty; it is now at schema {after}.")
        else:
            out().say(f"The database was at schema {before}; it is now at {after}.")
    if schema.is_newer:
        err().say(
            f"That is newer than this program's own schema ({schema.wanted}), which is"
            " compatible with it."
        )
