"""Make the mails of an executive summary, without sending any, in each language."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from operations.mail.compose import Occasion, get_mailing_app, make_mail
from operations.mail.message import Attachment, Mail, Rendered
from operations.mail.summary.as_html import make_html
from operations.mail.summary.as_pdf import find_fonts, make_pdf
from operations.mail.summary.as_text import make_text
from operations.mail.summary.content import HEAD, Summary, get_title, make_part
from operations.mail.summary.former import read_former
from operations.mail.summary.wording import write_summary
from operations.mail.words import Words, find_words
from operations.ports import Directory, Workspace
from operations.recipients import User


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
    pdf = Attachment(
        name=f"{stem}-{local:%Y-%m-%d}.pdf",
        subtype="pdf",
        content=make_pdf(text, now=summary.now, fonts=find_fonts()),
    )
    return Rendered(text.subject, make_text(text), make_html(text)), pdf
