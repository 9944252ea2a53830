"""Databases that are not there, of another version, or cannot be kept where asked."""

from __future__ import annotations

import fcntl
import socket
from pathlib import Path

import pytest

from models.database.engine import make_engine, writing
from models.database.sqlite_place import name_lock
from tests.integration.cli.calling import Call, Configure


def test_embedded_database_is_made_by_the_first_call(embedded: Call):
    answer = embedded("apps", "list", "--json")

    assert (0, "[]\n") == (answer.code, answer.out)


def test_no_new_file_is_made_beside_one_that_is_in_use(embedded: Call, tmp_path: Path):
    """Somebody has deleted the file of a running ``minutehand up``."""
    path = tmp_path / "home" / "minutehand.sqlite3"
    path.parent.mkdir()
    with name_lock(path).open("w") as lock:
        lock.write("7")
        lock.flush()
        fcntl.flock(lock, fcntl.LOCK_EX)
        answer = embedded("apps", "list")

    assert 6 == answer.code
    assert "though minutehand up (pid 7) runs on it" in answer.err
    assert not path.exists()


@pytest.mark.parametrize(
    "command", [("operations", "list"), ("tick",), ("tick", "--dry-run")]
)
def test_unmigrated_database_says_what_to_run(
    unmigrated_url: str, embedded: Call, command: tuple[str, ...], configure: Configure
):
    engine = make_engine(unmigrated_url)
    with writing(engine) as connection:
        connection.exec_driver_sql("create table other (id integer)")
    engine.dispose()
    configure(DATABASE_URL=unmigrated_url)

    answer = embedded(*command)

    assert 2 == answer.code
    assert "minutehand migrate" in answer.err


@pytest.mark.parametrize("command", [("operations", "list"), ("doctor", "--json")])
def test_database_that_is_away_is_said_to_be(
    embedded: Call, command: tuple[str, ...], configure: Configure
):
    configure(DATABASE_URL="postgresql://x@127.0.0.1:1/x")

    answer = embedded(*command)

    assert (6, "") == (answer.code, answer.out)
    assert "did not answer" in answer.err


@pytest.mark.parametrize("command", [("apps", "list"), ("up",)])
@pytest.mark.parametrize("home", ["file", "file/below", "/proc/nowhere"])
def test_home_that_cannot_be_one_names_the_setting(
    embedded: Call,
    tmp_path: Path,
    home: str,
    command: tuple[str, ...],
    configure: Configure,
):
    (tmp_path / "file").touch()
    configure(HOME=tmp_path / home)

    answer = embedded(*command)

    assert (2, "") == (answer.code, answer.out)
    assert "Set MINUTEHAND_HOME" in answer.err
    assert "All data is in" not in answer.err


@pytest.mark.parametrize("file", ["", "-wal", "-shm", ".lock"])
@pytest.mark.parametrize("command", [("apps", "list"), ("up",)])
def test_file_beside_the_database_that_is_not_ours_is_named(
    embedded: Call,
    tmp_path: Path,
    command: tuple[str, ...],
    file: str,
    configure: Configure,
):
    """Left by another user: it cannot be written to, and neither can the database."""
    (tmp_path / f"minutehand.sqlite3{file}").mkdir()
    configure(HOME=tmp_path)

    answer = embedded(*command)

    assert (2, "") == (answer.code, answer.out)
    assert f"minutehand.sqlite3{file} is not a file, or it cannot" in answer.err
    assert "Set MINUTEHAND_HOME" in answer.err


def test_workspace_that_is_not_ours_names_the_setting(
    embedded: Call, tmp_path: Path, configure: Configure
):
    """Before a step fails for it."""
    (tmp_path / "workspace").touch()
    configure(HOME=tmp_path)

    answer = embedded("up")

    assert (2, "") == (answer.code, answer.out)
    assert f"{tmp_path / 'workspace'} cannot be the workspace" in answer.err
    assert "Set MINUTEHAND_WORKSPACE" in answer.err


def test_place_that_has_no_lock_is_refused(
    embedded: Call, tmp_path: Path, configure: Configure
):
    """As on a disk that is full: here its folder is not there."""
    (tmp_path / "minutehand.sqlite3.lock").symlink_to(tmp_path / "none" / "lock")
    configure(HOME=tmp_path)

    answer = embedded("up")

    assert (2, "") == (answer.code, answer.out)
    assert "sqlite3.lock cannot be made: No such file or directory." in answer.err


@pytest.mark.parametrize("command", ["up", "scheduler"])
def test_port_of_the_metrics_that_is_taken_names_the_setting(
    embedded: Call, command: str, configure: Configure
):
    """Before anything is made or started."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        configure(METRICS_PORT=port, BROKER_URL="redis://127.0.0.1:1/0")
        answer = embedded(command)

    assert (2, "") == (answer.code, answer.out)
    assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in answer.err
    assert "Set MINUTEHAND_METRICS_PORT" in answer.err


@pytest.mark.parametrize("path", ["", "/notes.txt"], ids=["folder", "file"])
def test_what_is_no_database_is_refused(
    embedded: Call, tmp_path: Path, path: str, configure: Configure
):
    (tmp_path / "notes.txt").write_text("buy milk\n")
    configure(DATABASE_URL=f"sqlite:///{tmp_path}{path}")

    answer = embedded("apps", "list")

    assert 2 == answer.code
    assert "MINUTEHAND_DATABASE_URL" in answer.err
    assert "buy milk\n" == (tmp_path / "notes.txt").read_text()


def test_migrate_says_where_the_database_is(call: Call):
    answer = call("migrate", "--json")

    assert 0 == answer.code
    assert answer.data["before"] == answer.data["after"]
