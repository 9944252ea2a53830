"""The commands ``apps list``, ``show``, ``export`` and ``delete``."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from actions.small_apps.delete import delete_small_app
from actions.small_apps.export import fetch_document
from cli.confirming import YesOption, confirm
from cli.connection import get_actor, read_database, write_database
from cli.ids import shorten
from cli.options import AppArgument, JsonOption
from cli.output import (
    describe_pause,
    format_both,
    out,
    print_fields,
    print_json,
    print_note,
    print_table,
)
from overview.apps.shown import (
    Activity,
    ShownDomain,
    fetch_detailed_app,
    fetch_listed_apps,
)


def list_apps(*, json: JsonOption = False) -> None:
    """List the small apps."""
    with read_database() as connection:
        found = fetch_listed_apps(connection)
    if json:
        print_json([each.as_json() for each in found])
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
                _describe_activity(each.activity) or "-",
            ]
            for each in found
        ),
        spare=("zone", "domains", "now"),
        empty="No small apps yet. Create one: minutehand apps apply FILE",
    )


def _describe_activity(activity: Activity) -> str | None:
    """Say whether an app is published, refreshed or paused. None: nothing of these."""
    told = []
    working, pause = activity.working, activity.pause
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
        print_json(found.as_json())
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
            ("now", _describe_activity(found.activity)),
            ("notices", ", ".join(told) or None),
            ("users", f"{found.users:,}"),
            ("groups", shown or None),
            *((part, ", ".join(names) or None) for part, names in found.names.items()),
        ]
    )
    _print_domains(found.domains)


def _print_domains(domains: Sequence[ShownDomain]) -> None:
    if domains:
        out().print()
    print_table(
        ("domain", "source", "staged", "live", "published"),
        (
            [
                each.name,
                each.place,
                str(each.staged_version or "-"),
                str(each.live_version or "-"),
                format_both(each.published_at),
            ]
            for each in domains
        ),
        empty="The small app has no domains.",
    )


def export_app(
    uid: AppArgument,
) -> None:
    """
    Print the whole document of a small app, as apps apply takes it.

    It has all that admins wrote: keys in the addresses of sources, too.
    """
    with read_database() as connection:
        print_json(fetch_document(connection, uid))


def delete_app(
    uid: AppArgument,
    *,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """
    Delete a small app: its actions and API keys end; its history is kept.

    Refused while operations of it are not over. Its uid stays taken; apps apply of its
    document brings it back with its users and data, but without its actions and keys.
    """
    with read_database() as connection:
        found = fetch_detailed_app(connection, uid)
    if not confirm(f"Delete small app {found.uid!r}", yes=yes):
        print_note("Nothing was deleted.")
        raise typer.Exit(1)
    with write_database() as connection:
        deleted = delete_small_app(connection, uid, by=get_actor())
    if json:
        print_json(deleted.as_json())
    else:
        out().print(
            f"Deleted small app {uid}, with {deleted.actions:,} actions and"
            f" {deleted.keys:,} keys.",
            markup=False,
        )
