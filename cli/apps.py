"""The commands ``apps list``, ``show``, ``export``, ``delete`` and ``test-notice``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from actions.small_apps.check_settings import find_sender_doubt
from actions.small_apps.delete import delete_small_app
from actions.small_apps.export import fetch_document
from cli.connection import (
    ask_database,
    change_database,
    get_actor,
    get_settings,
    read_database,
)
from cli.options import (
    AppArgument,
    YesOption,
    app_argument,
    confirm,
    shorten,
    takes_json,
)
from cli.output import describe_pause, err, format_both, out
from dispatch.notice_operations import send_test_notice
from operations.notices.grouping import INSTALLATION, Scope
from overview.small_apps import (
    AppMail,
    DetailedApp,
    ListedApp,
    ShownDomain,
    fetch_detailed_app,
    fetch_listed_apps,
)


@takes_json
def list_apps() -> None:
    """List the small apps."""
    found = ask_database(fetch_listed_apps)
    out().listed(
        found,
        lambda each: {
            "uid": each.uid,
            "name": each.name or "-",
            "zone": each.timezone or "-",
            "users": str(each.users),
            "domains": str(each.domains),
            "actions": str(each.actions),
            "now": _describe_activity(each) or "-",
        },
        spare=("zone", "domains", "now"),
        empty="No small apps yet. Create one: minutehand apps apply FILE",
    )


def _describe_activity(app: ListedApp | DetailedApp) -> str | None:
    """Say whether an app is published, refreshed or paused. None: nothing of these."""
    told = []
    working, pause = app.working, app.pause
    if working is not None:
        since = "" if working.since is None else f" since {format_both(working.since)}"
        told.append(
            f"{working.verb}{since} (operation {shorten(working.operation_id)})"
        )
    if pause is not None:
        told.append(f"paused {describe_pause(pause)}")
    return "\n".join(told) or None


@takes_json
def show_app(uid: AppArgument) -> None:
    """
    Show a small app.

    The users of the app are counted, not listed.
    """
    found = ask_database(fetch_detailed_app, uid)
    if out().gave_json(found):
        return
    told = [] if found.notices is None else found.notices.recipients
    shown = ", ".join(f"{group} ({count:,})" for group, count in found.groups.items())
    out().fields(
        [
            ("uid", found.uid),
            ("name", found.name),
            ("zone", found.timezone),
            ("files below", found.source_folder),
            ("created", format_both(found.created_at)),
            ("updated", format_both(found.updated_at)),
            ("now", _describe_activity(found)),
            ("notices", ", ".join(told) or None),
            ("mails from", found.sender),
            *_describe_mail(found.mail),
            ("users", f"{found.users:,}"),
            ("groups", shown or None),
            ("templates", ", ".join(found.templates) or None),
            ("documents", ", ".join(found.documents) or None),
            ("holidays", ", ".join(found.holidays) or None),
        ]
    )
    _print_domains(found.domains)
    address = None if found.mail is None else found.mail.from_address
    doubt = find_sender_doubt(address, get_settings().mail_sender_hosts)
    if doubt is not None:
        err().warn(doubt)


def _describe_mail(mail: AppMail | None) -> list[tuple[str, str | None]]:
    if mail is None:
        return []
    return [
        ("answers to", mail.reply_to),
        ("unsubscribe", mail.unsubscribe),
        ("language", mail.locale),
    ]


def _print_domains(domains: Sequence[ShownDomain]) -> None:
    out().table(
        domains,
        lambda each: {
            "domain": each.name,
            "title": each.title or "",
            "source": each.place,
            "staged": str(each.staged_version or "-"),
            "live": str(each.live_version or "-"),
            "published": format_both(each.published_at),
            "description": each.description or "",
        },
        empty="The small app has no domains.",
        spare=("description",),
        apart=True,
    )


@takes_json
def delete_app(uid: AppArgument, *, yes: YesOption = False) -> None:
    """
    Delete a small app: its actions and API keys end; its history is kept.

    Refused while operations of it are not over. Its uid stays taken; apps apply of its
    document brings it back with its users and data, but without its actions and keys.
    """
    found = ask_database(fetch_detailed_app, uid)
    if not confirm(f"Delete small app {found.uid!r}", yes=yes):
        err().say("Nothing was deleted.")
        raise typer.Exit(1)
    deleted = change_database(delete_small_app, uid, by=get_actor())
    if not out().gave_json(deleted):
        out().say(deleted.told)


def export_app(uid: AppArgument) -> None:
    """
    Print the whole document of a small app, as apps apply takes it.

    It has all that admins wrote: keys in the addresses of sources, too.
    """
    with read_database() as connection:
        out().json(fetch_document(connection, uid))


@takes_json
def send_test(
    app: Annotated[
        str | None, app_argument("Uid of a small app. Left out: the operator.")
    ] = None,
) -> None:
    """
    Send a test notice to those who hear of failures.

    It goes the way of all notices: recorded here, sent by the scheduler, delivered by a
    worker. Exits 5 if nobody is named, or notices are paused.
    """
    settings = get_settings()
    mail, webhook = settings.notice_mail, settings.notice_webhook
    operator = Scope(INSTALLATION, settings.timezone, mail, webhook)
    operation_id = change_database(send_test_notice, app, operator)
    if out().gave_json({"operation": operation_id}):
        return
    watch = f"minutehand operations watch {operation_id}"
    err().say(f"A test notice is on its way. Whether it arrives: {watch}")
