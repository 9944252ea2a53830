"""
Make the mails of a step, without sending any: steps send, previews show them.

Everything is rendered here: if a template fails for the last recipient, nobody gets a
mail. summary/ makes what an executive summary says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from pydantic import JsonValue

from models.errors import StepError
from models.occurrence import str_to_uuid
from models.operation_state import Trigger
from operations.foreign_tasks import TaskOccasion
from operations.mail.message import (
    Attachment,
    Mail,
    MailingApp,
    Rendered,
    compute_message_id,
)
from operations.mail.summary import content
from operations.mail.summary.as_mail import make_html, make_text
from operations.mail.summary.wording import write_summary
from operations.mail.words import Words, find_words
from operations.ports import Directory, Renderer, Workspace
from operations.recipients import User

#: What a template sees of a user, beside the groups.
_OF_USER = (
    *("id", "email", "name", "locale"),
    *("created_at", "activated_at", "last_seen_at"),
)


def imagine_occasion(
    app: str, uid: str, name: str, *, now: datetime, event: str | None = None
) -> TaskOccasion:
    """Return what mails that are only looked at are about: the action runs *now*."""
    return TaskOccasion(
        # Of no operation, so that no Message-ID is one of a real mail.
        operation_id=str_to_uuid(f"{uid} | preview | {now}"),
        app=app,
        action_uid=uid,
        action_name=name,
        occurrence=now,
        scheduled_for=now,
        trigger=Trigger.MANUAL,
        user_id=None,
        event=event,
        event_at=None if event is None else now,
        attempt=1,
        now=now,
    )


def get_mailing_app(directory: Directory, app: str) -> MailingApp:
    """Return *app* as its mails show it, also if it was deleted meanwhile."""
    return directory.get_app(app) or MailingApp(app, ZoneInfo("UTC"))


def make_mail(
    occasion: TaskOccasion,
    step: str,
    user: User,
    app: MailingApp,
    parts: Rendered,
    *attachments: Attachment,
) -> Mail:
    """Return *parts* as the mail of *step* to *user*."""
    return Mail(
        message_id=compute_message_id(occasion.operation_id, step, user.id),
        address=user.email,
        name=user.name,
        subject=parts.subject,
        text=parts.text,
        html=parts.html,
        attachments=attachments,
        letterhead=app.letterhead,
    )


def compose_templates(
    occasion: TaskOccasion,
    template_name: str,
    users: Sequence[User],
    *,
    directory: Directory,
    renderer: Renderer,
) -> list[tuple[User, Mail]]:
    """
    Return the mail of a template to each of *users*.

    Raises:
        StepError: Permanent: there is no such template, or it is wrong.
    """
    template = directory.get_template(occasion.app, template_name)
    if template is None:
        names = directory.fetch_template_names(occasion.app)
        known = ", ".join(map(repr, names)) or "none"
        whose = f"small app {occasion.app!r}"
        msg = f"{whose} has no template {template_name!r}; it has {known}."
        raise StepError(msg, permanent=True)

    app = get_mailing_app(directory, occasion.app)
    rendered = renderer.render(
        template, [_make_values(occasion, user, app) for user in users]
    )
    return [
        (user, make_mail(occasion, "send_email", user, app, parts))
        for user, parts in zip(users, rendered, strict=True)
    ]


def _make_values(
    occasion: TaskOccasion, user: User, app: MailingApp
) -> dict[str, object]:
    """Return the values that a template may use; docs/steps.md lists them."""
    shown = {name: getattr(user, name) for name in _OF_USER}
    return {
        "user": {**shown, "groups": sorted(user.groups)},
        "app": {"uid": occasion.app, "name": app.name},
        "action": {"uid": occasion.action_uid, "name": occasion.action_name},
        "event": {"name": occasion.event, "at": occasion.event_at},
        "occurrence": occasion.occurrence,
        "now": occasion.now,
    }


def summarize(
    occasion: TaskOccasion,
    former: Mapping[str, JsonValue],
    *,
    directory: Directory,
    workspace: Workspace,
) -> content.Summary:
    """
    Return the executive summary of what is live.

    Args:
        occasion: Says which small app, and which action sends it.
        former: What the last summary said, by domain, as ``Former.as_json`` has it.
        directory: Knows the app.
        workspace: Has its data.

    Raises:
        StepError: Permanent: live data is gone or damaged.
    """
    domains = workspace.fetch_domains(occasion.app)
    app = get_mailing_app(directory, occasion.app)
    return content.Summary(
        app_name=app.name,
        action_name=occasion.action_name,
        now=occasion.now,
        zone=app.zone,
        parts=tuple(
            content.make_part(
                domain,
                workspace.summarize(domain, head=content.HEAD),
                content.read_former(former.get(domain.name)),
            )
            for domain in domains
            if domain.live is not None
        ),
        unpublished=tuple(
            content.get_title(each) for each in domains if each.live is None
        ),
    )


def compose_summaries(
    occasion: TaskOccasion,
    summary: content.Summary,
    users: Sequence[User],
    *,
    directory: Directory,
) -> list[tuple[User, Mail]]:
    """Return *summary* as a mail to each of *users*, in their languages."""
    app = get_mailing_app(directory, occasion.app)
    written: dict[str, tuple[Rendered, Attachment]] = {}
    mails = []
    for user in users:
        words = find_words(user.locale or app.locale, zone=app.zone)
        if words.tag not in written:
            written[words.tag] = _write(summary, words)
        parts, pdf = written[words.tag]
        mail = make_mail(occasion, "send_execsum", user, app, parts, pdf)
        mails.append((user, mail))
    return mails


def _write(summary: content.Summary, words: Words) -> tuple[Rendered, Attachment]:
    """Return *summary* in one language."""
    text = write_summary(summary, words)
    # Readable in any mail program and on any disk.
    stem = re.sub(r"[^\w-]+", "-", summary.app_name).strip("-") or "summary"
    local = summary.now.astimezone(summary.zone)
    # A fifth of all that a worker would load, for summaries alone.
    from operations.mail.summary.as_pdf import find_fonts, make_pdf  # noqa: PLC0415

    pdf = Attachment(
        name=f"{stem}-{local:%Y-%m-%d}.pdf",
        subtype="pdf",
        content=make_pdf(text, now=summary.now, fonts=find_fonts()),
    )
    return Rendered(text.subject, make_text(text), make_html(text)), pdf
