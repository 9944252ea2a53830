"""send_email: a template of the small app, rendered and sent to each recipient."""

from __future__ import annotations

from models.operation import SendEmailModel
from operations.mail.compose import compose_templates, read_occasion
from operations.mail.deliver import deliver, freeze_recipients
from operations.ports import StepContext, StepResult


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
    recipients = freeze_recipients(context)
    mails = compose_templates(
        read_occasion(context),
        asked.template,
        recipients.users,
        directory=context.ports.directory,
        renderer=context.ports.renderer,
    )
    result = deliver(context, mails, recipients.warnings)
    return {"template": asked.template, **result}
