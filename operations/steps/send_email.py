"""send_email: a template of the small app, rendered and sent to each recipient."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from models.errors import StepError
from models.operation import SendEmailModel
from operations.mail.deliver import deliver, freeze_recipients, make_message_id
from operations.mail.message import Mail, Rendered, Template
from operations.ports import StepContext, StepResult
from operations.recipients import User


def send_email(context: StepContext, asked: SendEmailModel) -> StepResult:
    """
    Send the template *asked* for to each recipient, at most once each.

    Every mail is rendered before the first is sent: if the template fails for the last
    recipient, nobody gets a mail.

    Returns:
        ``sent``, ``uncertain``, ``failed``, ``warnings``, ``template``.

    Raises:
        StepError: Permanent for the template, temporary for the mail server.
    """
    template = _get_template(context, asked.template)
    recipients = freeze_recipients(context)
    app_name = context.ports.directory.get_app_name(context.app) or context.app
    rendered = context.ports.renderer.render(
        template, [_values(context, user, app_name) for user in recipients.users]
    )
    mails = [
        (user, _make_mail(context, user, parts))
        for user, parts in zip(recipients.users, rendered, strict=True)
    ]
    result = deliver(context, mails, recipients.warnings)
    return {"template": asked.template, **result}


def _make_mail(context: StepContext, user: User, rendered: Rendered) -> Mail:
    return Mail(
        message_id=make_message_id(context, "send_email", user),
        address=user.email,
        name=user.name,
        subject=rendered.subject,
        text=rendered.text,
        html=rendered.html,
    )


def _get_template(context: StepContext, name: str) -> Template:
    directory = context.ports.directory
    template = directory.get_template(context.app, name)
    if template is None:
        names = directory.fetch_template_names(context.app)
        known = ", ".join(map(repr, names)) or "none"
        msg = f"small app {context.app!r} has no template {name!r}; it has {known}."
        raise StepError(msg, permanent=True)

    return template


def _values(context: StepContext, user: User, app_name: str) -> dict[str, object]:
    return make_values(
        user,
        app={"uid": context.app, "name": app_name},
        action={"uid": context.action_uid, "name": context.action_name},
        event={"name": context.event, "at": context.event_at},
        occurrence=context.occurrence,
        now=context.now,
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
