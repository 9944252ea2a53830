"""Whether this process can serve requests, for load balancers, in words for anybody."""

from __future__ import annotations

import sqlalchemy as sa

from migrations.schema_revisions import check_schema
from models.errors import UnreachableError, UsageError


def find_obstacle(engine: sa.Engine) -> str | None:
    """
    Return why requests cannot be served now; None: they can.

    Who asks is not known, so it names no host and repeats no error of the database.
    """
    try:
        check_schema(engine)
    except UnreachableError:
        return "the database does not answer. minutehand doctor says why"
    except UsageError:
        return (
            "this version does not work with the schema of its database."
            " minutehand doctor says what to do"
        )
    return None
