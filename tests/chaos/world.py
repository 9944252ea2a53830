"""What chaos happens to: servers, schedulers, workers, and work for them to do."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import cycle
from pathlib import Path
from typing import Any

import psutil
import sqlalchemy as sa
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from actions.small_apps.apply import ApplyTerms, apply_small_app
from models.database.engine import make_engine, writing
from models.small_app import SmallAppModel
from tests.chaos.installation import (
    SCHEDULER_COMMAND,
    Installation,
    make_worker_command,
)
from tests.chaos.servers import (
    Victim,
    run_faulty_pgbouncer,
    run_faulty_postgres,
    run_faulty_redis,
)
from tests.mail_server import MailServer
from tests.scheduling import fetch_all, get_now, post
from tests.servers import PATIENCE_S, ROOT, find_free_port, wait_until

APPS = ("north", "south", "west")
USERS = ("ada", "ben", "cleo", "dan", "eve")
SCHEDULERS = 2
WORKERS = 3

#: How long every action has been there when the world begins; inside the window.
BACKDATED = timedelta(minutes=3)

#: The driver of the chaos waits for the database no longer than this.
PATIENCE = timedelta(seconds=1)

_EVERY_MINUTE = {"cron_rule": "* * * * *"}
_MAIL = {"send_email": {"template": "hello"}}
_RECIPIENTS = {"groups": ["all"]}


#: Of so many mails one costs its sender its life.
DEADLY_EVERY = 40


@dataclass
class DeadlyMailServer(MailServer):
    """
    Keeps a mail for a moment before it says so, and kills some that wait for that.

    Args:
        killed: How many processes.

        is_deadly: Whether it goes on so.
    """

    killed: int = 0
    is_deadly: bool = True

    async def handle_DATA(  # noqa: N802 - aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        """Keep a message, and answer later, or nobody."""
        answer = await super().handle_DATA(server, session, envelope)
        if self.is_deadly and len(self.messages) % DEADLY_EVERY == 0:
            assert session.peer is not None  # it is connected
            self.killed += kill_client(int(session.peer[1]))
        await asyncio.sleep(0.02)
        return answer


def kill_client(port: int) -> int:
    """Kill the process whose end of a connection is *port*; return how many died."""
    for connection in psutil.net_connections("tcp"):
        if connection.laddr and connection.laddr.port == port and connection.pid:
            os.kill(connection.pid, signal.SIGKILL)
            return 1
    return 0


@contextmanager
def run_deadly_mail_server() -> Iterator[DeadlyMailServer]:
    """Run one on a free port, in a thread."""
    port = find_free_port()
    mails = DeadlyMailServer(f"smtp://127.0.0.1:{port}")
    controller = Controller(
        mails, hostname="127.0.0.1", port=port, ready_timeout=PATIENCE_S
    )
    controller.start()
    try:
        yield mails
    finally:
        controller.stop()


@dataclass
class World:
    """
    Everything that runs.

    Args:
        installation: Its engine is the driver's own.

        mails: What arrived.

        servers: PostgreSQL, PgBouncer and Redis.

        processes: Schedulers and workers.

        since: Aware UTC; since when every action is in force.

        actions: Their uids, of the mails that may be asked for by hand.
    """

    installation: Installation
    mails: DeadlyMailServer
    servers: list[Victim]
    processes: list[Victim]
    since: datetime
    actions: list[str]

    @property
    def victims(self) -> list[Victim]:
        """All that can be hurt."""
        return [*self.servers, *self.processes]


@contextmanager
def run_world(folder: Path) -> Iterator[World]:
    """Run it for the length of the block, with *folder* for data and logs."""
    with ExitStack() as stack:
        database = stack.enter_context(run_faulty_postgres())
        pooler = stack.enter_context(run_faulty_pgbouncer(database.url))
        broker = stack.enter_context(run_faulty_redis())
        mails = stack.enter_context(run_deadly_mail_server())
        installation = Installation(
            database.url, broker.url, folder, {"SMTP_URL": mails.url}
        )
        since, actions = _populate(installation)
        installation.engine.dispose()
        installation.engine = make_engine(database.url, timeout=PATIENCE)
        stack.callback(installation.engine.dispose)
        commands = [
            *((f"scheduler-{n}", SCHEDULER_COMMAND) for n in range(SCHEDULERS)),
            *(
                (f"worker-{n}", make_worker_command(f"worker-{n}", 2))
                for n in range(WORKERS)
            ),
        ]
        # Half of them reach the database straight, and half through the pooler.
        urls = cycle([database.url, pooler.url])
        processes = [
            _make_process(installation, name, command, url)
            for (name, command), url in zip(commands, urls, strict=False)
        ]
        for process in processes:
            stack.callback(process.stop)
            process.start()
        # A busy machine may need longer to start them than the faults last: then
        # nothing would be hurt, and nothing would be there to judge.
        wait_until(lambda: fetch_all(installation.engine), what="a first tick")
        servers = [database, pooler, broker]
        yield World(installation, mails, servers, processes, since, actions)


def _make_process(
    installation: Installation,
    name: str,
    command: Sequence[str],
    database_url: str,
) -> Victim:
    return Victim(
        name,
        command,
        installation.folder / f"{name}.log",
        environ={**installation.environ, "MINUTEHAND_DATABASE_URL": database_url},
        cwd=ROOT,
    )


def _populate(installation: Installation) -> tuple[datetime, list[str]]:
    """Add apps and every-minute actions; return since when, and the quick ones."""
    engine = installation.engine
    quick = []
    for app in APPS:
        source = installation.folder / f"{app}.csv"
        source.write_text("day,sales\n2026-01-01,1\n")
        model = SmallAppModel.model_validate(
            {
                "uid": app,
                "users": [
                    {
                        "id": user,
                        "email": f"{user}@{app}.example",
                        "activated_at": "2026-01-01T00:00:00Z",
                    }
                    for user in USERS
                ],
                "domains": [{"name": "sales", "source": {"file": str(source)}}],
                "templates": {"hello": {"subject": "Hello", "text": "{{ user.id }}"}},
                "documents": {"design": {}, "permissions": {}},
            }
        )
        with writing(engine) as connection:
            apply_small_app(connection, model, ApplyTerms(installation.folder))
        mails = {"when": _EVERY_MINUTE, "recipients": _RECIPIENTS}
        nap = {"run_task": {"name": "sleep", "args": [0.3]}}
        heavy = {"refresh": True, "publish": True}
        for name, operations, more in (
            ("mail", _MAIL, {}),
            ("mail and nap", {**_MAIL, **nap}, {}),
            ("queued mail", _MAIL, {"overlap": "queue"}),
            ("nightly", {**heavy, **_MAIL}, {}),
            ("data", {"refresh": True}, {"overlap": "queue"}),
        ):
            document: dict[str, Any] = {**mails, **more, "name": name}
            uid = post(engine, app, operations=operations, **document).uid
            if "refresh" not in operations:
                quick.append(uid)
    return _backdate(engine), quick


def _backdate(engine: sa.Engine) -> datetime:
    """Let every action have been there for a while, so that much is due at once."""
    since = get_now(engine).replace(second=0, microsecond=0) - BACKDATED
    with writing(engine) as connection:
        connection.execute(
            sa.text(
                "update scheduled_actions set created_at = :since,"
                " effective_from = :since, next_due_at = :since"
            ),
            {"since": since},
        )
        connection.execute(
            sa.text(
                "update scheduled_action_revisions set recorded_at = :since,"
                " effective_from = :since"
            ),
            {"since": since},
        )
    return since
