"""
What steps need from the world, as protocols.

operations/adapters has the real implementations, tests/unit/operations/fakes.py has
fakes in memory, and tests/conformance tests both in the same way. Nothing here imports
Polars or opens anything: steps are imported in the parent of the worker processes,
where Polars must never be used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, Protocol
from uuid import UUID

from pydantic import JsonValue
from sqlalchemy import Connection

from models.operation import RecipientFilterModel
from models.operation_state import MailState
from operations.domains import (
    Domain,
    DomainDraft,
    DomainSummary,
    Move,
    Reached,
    Reading,
    ReadRequest,
)
from operations.foreign_tasks import TaskOccasion, TaskSender
from operations.mail.message import (
    Mail,
    MailingApp,
    Rendered,
    Sending,
    Template,
    WebhookRequest,
)
from operations.mail.summary.content import Figures
from operations.operation_log import LogLevel
from operations.recipients import User

#: What a step did, as ``operations show`` prints it.
StepResult = Mapping[str, JsonValue]


class Guard(Protocol):
    """Ties the writes of a step to its claim."""

    def __call__(self, connection: Connection, /) -> None:
        """
        Lock the claim until *connection*'s transaction ends.

        A step calls it first in every transaction that changes data: a worker that was
        frozen beyond its lease changes nothing when it wakes.

        Raises:
            ClaimLostError: Another worker took over the operation.
        """


class Deliveries(Protocol):
    """The delivery marks of one step of one operation, under its claim."""

    def start(self, recipient_id: str, mail: Mail | None = None) -> MailState | None:
        """
        Commit ``sending`` before the mail leaves, and return what was found.

        Args:
            recipient_id: Id of a user, or an address.
            mail: What is about to be handed over, to be kept with the mark unless the
                settings say otherwise. None: it is not kept.

        Returns:
            None: go on and send (there was no mark, or a certain failure). SENT: the
            mail was sent before. UNCERTAIN: an earlier attempt left ``sending`` or
            ``uncertain``; the mail is marked uncertain now, and must not be sent.
        """

    def end(
        self, recipient_id: str, state: MailState, error: str | None = None
    ) -> None:
        """
        Mark what became of the mail.

        Args:
            state: SENT: the mail server accepted it. FAILED: it certainly did not
                leave, and a retry may send it. UNCERTAIN: it may or may not have left,
                and is never sent again.
            error: What the server said, or what is unknown.
        """


@dataclass(frozen=True, slots=True)
class Claimant:
    """
    An operation that changes data of a small app at *now* (aware UTC), by its claim.

    Args:
        guard: Called first in each transaction.
    """

    app: str
    operation_id: UUID
    now: datetime
    guard: Guard


class Workspace(Protocol):
    """The staged and live side of a small app: data, design, permissions."""

    def fetch_domains(self, app: str) -> tuple[Domain, ...]:
        """Return the present domains of *app*, ordered by name."""

    def draft_path(self, app: str, domain: str) -> Path:
        """Return a new temporary path, in the folder of the domain's versions."""

    def discard(self, paths: Sequence[Path]) -> None:
        """Remove drafts that will not be staged; some may be missing."""

    def stage(self, by: Claimant, drafts: Sequence[DomainDraft]) -> dict[str, int]:
        """
        Make *drafts* the staged versions, all of them or none, in one transaction.

        Args:
            by: Stored with each version; its guard is called first.
            drafts: At most one for each domain.

        Returns:
            The new version number of each domain.

        Raises:
            ClaimLostError: Raised by the guard; the staged versions are as before.
        """

    def fetch_staged(self, app: str, kinds: Sequence[str]) -> tuple[str, ...]:
        """Return those of *kinds* for which *app* has something staged."""

    def publish(
        self, by: Claimant, kinds: Sequence[str], *, notify: bool = False
    ) -> tuple[Move, ...]:
        """
        Make what is staged live, for *kinds*, in one transaction.

        Args:
            by: Whose guard is called first.
            kinds: Some of "data", "design", "permissions".
            notify: Whether to announce it. The scheduler never does (docs/origin.md):
                a mail is a step of its own.

        Returns:
            The pointers that moved; none for what was already live.

        Raises:
            StepError: Permanent: nothing is staged for one of *kinds*.
        """

    def summarize(self, domain: Domain, *, head: int) -> DomainSummary:
        """Return figures and the first *head* rows of the live version of *domain*."""

    def keep_figures(self, by: Claimant, action_uid: str, figures: Figures) -> None:
        """Keep what a summary said, by domain, for ``Domain.summarized``."""

    def prune_versions(self, *, keep: int, now: datetime, limit: int) -> int:
        """
        Remove at most *limit* versions, beyond the newest *keep* of each domain.

        Versions that are staged, live, or were live before stay, whatever their age.
        """

    def prune_files(self, *, before: datetime, limit: int) -> int:
        """Remove at most *limit* files without a version, unchanged since *before*."""


class Sources(Protocol):
    """Where domains come from: files, HTTP(S), SQL."""

    def read(self, asked: ReadRequest) -> Reading | None:
        """
        Read the source of a domain into a file.

        Returns:
            None if the source is certainly still as it is known; in doubt it is read.

        Raises:
            StepError: Permanent for a forbidden or missing source, unreadable content,
                or content beyond the limits; temporary for network and locks.
        """


class SendMail(Protocol):
    """An open session with a mail server."""

    def __call__(self, mail: Mail, *, now: datetime) -> Sending:
        """Send *mail*, dated *now*; errors of the server are returned, not raised."""


class Mailer(Protocol):
    """Hands mails to a mail server, or to a folder."""

    def session(self) -> AbstractContextManager[SendMail]:
        """Return a session for the mails of one step; it connects at the first mail."""


