"""
Mails that are looked at: what an action would send, and a template sent to one person.

Everything is what a worker does: the same recipients, the same templates under the same
limits, the same summary of the live data. A preview sends nothing. A template is sent
to users of the small app, and the addresses that get its notices, alone: so nobody who
may write templates can mail anything to anybody.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from email.message import EmailMessage
from pathlib import Path
from typing import Literal, NoReturn, get_args
from uuid import uuid4

import sqlalchemy as sa
from pydantic import Field

from actions.lookup import fetch_app
from actions.posting.references import fetch_references, find_unknown
from models import errors
from models.database.engine import Author, read_clock, reading, writing
from models.database.journal import note_change
from models.database.tables import small_apps
from models.fields.field_types import Name, Uid
from models.fields.strict_model import DocumentModel, suggest
from models.json_form import ASIDE
from models.operation import MAILING_STEPS
from models.scheduled_action import ScheduledActionModel
from models.when import EventModel
from operations.adapters.app_users import RealDirectory, find_user
from operations.adapters.smtp import make_message
from operations.adapters.workspace import RealWorkspace
from operations.foreign_tasks import TaskOccasion
from operations.mail.compose import (
    compose_summaries,
    compose_templates,
    imagine_occasion,
    summarize,
)
from operations.mail.message import Fate, Mail, Senders
from operations.ports import Directory, Mailer, Renderer, Workspace
from operations.recipients import User
from overview.recipients import (
    ForeseenRecipients,
    Recipient,
    foresee_recipients,
    judge_recipient,
)
from settings import Settings

#: Users whose mails are made, unless somebody says otherwise.
FIRST_MADE = 10

MailStep = Literal["send_email", "send_execsum"]

_STEPS: tuple[MailStep, ...] = get_args(MailStep)


@dataclass(frozen=True, slots=True)
class PreviewedAttachment:
    """A file that a mail would have."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class PreviewedMail:
    """
    A mail to one user, as it would be sent now.

    Args:
        message: The same as a file of mail programs has it.
    """

    step: MailStep
    recipient: str
    sender: str
    address: str
    subject: str
    text: str | None
    html: str | None
    attachments: tuple[PreviewedAttachment, ...]
    mail: Mail = field(metadata=ASIDE)
    message: EmailMessage = field(metadata=ASIDE)


@dataclass(frozen=True, slots=True)
class MailProblem:
    """Why mails of *step* (None: of the whole action) would not be sent as meant."""

    step: MailStep | None
    message: str


@dataclass(frozen=True, slots=True)
class MailPreview:
    """
    What an action would send if it ran now.

    Args:
        action: Name of the action.
        recipients: Who would get it, and who would be left out.
        asked: The user who was asked for. None: nobody was.
        mails: Of the first recipients, or of the one who was asked for.
        problems: What would go wrong.
    """

    app: str
    action: str
    recipients: ForeseenRecipients
    asked: Recipient | None = field(metadata=ASIDE)
    mails: Sequence[PreviewedMail]
    problems: Sequence[MailProblem]


