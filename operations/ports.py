"""
What steps need from the world, as protocols.

operations/adapters has each of them for real, tests/unit/operations/fakes.py has
each of them in memory, and tests/conformance asks both the same. Nothing here imports
Polars or opens anything: a step is imported in the parent of the worker processes,
where Polars must never be used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from pydantic import JsonValue
from sqlalchemy import Connection

from models.operation_state import Trigger
from models.recipients import RecipientFilterModel
from operations.domains import Domain, DomainSummary, Draft, Fingerprint, Move, Reading
from operations.mail.message import Mail, Rendered, Sending, Template
from operations.recipients import User

#: What a step did, as ``operations show`` prints it.
StepResult = Mapping[str, JsonValue]


class Progress(Protocol):
    """Called between units of work."""

    def __call__(self, done: int, total: int, note: str = "") -> None:
        """
        Record progress and find out whether to go on.

        Args:
            done: Units finished, 0 to *total*.

            total: Units there are.

            note: The unit that comes next, for people.

        Raises:
            CanceledError: The operation was canceled.

            ClaimLostError: Another worker took the operation over.
        """


class Guard(Protocol):
    """Ties what a step writes to the claim it was started under."""

    def __call__(self, connection: Connection, /) -> None:
        """
        Hold the claim until *connection*'s transaction ends.

        Called first in every transaction by which a step changes data, so that a
        worker that was frozen past its lease changes nothing when it wakes.

        Raises:
            ClaimLostError: Another worker took the operation over.
        """


class Remember(Protocol):
    """Keeps something across the attempts of a step."""

    def __call__(self, key: str, value: JsonValue) -> None:
        """Commit *value*; the next attempt of this step finds it in ``memo[key]``."""


class DeliveryState(StrEnum):
    """Where the mail to one recipient stands."""

    NEW = "new"  # never a row's state: what start() answers for "go on and send"
    SENDING = "sending"
    SENT = "sent"
    FAILED = "failed"
    UNCERTAIN = "uncertain"


class Deliveries(Protocol):
    """The delivery marks of one step of one operation, under its claim."""

    def start(self, recipient_id: str) -> DeliveryState:
        """
        Commit ``sending`` before the mail leaves, and say what was found.

        Returns:
            NEW: go on and send (no mark, or one that had failed for certain).
            SENT: was sent before. UNCERTAIN: an earlier attempt left ``sending``
            or ``uncertain``; it is marked uncertain now and never sent again.
        """

    def sent(self, recipient_id: str) -> None:
        """Mark the mail as taken by the mail server."""

    def failed(self, recipient_id: str, error: str) -> None:
        """Mark that the mail did not leave, for certain; a retry may send it."""

    def uncertain(self, recipient_id: str, error: str) -> None:
        """Mark that the mail may or may not have left; it is never sent again."""


class Workspace(Protocol):
    """The staged and live side of a small app: data, design, permissions."""

    def fetch_domains(self, app: str) -> tuple[Domain, ...]:
        """Return the domains of *app* there are now, by name."""

    def draft_path(self, app: str, domain: str) -> Path:
        """Return a new temporary path, in the folder of the domain's versions."""

    def discard(self, paths: Sequence[Path]) -> None:
        """Remove drafts that will not be staged; missing ones are fine."""

    def stage(
        self,
        app: str,
        drafts: Sequence[Draft],
        *,
        operation_id: UUID,
        now: datetime,
        guard: Guard,
    ) -> dict[str, int]:
        """
        Make *drafts* the staged versions, all of them or none, in one transaction.

        Args:
            app: Uid of the small app.

            drafts: At most one a domain.

            operation_id: Kept beside each version.

            now: Aware UTC, the versions' creation.

            guard: Called first in the transaction.

        Returns:
            The new version number of each domain.

        Raises:
            ClaimLostError: From *guard*; staging is as it was.
        """

    def fetch_staged(self, app: str, kinds: Sequence[str]) -> tuple[str, ...]:
        """Return those of *kinds* of which *app* has anything staged."""

    def publish(
        self,
        app: str,
        kinds: Sequence[str],
        *,
        now: datetime,
        guard: Guard,
        notify: bool = False,
    ) -> tuple[Move, ...]:
        """
        Point live at what is staged, for *kinds*, in one transaction.

        Args:
            app: Uid of the small app.

            kinds: Of "data", "design", "permissions".

            now: Aware UTC, recorded as the time of publication.

            guard: Called first in the transaction.

            notify: Whether to announce it. The scheduler never does (docs/origin.md):
                a mail is a step of its own.

        Returns:
            What moved; nothing for what was live already.

        Raises:
            StepError: Permanent: nothing is staged for one of *kinds*.
        """

    def roll_back(
        self, app: str, kinds: Sequence[str], *, now: datetime
    ) -> tuple[Move, ...]:
        """Swap live with what was live before, for all of *kinds* that has a before."""

    def summarize(self, domain: Domain, *, head: int) -> DomainSummary:
        """Return figures and the first *head* rows of the live version of *domain*."""

    def prune_versions(self, *, keep: int, now: datetime, limit: int) -> int:
        """
        Remove at most *limit* versions, beyond the newest *keep* of each domain.

        What is staged, live or was live before stays, whatever its age.
        """

    def prune_files(self, *, before: datetime, limit: int) -> int:
        """Remove at most *limit* files no version names, untouched since *before*."""


