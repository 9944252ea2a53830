"""``migrate``: bring the database to the schema of this version."""

from __future__ import annotations

from cli.connection import get_settings
from cli.options import JsonOption
from cli.output import out, print_json
from migrations.schema import get_schema_revision, migrate
from models.database import make_engine


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
    if json:
        print_json({"before": before, "after": after})
    elif before == after:
        out().print(f"The database is at schema {after} already.")
    else:
        out().print(f"The database was at schema {before or 'none'}, now {after}.")
