"""The commands ``apps list`` and ``show``."""

from __future__ import annotations

from collections.abc import Sequence

from actions.small_apps.senders import find_sender_doubt
from cli.connection import get_settings, read_database
from cli.ids import shorten
from cli.options import AppArgument, JsonOption
from cli.output import (
    describe_pause,
    format_both,
    out,
    print_fields,
    print_json,
    print_table,
    print_warning,
)
from overview.apps.shown import (
    AppMail,
    DetailedApp,
    ListedApp,
    ShownDomain,
    fetch_detailed_app,
    fetch_listed_apps,
)


def list_apps(*, json: JsonOption = False) -> None:
    """List the small apps."""
    with read_database() as connection:
        found = fetch_listed_apps(connection)
    if json:
        print_json(found)
        return
    print_table(
        ("uid", "name", "zone", "users", "domains", "actions", "now"),
        (
            [
                each.uid,
                each.name or "-",
                each.timezone or "-",
                str(each.users),
                str(each.domains),
                str(each.actions),
                _describe_activity(each) or "-",
            ]
            for each in found
        ),
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


def show_app(
    uid: AppArgument,
    *,
    json: JsonOption = False,
) -> None:
    """
    Show a small app.

    The users of the app are counted, not listed.
    """
    with read_database() as connection:
        found = fetch_detailed_app(connection, uid)
    if json:
        print_json(found)
        return
    told = [] if found.notices is None else found.notices.recipients
    shown = ", ".join(f"{group} ({count:,})" for group, count in found.groups.items())
    print_fields(
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
        print_warning(doubt)


def _describe_mail(mail: AppMail | None) -> list[tuple[str, str | None]]:
    if mail is None:
        return []
    return [
        ("answers to", mail.reply_to),
        ("unsubscribe", mail.unsubscribe),
        ("language", mail.locale),
    ]


def _print_domains(domains: Sequence[ShownDomain]) -> None:
    if domains:
        out().print()
    print_table(
        ("domain", "title", "source", "staged", "live", "published", "description"),
        (
            [
                each.name,
                each.title or "",
                each.place,
                str(each.staged_version or "-"),
                str(each.live_version or "-"),
                format_both(each.published_at),
                each.description or "",
            ]
            for each in domains
        ),
        empty="The small app has no domains.",
        spare=("description",),
    )
