"""
All commands that look at an installation, on SQLite; other tests are on PostgreSQL.

What they show is tested there, and what they ask the database below them, on both.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import sqlalchemy as sa

from cli.connection import get_engine
from tests.integration.api.prepared import leave_one, prepare
from tests.integration.cli.calling import Call
from tests.integration.web.markup import find_uids, find_wrong_numbers
from tests.seeded.serving import find_database
from tests.seeded.sites import fetch_uids, make_seeded_home

ACTION = "nightly-warehouse-load"
APP = "harbour-logistics"

#: Called as they are written, but for the ids of what is there.
LOOKS = (
    "apps list",
    f"apps show {APP}",
    f"apps export {APP}",
    "actions list",
    f"actions list --app {APP} --json",
    f"actions show {ACTION}",
    "operations list",
    "operations list --state failed --json",
    "operations show {operation}",
    "operations log {operation}",
    "operations state {operation}",
    "backfills list",
    "mails list",
    "queues list",
    "workers list",
    "keys list",
    "keys invitations",
    "changes list",
    "changes export",
    "changes verify",
    f"why {ACTION} --at 2026-01-05T02:00Z",
    "audit",
    "load",
    "doctor",
    "support-bundle",
    "status",
    "tick --dry-run",
    "schema",
)


#: What is asked before something is done, where there is one of it.
_OF_ONE = (
    "operations cancel --app {app} --dry-run",
    "operations retry --app {app} --dry-run",
    "mails resend --app {app} --dry-run",
    "mails preview {uid}",
    "actions backfill {uid} --from 2026-01-05T00:00Z --dry-run",
    "apps pause {app}",
    "apps resume {app}",
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Give a copy of a seeded installation."""
    base = tmp_path_factory.getbasetemp()
    seeded = make_seeded_home(base if worker_id == "master" else base.parent)
    copied = tmp_path_factory.mktemp("walk") / "home"
    shutil.copytree(seeded, copied)
    return copied


@pytest.fixture
def walk(embedded: Call, home: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.setenv("MINUTEHAND_HOME", str(home))
    monkeypatch.setenv("MINUTEHAND_DATABASE_URL", find_database(home))
    return embedded


#: What is the uid: a field, a member of a document, the first cell of a row.
_UIDS = r'(?m)^ *"?uid .*$|^.*"uid":.*$|^action .*\(revision.*$|^[\w-]+ {2,}'

#: What programs read: documents and ids.
_FOR_PROGRAMS = ("--json", "export", "schema", "support-bundle")


@pytest.mark.parametrize("line", LOOKS)
def test_commands_that_look_work_on_sqlite(walk: Call, line: str):
    """
    They end well, or say what is wrong with the installation.

    Actions are called by their names: a uid stands in what is to be pasted, and where
    it says so.
    """
    if "{operation}" in line:
        (newest,) = walk("operations", "list", "--limit", "1", "--json").data
        line = line.format(operation=newest["id"])

    answer = walk(*line.split())

    assert answer.code in {0, 1}, answer.err
    assert answer.out or answer.err
    if not any(each in line for each in _FOR_PROGRAMS):
        told = re.sub(_UIDS, "", answer.out) + answer.err
        assert [] == find_uids(told, fetch_uids(get_engine()))


def test_one_is_not_told_as_many(call: Call, engine: sa.Engine, tmp_path: Path):
    """Where there is one of each thing, its noun and its verb are those of one."""
    made = prepare(engine, tmp_path, APP, "Qshopq")
    leave_one(engine, made)
    wrong = []
    for line in (*LOOKS, *_OF_ONE):
        asked = line.replace(ACTION, made.ids["uid"]).format(**made.ids)
        answer = call(*asked.split())
        assert answer.code in {0, 1}, (asked, answer.err)
        told = re.sub(r" {2,}|\n", " | ", answer.out + answer.err)  # columns, lines
        wrong += [(asked, each) for each in find_wrong_numbers(told)]

    assert [] == wrong
