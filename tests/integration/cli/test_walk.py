"""
All commands that look at an installation, on SQLite; other tests are on PostgreSQL.

What they show is tested there, and what they ask the database below them, on both.
"""

from __future__ import annotations

import re
from pathlib import Path

import sqlalchemy as sa

from tests.integration.api.prepared import leave_one, prepare
from tests.integration.cli.calling import Call, Configure
from tests.integration.web.markup import find_uids, find_wrong_numbers

#: Called as they are written, but for the ids of what is there.
LOOKS = (
    "apps list",
    "apps show {app}",
    "apps export {app}",
    "actions list",
    "actions list --app {app} --json",
    "actions show {uid}",
    "operations list",
    "operations list --state failed --json",
    "operations show {operation_id}",
    "operations log {operation_id}",
    "operations state {operation_id}",
    "backfills list",
    "mails list",
    "queues list",
    "workers list",
    "keys list",
    "keys invitations",
    "changes list",
    "changes export",
    "changes verify",
    "why {uid} --at 2026-01-05T02:00Z",
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


#: What is the uid: a field, a member of a document, the first cell of a row.
_UIDS = r'(?m)^ *"?uid .*$|^.*"uid":.*$|^action .*\(revision.*$|^[\w-]+ {2,}'

#: What programs read: documents and ids.
_FOR_PROGRAMS = ("--json", "export", "schema", "support-bundle")


def test_commands_that_look_work_on_sqlite(
    embedded: Call,
    sqlite_engine: sa.Engine,
    sqlite_url: str,
    tmp_path: Path,
    configure: Configure,
):
    """
    They end well, or say what is wrong with the installation. Where there is one of
    each thing, its noun and its verb are those of one.

    Actions are called by their names: a uid stands in what is to be pasted, and where
    it says so.
    """
    configure(DATABASE_URL=sqlite_url, MAINTENANCE_ENABLED="false")
    made = prepare(sqlite_engine, tmp_path, "harbour", "Qshopq")
    leave_one(sqlite_engine, made)
    wrong = []
    for line in (*LOOKS, *_OF_ONE):
        answer = embedded(*line.format(**made.ids).split())
        assert answer.code in {0, 1}, (line, answer.err)
        assert answer.out or answer.err, line
        told = re.sub(r" {2,}|\n", " | ", answer.out + answer.err)  # columns, lines
        wrong += [(line, each) for each in find_wrong_numbers(told)]
        if not any(each in line for each in _FOR_PROGRAMS):
            told = re.sub(_UIDS, "", answer.out) + answer.err
            wrong += [(line, each) for each in find_uids(told, {made.ids["uid"]})]

    assert [] == wrong
