"""What is told of a source while it is read, and of its columns afterwards."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from models.errors import CanceledError
from models.fields.sql_connection import SqlConnection
from operations.adapters.sources.sources import RealSources
from operations.domains import Domain, Drift, Fingerprint, Reached, Reading, Version

Read = Callable[..., Reading]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Give a function that reads a source, after the version in *before*."""

    def do(source: dict[str, Any], before: Path | None = None, **more: Any) -> Reading:
        connection = SqlConnection(SecretStr(f"sqlite:///{tmp_path}/s.db"), ("*",))
        staged = None
        if before is not None:
            now = datetime.now(UTC)
            staged = Version(1, before, 0, 0, now, Fingerprint("x"))
        domain = Domain("sales", source, staged=staged, folder=tmp_path)
        reading = RealSources(connections={"s": connection}).read(
            "shop", domain, known=None, target=tmp_path / "out.parquet", **more
        )
        assert reading is not None
        return reading

    return do


def test_columns_are_compared_with_those_of_the_version_before(
    read: Read, tmp_path: Path
):
    """Of a file and of a query; the first version has none before it."""
    (tmp_path / "x.csv").write_text("id,price,note\n1,2,x\n")
    first = read({"file": "x.csv"})
    before = (tmp_path / "out.parquet").rename(tmp_path / "before.parquet")
    with sqlite3.connect(tmp_path / "s.db") as connection:
        connection.execute("create table t as select 1 id, 2.5 price, 'y' vat")
    connection.close()

    same = read({"file": "x.csv"}, before)
    changed = read({"sql": "select * from t", "connection": "s"}, before)

    assert first.drift is None
    assert same.drift is None
    assert changed.drift == Drift(
        added=(("vat", "String"),),
        removed=(("note", "String"),),
        retyped=(("price", "Int64", "Float64"),),
    )


@pytest.mark.parametrize("content", [None, b"", b"PAR1 torn PAR1"])
def test_whatever_became_of_the_version_before_the_new_one_is_read(
    read: Read, tmp_path: Path, content: bytes | None
):
    """A file that is gone or damaged is compared with nothing."""
    (tmp_path / "x.csv").write_text("id\n1\n")
    before = tmp_path / "before.parquet"
    if content is not None:
        before.write_bytes(content)

    reading = read({"file": "x.csv"}, before)

    assert 1 == reading.rows
    assert reading.drift is None


def test_it_is_told_how_far_each_kind_of_work_is(read: Read, tmp_path: Path):
    """Unpacking and records of JSON in bytes of what there is, rows of a query."""
    told: list[Reached | None] = []
    records = json.dumps([{"n": number} for number in range(5_000)])
    (tmp_path / "x.json.gz").write_bytes(gzip.compress(records.encode()))
    with sqlite3.connect(tmp_path / "s.db") as connection:
        connection.execute("create table t as select 1 id")
    connection.close()

    read({"file": "x.json.gz"}, tell=told.append)
    read({"sql": "select * from t", "connection": "s"}, tell=told.append)

    size = (tmp_path / "x.json.gz").stat().st_size
    assert Reached("unpack", size, size, "bytes") in told
    assert Reached("read", 1, None, "rows") in told


def test_cancellation_ends_the_reading(read: Read, tmp_path: Path):
    """
    What a listener raises ends a query that would take for ever, and leaves no file.
    """
    with sqlite3.connect(tmp_path / "s.db") as connection:
        connection.execute("create table t as select 1 id")
    connection.close()

    def cancel(_reached: Reached | None) -> None:
        raise CanceledError

    endless = (
        "with recursive r(n) as (select 1 union all select n + 1 from r)"
        " select max(n) from r"
    )
    with pytest.raises(CanceledError):
        read({"sql": endless, "connection": "s"}, tell=cancel)

    assert [tmp_path / "s.db"] == list(tmp_path.iterdir())
