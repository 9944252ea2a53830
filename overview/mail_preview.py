"""
Who would get which mails of an action, and what they would say; nothing is sent.

Everything but the sending is what a worker does: the same recipients, the same
templates under the same limits, the same summary of the live data.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.message import EmailMessage
from pathlib import Path
from typing import Literal, get_args

import sqlalchemy as sa

from actions.lookup import fetch_app
from actions.posting.references import fetch_references, find_unknown
from models.database.engine import read_clock, reading
from models.errors import MinutehandError, NotFoundError, Problem
from models.json_form import ASIDE
from models.operation import MAILING_STEPS
from models.scheduled_action import ScheduledActionModel
from models.when import EventModel
from operations.adapters.app_users import RealDirectory, find_user
from operations.adapters.smtp import make_message
from operations.adapters.workspace.workspace import RealWorkspace
from operations.foreign_tasks import TaskOccasion
from operations.mail.compose import (
    compose_summaries,
    compose_templates,
    imagine_occasion,
    summarize,
)
from operations.mail.message import Mail, Senders
from operations.ports import Directory, Renderer, Workspace
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

_Make = Callable[[Sequence[User]], list[tuple[User, Mail]]]


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
            asked = self._judge(connection, app, action, user, now)
            unknown = find_unknown(fetch_references(connection, app, [action]), action)
        chosen = [asked] if asked else list(found.first)
        users = [each.account for each in chosen if each.is_in and each.email]
        problems = [MailProblem(_find_step(each), each.message) for each in unknown]
        problems += [
            MailProblem(None, f"User {each.user!r} has no email address.")
            for each in chosen
            if each.is_in and not each.email
        ]
        if not MAILING_STEPS & action.operations.model_dump(exclude_none=True).keys():
            problems.append(MailProblem(None, "The action sends no mails."))
        event = action.when.event if isinstance(action.when, EventModel) else None
        occasion = imagine_occasion(
            app, action.uid or action.name, action.name, now=now, event=event
        )
        mails: list[PreviewedMail] = []
        for step, make in self._find_steps(action, occasion, problems):
            try:
                made = make(users)
            except MinutehandError as error:
                if step not in {each.step for each in problems}:
                    problems.append(MailProblem(step, str(error)))
                continue
            for each, mail in made:
                try:
                    mails.append(self._show(step, each, mail, now))
                except ValueError as error:  # the address, which nothing checked
                    problems.append(MailProblem(step, str(error)))
        return MailPreview(app, action.name, found, asked, mails, problems)

    def _judge(
        self,
        connection: sa.Connection,
        app: str,
        action: ScheduledActionModel,
        user: str | None,
        now: datetime,
    ) -> Recipient | None:
        if user is None:
            return None
        found = find_user(connection, app, user)
        if found is None:
            raise NotFoundError(
                f"small app {app!r} has no user {user!r}. Write the id or the mail"
                " address of one"
            )
        return judge_recipient(action, found, now=now)

    def _find_steps(
        self,
        action: ScheduledActionModel,
        occasion: TaskOccasion,
        problems: list[MailProblem],
    ) -> Iterator[tuple[MailStep, _Make]]:
        """Yield the steps that send mails, and what makes the mails of each."""
        asked = action.operations.send_email
        if asked is not None:
            yield (
                "send_email",
                lambda users: compose_templates(
                    occasion,
                    asked.template,
                    users,
                    directory=self.directory,
                    renderer=self.renderer,
                ),
            )
        if action.operations.send_execsum:
            yield (
                "send_execsum",
                lambda users: self._summarize(occasion, users, problems),
            )

    def _summarize(
        self, occasion: TaskOccasion, users: Sequence[User], problems: list[MailProblem]
    ) -> list[tuple[User, Mail]]:
        former = {
            domain.name: domain.summarized[occasion.action_uid]
            for domain in self.workspace.fetch_domains(occasion.app)
            if occasion.action_uid in domain.summarized and occasion.event is None
        }
        summary = summarize(
            occasion, former, directory=self.directory, workspace=self.workspace
        )
        problems += [
            MailProblem("send_execsum", each) for each in summary.find_warnings()
        ]
        return compose_summaries(occasion, summary, users, directory=self.directory)

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


def _find_step(problem: Problem) -> MailStep | None:
    """Return the step that a problem is about; None: the whole action."""
    steps: tuple[MailStep, ...] = get_args(MailStep)
    at = problem.pointer
    return next((e for e in steps if at.startswith(f"/operations/{e}/")), None)


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
