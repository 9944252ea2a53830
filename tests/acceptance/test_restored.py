"""A dump of a running installation, put back after more had run: nothing runs twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from models.database.engine import writing
from models.database.tables import leases, processes, templates
from tests.chaos.installation import Installation
from tests.chaos.servers import find_postgres_programs
from tests.database import execute
from tests.mail_server import MailServer, run_mail_server
from tests.scheduling import add_app, edit_action, fetch_all, get_now, post
from tests.servers import run_to_end, run_warm, wait_until

MINUTE = timedelta(minutes=1)

#: How long the leases of the tests last; far longer than nobody gives a sign of life.
HOUR = timedelta(hours=1)


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    """Give a mail server that was there before, and is there after."""
    with run_mail_server() as server:
        yield server


@pytest.fixture
def mailing(installation: Installation, mail_server: MailServer) -> Installation:
    """Give an installation whose every minute mails to one user."""
    installation.options |= {
        "SMTP_URL": mail_server.url,
        "MAINTENANCE_ENABLED": "false",
    }
    engine = installation.engine
    add_app(engine, ids=["ada"])
    execute(
        engine,
        sa.insert(templates).values(
            app="app", name="hello", subject="Hello", text="Hello"
        ),
    )
    return installation


def add_mailing(mailing: Installation) -> str:
    """Add an action that has been due, each minute, for three minutes."""
    uid = post(
        mailing.engine,
        operations={"send_email": {"template": "hello"}},
        recipients={"users": ["ada"]},
        when={"cron_rule": "* * * * *"},
        catch_up={"runs": "all", "within": "P1D"},
    ).uid
    since = get_now(mailing.engine) - 3 * MINUTE
    edit_action(mailing.engine, uid, effective_from=since, next_due_at=since)
    return uid


@contextmanager
def worker(mailing: Installation) -> Iterator[None]:
    with run_warm(
        [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "-c", "1"],
        log=mailing.folder / "worker.log",
        environ=mailing.environ,
    ):
        yield


def call(mailing: Installation, *arguments: str, busy: bool = False) -> Any:
    """Run a command of ``minutehand``; return its JSON, or None if it is too early."""
    program = str(Path(sys.executable).with_name("minutehand"))
    environ = {**os.environ, **mailing.environ}
    done = run_to_end([program, *arguments, "--json"], environ=environ)
    if busy and done.returncode == 5:
        return None
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def fetch_runs(mailing: Installation, state: str) -> set[UUID]:
    return {row.id for row in fetch_all(mailing.engine) if row.state == state}


def count_mails(mail_server: MailServer) -> Counter[str]:
    return Counter(str(each["Message-ID"]) for each in mail_server.messages)


def back_up(mailing: Installation, programs: Path) -> Path:
    path = mailing.folder / "minutehand.dump"
    url = mailing.database_url.replace("+psycopg", "")
    subprocess.run(
        [programs / "pg_dump", "--format=custom", f"--file={path}", url], check=True
    )
    return path


def put_back(mailing: Installation, programs: Path, dump: Path) -> None:
    """Restore the dump as docs/backup.md says."""
    url = mailing.database_url.replace("+psycopg", "")
    mailing.engine.dispose()
    subprocess.run(
        [programs / "pg_restore", "--clean", "--if-exists", f"--dbname={url}", dump],
        check=True,
    )


def let_time_pass(engine: sa.Engine, duration: timedelta) -> None:
    """Let the last signs of life, and the lease, be older by *duration*."""
    with writing(engine) as connection:
        connection.execute(
            sa.update(processes).values(
                heartbeat_at=processes.c.heartbeat_at - duration
            )
        )
        connection.execute(
            sa.update(leases).values(expires_at=leases.c.expires_at - duration)
        )


def has_signs(engine: sa.Engine) -> bool:
    with engine.connect() as connection:
        return connection.execute(sa.select(processes.c.id)).first() is not None


def be_at_once(engine: sa.Engine) -> None:
    """Let the dump be of this moment, however long it took to put it back."""
    execute(
        engine, sa.update(processes).values(heartbeat_at=sa.func.statement_timestamp())
    )


def test_nobody_is_mailed_twice_after_a_restore(
    mailing: Installation, mail_server: MailServer
) -> None:
    """What ran after the dump does not run again, and each occurrence is explained."""
    engine = mailing.engine
    programs = find_postgres_programs()
    uid = add_mailing(mailing)
    with mailing.scheduler():
        wait_until(
            # it gives a sign of life after its first tick, and the dump is to have it
            lambda: len(fetch_runs(mailing, "queued")) >= 3 and has_signs(engine),
            what="messages, and a sign of life",
        )
        dump = back_up(mailing, programs)
        as_of = get_now(engine)
        with worker(mailing):
            wait_until(lambda: len(mail_server.messages) >= 3, what="mails")
    sent = count_mails(mail_server)

    put_back(mailing, programs, dump)
    command = ("restored", "--as-of", as_of.isoformat())
    be_at_once(engine)
    too_early = call(mailing, *command, busy=True)
    let_time_pass(engine, HOUR)
    report = call(mailing, *command)
    # The broker ran on, and knows of no backup.
    mailing.send(*fetch_runs(mailing, "canceled"), uuid4())
    with mailing.scheduler("after"), worker(mailing):
        # Behind all that is left in the broker.
        fresh = UUID(call(mailing, "actions", "run", uid)["id"])
        done = mailing.wait_until_final(fresh)

    after = count_mails(mail_server)
    canceled = [row for row in fetch_all(engine) if row.state == "canceled"]
    assert too_early is None, "those who live in the dump may still be at work"
    assert len(canceled) == report["canceled"]["queued"] >= 3
    assert {"restored"} == {row.reason.partition(":")[0] for row in canceled}
    assert "succeeded" == done.state
    assert set(sent) < set(after)
    assert {1} == set(after.values())
    assert 4 <= (mailing.folder / "worker.log").read_text().count("not_claimed")
    assert [] == call(mailing, "audit", "--from", as_of.isoformat())
