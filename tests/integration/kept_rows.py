"""Rows of a prepared database, to copy: making them takes longer than most tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from models.database.engine import reading, writing
from models.database.tables import installation, metadata
from tests.database import EMPTYING


@dataclass(frozen=True)
class KeptRows:
    """All rows but that of the installation."""

    rows: dict[sa.Table, list[dict[str, Any]]]

    @classmethod
    def read(cls, engine: sa.Engine) -> KeptRows:
        """Keep what is in the database of *engine*."""
        with reading(engine) as connection:
            found = {
                table: [*map(dict, connection.execute(sa.select(table)).mappings())]
                for table in metadata.sorted_tables
                if table is not installation
            }
        return cls({table: rows for table, rows in found.items() if rows})

    def write(self, engine: sa.Engine) -> None:
        """Put these rows in the place of those in the database of *engine*."""
        # one round trip, where there are any
        is_one = engine.dialect.name == "postgresql"
        with writing(engine) as connection:
            for each in ["; ".join(EMPTYING)] if is_one else EMPTYING:
                connection.exec_driver_sql(each)
            for table, rows in self.rows.items():
                connection.execute(sa.insert(table), rows)
