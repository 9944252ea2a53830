"""send_execsum: the executive summary of the live data, as HTML mail and PDF."""

from __future__ import annotations

import re
from typing import Literal

from operations.mail.deliver import deliver, freeze_recipients, make_message_id
from operations.mail.executive_summary import HEAD, Summary, make_text
from operations.mail.executive_summary_html import make_html
from operations.mail.executive_summary_pdf import find_fonts, make_pdf
from operations.mail.message import Attachment, Mail
from operations.ports import StepContext, StepResult


def send_execsum(context: StepContext, asked: Literal[True]) -> StepResult:  # noqa: ARG001 - the shape of a step
    """
    Send a summary of the live data to each recipient, at most once each.

    Returns:
        ``sent``, ``uncertain``, ``failed``, ``warnings``, and the ``domains``
        summarized, with their versions.

    Raises:
        StepError: Permanent for live data that is gone or damaged, temporary for
            the mail server.
    """
    recipients = freeze_recipients(context)
    summary = _summarize(context)
    text, html = make_text(summary), make_html(summary)
    # Readable in any mail program and on any disk.
    stem = re.sub(r"[^\w-]+", "-", summary.app_name).strip("-") or "summary"
    pdf = Attachment(
        name=f"{stem}-{context.now:%Y-%m-%d}.pdf",
        subtype="pdf",
        content=make_pdf(summary, fonts=find_fonts()),
    )
    mails = [
        (
            user,
            Mail(
                message_id=make_message_id(context, "send_execsum", user),
                address=user.email,
                name=user.name,
                subject=summary.subject,
                text=text,
                html=html,
                attachments=(pdf,),
            ),
        )
        for user in recipients.users
    ]
    result = deliver(context, mails, recipients.warnings)
    versions = {domain.domain: domain.version.number for domain in summary.domains}
    return {"domains": dict(versions), **result}


def _summarize(context: StepContext) -> Summary:
    ports = context.ports
    domains = ports.workspace.fetch_domains(context.app)
    return Summary(
        app_name=ports.directory.get_app_name(context.app) or context.app,
        action_name=context.action_name,
        now=context.now,
        domains=tuple(
            ports.workspace.summarize(domain, head=HEAD)
            for domain in domains
            if domain.live is not None
        ),
        unpublished=tuple(domain.name for domain in domains if domain.live is None),
    )