@dataclass(frozen=True, slots=True)
class MailPreviews:
    """
    Makes previews; what it uses is that of the workers.

    Args:
        engine: Only read from.
    """

    engine: sa.Engine
    directory: Directory
    workspace: Workspace
    renderer: Renderer
    senders: Senders

    @classmethod
    def make(
        cls, engine: sa.Engine, settings: Settings, renderer: Renderer
    ) -> MailPreviews:
        """Return what makes previews of an installation; nothing is opened."""
        return cls(
            engine,
            RealDirectory(engine, timezone=settings.timezone),
            RealWorkspace(engine, settings.workspace),
            renderer,
            Senders(settings.mail_sender, settings.mail_sender_hosts),
        )

    def preview(
        self,
        app: str,
        action: ScheduledActionModel,
        *,
        user: str | None = None,
        most: int = FIRST_MADE,
    ) -> MailPreview:
        """
        Return what *action*, stored or not, would send if it ran now.

        Args:
            user: Id or address of the only user whose mails are made. None: of the
                first *most* recipients, by id.
            most: See *user*; it bounds how many people are listed, too.

        Raises:
            NotFoundError: No such small app, or it has no such user.
        """
        with reading(self.engine) as connection:
            fetch_app(connection, app)
            now = read_clock(connection)
            found = foresee_recipients(connection, app, action, most=most)
            asked: Recipient | None = None
            if user is not None:
                whoever = find_user(connection, app, user)
                if whoever is None:
                    raise errors.NotFoundError(
                        f"small app {app!r} has no user {user!r}. Write the id or the"
                        " mail address of one"
                    )
                asked = judge_recipient(action, whoever, now=now)
            unknown = find_unknown(fetch_references(connection, app, [action]), action)
        chosen = [asked] if asked else list(found.first)
        users = [each.account for each in chosen if each.is_in and each.email]
        problems = [MailProblem(_find_step(each), each.message) for each in unknown]
        problems += [
            MailProblem(None, f"User {each.user!r} has no email address.")
            for each in chosen
            if each.is_in and not each.email
        ]
        wanted = action.operations.model_dump(exclude_none=True)
        steps = [step for step in _STEPS if wanted.get(step)]
        if not MAILING_STEPS & wanted.keys():
            problems.append(MailProblem(None, "The action sends no mails."))
        event = action.when.event if isinstance(action.when, EventModel) else None
        occasion = imagine_occasion(
            app, action.uid or action.name, action.name, now=now, event=event
        )
        mails: list[PreviewedMail] = []
        for step in steps:
            try:
                made = self._compose(step, action, occasion, users, problems)
            except errors.MinutehandError as error:
                if step not in {each.step for each in problems}:
                    problems.append(MailProblem(step, str(error)))
                continue
            for each, mail in made:
                try:
                    mails.append(self._show(step, each, mail, now))
                except ValueError as error:  # the address, which nothing checked
                    problems.append(MailProblem(step, str(error)))
        return MailPreview(app, action.name, found, asked, mails, problems)

    def _compose(
        self,
        step: MailStep,
        action: ScheduledActionModel,
        occasion: TaskOccasion,
        users: Sequence[User],
        problems: list[MailProblem],
    ) -> list[tuple[User, Mail]]:
        """Return the mails that *step* would send to *users*."""
        directory, asked = self.directory, action.operations.send_email
        if step == "send_email" and asked is not None:
            return compose_templates(
                occasion,
                asked.template,
                users,
                directory=directory,
                renderer=self.renderer,
            )
        former = {
            domain.name: domain.summarized[occasion.action_uid]
            for domain in self.workspace.fetch_domains(occasion.app)
            if occasion.action_uid in domain.summarized and occasion.event is None
        }
        summary = summarize(
            occasion, former, directory=directory, workspace=self.workspace
        )
        problems += [MailProblem(step, each) for each in summary.find_warnings()]
        return compose_summaries(occasion, summary, users, directory=directory)

    def _show(
        self, step: MailStep, user: User, mail: Mail, now: datetime
    ) -> PreviewedMail:
        message = make_message(mail, senders=self.senders, now=now)
        return PreviewedMail(
            step=step,
            recipient=user.id,
            sender=str(message["From"]),
            address=str(message["To"]),
            subject=mail.subject,
            text=mail.text,
            html=mail.html,
            attachments=tuple(
                PreviewedAttachment(each.name, len(each.content))
                for each in mail.attachments
            ),
            mail=mail,
            message=message,
        )


def _find_step(problem: errors.Problem) -> MailStep | None:
    """Return the step that a problem is about; None: the whole action."""
    at = problem.pointer
    return next((e for e in _STEPS if at.startswith(f"/operations/{e}/")), None)