class Directory(Protocol):
    """Users, memberships and templates of small apps."""

    def fetch_users(self, app: str) -> tuple[User, ...]:
        """Return every user of *app* with their groups, ordered by id."""

    def get_user(self, app: str, user_id: str) -> User | None:
        """Return the user *user_id* of *app*."""

    def fetch_locales(self, app: str, addresses: Sequence[str]) -> dict[str, str]:
        """Return the locales of the users of *app* with *addresses*, by address."""

    def get_template(self, app: str, name: str) -> Template | None:
        """Return the template *name* of *app*."""

    def fetch_template_names(self, app: str) -> tuple[str, ...]:
        """Return the names of all templates of *app*, for messages."""

    def get_app(self, app: str) -> MailingApp | None:
        """Return *app* as its mails show it; None if there is no such app."""


class Renderer(Protocol):
    """Makes mails from templates, within limits of memory, time and length."""

    def render(
        self, template: Template, recipients: Sequence[Mapping[str, object]]
    ) -> list[Rendered]:
        """
        Render *template* for each of *recipients*, all of them or none.

        Args:
            template: Written by a tenant, so it may be anything.
            recipients: The values for each: texts, numbers, times, dicts and lists.

        Raises:
            StepError: Permanent: the template is wrong, or exceeds a limit. Temporary:
                rendering was interrupted.
        """


class Webhooks(Protocol):
    """Posts signed requests (Standard Webhooks) to foreign URLs."""

    def post(self, request: WebhookRequest, *, now: datetime) -> Sending:
        """
        POST *request*, signed as of *now*, unless it must not be.

        Returns:
            SENT for 2xx; REFUSED if repeating it cannot help (forbidden URL, 3xx, 4xx);
            DEFERRED or UNREACHABLE if the cause may pass.
        """


#: What is removed when it is old: final operations, those of actions that are due more
#: often than once a minute, revisions that nothing needs, what mails said that no mail
#: has, events that no action needs, answers to requests, links and sessions that
#: expired, and bulk changes and backfills that ended.
Prunable = Literal[
    "operations",
    "operations_below_minute",
    "revisions",
    "mails",
    "events",
    "answers",
    "sign_ins",
    "bulk_changes",
    "backfills",
]


class Prune(Protocol):
    """Removes old rows in batches; each call is one short transaction."""

    def prune(self, kind: Prunable, *, before: datetime, limit: int) -> int:
        """Remove at most *limit* that are older than *before*; return how many."""

    def prune_leases(self, *, before: datetime) -> int:
        """Remove leases that expired before *before*, except the scheduler's."""


@dataclass(frozen=True, slots=True)
class Retention:
    """
    How long rows are kept, and how many versions.

    Args:
        operations: Final operations, counted from the day they became final.
        below_minute: The same of actions that are due more often than once a minute.
        events: Events, counted from the day they were recorded.
        versions: Versions of each domain, besides those in use.
        mails: Whether what mails said is kept at all, as long as their operations.
    """

    operations: timedelta = timedelta(days=30)
    below_minute: timedelta = timedelta(days=1)
    events: timedelta = timedelta(days=400)  # beyond any "a year after" rule
    versions: int = 5
    mails: bool = True


@dataclass(frozen=True, slots=True)
class Ports:
    """Everything that steps may use; one set per worker process, made in the child."""

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
class StepContext(TaskOccasion):
    """
    What a step knows about the operation it is part of.

    Args:
        triggered_by: For people: 'Scheduled action "name"'.
        recipients: The filter of the action. None: the action has none.
        memo: Values that earlier attempts of this step kept; remember adds to them.
        progress: Called between units of work.
        say: Keeps a line in the log of the operation.
        guard: Called first in each transaction that changes data.
        deliveries: The delivery marks of this step.
        ports: The ports of the worker.
        make_token: Returns what the answer to a task of this attempt must bring.
        details: Data that was recorded with the operation, such as a notice's facts.
    """

    triggered_by: str
    recipients: RecipientFilterModel | None
    memo: Mapping[str, JsonValue]
    remember: Remember
    progress: Progress
    say: Say
    guard: Guard
    deliveries: Deliveries
    ports: Ports
    make_token: Callable[[], str]
    details: Mapping[str, JsonValue] = field(default_factory=dict)

    @property
    def claimant(self) -> Claimant:
        """The operation, for whoever writes on its behalf."""
        return Claimant(self.app, self.operation_id, self.now, self.guard)


#: A step: does its work, and returns what ``operations show`` prints. Raises
#: StepError, StepSkippedError, and what Progress and Guard raise. The argument is
#: the model of its field in OperationModel (True for the steps without one).
StepFunction = Callable[[StepContext, Any], StepResult]


class Progress(Protocol):
    """Called between units of work."""

    def __call__(
        self, done: int, total: int, note: str = "", part: Reached | None = None
    ) -> None:
        """
        Record progress, and find out whether to go on.

        Args:
            done: Finished units, 0 to *total*.
            total: Number of all units.
            note: The next unit, for people.
            part: How far that unit is; its rate and end are computed from it.

        Raises:
            CanceledError: The operation was canceled.
            ClaimLostError: Another worker took over the operation.
            TimeLimitError: The soft time limit was reached.
        """


class Say(Protocol):
    """Keeps a line in the log of the operation, for people."""

    def __call__(self, text: str, *, level: LogLevel = LogLevel.INFO) -> None:
        """
        Say *text*; it is written with the next progress, or when the step ends.

        Args:
            text: One sentence, without a secret; beyond 1,000 letters it is cut.
            level: How bad it is.
        """


class Remember(Protocol):
    """Keeps a value across the attempts of a step."""

    def __call__(self, key: str, value: JsonValue) -> None:
        """Commit *value*; the next attempt of this step finds it in ``memo[key]``."""
