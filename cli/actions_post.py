"""``actions post``: read a document, refuse it or store it, and say what follows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from actions.listing import (
    fetch_actions,
    fetch_app,
    find_action,
    find_next,
    get_action_state,
)
from actions.occurrences import Schedule, make_schedule, parse_timing
from actions.posting.changes import COMPARED, Changes, compare_schedules
from actions.posting.post import Posted, fetch_holidays, post_action, post_actions
from actions.posting.references import fetch_references, find_unknown
from actions.wording.sentences import describe
from cli.connection import get_actor, get_settings, read_database, write_database
from cli.options import JsonOption, read_file
from cli.output import err, format_both, out, print_json, print_note, print_warning
from models.database.engine import read_clock
from models.door.documents import read_actions
from models.errors import NotFoundError, RuleError
from models.scheduled_action import ScheduledActionModel
from models.timing import make_timing

#: Occurrences that a post foretells.
_SHOWN = 5
#: Changes of each sort that are listed for people.
_LISTED = 10


def post(
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE|-",
            help="JSON: an action, a list of them, or one on each line; - is"
            " standard input.",
        ),
    ],
    *,
    app: Annotated[
        str, typer.Option("--app", metavar="UID", help="Small app it belongs to.")
    ],
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Put it in the place of one of that name."),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Store nothing; show what would change in the next 30 days.",
        ),
    ] = False,
    json: JsonOption = False,
) -> None:
    """
    Post a scheduled action, or replace one; of many, all or none.

    It takes effect now: what was due before is not run.
    """
    settings = get_settings()
    text = read_file(file)
    with read_database() as connection:
        zone = fetch_app(connection, app).timezone or settings.timezone
    read = read_actions(text, default_timezone=zone, task_rules=settings.task_rules)
    if isinstance(read, tuple):
        _post_many(app, read, replace=replace, dry_run=dry_run, json=json)
    elif dry_run:
        _show_changes(app, read, replace=replace, json=json)
    else:
        _post_one(app, read, replace=replace, json=json)


def _post_one(
    app: str, action: ScheduledActionModel, *, replace: bool, json: bool
) -> None:
    with write_database() as connection:
        posted = post_action(
            connection,
            app,
            action,
            replace=replace,
            lookback=get_settings().lookback,
            by=get_actor(),
        )
    with read_database() as connection:
        row = find_action(connection, posted.uid)
    following = find_next(row, count=_SHOWN)
    if json:
        print_json(
            {
                "uid": posted.uid,
                "revision": posted.revision,
                "next": following,
                "superseded": list(posted.superseded),
            }
        )
    else:
        _print(action, posted, following, get_action_state(row))
    _warn(app, action, posted)


def _post_many(
    app: str,
    actions: Sequence[ScheduledActionModel],
    *,
    replace: bool,
    dry_run: bool,
    json: bool,
) -> None:
    """Post a list; what happened to each is told to programs only."""
    with write_database() as connection:
        savepoint = connection.begin_nested()
        posted = post_actions(
            connection,
            app,
            actions,
            replace=replace,
            lookback=get_settings().lookback,
            by=get_actor(),
        )
        rows = {row.uid: row for row in fetch_actions(connection, app=app)}
        if dry_run:
            savepoint.rollback()
    if json:
        print_json(
            [_make_entry(each, rows[each.uid], stored=not dry_run) for each in posted]
        )
    else:
        created = sum(each.created for each in posted)
        would = "Would post" if dry_run else "Posted"
        also = "replace" if dry_run else "replaced"
        out().print(f"{would} {created:,} and {also} {len(posted) - created:,}.")
    _warn_of_many(app, actions, posted)
    if dry_run:
        print_note("Nothing was stored (--dry-run).")


def _make_entry(posted: Posted, row: Any, *, stored: bool) -> dict[str, object]:
    return {
        # a new one gets its uid when it is stored
        "uid": posted.uid if stored or not posted.created else None,
        "revision": posted.revision,
        "next": find_next(row, count=1),
        "superseded": list(posted.superseded),
    }


def _warn_of_many(
    app: str, actions: Sequence[ScheduledActionModel], posted: Sequence[Posted]
) -> None:
    """Name the first names that *app* does not have, and count what will not run."""
    superseded = sum(len(each.superseded) for each in posted)
    if superseded:
        print_warning(f"{superseded:,} occurrences were due and will not run.")
    with read_database() as connection:
        known = fetch_references(connection, app, actions)
    told = 0
    for index, action in enumerate(actions):
        for problem in find_unknown(known, action):
            print_warning(f"/{index}{problem}")
            told += 1
        if told >= _LISTED:
            print_warning("There may be more.")
            return


def _print(
    action: ScheduledActionModel,
    posted: Posted,
    following: list[datetime],
    state: str,
) -> None:
    verb = "Posted" if posted.created else "Replaced"
    line = Text(f"{verb} ").append(action.name, style="bold")
    out().print(line.append(f" (uid {posted.uid}, revision {posted.revision})."))
    out().print(Text(describe(action)))
    if following:
        out().print("Next:")
    for at in following:
        out().print(f"  {format_both(at)}")
    if state != "active":
        print_note(f"It is {state}: nothing runs by itself.")


def _warn(app: str, action: ScheduledActionModel, posted: Posted) -> None:
    """Name what will not run, what reaches nobody, and what *app* does not have."""
    for at in posted.superseded:
        err().print(
            Text("superseded: ", style="yellow").append(
                f"{format_both(at)} was due before this edit and will not run.",
                style="default",
            )
        )
    for step in action.mails_to_nobody:
        print_warning(f"/recipients: they name nobody, so {step} reaches nobody.")
    with read_database() as connection:
        known = fetch_references(connection, app, [action])
    for problem in find_unknown(known, action):
        print_warning(str(problem))


def _show_changes(
    app: str, action: ScheduledActionModel, *, replace: bool, json: bool
) -> None:
    """Roll a post back, and compare the schedule before it with that after it."""
    settings = get_settings()
    with read_database() as connection:
        old = _find_old(connection, app, action)
        now = read_clock(connection)
        holidays = fetch_holidays(connection, app)
    with write_database() as connection:
        savepoint = connection.begin_nested()
        # A refusal is the same as that of a real post.
        posted = post_action(
            connection, app, action, replace=replace, lookback=settings.lookback
        )
        savepoint.rollback()
    created_at = now if old is None else old.created_at
    timing = make_timing(action, created_at=created_at, holidays=holidays)
    new = None if timing is None or not action.active else make_schedule(timing)
    changes = compare_schedules(
        _read_schedule(old), new, posted.uid, start=now, end=now + COMPARED
    )
    if json:
        print_json(
            {
                "uid": None if posted.created else posted.uid,
                "revision": posted.revision,
                "superseded": list(posted.superseded),
                **changes.as_json(),
            }
        )
    else:
        out().print(Text(describe(action)))
        _print_changes(changes)
    _warn(app, action, posted)
    print_note("Nothing was stored (--dry-run).")


def _find_old(connection: Any, app: str, action: ScheduledActionModel) -> Any:
    try:
        return find_action(connection, action.uid or action.name, app=app)
    except NotFoundError:
        return None


def _read_schedule(row: Any) -> Schedule | None:
    if row is None or row.timing is None or get_action_state(row) != "active":
        return None
    try:
        return parse_timing(row.timing)
    except RuleError:
        return None  # nothing of it would ever run


def _print_changes(changes: Changes) -> None:
    added = [(f"+ {format_both(at)}", "green") for at in changes.added]
    removed = [(f"- {format_both(at)}", "red") for at in changes.removed]
    moved = [
        (f"~ {format_both(was)} moves to {format_both(is_now)}", "yellow")
        for was, is_now in changes.moved
    ]
    if not (added or removed or moved):
        out().print(f"Nothing changes until {format_both(changes.until)}.")
    for lines, word in ((added, "added"), (removed, "removed"), (moved, "moved")):
        for line, style in lines[:_LISTED]:
            out().print(Text(line, style=style))
        if len(lines) > _LISTED:
            out().print(f"  and {len(lines) - _LISTED:,} more {word}")
