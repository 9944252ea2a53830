"""``migrate``: bring the database to the schema of this version."""

from __future__ import annotations

from cli.connection import get_settings
from cli.options import JsonOption
from cli.output import out, print_json, print_note
from migrations.schema import migrate
from migrations.schema_revisions import check_schema, get_schema_revision
from models.database.engine import make_engine


def migrate_database(*, json: JsonOption = False) -> None:
    """
    Bring the database to the schema of this version.

    Does nothing if it is there already.
    """
    settings = get_settings()
    engine = make_engine(settings.database_url, timeout=settings.database_timeout)
    before = get_schema_revision(engine)
    migrate(engine)
    after = get_schema_revision(engine)
    schema = check_schema(engine)
    if json:
        print_json({"before": before, "after": after})
    elif before == after:
        out().print(f"The database is at schema {after} already.")
    else:
        out().print(f"The database was at schema {before or 'none'}, now {after}.")
    if schema.is_newer:
        print_note(
            f"That is newer than {schema.wanted} of this program, which works on it."
        )
