"""What all requests of one web process share."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

import sqlalchemy as sa
from anyio import to_thread
from prometheus_client import CollectorRegistry, generate_latest

from actions.load.forecast import QUIET, Load, forecast_load
from actions.load.quiet import Away
from actions.posting.edit import Terms
from models.database.engine import Author, make_engine, reading, reading_once, writing
from operations.adapters.app_users import RealDirectory
from operations.adapters.identity_provider import IdentityProvider, Registration
from operations.adapters.renderer import ChildRenderer
from operations.adapters.smtp import make_mailer
from operations.mail.message import Senders
from operations.mail.trial import Trials
from overview.doctor.checks import FAR, NEAR
from overview.doctor.examine import find_obstacle, find_trouble
from overview.doctor.finding import Finding, Health, find_worst
from overview.installation.metrics import WorkMetrics
from serving.apart import AT_ONCE, Apart
from serving.limits import RequestLimits, Turns
from serving.shared import Kept, Shared
from serving.stream import Hub, make_hub
from serving.waiting import Waiters, make_waiters
from settings import Settings

#: How often doctor looks outside of the database, however many ask.
FAR_EVERY = timedelta(seconds=10)

#: How often the week ahead is counted: seconds, if there are thousands of rules.
AHEAD_EVERY = timedelta(minutes=5)

#: How often the database is asked for whoever balances load, without a key.
READY_EVERY = timedelta(seconds=1)

#: How often metrics are written; overview/installation/metrics.py reads less often.
METRICS_EVERY = timedelta(seconds=1)

#: How long the mails of one request may take to render; workers wait longer.
RENDERED_WITHIN = timedelta(seconds=20)

#: Sign-ins that may wait for the company's provider: it may hang, and others sign in by
#: a key meanwhile.
_SIGN_INS_AT_ONCE = 4

#: How long a request may take in the database: less than a proxy or a person waits.
DATABASE_TIMEOUT = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Services:
    """
    The world of a web process.

    Args:
        settings: Of the installation.
        engine: Of this process alone, so that a slow report delays no tick.
        limits: How often each caller may ask.
        apart: Answers requests with large bodies. None: this process does.
        hub: Who listens to what happens.
        waiters: Who waits for an operation to end.
        far: What doctor finds outside of the database.
        ahead: What the rules say of a week, and when the database may be away.
        obstacle: Why requests cannot be served. None: they can.
        work: Reads the metrics of work, on a connection of its own.
        metrics: The same, as Prometheus reads them.
        auditing: Audits, in turns.
        trials: Sends test mails.
        trying: Test mails, in turns.
        provider: Signs the company's people in. None: there is none.
        signing_in: What is asked of it, in turns.
        kept: What took long to find out, for all who ask the same.
    """

    settings: Settings
    engine: sa.Engine
    limits: RequestLimits
    apart: Apart | None = None
    hub: Hub = field(init=False)
    waiters: Waiters = field(init=False)
    far: Shared[list[Finding]] = field(init=False)
    ahead: Shared[Load] = field(init=False)
    obstacle: Shared[str | None] = field(init=False)
    work: WorkMetrics = field(init=False)
    metrics: Shared[bytes] = field(init=False)
    auditing: Turns = field(init=False)
    trials: Trials = field(init=False)
    trying: Turns = field(init=False)
    provider: IdentityProvider | None = field(init=False)
    signing_in: Turns = field(init=False)
    kept: Kept = field(init=False, default_factory=Kept)

    def __post_init__(self) -> None:
        """Give it what no other web process has."""
        work = WorkMetrics(self.settings, leads=lambda: True)
        renderer = ChildRenderer(deadline=RENDERED_WITHIN)
        registry = CollectorRegistry(auto_describe=True)
        registry.register(work)
        for name, value in (
            ("hub", make_hub(self.engine)),
            ("waiters", make_waiters(self.engine)),
            ("far", Shared(partial(self._look, FAR), FAR_EVERY)),
            ("ahead", Shared(self._look_ahead, AHEAD_EVERY)),
            ("obstacle", Shared(partial(find_obstacle, self.engine), READY_EVERY)),
            ("work", work),
            ("metrics", Shared(partial(generate_latest, registry), METRICS_EVERY)),
            ("auditing", Turns("another audit", AT_ONCE)),
            ("trials", self._make_trials(renderer)),
            ("trying", Turns("another test mail", AT_ONCE)),
            ("provider", make_provider(self.settings)),
            ("signing_in", Turns("signing others in", _SIGN_INS_AT_ONCE)),
        ):
            object.__setattr__(self, name, value)

    def _look(self, names: Sequence[str]) -> list[Finding]:
        return list(find_trouble(self.engine, self.settings, names=names))

    def _look_ahead(self) -> Load:
        away = Away(QUIET, self.settings.lookback)
        with self.reading() as connection:
            return forecast_load(connection, away=away)

    async def examine(self) -> tuple[list[Finding], float]:
        """Return what is found now, and how old what is found outside may be."""
        near = await to_thread.run_sync(self._look, NEAR)
        if find_worst(near[:1]) is Health.BAD:  # the schema: no other look makes sense
            return near, 0.0
        far, age_s = await self.far.ask()
        return [*near, *far], age_s

    async def recall_far(self) -> tuple[list[Finding], float | None]:
        """Return what was last found outside, and its age; what hangs is not new."""
        return await self.far.get() or ([], None)

    async def recall_ahead(self) -> Load | None:
        """Return what was last foreseen of a week; None: that cannot be told yet."""
        return (await self.ahead.get() or (None,))[0]

    def _make_trials(self, renderer: ChildRenderer) -> Trials:
        settings = self.settings
        mailer = make_mailer(settings.smtp_url, sender=self.senders)
        directory = RealDirectory(self.engine, timezone=settings.timezone)
        return Trials(self.engine, directory, renderer, mailer)

    def send_away(self) -> None:
        """End what has no end of its own; the server is ending."""
        self.hub.close()
        self.waiters.close()

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Give a connection that only reads."""
        with reading(self.engine) as connection:
            yield connection

    @contextmanager
    def reading_once(self) -> Iterator[sa.Connection]:
        """Give a connection for one query, without a transaction around it."""
        with reading_once(self.engine) as connection:
            yield connection

    @contextmanager
    def writing(self, author: Author | None = None) -> Iterator[sa.Connection]:
        """Give a connection in one transaction, whose changes are *author*'s."""
        with writing(self.engine, author=author) as connection:
            yield connection

    def close(self) -> None:
        """Close all connections to the database."""
        self.engine.dispose()
        self.work.close()
        if self.apart is not None:
            self.apart.close()

    @property
    def timezone(self) -> str:
        """The zone of apps that name none, an IANA name."""
        return self.settings.timezone

    @property
    def senders(self) -> Senders:
        """Whom mails may come from."""
        return Senders(self.settings.mail_sender, self.settings.mail_sender_hosts)

    @property
    def terms(self) -> Terms:
        """What the installation says about actions that are posted to it."""
        settings = self.settings
        rules, bounds = settings.make_task_rules(), settings.app_bounds
        return Terms(settings.timezone, rules, settings.lookback, bounds)


def make_provider(settings: Settings) -> IdentityProvider | None:
    """Return what asks the company's identity provider. None: it has none."""
    if settings.oidc_issuer is None:
        return None
    assert settings.oidc_client_id is not None  # the settings see to it
    secret = settings.oidc_client_secret
    return IdentityProvider(
        Registration(
            settings.oidc_issuer,
            settings.oidc_client_id,
            None if secret is None else secret.get_secret_value(),
            settings.oidc_scopes,
            settings.oidc_groups_claim,
        )
    )


def make_services(settings: Settings, *, apart: Apart | None = None) -> Services:
    """Make what a web process needs; connects to nothing yet."""
    engine = make_engine(
        settings.database_url,
        timeout=min(DATABASE_TIMEOUT, settings.database_timeout),
        pool_size=settings.web_threads,
    )
    return Services(settings, engine, RequestLimits(clock=time.monotonic), apart)
