"""
The database's own time: the CPU that PostgreSQL, by its log, spent on each statement.

No extension is needed, neither the network nor the client is part of it, and others who
work on the same machine change little. The server has to collect its log in files: see
LOGGING. What parallel workers of a statement do is not in it.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from itertools import count
from typing import Any

import psycopg
from psycopg import sql

from benchmarks.servers import Servers

_PREFIX = "LINE "

#: Options of a server whose log can be read.
LOGGING = (
    *("-c", "logging_collector=on", "-c", "log_rotation_age=0"),
    *("-c", "log_rotation_size=0", "-c", f"log_line_prefix={_PREFIX}"),
    *("-c", "log_min_messages=log"),
)

#: Of the parts of a statement: parsing, binding, executing it.
_SPENT = re.compile(r"([\d.]+) s user, ([\d.]+) s system, [\d.]+ s elapsed")

_LOOK_EVERY_S = 0.005


class StatementLog:
    """
    Reads the log of a server, from one look to the next.

    Args:
        servers: Whose database is looked at; others are not logged.
    """

    def __init__(self, servers: Servers) -> None:
        """Have all sessions that begin from now on tell what they spend."""
        self._connection = psycopg.connect(servers.dsn, autocommit=True)
        self._numbers = count(1)
        (name,) = self._read("select current_database()")
        self._connection.execute(
            sql.SQL("alter database {} set log_statement_stats = on").format(
                sql.Identifier(name)
            )
        )
        self._connection.execute("set log_min_messages = log")
        (self._offset,) = self._read(
            "select size from pg_stat_file(pg_current_logfile())"
        )
        with psycopg.connect(servers.dsn) as other:
            other.execute("select 1")
        assert "select 1" in self.read(), "the server logs no statement: see LOGGING"

    def close(self) -> None:
        """Leave."""
        self._connection.close()

    def _read(self, query: str, *values: object) -> tuple[Any, ...]:
        row = self._connection.execute(query, values).fetchone()
        assert row is not None, query
        return row

    def read(self) -> dict[str, float]:
        """Return the milliseconds of each statement since the last look, by text."""
        mark = f"mark {next(self._numbers)} of the benchmark"
        self._connection.execute(f"do $$ begin raise log '{mark}'; end $$")
        found = ""
        # The collector writes what it was told before, but a moment later.
        while f"LOG:  {mark}" not in found:
            time.sleep(_LOOK_EVERY_S)
            (more,) = self._read(
                "select pg_read_binary_file(pg_current_logfile(), %s, 100000000)",
                self._offset,
            )
            self._offset += len(more)
            found += bytes(more).decode(errors="replace")
        spent: defaultdict[str, float] = defaultdict(float)
        took_ms = 0.0
        for line in found.split(_PREFIX):
            if match := _SPENT.search(line):
                took_ms = sum(map(float, match.groups())) * 1000
            elif line.startswith("STATEMENT:"):
                spent[" ".join(line.split()[1:])] += took_ms
                took_ms = 0.0
        return dict(spent)
