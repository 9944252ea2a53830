"""``mails preview``: shows who would get which mails, without sending any."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import sqlalchemy as sa
from rich.text import Text

from actions.lookup import find_action
from cli.connection import ask_database, get_settings, use_engine
from cli.options import (
    AppOption,
    argument,
    read_file,
    reading_document,
    takes_json,
    value,
)
from cli.output import err, out
from models.door.documents import ReadContext, read_action
from models.errors import NotFoundError, UsageError
from models.json_form import get_members
from models.scheduled_action import ScheduledActionModel
from models.units import format_count
from operations.adapters.renderer import ChildRenderer
from overview.mail_preview import (
    FIRST_MADE,
    MailPreview,
    MailPreviews,
    PreviewedMail,
    write_files,
)
from overview.recipients import ForeseenRecipients, Recipient, read_stored


@takes_json
def preview_mails(
    action: Annotated[
        str,
        argument(
            "ACTION|FILE",
            "Uid of an action, or its name; or a JSON document, - for standard input.",
        ),
    ],
    *,
    app: AppOption = None,
    user: str | None = value("--user ID", "Only this user: their id or mail address."),
    limit: int = value(
        "--limit", "The most people to show.", default=FIRST_MADE, min=1, max=1000
    ),
    folder: Path | None = value(
        "--out DIR", "Write the mails there: .eml, and .html and .pdf beside it."
    ),
) -> None:
    """
    Show who would get which mails of an action, and send nothing.

    Who is left out, and why; subject and text of the first mail, or of the one to
    --user. An action in a FILE need not be stored: --app names its small app.
    """
    uid, model = _read(action, app)
    settings = get_settings()
    with use_engine() as engine, closing(ChildRenderer()) as renderer:
        previews = MailPreviews.make(engine, settings, renderer)
        found = previews.preview(uid, model, user=user, most=limit)
    files = [] if folder is None else _write(folder, found)
    if out().gave_json({**get_members(found), "files": [str(path) for path in files]}):
        return
    _print_recipients(found)
    _print_mails(found)
    for problem in found.problems:
        where = f"{problem.step}: " if problem.step else ""
        err().warn(f"{where}{problem.message}")
    if files:
        err().say(f"Wrote {format_count(len(files), 'file', 'files')} below {folder}.")


def _read(given: str, app: str | None) -> tuple[str, ScheduledActionModel]:
    """Return the app and the action that are meant, stored or in a file."""
    if given != "-" and not Path(given).is_file():
        row = _find_stored(given, app)
        model = read_stored(row.uid, row.document)
        return row.app, model.model_copy(update={"uid": row.uid})
    if app is None:
        msg = "--app is missing. Name the small app whose users would get the mails."
        raise UsageError(msg)
    settings = get_settings()
    with reading_document(given) as text:
        rules = settings.make_task_rules().of(app)
        return app, read_action(text, ReadContext(settings.timezone, rules))


def _find_stored(given: str, app: str | None) -> sa.Row[Any]:
    try:
        return ask_database(find_action, given, app=app)
    except NotFoundError:
        if given.endswith(".json") or os.sep in given:
            read_file(given)  # which says what is wrong with that file
        raise


def _write(folder: Path, found: MailPreview) -> list[Path]:
    try:
        return write_files(folder, found)
    except OSError as error:
        raise UsageError(f"--out {folder}: {error.strerror or error}") from None


def _print_recipients(found: MailPreview) -> None:
    out().print(Text(f"{found.action} ({found.app})", style="bold"))
    who = found.recipients
    if found.asked is not None:
        verb = "would get" if found.asked.is_in else "would not get"
        out().say(f"{found.asked.user} {verb} its mails: {found.asked.reason}.")
        return
    out().say(f"{_count(who)}, and nothing is sent now.")
    _print_people(who.first, who.count)
    left_out = sum(each.count for each in who.left_out)
    if left_out:
        out().say(f"\nLeft out: {left_out:,}")
        _print_people(who.first_left_out, left_out)


def _count(who: ForeseenRecipients) -> str:
    people = f"{who.count:,} user{'' if who.count == 1 else 's'}"
    if not who.count:
        people = "Nobody"
    when = " when an event of theirs triggers it" if who.on_event else ""
    return f"{people} would get it{when}"


def _print_people(people: tuple[Recipient, ...], count: int) -> None:
    if people:
        out().table(
            people,
            lambda each: {
                "user": each.user,
                "name": each.name,
                "address": each.email,
                "why": each.reason,
            },
        )
    if count > len(people):
        err().say(f"{count - len(people):,} more: see --limit.")


def _print_mails(found: MailPreview) -> None:
    shown: set[str] = set()
    for each in found.mails:
        if each.step not in shown:
            shown.add(each.step)
            _print_mail(each)
        elif found.asked is None:
            out().say(f"{each.step} to {each.recipient}: {each.subject}")


def _print_mail(each: PreviewedMail) -> None:
    out().print()
    out().print(Text(f"{each.step} to {each.recipient}", style="bold"))
    for name in ("From", "Reply-To", "To", "Subject", "List-Unsubscribe"):
        if name in each.message:
            out().print(f"{name}: {each.message[name]}", markup=False, soft_wrap=True)
    for attachment in each.mail.attachments:
        size = format_count(len(attachment.content), "byte", "bytes")
        out().say(f"Attached: {attachment.name} ({size})")
    if each.mail.text is not None:
        out().print(f"\n{each.mail.text}", markup=False, soft_wrap=True)
    else:
        err().say("It has an HTML part alone: see --out.")
