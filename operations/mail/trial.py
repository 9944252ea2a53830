"""
A template, mailed to one person to be looked at.

Only users of the small app and the addresses that get its notices can be sent one, so
that nobody who may write templates can mail anything to anybody.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import NoReturn
from uuid import uuid4

import sqlalchemy as sa
from pydantic import Field

from models.database.engine import Author, read_clock, reading, writing
from models.database.journal import note_change
from models.database.tables import small_apps
from models.errors import InvalidDocumentError, Problem, StepError
from models.fields.field_types import Name, Uid
from models.fields.strict_model import DocumentModel, suggest
from operations.adapters.app_users import find_user
from operations.mail.compose import compose_templates, imagine_occasion
from operations.mail.message import Fate, Mail
from operations.ports import Directory, Mailer, Renderer
from operations.recipients import User

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
            note_change(
                connection,
                "mail",
                mail.message_id,
                "tested",
                app=app,
                after={"template": asked.template, "to": user.id},
            )
        with self.mailer.session() as send:
            sending = send(mail, now=now)
        return TestedMail(
            user.id,
            asked.template,
            sending.outcome,
            sending.detail,
            mail.message_id,
            mail.subject,
            mail.text,
            mail.html,
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
        except StepError as error:
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
    raise InvalidDocumentError((Problem(pointer, message, hint),))
