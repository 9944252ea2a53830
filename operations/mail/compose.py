"""
Make the mails of a step, without sending any: steps send, previews show them.

Everything is rendered here: if a template fails for the last recipient, nobody gets a
mail. summary/ makes what an executive summary says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID
from zoneinfo import ZoneInfo

from pydantic import JsonValue

from models.errors import StepError
from operations.mail.message import (
    Attachment,
    Mail,
    MailingApp,
    Rendered,
    Template,
    compute_message_id,
)
from operations.mail.summary.as_mail import make_html, make_text
from operations.mail.summary.content import (
    HEAD,
    Summary,
    get_title,
    make_part,
    read_former,
)
from operations.mail.summary.wording import write_summary
from operations.mail.words import Words, find_words
from operations.ports import Directory, Renderer, StepContext, Workspace
from operations.recipients import User


@dataclass(frozen=True, slots=True)
class Occasion:
    """
    What mails are about; the arguments are those of ``StepContext``.

    Args:
        operation_id: Their Message-IDs are derived from it.
    """

    operation_id: UUID
    app: str
    action_uid: str
    action_name: str
    now: datetime
    occurrence: datetime | None = None
    event: str | None = None
    event_at: datetime | None = None


def read_occasion(context: StepContext) -> Occasion:
    """Return what the mails of a step are about."""
    return Occasion(
        operation_id=context.operation_id,
        app=context.app,
        action_uid=context.action_uid,
        action_name=context.action_name,
        now=context.now,
        occurrence=context.occurrence,
        event=context.event,
        event_at=context.event_at,
    )


def get_mailing_app(directory: Directory, app: str) -> MailingApp:
    """Return *app* as its mails show it, also if it was deleted meanwhile."""
    return directory.get_app(app) or MailingApp(app, ZoneInfo("UTC"))


def make_mail(
    occasion: Occasion,
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
    occasion: Occasion,
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
    template = _get_template(directory, occasion.app, template_name)
    app = get_mailing_app(directory, occasion.app)
    rendered = renderer.render(
        template, [_make_values(occasion, user, app) for user in users]
    )
    return [
        (user, make_mail(occasion, "send_email", user, app, parts))
        for user, parts in zip(users, rendered, strict=True)
    ]


def _get_template(directory: Directory, app: str, name: str) -> Template:
    template = directory.get_template(app, name)
    if template is None:
        names = directory.fetch_template_names(app)
        known = ", ".join(map(repr, names)) or "none"
        msg = f"small app {app!r} has no template {name!r}; it has {known}."
        raise StepError(msg, permanent=True)

    return template


def _make_values(occasion: Occasion, user: User, app: MailingApp) -> dict[str, object]:
    return make_values(
        user,
        app={"uid": occasion.app, "name": app.name},
        action={"uid": occasion.action_uid, "name": occasion.action_name},
        event={"name": occasion.event, "at": occasion.event_at},
        occurrence=occasion.occurrence,
        now=occasion.now,
    )


def make_values(
    user: User,
    *,
    app: Mapping[str, object],
    action: Mapping[str, object],
    event: Mapping[str, object],
    occurrence: datetime | None,
    now: datetime,
) -> dict[str, object]:
    """Return the values that a template may use; docs/steps.md lists them."""
    return {
        "user": {
            "id": user.id,
            "email": user.email,
            "name": user.name,
            "locale": user.locale,
            "groups": sorted(user.groups),
            "created_at": user.created_at,
            "activated_at": user.activated_at,
            "last_seen_at": user.last_seen_at,
        },
        "app": app,
        "action": action,
        "event": event,
        "occurrence": occurrence,
        "now": now,
    }


def summarize(
    occasion: Occasion,
    former: Mapping[str, JsonValue],
    *,
    directory: Directory,
    workspace: Workspace,
) -> Summary:
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
    return Summary(
        app_name=app.name,
        action_name=occasion.action_name,
        now=occasion.now,
        zone=app.zone,
        parts=tuple(
            make_part(
                domain,
                workspace.summarize(domain, head=HEAD),
                read_former(former.get(domain.name)),
            )
            for domain in domains
            if domain.live is not None
        ),
        unpublished=tuple(get_title(each) for each in domains if each.live is None),
    )


def compose_summaries(
    occasion: Occasion,
    summary: Summary,
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


def _write(summary: Summary, words: Words) -> tuple[Rendered, Attachment]:
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
