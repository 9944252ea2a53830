"""
Which parts each form of Minutehand has, and how they are made from the settings.

A scheduler has an engine, its part in the election, and a sender. From these its
dispatcher and its noticer are made, and the upkeep that calls both when it is time. A
worker has an engine, the ports of the steps, and a heart. The embedded form has both in
one process (worker.py). Only the schema of the database is checked here;
everything else connects when it is used.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Self

import sqlalchemy as sa

import tracing
from actions.lease import Leader
from actions.tick import TickReport
from celery_app.app import make_app
from celery_app.couriers import TaskCouriers
from celery_app.logs import configure_scheduler_logs
from celery_app.operation_sender import CelerySender
from celery_app.task_sender import CeleryTaskSender
from celery_app.worker_start import spare_what_stays
from dispatch.clocks import ZoneAdopter, read_compared_clock
from dispatch.dispatcher import Dispatcher
from dispatch.leading import Leading
from dispatch.locked_rows import LOCK_PATIENCE
from dispatch.noticer import Noticer
from dispatch.outbox import Outbox, Sender
from dispatch.task_outbox import TaskOutbox
from dispatch.upkeep import Upkeep, log_tick
from migrations.schema_revisions import check_schema
from models.database.engine import Clock, make_engine, read_host_clock, writing
from models.fields.sql_connection import find_sqlite_path
from operations.adapters.app_users import RealDirectory
from operations.adapters.breaker import Breaker, PatientMailer
from operations.adapters.prune import DatabasePrune
from operations.adapters.renderer import ChildRenderer
from operations.adapters.smtp import make_mailer, name_mail_server
from operations.adapters.sources.sources import RealSources
from operations.adapters.webhooks import RealWebhooks
from operations.adapters.workspace import RealWorkspace
from operations.claiming.heart import Heart, Worker
from operations.domains import DomainLimits
from operations.fleet.presence import Presence, make_process
from operations.fleet.processes import ProcessRole, read_installation
from operations.mail.message import Senders
from operations.ports import Ports, Retention
from settings import Settings, read_child_environment
from telemetry import serve_metrics


def prepare_scheduler(settings: Settings) -> None:
    """Begin to log and to serve metrics, as *settings* say."""
    configure_scheduler_logs(settings)
    if settings.metrics_port is not None:
        serve_metrics(settings.metrics_address, settings.metrics_port)


class SchedulerParts:
    """
    The parts of a scheduler; public, because tests and demos drive them by hand.

    Args:
        engine: The scheduler's own.
        leader: The scheduler's part in the election.
        sender: Hands operations to the broker.
        tasks: Sends tasks of users' own.
        settings: Read once, at the start.
        monotonic: Returns seconds that never jump; only measures pauses.
        host_clock: Only compared with the database's clock; a difference is reported.
    """

    def __init__(  # noqa: PLR0913 - all that tests hand in
        self,
        engine: sa.Engine,
        leader: Leader,
        sender: Sender,
        tasks: TaskOutbox,
        settings: Settings,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        host_clock: Clock = read_host_clock,
    ) -> None:
        """Connect to nothing yet."""
        self.engine = engine
        self.leader = leader
        self.settings = settings
        self.monotonic = monotonic
        zones = ZoneAdopter(engine, leader)
        self.leading = Leading(engine, leader, zones)
        self.outbox = Outbox(
            sender,
            tasks,
            chunk=settings.chunk,
            monotonic=monotonic,
            part=settings.app_share,
        )
        self.dispatcher = Dispatcher(engine, leader, self.outbox)
        self.noticer = Noticer(
            engine,
            leader,
            mail=settings.notice_mail,
            webhook=settings.notice_webhook,
            zone=settings.timezone,
        )
        self.upkeep = Upkeep(
            engine,
            leader,
            self.dispatcher,
            self.noticer,
            zones,
            lease=settings.operation_lease,
            monotonic=monotonic,
        )
        self.read_clock = partial(read_compared_clock, engine, host_clock)
        #: Functions that are called with the report of each tick.
        self.on_tick: list[Callable[[TickReport], None]] = [log_tick]

    @classmethod
    def make(cls, settings: Settings) -> Self:
        """
        Return the parts for *settings*, after checking the schema of the database.

        Raises:
            UsageError: The program does not work on the schema of the database.
            UnreachableError: The database is away.
        """
        engine = make_engine(
            settings.database_url,
            timeout=settings.database_timeout,
            lock_timeout=LOCK_PATIENCE,
        )
        check_schema(engine)
        leader = Leader(
            engine, ttl=settings.lease_ttl, heartbeat=settings.lease_heartbeat
        )
        sender = CelerySender(
            make_app(settings),
            timeout=settings.broker_timeout,
            read_installation=partial(read_installation, engine),
        )
        tracing.prepare()
        spare_what_stays()
        tasks = CeleryTaskSender(settings, partial(read_installation, engine))
        outbox = TaskOutbox(engine, TaskCouriers(settings, tasks))
        return cls(engine, leader, sender, outbox, settings)

    def keep_maintenance(self) -> bool:
        """Bring maintenance in line with the settings, if we lead."""
        return self.upkeep.keep_maintenance(self.settings)


def make_presence(settings: Settings, engine: sa.Engine) -> Presence:
    """Return what gives the signs of life of a scheduler."""
    process = make_process(settings, ProcessRole.SCHEDULER)
    return Presence(process, partial(writing, engine))


def make_worker(settings: Settings) -> Worker:
    """Return a worker for *settings*; it connects when it is used."""
    engine = make_engine(settings.database_url, timeout=settings.database_timeout)
    secret = settings.webhook_secret
    senders = Senders(settings.mail_sender, settings.mail_sender_hosts)
    ports = Ports(
        workspace=RealWorkspace(
            engine, settings.workspace, most_bytes=settings.workspace_per_app
        ),
        sources=_make_sources(settings),
        mailer=PatientMailer(
            make_mailer(settings.smtp_url, sender=senders),
            Breaker(engine, name_mail_server(settings.smtp_url)),
        ),
        renderer=ChildRenderer(),
        directory=RealDirectory(engine, timezone=settings.timezone),
        webhooks=RealWebhooks(
            secret=None if secret is None else secret.get_secret_value(),
            allowed_hosts=settings.webhook_allowed_hosts,
        ),
        tasks=CeleryTaskSender(settings, partial(read_installation, engine)),
        prune=DatabasePrune(engine),
        retention=Retention(
            operations=settings.retention,
            below_minute=settings.retention_below_minute,
            mails=settings.keep_mails,
        ),
    )
    heart = Heart(
        engine, lease=settings.operation_lease, every=settings.operation_heartbeat
    )
    return Worker(engine, ports, heart)


def _make_sources(settings: Settings) -> RealSources:
    """Return the reader of the sources of small apps; nothing is opened yet."""
    database = find_sqlite_path(settings.database_url)
    files = [f"{database}{end}" for end in ("", "-wal", "-shm")] if database else []
    mails = [] if "://" in settings.smtp_url else [settings.smtp_url]
    return RealSources(
        limits=DomainLimits(
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
