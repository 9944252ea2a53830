"""
The steps that mail.

send_email sends a template of the small app, rendered for each recipient; send_execsum
the executive summary of the live data, as HTML mail and PDF.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import JsonValue

from models.operation import SendEmailModel
from operations.claiming.claimed import RESENT_KEY
from operations.mail.compose import compose_summaries, compose_templates, summarize
from operations.mail.deliver import deliver, freeze_recipients
from operations.mail.summary.content import make_former
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
        context,
        asked.template,
        recipients.users,
        directory=context.ports.directory,
        renderer=context.ports.renderer,
    )
    result = deliver(context, mails, recipients.warnings)
    return {"template": asked.template, **result}


#: Key in the step's memo: what the last summary said, the same in every attempt.
MEMO_KEY = "former"


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
    ports = context.ports
    recipients = freeze_recipients(context)
    summary = summarize(
        context,
        _freeze_former(context),
        directory=ports.directory,
        workspace=ports.workspace,
    )
    mails = compose_summaries(
        context, summary, recipients.users, directory=ports.directory
    )
    result = deliver(context, mails, (*recipients.warnings, *summary.find_warnings()))
    # A mail that is sent again to one person is no news to the others.
    if result["sent"] and _has_series(context) and RESENT_KEY not in context.memo:
        parts = summary.parts
        figures = {part.data.domain: make_former(part, context.now) for part in parts}
        ports.workspace.keep_figures(context.claimant, context.action_uid, figures)
    versions = {part.data.domain: part.data.version.number for part in summary.parts}
    return {"domains": dict(versions), **result}


def _has_series(context: StepContext) -> bool:
    """Whether the same people get one summary after the other."""
    # What an event triggers goes to another person each time.
    return context.user_id is None


def _freeze_former(context: StepContext) -> Mapping[str, JsonValue]:
    """Return what the last summary of this action said, by domain."""
    kept = context.memo.get(MEMO_KEY)
    if isinstance(kept, dict):
        return kept
    if not _has_series(context):
        return {}
    domains = context.ports.workspace.fetch_domains(context.app)
    former = {
        domain.name: domain.summarized[context.action_uid]
        for domain in domains
        if context.action_uid in domain.summarized
    }
    context.remember(MEMO_KEY, former)
    return former
