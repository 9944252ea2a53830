"""
The ports of operations in memory, for tests of ours and of those who write steps.

Each fake keeps the promises of its protocol (tests/conformance asks it and the real
one the same) and adds plain lists to look at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.errors import MessageError
from email.headerregistry import Address
from pathlib import Path
from uuid import UUID, uuid4
from zoneinfo import ZoneInfo

import pytest
from pydantic import JsonValue
from sqlalchemy import Connection

from models.errors import CanceledError, StepError
from models.operation import RecipientFilterModel
from models.operation_state import MailState, Trigger
from operations.domains import (
    Column,
    Domain,
    DomainDraft,
    DomainSummary,
    Drift,
    Fingerprint,
    Move,
    Reached,
    Reading,
    ReadRequest,
    Version,
)
from operations.foreign_tasks import ForeignTask, Keep, TaskAnswer
from operations.mail.message import (
    Fate,
    Letterhead,
    Mail,
    MailingApp,
    Rendered,
    Sending,
    Template,
    WebhookRequest,
)
from operations.mail.summary.content import Figures
from operations.mail.template import MailTemplate
from operations.operation_log import LogLevel
from operations.ports import (
    Claimant,
    Guard,
    Ports,
    Prunable,
    Retention,
    SendMail,
    StepContext,
)
from operations.recipients import User

NOW = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)
PARIS = ZoneInfo("Europe/Paris")
NO_LETTERHEAD = Letterhead()
OPERATION = UUID("3771f246-cc92-5326-b56a-8665f62de245")

#: Equal to no document.
_NOTHING = object()


@contextmanager
def failing(
    words: str | None = None, *, permanent: bool
) -> Iterator[pytest.ExceptionInfo[StepError]]:
    """Expect the error of a step, in these *words*, for good or not."""
    with pytest.raises(StepError, match=words) as caught:
        yield caught
    assert permanent == caught.value.permanent


def hold_claim(connection: Connection | None = None) -> None:
    """Be the guard of a claim that holds."""


def refuse_address(mail: Mail) -> Sending | None:
    """Refuse *mail* if its address is none, as every mailer does before it connects."""
    try:
        Address(addr_spec=mail.address)
    except (ValueError, IndexError, MessageError) as error:
        return Sending(Fate.REFUSED, f"{mail.address!r}: {error}")
    return None


@dataclass
class FakeWorkspace:
    """
    Domains and documents as dicts; drafts are real files below *root*.

    Args:
        app: Whose they are. None: of whatever app is asked for.
    """

    root: Path
    app: str | None = None
    domains: dict[str, Domain] = field(default_factory=dict)
    staged_documents: dict[str, JsonValue] = field(default_factory=dict)
    live_documents: dict[str, JsonValue] = field(default_factory=dict)
    notified: list[bool] = field(default_factory=list)
    stagings: list[tuple[str, ...]] = field(default_factory=list)
    old_versions: int = 0
    stray_files: int = 0

    def fetch_domains(self, app: str) -> tuple[Domain, ...]:
        """Return the domains by name."""
        if self.app not in {None, app}:
            return ()
        return tuple(self.domains[name] for name in sorted(self.domains))

    def draft_path(self, app: str, domain: str) -> Path:
        """Return a new path below root."""
        return self.root / f"{app}-{domain}-{uuid4()}.part"

    def discard(self, paths: Sequence[Path]) -> None:
        """Remove drafts."""
        for path in paths:
            path.unlink(missing_ok=True)

    def stage(self, by: Claimant, drafts: Sequence[DomainDraft]) -> dict[str, int]:
        """Point staged at new versions, all at once."""
        if not drafts:
            return {}
        by.guard(None)  # type: ignore[arg-type]  # the fake has no connection
        numbers = {}
        for draft in drafts:
            domain = self.domains[draft.domain]
            number = domain.staged.number + 1 if domain.staged else 1
            path = self.root / f"{draft.domain}-{number}.parquet"
            draft.path.replace(path)
            version = Version(
                number,
                path,
                draft.reading.rows,
                path.stat().st_size,
                by.now,
                draft.reading.fingerprint,
            )
            self.domains[draft.domain] = replace(domain, staged=version)
            numbers[draft.domain] = number
        self.stagings.append(tuple(numbers))
        return numbers

    def fetch_staged(self, app: str, kinds: Sequence[str]) -> tuple[str, ...]:
        """Return the kinds of staged documents, and data if a domain has any."""
        has_data = any(domain.staged for domain in self.fetch_domains(app))
        documents = self.staged_documents if self.app in {None, app} else {}
        staged = {*documents, *(["data"] if has_data else [])}
        return tuple(kind for kind in kinds if kind in staged)

    def publish(
        self, by: Claimant, kinds: Sequence[str], *, notify: bool = False
    ) -> tuple[Move, ...]:
        """Point live at staged, or refuse before anything moves."""
        domains = self.fetch_domains(by.app) if "data" in kinds else ()
        for domain in domains:
            if domain.staged is not None and not domain.staged.path.is_file():
                msg = f"domain {domain.name!r}: {domain.staged.path} is gone."
                raise StepError(msg, permanent=True)
        by.guard(None)  # type: ignore[arg-type]  # the fake has no connection
        for kind in kinds:
            if kind not in self.fetch_staged(by.app, kinds):
                msg = f"small app {by.app!r} has nothing staged for {kind}."
                raise StepError(msg, permanent=True)
        self.notified.append(notify)
        moves: list[Move] = []
        for kind in kinds:
            if kind == "data":
                moves += [
                    self._point(domain, domain.staged)
                    for domain in domains
                    if domain.staged is not None and domain.staged != domain.live
                ]
            elif self.live_documents.get(kind, _NOTHING) != self.staged_documents[kind]:
                moves.append(self._show(kind, self.staged_documents[kind]))
        return tuple(moves)

    def _point(self, domain: Domain, version: Version) -> Move:
        """Make *version* live."""
        self.domains[domain.name] = replace(domain, live=version)
        before = domain.live.number if domain.live else None
        return Move("data", domain.name, before, version.number)

    def _show(self, kind: str, document: JsonValue) -> Move:
        """Make *document* live."""
        self.live_documents[kind] = document
        return Move(kind, kind, None, None)  # type: ignore[arg-type]  # one of them

    def summarize(self, domain: Domain, *, head: int) -> DomainSummary:
        """Return one column of figures."""
        if domain.live is None:
            msg = f"domain {domain.name!r} was never published."
            raise StepError(msg, permanent=True)
        columns = (Column("amount", "Int64", 1, 9, 45),)
        rows = ((1,), (9,))[:head]
        return DomainSummary(domain.name, domain.live, columns, rows)

    def keep_figures(self, by: Claimant, action_uid: str, figures: Figures) -> None:
        """Keep them with the domains."""
        by.guard(None)  # type: ignore[arg-type]  # the fake has no connection
        for domain in self.fetch_domains(by.app):
            if domain.name in figures:
                kept = {**domain.summarized, action_uid: figures[domain.name]}
                self.domains[domain.name] = replace(domain, summarized=kept)

    def prune_versions(self, *, keep: int, now: datetime, limit: int) -> int:
        """Remove from the counter of old versions."""
        del keep, now
        removed = min(limit, self.old_versions)
        self.old_versions -= removed
        return removed

    def prune_files(self, *, before: datetime, limit: int) -> int:
        """Remove from the counter of stray files."""
        del before
        removed = min(limit, self.stray_files)
        self.stray_files -= removed
        return removed


@dataclass
class FakeSources:
    """
    Sources by their "file": the rows, or the error that reading raises.

    Args:
        rows: What is read; a file that is not here is a permanent error.

        errors: Raised instead.

        etags: What the source says of its state; None: nothing.

        drifts: How the columns of what is read differ.

        tells: What is told while a file is read.
    """

    rows: dict[str, int] = field(default_factory=dict)
    errors: dict[str, StepError] = field(default_factory=dict)
    etags: dict[str, str] = field(default_factory=dict)
    drifts: dict[str, Drift] = field(default_factory=dict)
    tells: Sequence[Reached | None] = ()
    reads: list[str] = field(default_factory=list)

    def read(self, asked: ReadRequest) -> Reading | None:
        """Write a file that says how many rows there are."""
        domain, target = asked.domain, asked.target
        file = str(domain.source["file"])
        self.reads.append(file)
        if file in self.errors:
            target.write_text("half")
            raise self.errors[file]
        if file not in self.rows:
            msg = f"domain {domain.name}: source file {file}: No such file."
            raise StepError(msg, permanent=True)
        seen = Fingerprint(source=file, etag=self.etags.get(file))
        if seen.etag is not None and seen == asked.known:
            return None
        target.write_text(f"{self.rows[file]} rows")
        if asked.tell is not None:
            for reached in self.tells:
                asked.tell(reached)
        return Reading(self.rows[file], seen, self.drifts.get(file))


@dataclass
class FakeMailer:
    """
    Keeps what it is sent.

    Args:
        outcomes: By address, one after the other; SENT when there is none left.
    """

    outcomes: dict[str, list[Sending]] = field(default_factory=dict)
    mails: list[Mail] = field(default_factory=list)

    @contextmanager
    def session(self) -> Iterator[SendMail]:
        """Return a session."""
        yield self._send

    def _send(self, mail: Mail, *, now: datetime) -> Sending:
        del now
        if (refused := refuse_address(mail)) is not None:
            return refused
        planned = self.outcomes.get(mail.address)
        sending = planned.pop(0) if planned else Sending(Fate.SENT)
        if sending.outcome in {Fate.SENT, Fate.UNCERTAIN}:
            self.mails.append(mail)
        return sending

    @property
    def addresses(self) -> list[str]:
        """Who got mails, in order."""
        return [mail.address for mail in self.mails]


class FakeRenderer:
    """Renders in this process: tests write no hostile templates with it."""

    def render(
        self, template: Template, recipients: Sequence[Mapping[str, object]]
    ) -> list[Rendered]:
        """Render *template* for each."""
        compiled = MailTemplate(template)
        return [compiled.render(values) for values in recipients]


@dataclass
class FakeDirectory:
    """
    Users and templates of the one small app there is.

    Args:
        app: Its uid. None: whatever is asked for.
    """

    app: str | None = None
    users: tuple[User, ...] = ()
    templates: dict[str, Template] = field(default_factory=dict)
    name: str | None = "Demo"
    zone: ZoneInfo = PARIS
    locale: str = ""
    letterhead: Letterhead = NO_LETTERHEAD

    def fetch_users(self, app: str) -> tuple[User, ...]:
        """Return all users, by id."""
        if not self._has(app):
            return ()
        return tuple(sorted(self.users, key=lambda user: user.id))

    def get_user(self, app: str, user_id: str) -> User | None:
        """Return the user."""
        users = (each for each in self.fetch_users(app) if each.id == user_id)
        return next(users, None)

    def fetch_locales(self, app: str, addresses: Sequence[str]) -> dict[str, str]:
        """Return the locales of users, by address."""
        return {
            user.email: user.locale
            for user in self.fetch_users(app)
            if user.email in addresses and user.locale
        }

    def get_template(self, app: str, name: str) -> Template | None:
        """Return the template."""
        return self.templates.get(name) if self._has(app) else None

    def fetch_template_names(self, app: str) -> tuple[str, ...]:
        """Return the names."""
        return tuple(sorted(self.templates)) if self._has(app) else ()

    def get_app(self, app: str) -> MailingApp | None:
        """Return the app."""
        if self.name is None or not self._has(app):
            return None
        return MailingApp(self.name, self.zone, self.locale, self.letterhead)

    def _has(self, app: str) -> bool:
        return self.app in {None, app}


@dataclass
class FakeWebhooks:
    """Answers with *answer* and keeps what it was sent to a web address."""

    answer: Sending = field(default_factory=lambda: Sending(Fate.SENT, "200 OK"))
    posts: list[tuple[str, str, bytes]] = field(default_factory=list)
    signed: list[bool] = field(default_factory=list)

    def post(self, request: WebhookRequest, *, now: datetime) -> Sending:
        """Keep the request."""
        del now
        url = request.url
        if not url.startswith(("http://", "https://")):
            return Sending(Fate.REFUSED, f"{url!r} is not an address of the web.")
        self.posts.append((url, request.message_id, request.body))
        self.signed.append(request.signed)
        return self.answer

    def ping(self, url: str) -> Sending:
        """Keep the address."""
        self.posts.append((url, "", b""))
        return self.answer


@dataclass
class FakeTaskSender:
    """Keeps what it was sent; raises *error* first if there is one."""

    error: StepError | None = None
    sent: list[ForeignTask] = field(default_factory=list)
    answers: list[TaskAnswer] = field(default_factory=list)
    left: list[TaskAnswer] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)

    def fetch_failure(self, connection: str | None, task_id: str) -> str | None:
        """Return why a task failed, if a test says so."""
        del connection
        return self.failures.get(task_id)

    def send(self, task: ForeignTask) -> ForeignTask:
        """Keep the task; the queue of the settings is "default"."""
        if self.error is not None:
            raise self.error
        if task.exchange is None and task.queue is None:
            task = task._replace(queue="default")
        self.sent.append(task)
        return task

    def receive(self, connection: str | None, keep: Keep, *, limit: int) -> int | None:
        """Give the answers; every connection has the same. What is left comes again."""
        del connection
        if self.error is not None:
            raise self.error
        taken = self.answers[:limit]
        if taken:
            left = keep(taken) or ()
            self.left += (each for each in taken if each.token in left)
            del self.answers[:limit]
        else:
            self.answers, self.left = self.left, []
        return len(taken)


@dataclass
class FakePrune:
    """Counters of what is old, removed batch by batch."""

    operations: int = 0
    events: int = 0
    mails: int = 0
    revisions: int = 0
    leases: int = 0
    answers: int = 0
    sign_ins: int = 0
    bulk_changes: int = 0
    backfills: int = 0
    operations_below_minute: int = 0
    cutoffs: dict[str, datetime] = field(default_factory=dict)
    batches: dict[str, list[int]] = field(default_factory=dict)

    def prune(self, kind: Prunable, *, before: datetime, limit: int) -> int:
        """Remove a batch."""
        self.cutoffs[kind] = before
        removed: int = min(limit, getattr(self, kind))
        setattr(self, kind, getattr(self, kind) - removed)
        self.batches.setdefault(kind, []).append(removed)
        return removed

    def prune_leases(self, *, before: datetime) -> int:
        """Remove all."""
        self.cutoffs["leases"] = before
        removed, self.leases = self.leases, 0
        return removed


@dataclass
class FakeDeliveries:
    """Delivery marks in a dict; every change is kept in *journal*."""

    marks: dict[str, MailState] = field(default_factory=dict)
    journal: list[tuple[str, MailState]] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    contents: dict[str, Mail] = field(default_factory=dict)

    def start(self, recipient_id: str, mail: Mail | None = None) -> MailState | None:
        """Mark ``sending`` and say what was found; keep the mail."""
        found = self.marks.get(recipient_id)
        if found is MailState.SENT:
            return MailState.SENT
        if found in {MailState.SENDING, MailState.UNCERTAIN}:
            self._mark(recipient_id, MailState.UNCERTAIN)
            return MailState.UNCERTAIN
        self._mark(recipient_id, MailState.SENDING)
        if mail is not None:
            self.contents[recipient_id] = mail
        return None

    def end(
        self, recipient_id: str, state: MailState, error: str | None = None
    ) -> None:
        """Mark *state*."""
        if error is not None:
            self.errors[recipient_id] = error
        self._mark(recipient_id, state)

    def _mark(self, recipient_id: str, state: MailState) -> None:
        self.marks[recipient_id] = state
        self.journal.append((recipient_id, state))


@dataclass
class FakeProgress:
    """Keeps the progress points; raises CanceledError at number *cancel_at*."""

    points: list[tuple[int, int, str]] = field(default_factory=list)
    cancel_at: int | None = None
    parts: list[Reached] = field(default_factory=list)

    def __call__(
        self, done: int, total: int, note: str = "", part: Reached | None = None
    ) -> None:
        """Keep the point, and the part."""
        self.points.append((done, total, note))
        if part is not None:
            self.parts.append(part)
        if self.cancel_at == len(self.points):
            raise CanceledError("canceled")


@dataclass
class FakeLog:
    """Keeps what a step says, with its level."""

    lines: list[tuple[LogLevel, str]] = field(default_factory=list)

    def __call__(self, text: str, *, level: LogLevel = LogLevel.INFO) -> None:
        """Keep the line."""
        self.lines.append((level, text))


@dataclass
class World:
    """
    All the fakes, and contexts of one operation in them.

    Args:
        root: Folder for the drafts of the workspace.

        memo: What the step remembered; the next context sees it.
    """

    root: Path
    recipients: RecipientFilterModel | None = None
    user_id: str | None = None
    memo: dict[str, JsonValue] = field(default_factory=dict)
    progress: FakeProgress = field(default_factory=FakeProgress)
    log: FakeLog = field(default_factory=FakeLog)
    deliveries: FakeDeliveries = field(default_factory=FakeDeliveries)
    sources: FakeSources = field(default_factory=FakeSources)
    mailer: FakeMailer = field(default_factory=FakeMailer)
    renderer: FakeRenderer = field(default_factory=FakeRenderer)
    directory: FakeDirectory = field(default_factory=FakeDirectory)
    webhooks: FakeWebhooks = field(default_factory=FakeWebhooks)
    tasks: FakeTaskSender = field(default_factory=FakeTaskSender)
    prune: FakePrune = field(default_factory=FakePrune)
    retention: Retention = field(default_factory=Retention)
    guard: Guard = hold_claim
    workspace: FakeWorkspace = field(init=False)

    def __post_init__(self) -> None:
        """Give the workspace its folder."""
        self.workspace = FakeWorkspace(self.root)

    def remember(self, key: str, value: JsonValue) -> None:
        """Keep *value* for the next context."""
        self.memo[key] = value

    def make_context(self, *, attempt: int = 1, now: datetime = NOW) -> StepContext:
        """Return the context of an attempt."""
        return StepContext(
            operation_id=OPERATION,
            app="demo",
            action_uid="weekly",
            action_name="weekly update",
            occurrence=NOW,
            scheduled_for=NOW,
            user_id=self.user_id,
            trigger=Trigger.SCHEDULE if self.user_id is None else Trigger.EVENT,
            triggered_by='Scheduled action "weekly update"',
            attempt=attempt,
            now=now,
            event=None if self.user_id is None else "instance.user.last_seen",
            event_at=None,
            recipients=self.recipients,
            memo=dict(self.memo),
            remember=self.remember,
            progress=self.progress,
            say=self.log,
            guard=self.guard,
            deliveries=self.deliveries,
            ports=Ports(
                workspace=self.workspace,
                sources=self.sources,
                mailer=self.mailer,
                renderer=self.renderer,
                directory=self.directory,
                webhooks=self.webhooks,
                tasks=self.tasks,
                prune=self.prune,
                retention=self.retention,
            ),
            make_token=lambda: f"the token of attempt {attempt}",
        )