class Sources(Protocol):
    """Where domains come from: files, HTTP(S), SQL."""

    def read(
        self, app: str, domain: Domain, *, known: Fingerprint | None, target: Path
    ) -> Reading | None:
        """
        Read the source of *domain*, of *app*, into the Parquet file *target*.

        Args:
            app: Uid of the small app, which decides what may be read.

            domain: Its source is as posted: {"file" | "url" | "sql": ..., ...}.

            known: What the staged version was read from. None: read, whatever it is.

            target: Does not exist yet; may be left half-written on errors.

        Returns:
            None if the source is certainly still as *known* says; in doubt it is
            read.

        Raises:
            StepError: Permanent for what may not be read, a missing file, unreadable
                content or more than the bounds, temporary for network and locks.
        """


class SendMail(Protocol):
    """An open session with a mail server."""

    def __call__(self, mail: Mail, *, now: datetime) -> Sending:
        """Send *mail*, dated *now*; never raises for what a server may do."""


class Mailer(Protocol):
    """Hands mails to a mail server, or to a folder."""

    def session(self) -> AbstractContextManager[SendMail]:
        """Return a session for the mails of one step; it connects at the first."""


class Directory(Protocol):
    """Users, memberships and templates of small apps."""

    def fetch_users(self, app: str) -> tuple[User, ...]:
        """Return every user of *app* with their groups, by id."""

    def get_template(self, app: str, name: str) -> Template | None:
        """Return the template *name* of *app*."""

    def fetch_template_names(self, app: str) -> tuple[str, ...]:
        """Return the names of all templates of *app*, for messages."""

    def get_app_name(self, app: str) -> str | None:
        """Return the name people know *app* by."""


class Renderer(Protocol):
    """Makes mails of templates, within bounds of memory, time and length."""

    def render(
        self, template: Template, recipients: Sequence[Mapping[str, object]]
    ) -> list[Rendered]:
        """
        Render *template* for each of *recipients*, all of them or none.

        Args:
            template: Of a small app, so it may be anything.

            recipients: The values of each: texts, numbers, times, dicts and lists.

        Raises:
            StepError: Permanent: the template is wrong, or beyond a bound; temporary
                if nobody could render it now.
        """


class Webhooks(Protocol):
    """Posts signed requests (Standard Webhooks) to addresses of others."""

    def post(self, url: str, *, message_id: str, body: bytes, now: datetime) -> Sending:
        """
        POST *body*, signed, with ``webhook-id`` *message_id*, timestamp *now*.

        Returns:
            SENT for 2xx; REFUSED for what a repetition cannot mend (forbidden
            address, 3xx, 4xx); DEFERRED or UNREACHABLE for what may pass.
        """


