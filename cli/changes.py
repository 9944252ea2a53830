"""The commands ``changes list|export|verify``."""

from __future__ import annotations

import json as json_module
from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID

import typer

from cli.connection import ask_database, read_database, use_engine
from cli.options import (
    AppOption,
    LimitOption,
    option,
    read_period,
    shorten,
    takes,
    takes_json,
    value,
)
from cli.output import err, format_both, out
from models.errors import UsageError
from models.paging import Page
from models.units import format_count
from overview.changes import (
    Anchor,
    ChangeFilter,
    Verified,
    export_changes,
    fetch_action_names,
    fetch_changes,
    verify_changes,
)

#: Letters of what was changed that a table shows.
_SHOWN = 60


def _select(
    *,
    app: AppOption = None,
    kind: str | None = value("--kind KIND", "Only of action, app, user, key, ..."),
    subject: str | None = value("--subject ID", "Only of the thing with this id."),
    by: Annotated[str | None, option("--by NAME", "Only by this author.")] = None,
    from_: Annotated[str | None, option("--from TIME", "Inclusive.")] = None,
    until: Annotated[str | None, option("--until TIME", "Exclusive.")] = None,
) -> ChangeFilter:
    return ChangeFilter(app, kind, subject, by, *read_period(from_, until))


_takes_filter = takes("wanted", _select)


@takes_json
@_takes_filter
def list_changes(wanted: ChangeFilter, *, limit: LimitOption = 50) -> None:
    """
    List who changed what.

    The latest comes first.
    """
    with read_database() as connection:
        found = fetch_changes(connection, wanted, Page(limit)).entries
        names = fetch_action_names(connection, found)
    out().listed(
        found,
        lambda each: {
            "number": str(each.number),
            "at": format_both(each.at),
            "by": each.by,
            "app": each.app or "-",
            "what": f"{each.kind} {names.get(each.subject) or _shorten(each.subject)}",
            "change": each.change,
            "details": each.note or _describe(each.before, each.after) or "-",
        },
        empty="No changes.",
        spare=("number", "app"),
    )


def _shorten(subject: str) -> str:
    """Return the first digits of an id; uids and names are whole."""
    try:
        return shorten(UUID(subject))
    except ValueError:
        return subject


@_takes_filter
def export(wanted: ChangeFilter) -> None:
    """
    Export the record of changes, the first change first.

    Each line is a JSON object, with the hash of the line before it.
    """
    with use_engine() as engine:
        for change in export_changes(engine, wanted):
            out().json(change, indented=False)


@takes_json
def verify(
    *,
    anchor: str | None = value(
        "--anchor CHANGE", "NUMBER:HASH of a change that was written down."
    ),
) -> None:
    """
    Check that nobody altered the record of changes.

    Follows the chain of hashes from the first change to the last; exits with 1 if it is
    broken, and names the first place.
    """
    known = None if anchor is None else _read_anchor(anchor)
    found = ask_database(verify_changes, known)
    out().found(found, _print_chain)
    if found.broken is not None:
        raise typer.Exit(1)


def _print_chain(found: Verified) -> None:
    broken = found.broken
    if broken is None:
        changes = format_count(found.count, "change", "changes")
        out().say(f"The chain is whole: {changes}.")
        if found.count:
            out().print(f"{found.count}:{found.head}", soft_wrap=True)
            err().say(
                "Keep this line outside of the database. Whoever can rewrite the whole"
                " record is found out by: minutehand changes verify --anchor LINE"
            )
    else:
        err().refuse(f"the chain is broken at change {broken.number}: {broken.detail}")


def _describe(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    """Say in a few words what is other than it was."""
    told = {**(before or {}), **(after or {})}
    text = ", ".join(
        f"{name}: {value if isinstance(value, str) else json_module.dumps(value)}"
        for name, value in told.items()
        if value is not None
    )
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _read_anchor(text: str) -> Anchor:
    number, _, digest = text.strip().partition(":")
    if not (number.isdecimal() and number.isascii() and len(digest) == 64):
        msg = f"--anchor: {text!r} is not NUMBER:HASH, as changes verify prints it"
        raise UsageError(msg)
    return Anchor(int(number), digest.lower())
