"""What all requests of one web process share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Generic, TypeVar
from uuid import UUID

import sqlalchemy as sa
from anyio import CapacityLimiter, to_thread
from prometheus_client import CollectorRegistry, generate_latest

from actions.load.forecast import QUIET, Away, Load, forecast_load
from actions.posting.edit import Terms
from models.database.engine import Author, make_engine, reading, reading_once, writing
from models.errors import MinutehandError, UnreachableError
from models.operation_state import FINAL_STATES, OperationState
from operations.adapters.app_users import RealDirectory
from operations.adapters.identity_provider import IdentityProvider, Registration
from operations.adapters.renderer import ChildRenderer
from operations.adapters.smtp import make_mailer
from operations.mail.message import Senders
from operations.state import LOOK_EVERY_S, read_operation_states
from overview.doctor.checks import FAR, NEAR
from overview.doctor.examine import find_obstacle, find_trouble
from overview.doctor.finding import Finding, Health, find_worst
from overview.installation.metrics import WorkMetrics
from overview.live_events import look
from overview.mail_preview import Trials
from serving.apart import AT_ONCE, Apart
from serving.limits import RequestLimits, Shares, Turns
from serving.stream import Hub
from settings import Settings

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class _Made(Generic[_Answer]):
    outcome: _Answer | MinutehandError
    at: float


def _now_s() -> float:
    return asyncio.get_running_loop().time()


@dataclass(slots=True)
class Shared(Generic[_Answer]):
    """
    An answer that is kept for a while, and made again when somebody asks after that.

    Args:
        make: Called in a thread of its own, which is none of those of requests.
        kept_for: How old the answer may be; errors are kept as well.
        patience_s: For how long ``get`` waits for a new one.
    """

    make: Callable[[], _Answer]
    kept_for: timedelta
    patience_s: float = 1.0
    _made: _Made[_Answer] | None = None
    _making: asyncio.Lock = field(default_factory=asyncio.Lock)
    _meanwhile: asyncio.Task[object] | None = None
    _thread: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(1))

    async def ask(self) -> tuple[_Answer, float]:
        """
        Return the answer, and how many seconds old it is.

        Raises:
            MinutehandError: What *make* raised.
        """
        async with self._making:
            made = self._made
            if made is None or self._is_old(made):
                outcome = await to_thread.run_sync(self._try, limiter=self._thread)
                made = self._made = _Made(outcome, _now_s())
            age_s = _now_s() - made.at
        if isinstance(made.outcome, MinutehandError):
            raise made.outcome
        return made.outcome, age_s

    async def get(self) -> tuple[_Answer, float] | None:
        """
        Return the last answer, however old, and how many seconds old it is.

        If it is too old, another is made, for which nobody waits for long. None: none
        was made yet, or the last attempt failed.
        """
        if self._made is None or self._is_old(self._made):
            if self._meanwhile is None or self._meanwhile.done():
                self._meanwhile = asyncio.create_task(self._make_quietly())
            await asyncio.wait({self._meanwhile}, timeout=self.patience_s)
        made = self._made
        if made is None or isinstance(made.outcome, MinutehandError):
            return None
        return made.outcome, _now_s() - made.at

    async def _make_quietly(self) -> None:
        with suppress(MinutehandError):  # it is kept for whoever asks
            await self.ask()

    def _is_old(self, made: _Made[_Answer]) -> bool:
        return _now_s() - made.at >= self.kept_for.total_seconds()

    def _try(self) -> _Answer | MinutehandError:
        try:
            return self.make()
        except MinutehandError as error:
            return error


#: Returns the states of those operations that exist.
Look = Callable[[Collection[UUID]], Mapping[UUID, OperationState]]


class _Waiter:
    """Somebody who waits; *state* is the last one that was seen."""

    def __init__(self, operation_id: UUID, state: OperationState) -> None:
        self.operation_id = operation_id
        self.state: OperationState | None = state
        self.is_over = asyncio.Event()


@dataclass(slots=True)
class Waiters:
    """
    All who wait for operations in one process.

    Args:
        look: Called in a thread, by nobody else at the same time.
        every: Between two looks.
        most: Who comes beyond so many is answered at once.
    """

    look: Look
    every: timedelta = timedelta(seconds=LOOK_EVERY_S)
    most: int = 2_000
    _waiting: set[_Waiter] = field(default_factory=set, init=False)
    _looking: asyncio.Task[None] | None = field(default=None, init=False)
    _is_closed: bool = field(default=False, init=False)

    @property
    def count(self) -> int:
        """How many wait now."""
        return len(self._waiting)

    async def wait(
        self, operation_id: UUID, state: OperationState, *, at_most: timedelta
    ) -> OperationState | None:
        """
        Wait until an operation is final, and return its state.

        Args:
            state: What it is now.
            at_most: How long to wait.

        Returns:
            The state at the end, which is not final if *at_most* was reached, too many
            wait already, or the server ends. None if there is no such operation any
            more.
        """
        if state in FINAL_STATES or self._is_closed or len(self._waiting) >= self.most:
            return state
        waiter = _Waiter(operation_id, state)
        self._waiting.add(waiter)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._go_on())
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(waiter.is_over.wait(), at_most.total_seconds())
        finally:
            self._waiting.discard(waiter)
        return waiter.state

    def close(self) -> None:
        """Let nobody wait any longer; the server is ending."""
        self._is_closed = True
        for each in self._waiting:
            each.is_over.set()

    async def _go_on(self) -> None:
        """Look again and again, while somebody waits."""
        loop = asyncio.get_running_loop()
        while self._waiting and not self._is_closed:
            next_at = loop.time() + self.every.total_seconds()
            asked = {each.operation_id for each in self._waiting}
            # If the database is away, the look after this one finds what it would have.
            with suppress(UnreachableError):
                # Not one of the threads of requests: however busy these are, it looks.
                found = await asyncio.to_thread(self.look, asked)
                self._tell(asked, found)
            await asyncio.sleep(max(0.0, next_at - loop.time()))

    def _tell(
        self, asked: Collection[UUID], found: Mapping[UUID, OperationState]
    ) -> None:
        for each in list(self._waiting):
            if each.operation_id not in asked:
                continue  # came while we looked
            each.state = found.get(each.operation_id)
            if each.state is None or each.state in FINAL_STATES:
                self._waiting.discard(each)
                each.is_over.set()


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


class Services:
    """
    The world of a web process.

    ``far`` is what doctor finds outside of the database; ``ahead`` what the rules say
    of a week, and when the database may be away; ``obstacle`` why requests cannot be
    served (None: they can). ``work`` reads the metrics of work on a connection of its
    own, and ``metrics`` has them as Prometheus reads them. Audits, test mails and what
    the company's provider is asked go in turns.

    Args:
        engine: Of this process alone, so that a slow report delays no tick.
        limits: How often each caller may ask.
        apart: Answers requests with large bodies. None: this process does.
    """

    def __init__(
        self,
        settings: Settings,
        engine: sa.Engine,
        limits: RequestLimits,
        apart: Apart | None = None,
    ) -> None:
        """Give it what no other web process has."""
        self.settings, self.engine = settings, engine
        self.limits, self.apart = limits, apart
        self.shares = Shares(settings.web_threads)
        self.hub = Hub(partial(look, engine))
        self.waiters = Waiters(partial(read_operation_states, engine))
        self.far = Shared(partial(self._look, FAR), FAR_EVERY)
        self.ahead = Shared(self._look_ahead, AHEAD_EVERY)
        self.obstacle = Shared(partial(find_obstacle, engine), READY_EVERY)
        self.work = WorkMetrics(settings, leads=lambda: True)
        registry = CollectorRegistry(auto_describe=True)
        registry.register(self.work)
        self.metrics = Shared(partial(generate_latest, registry), METRICS_EVERY)
        self.auditing = Turns("another audit", AT_ONCE)
        self.trials = self._make_trials()
        self.trying = Turns("another test mail", AT_ONCE)
        self.provider = make_provider(settings)
        self.signing_in = Turns("signing others in", _SIGN_INS_AT_ONCE)

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

    def _make_trials(self) -> Trials:
        settings = self.settings
        renderer = ChildRenderer(deadline=RENDERED_WITHIN)
        mailer = make_mailer(settings.smtp_url, sender=self.senders)
        directory = RealDirectory(self.engine, timezone=settings.timezone)
        return Trials(self.engine, directory, renderer, mailer)

    def send_away(self) -> None:
        """End what has no end of its own; the server is ending."""
        self.hub.close()
        self.waiters.close()

    def reading(self) -> AbstractContextManager[sa.Connection]:
        """Give a connection that only reads."""
        return reading(self.engine)

    def reading_once(self) -> AbstractContextManager[sa.Connection]:
        """Give a connection for one query, without a transaction around it."""
        return reading_once(self.engine)

    def writing(
        self, author: Author | None = None
    ) -> AbstractContextManager[sa.Connection]:
        """Give a connection in one transaction, whose changes are *author*'s."""
        return writing(self.engine, author=author)

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
        return Terms(
            lookback=settings.lookback,
            bounds=settings.app_bounds,
            timezone=settings.timezone,
            task_rules=settings.make_task_rules(),
        )


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