def write_files(folder: Path, found: MailPreview) -> list[Path]:
    """
    Write each mail of a preview as ``.eml``, and its HTML and files beside it.

    Args:
        folder: It is made if it is not there; files of the same names are replaced.
        found: Ids of users become names of files, whatever they hold.

    Returns:
        The files, in order.

    Raises:
        OSError: The folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for number, each in enumerate(found.mails, start=1):
        name = re.sub(r"[^A-Za-z0-9@._-]+", "_", each.recipient)[:60].lstrip(".")
        stem = f"{number:03}-{each.step}-{name}"
        contents = [(".eml", each.message.as_bytes())]
        if each.mail.html is not None:
            contents.append((".html", each.mail.html.encode()))
        contents += [
            (f".{attachment.subtype}", attachment.content)
            for attachment in each.mail.attachments
        ]
        for suffix, content in contents:
            path = folder / f"{stem}{suffix}"
            path.write_bytes(content)
            written.append(path)
    return written


#: Begins the subject, so that nobody takes it for the real one.
_MARK = "[Test] "


class TestMailModel(DocumentModel):
    """A mail that somebody wants to look at."""

    __test__ = False  # its name means no test of ours

    app: Uid | None = Field(
        default=None, description="The small app; absent: that of the key."
    )
    template: Name = Field(
        description="Name of a template of the app.", examples=["report"]
    )
    to: Name = Field(
        description="Id or address of a user of the app, or an address that gets its"
        " notices.",
        examples=["ada"],
    )


@dataclass(frozen=True, slots=True)
class TestedMail:
    """What became of a test mail, and what it said."""

    __test__ = False  # its name means no test of ours

    recipient: str
    template: str
    outcome: Fate
    detail: str
    message_id: str
    subject: str
    text: str | None
    html: str | None


@dataclass(frozen=True, slots=True)
class Trials:
    """
    Sends such mails; what it uses is that of the workers.

    Args:
        engine: Only what is asked is written, to the record of changes.
    """

    engine: sa.Engine
    directory: Directory
    renderer: Renderer
    mailer: Mailer

    def send(self, app: str, asked: TestMailModel, *, by: Author) -> TestedMail:
        """
        Render the template for one user as a step would, and send it.

        Args:
            app: Uid of the small app, which exists.
            asked: Which template, and to whom.
            by: Who asks; it is in the record of changes.

        Raises:
            InvalidDocumentError: There is no such template or user, or the template
                cannot be rendered.
        """
        if self.directory.get_template(app, asked.template) is None:
            names = self.directory.fetch_template_names(app)
            none = "The app has no templates."
            hint = suggest(asked.template, names) if names else none
            msg = f"{asked.template!r} is not a template of {app!r}."
            _refuse("/template", msg, hint)
        with reading(self.engine) as connection:
            now = read_clock(connection)
            user = _find_user(connection, app, asked.to)
        mail = self._make(app, asked.template, user, now)
        with writing(self.engine, author=by) as connection:
            what = "mail", mail.message_id, "tested"
            told = {"template": asked.template, "to": user.id}
            note_change(connection, *what, app=app, after=told)
        with self.mailer.session() as send:
            sending = send(mail, now=now)
        return TestedMail(
            *(user.id, asked.template, sending.outcome, sending.detail),
            *(mail.message_id, mail.subject, mail.text, mail.html),
        )

    def _make(self, app: str, template: str, user: User, now: datetime) -> Mail:
        try:
            ((_, mail),) = compose_templates(
                imagine_occasion(app, "test", "Test", now=now),
                template,
                [user],
                directory=self.directory,
                renderer=self.renderer,
            )
        except errors.StepError as error:
            _refuse("/template", f"{error}.".replace("..", "."), "Correct it.")
        return replace(
            mail, message_id=f"{uuid4()}@minutehand", subject=f"{_MARK}{mail.subject}"
        )


def _find_user(connection: sa.Connection, app: str, to: str) -> User:
    found = find_user(connection, app, to)
    noticed = sa.select(small_apps.c.notices).where(small_apps.c.uid == app)
    notices = connection.execute(noticed).scalar_one_or_none() or {}
    if found is not None and found.email:
        return found
    if to not in notices.get("mail", ()):
        hint = "Write the id or address of one, or an address of the app's notices."
        _refuse("/to", f"{to!r} is not a user of {app!r} with an address.", hint)
    return User(id=to, email=to)


def _refuse(pointer: str, message: str, hint: str) -> NoReturn:
    raise errors.InvalidDocumentError((errors.Problem(pointer, message, hint),))
