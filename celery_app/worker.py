"""
What a worker process keeps between tasks: engine, ports, and its heart.

Made in the process that runs the tasks, never in the parent of a prefork pool:
neither database connections nor Polars survive a fork.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import sqlalchemy as sa
import structlog

from celery_app.task_sender import CeleryTaskSender
from migrations.revisions import check_schema
from models.database.engine import make_engine
from models.errors import MinutehandError, UnreachableError
from models.fields.sql_connection import find_sqlite_path
from operations.adapters.app_users import RealDirectory
from operations.adapters.breaker import Breaker, PatientMailer
from operations.adapters.prune import DatabasePrune
from operations.adapters.renderer import ChildRenderer
from operations.adapters.smtp import make_mailer, name_mail_server
from operations.adapters.sources.sources import RealSources
from operations.adapters.webhooks import RealWebhooks
from operations.adapters.workspace.workspace import RealWorkspace
from operations.claiming.claim import give_back, renew
from operations.claiming.claimed import Claim
from operations.data import Limits
from operations.ports import Ports, Retention
from settings import Settings, read_child_environment, read_settings
from telemetry import Event

log = structlog.get_logger()


class Heart:
    """
    Renews the leases of all that this process runs, from one thread.

    Args:
        engine: Of this process.

        lease: How long a renewal holds.

        every: Between renewals; a third of *lease* at most.
    """

    def __init__(
        self, engine: sa.Engine, *, lease: timedelta, every: timedelta
    ) -> None:
        """Start nothing yet: the thread starts with the first claim."""
        self._engine = engine
        self._lease = lease
        self._every_s = every.total_seconds()
        self._claims: dict[UUID, Claim] = {}
        self._missing: set[UUID] = set()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._started = False

    def add(self, claim: Claim) -> None:
        """Keep *claim* alive from now on."""
        with self._lock:
            self._claims[claim.token] = claim
            if not self._started:
                self._started = True
                self.start_beating()

    def start_beating(self) -> None:
        """Call ``beat`` in a moment, and again and again until stopped."""
        threading.Thread(target=self._run, name="operation-leases", daemon=True).start()

    def remove(self, claim: Claim) -> None:
        """Keep *claim* alive no longer."""
        with self._lock:
            self._claims.pop(claim.token, None)

    def stop(self) -> None:
        """Stop renewing, and give back what still runs so that others take it."""
        self._stopped.set()
        with self._lock:
            claims = list(self._claims.values())
            self._claims.clear()
        ids = [str(claim.operation_id) for claim in claims]
        for number, claim in enumerate(claims):
            try:
                given_back = give_back(self._engine, claim)
            except (MinutehandError, sa.exc.SQLAlchemyError) as error:
                # The others would wait for the same.
                log.warning(
                    Event.OPERATIONS_NOT_GIVEN_BACK, ids=ids[number:], error=str(error)
                )
                return
            if given_back:
                log.info(Event.OPERATION_GIVEN_BACK, task_id=ids[number])

    def beat(self) -> None:
        """Renew all leases once; forget those that are no longer ours."""
        with self._lock:
            tokens = set(self._claims)
        try:
            claim = renew(self._engine, tokens, lease=self._lease)
        except (MinutehandError, sa.exc.SQLAlchemyError) as error:
            # The next beat tries again; the lease outlasts several.
            expected = isinstance(error, UnreachableError)
            log.warning(Event.HEARTBEAT_FAILED, error=str(error), exc_info=not expected)
            return
        with self._lock:
            # What has just ended is no longer ours either, and removed in a moment:
            # lost is what the beat before did not find.
            lost = self._missing & self._claims.keys() - claim
            self._missing = tokens - claim
            for token in lost:
                gone = self._claims.pop(token)
                log.warning(Event.CLAIM_LOST, task_id=str(gone.operation_id))

    def _run(self) -> None:
        if self._stopped.wait(self._every_s):
            return
        try:
            self.beat()
        finally:
            # Whatever became of this one (a full disk under the log): nobody else
            # renews, and all that runs here would be taken from us.
            self.start_beating()


@dataclass(frozen=True, slots=True)
class Worker:
    """One process that runs operations; *monotonic* (seconds) only measures pauses."""

    engine: sa.Engine
    ports: Ports
    heart: Heart
    lease: timedelta
    pid: int = field(default_factory=os.getpid)
    monotonic: Callable[[], float] = time.monotonic


def make_sources(settings: Settings) -> RealSources:
    """Return what reads the sources of small apps; nothing is opened."""
    database = find_sqlite_path(settings.database_url)
    files = [f"{database}{end}" for end in ("", "-wal", "-shm")] if database else []
    mails = [] if "://" in settings.smtp_url else [settings.smtp_url]
    return RealSources(
        limits=Limits(
            bytes=settings.source_max_bytes,
            rows=settings.source_max_rows,
            columns=settings.source_max_columns,
            memory=settings.source_max_memory,
            time=settings.source_timeout,
        ),
        allowed_hosts=settings.source_allowed_hosts,
        connections=settings.sql_connections,
        environment=read_child_environment(),
        private=[settings.home, settings.workspace, *map(Path, [*files, *mails])],
    )


def make_worker(settings: Settings) -> Worker:
    """Return a worker for *settings*; connects lazily."""
    engine = make_engine(settings.database_url, timeout=settings.database_timeout)
    secret = settings.webhook_secret
    ports = Ports(
        workspace=RealWorkspace(
            engine, settings.workspace, most_bytes=settings.workspace_per_app
        ),
        sources=make_sources(settings),
        mailer=PatientMailer(
            make_mailer(settings.smtp_url, sender=settings.mail_sender),
            Breaker(engine, name_mail_server(settings.smtp_url)),
        ),
        renderer=ChildRenderer(),
        directory=RealDirectory(engine),
        webhooks=RealWebhooks(
            secret=None if secret is None else secret.get_secret_value(),
            allowed_hosts=settings.webhook_allowed_hosts,
        ),
        tasks=CeleryTaskSender(settings),
        prune=DatabasePrune(engine),
        retention=Retention(operations=settings.retention),
    )
    heart = Heart(
        engine,
        lease=settings.operation_lease,
        every=settings.operation_heartbeat,
    )
    return Worker(engine, ports, heart, settings.operation_lease)


_lock = threading.Lock()
_worker: Worker | None = None


def get_worker() -> Worker:
    """
    Return the worker of this process, made at its first task.

    Raises:
        UsageError: The database has a schema on which this program does not work.

        UnreachableError: The database is away.
    """
    global _worker  # noqa: PLW0603 - one a process, and Celery hands us no place for it
    with _lock:
        if _worker is None or _worker.pid != os.getpid():
            made = make_worker(read_settings())
            check_schema(made.engine)
            _worker = made
        return _worker


def set_worker(worker: Worker) -> None:
    """Let the tasks of this process use *worker*; for workers embedded in others."""
    global _worker  # noqa: PLW0603 - as above
    with _lock:
        _worker = worker


def stop_worker() -> None:
    """Give back what this process runs, if it runs anything."""
    if _worker is not None and _worker.pid == os.getpid():
        _worker.heart.stop()
