"""``apps list`` and ``apps show``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import urlsplit

import sqlalchemy as sa
import typer

from actions.listing import (
    count_users,
    fetch_app,
    fetch_apps,
    fetch_domains,
    fetch_groups,
    fetch_names,
)
from actions.pausing.pause import Pause, get_pause
from cli.connection import read_database
from cli.options import JsonOption
from cli.output import (
    describe_pause,
    format_both,
    out,
    print_fields,
    print_json,
    print_table,
)
from operations.running.estimates import Working, fetch_working


def list_apps(*, json: JsonOption = False) -> None:
    """List the small apps."""
    with read_database() as connection:
        rows = fetch_apps(connection)
        working = fetch_working(connection)
    found = [
        {
            "uid": row.uid,
            "name": row.name,
            "timezone": row.timezone,
            "users": row.users,
            "domains": row.domains,
            "actions": row.scheduled_actions,
        }
        for row in rows
    ]
    now_of = {row.uid: (get_pause(row), working.get(row.uid)) for row in rows}
    if json:
        print_json([{**each, **_make_now_json(*now_of[each["uid"]])} for each in found])
        return
    print_table(
        ("uid", "name", "zone", "users", "domains", "actions", "now"),
        (
            [
                *(str("-" if value is None else value) for value in each.values()),
                _describe_now(*now_of[each["uid"]]) or "-",
            ]
            for each in found
        ),
        empty="No small apps yet. Make one with: minutehand apps apply FILE",
    )


def _make_now_json(pause: Pause | None, working: Working | None) -> dict[str, object]:
    return {
        "pause": None if pause is None else pause.as_json(),
        "working": None if working is None else working.as_json(),
    }


def _describe_now(pause: Pause | None, working: Working | None) -> str | None:
    """Return what goes on in an app: published, refreshed, paused; None: nothing."""
    told = []
    if working is not None:
        since = "" if working.since is None else f" since {format_both(working.since)}"
        told.append(f"{working.verb}{since} (operation {working.operation_id})")
    if pause is not None:
        told.append(f"paused {describe_pause(pause)}")
    return "\n".join(told) or None


def hide_secrets(url: str) -> str:
    """
    Return *url* without user info, the values of its query, and its fragment.

    >>> hide_secrets("https://ada:pw@example.com/rates?token=s3cret&day=1")
    'https://***@example.com/rates?token=***&day=***'
    """
    parts = urlsplit(url)
    _, at, host = parts.netloc.rpartition("@")
    names = [each.partition("=") for each in parts.query.split("&")]
    return parts._replace(
        netloc=f"***@{host}" if at else host,
        # A part without a name may be a key by itself.
        query="&".join(f"{name}=***" if sign else "***" for name, sign, _ in names)
        if parts.query
        else "",
        fragment="",
    ).geturl()


def _show_source(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return *source* as anybody may see it: a database URL may hold a password."""
    shown = {key: value for key, value in source.items() if key != "database"}
    if "url" in shown:
        shown["url"] = hide_secrets(shown["url"])
    return shown


def _as_object(domain: sa.Row[Any]) -> dict[str, object]:
    return {
        "name": domain.name,
        "source": _show_source(domain.source),
        "staged_version": domain.staged_version,
        "live_version": domain.live_version,
        "published_at": domain.published_at,
    }


def show_app(
    uid: Annotated[str, typer.Argument(metavar="APP", help="Uid of a small app.")],
    *,
    json: JsonOption = False,
) -> None:
    """
    Show a small app.

    Its users are counted, not listed.
    """
    with read_database() as connection:
        row = fetch_app(connection, uid)
        domains = fetch_domains(connection, uid)
        names = fetch_names(connection, uid)
        groups = fetch_groups(connection, uid)
        users = count_users(connection, uid)
        working = fetch_working(connection, uid).get(uid)
    pause = get_pause(row)
    if json:
        print_json(
            {
                "uid": row.uid,
                "name": row.name,
                "timezone": row.timezone,
                "source_folder": row.source_folder,
                "created_at": row.created_at,
                "updated_at": row.updated_at,
                **_make_now_json(pause, working),
                "notices": _show_notices(row.notices),
                "users": users,
                "groups": groups,
                "domains": [_as_object(each) for each in domains],
                **names,
            }
        )
        return
    shown = ", ".join(f"{group} ({count:,})" for group, count in groups.items())
    print_fields(
        [
            ("uid", row.uid),
            ("name", row.name),
            ("zone", row.timezone),
            ("files below", row.source_folder),
            ("created", format_both(row.created_at)),
            ("updated", format_both(row.updated_at)),
            ("now", _describe_now(pause, working)),
            ("notices", ", ".join(_list_notices(row.notices)) or None),
            ("users", f"{users:,}"),
            ("groups", shown or None),
            *((part, ", ".join(found) or None) for part, found in names.items()),
        ]
    )
    _print_domains(domains)


def _show_notices(notices: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return who is told of failures; the query of a webhook may hold a key."""
    if notices is None:
        return None
    webhook = notices.get("webhook")
    shown = None if webhook is None else hide_secrets(webhook)
    return {"mail": notices.get("mail", []), "webhook": shown}


def _list_notices(notices: Mapping[str, Any] | None) -> list[str]:
    shown = _show_notices(notices)
    if shown is None:
        return []
    return [*shown["mail"], *([shown["webhook"]] if shown["webhook"] else [])]


def _print_domains(domains: Sequence[sa.Row[Any]]) -> None:
    if domains:
        out().print()
    print_table(
        ("domain", "source", "staged", "live", "published"),
        (
            [
                each.name,
                next(
                    str(value)
                    for key, value in _show_source(each.source).items()
                    if key in {"file", "url", "sql"}
                ),
                str(each.staged_version or "-"),
                str(each.live_version or "-"),
                format_both(each.published_at),
            ]
            for each in domains
        ),
        empty="It has no domains.",
    )
