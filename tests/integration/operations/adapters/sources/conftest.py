"""Who reads sources, and a web server to read from."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pydantic import SecretStr

from models.fields.sql_connection import SqlConnection
from operations.adapters.sources.sources import RealSources
from operations.domains import (
    Domain,
    DomainLimits,
    Fingerprint,
    Reading,
    ReadRequest,
    Tell,
    Version,
)
from settings import read_child_environment
from tests.servers import WebServer, run_web_server


@dataclass
class Reader:
    """
    Reads sources of domain "sales" of app "shop" into a file of its folder.

    Args:
        folder: Where the files are, and *target*.

        connections: By which names SQL is asked.
    """

    folder: Path
    connections: dict[str, SqlConnection] = field(default_factory=dict)

    @property
    def target(self) -> Path:
        """Where the data comes to be."""
        return self.folder / "out.part"

    @property
    def rows(self) -> list[tuple[object, ...]]:
        """What was read."""
        return pl.read_parquet(self.target).rows()

    def make_database(self, *statements: str) -> str:
        """Make a database of SQLite by these statements; return its URL."""
        path = self.folder / "s%20.db"  # which is no space
        with closing(sqlite3.connect(path)) as database, database:
            for each in statements:
                database.execute(each)
        return f"sqlite:///{path}"

    def ask(self, url: str, sql: str, **more: Any) -> Reading:
        """Read what a query finds in the database at *url*."""
        secret = SecretStr(url.replace("+psycopg", ""))
        self.connections["c"] = SqlConnection(secret, ("shop",))
        return self.read({"sql": sql, "connection": "c"}, **more)

    def read(self, source: dict[str, Any], **more: Any) -> Reading:
        """Read *source*, of which nothing says that it is as it was."""
        reading = self.read_if_new(source, **more)
        assert reading is not None
        return reading

    def read_if_new(
        self,
        source: dict[str, Any],
        *,
        known: Fingerprint | None = None,
        before: Path | None = None,
        tell: Tell | None = None,
        **limits: Any,
    ) -> Reading | None:
        """Read *source* within some limits, after the version in *before*."""
        sources = RealSources(
            connections=self.connections,
            allowed_hosts=("127.0.0.0/8",),
            limits=replace(DomainLimits(), **limits),
            environment=read_child_environment(),
        )
        seen, now = Fingerprint("x"), datetime.now(UTC)
        staged = None if before is None else Version(1, before, 0, 0, now, seen)
        domain = Domain("sales", source, staged=staged, folder=self.folder)
        try:
            return sources.read(ReadRequest("shop", domain, self.target, known, tell))
        finally:
            left = {path.name for path in self.folder.glob("out.part.*")}
            assert set() == left, "scratch files stay"


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """Give one whose relative paths are below tmp_path."""
    return Reader(tmp_path)


@pytest.fixture
def web() -> Iterator[WebServer]:
    """Give a web server whose answers a test decides."""
    with run_web_server() as server:
        yield server