class TaskSender(Protocol):
    """Sends tasks of the users' own Celery applications."""

    def send(
        self,
        name: str,
        args: Sequence[JsonValue],
        kwargs: Mapping[str, JsonValue],
        *,
        queue: str | None,
        connection: str | None,
        task_id: str,
    ) -> str:
        """
        Send task *name* to *queue*; None is the one of the settings.

        Args:
            name: Of the task.

            args: Positional ones.

            kwargs: Those with names.

            queue: Of that application.

            connection: Name of its broker. None: our own.

            task_id: The task's id.

        Returns:
            The queue it was sent to.

        Raises:
            StepError: Temporary: the broker did not take it within its deadline, or has
                no such queue. Permanent: the settings do not let it go there.
        """


class Prune(Protocol):
    """Removes old rows in batches; each call is one short transaction."""

    def prune_operations(self, *, before: datetime, limit: int) -> int:
        """Remove at most *limit* operations finished before *before*; say how many."""

    def prune_revisions(self, *, before: datetime, limit: int) -> int:
        """Remove at most *limit* revisions of actions that nothing needs any more."""

    def prune_events(self, *, before: datetime, limit: int) -> int:
        """Remove at most *limit* events that no action can need any more."""

    def prune_leases(self, *, before: datetime) -> int:
        """Remove leases that expired before *before*; the scheduler's own stays."""


@dataclass(frozen=True, slots=True)
class Retention:
    """
    How long things are kept.

    Args:
        operations: Finished operations, from the day they finished.

        events: Events, from the day they were recorded.

        versions: Versions of each domain, besides those in use.
    """

    operations: timedelta = timedelta(days=30)
    events: timedelta = timedelta(days=400)  # beyond any "a year after" rule
    versions: int = 5


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything steps may touch; one set per worker process, made in the child."""

    workspace: Workspace
    sources: Sources
    mailer: Mailer
    renderer: Renderer
    directory: Directory
    webhooks: Webhooks
    tasks: TaskSender
    prune: Prune
    retention: Retention = Retention()


@dataclass(frozen=True, slots=True)
class StepContext:
    """
    What a step knows about the operation it is part of.

    Args:
        operation_id: Also the Celery task id.

        app: Uid of the small app; action_uid and action_name are the action's.

        occurrence: Aware UTC. None: a manual run.

        user_id: The triggering user of an event operation. None: no event.

        trigger: What made the operation.

        triggered_by: For people: 'Scheduled action "name"'.

        attempt: From 1.

        now: Aware UTC, the database's clock when this attempt's step began.

        event: Name of the event, which happened at event_at (aware UTC). None: none.

        recipients: The filter of the action. None: the action has none.

        memo: What earlier attempts of this very step remembered; remember adds to it.

        progress: Called between units; guard: first in each transaction that changes
            data.

        deliveries: The marks of this step.

        ports: The world.

        details: What was recorded with the operation: of a notice, what it tells.
    """

    operation_id: UUID
    app: str
    action_uid: str
    action_name: str
    occurrence: datetime | None
    user_id: str | None
    trigger: Trigger
    triggered_by: str
    attempt: int
    now: datetime
    event: str | None
    event_at: datetime | None
    recipients: RecipientFilterModel | None
    memo: Mapping[str, JsonValue]
    remember: Remember
    progress: Progress
    guard: Guard
    deliveries: Deliveries
    ports: Ports
    details: Mapping[str, JsonValue] = field(default_factory=dict)


#: A step: does its work, and returns what ``operations show`` prints. Raises
#: StepError, StepSkippedError, and what Progress and Guard raise. The argument is
#: the model of its field in OperationModel (True for the steps without one).
StepFunction = Callable[[StepContext, Any], StepResult]
