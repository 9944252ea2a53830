"""``actions delete``: deletes some actions, or all of an app, after a question."""

from __future__ import annotations

from typing import Annotated

import typer

from actions.lookup import SYSTEM_APP, fetch_app, find_action
from actions.posting.post import delete_action
from actions.posting.revisions import refuse_action
from cli.confirming import DryRunOption, YesOption, confirm_change_of_many
from cli.connection import get_actor, read_database, write_database
from cli.options import AllOption, AppOption, JsonOption
from cli.output import out, print_json, print_note
from models.errors import UsageError
from overview.actions.shown import (
    ShownAction,
    describe_deletion,
    fetch_listed_actions,
    fetch_shown_action,
)


def delete(
    actions: Annotated[
        list[str] | None,
        typer.Argument(metavar="ACTION...", help="Uids of actions, or their names."),
    ] = None,
    *,
    app: AppOption = None,
    everything: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """
    Delete scheduled actions; their history is kept.

    Their waiting operations are canceled when a worker takes them. All are deleted, or
    none.
    """
    found = _find(actions or [], app=app, everything=everything)
    if not found:
        print_note("There is nothing to delete.")
        return
    if dry_run:
        print_note(f"{len(found):,} would be deleted. Nothing was changed (--dry-run).")
    else:
        confirm_change_of_many(describe_deletion(found), yes=yes)
        with write_database() as connection:
            for each in found:
                delete_action(connection, each.uid, app=each.app, by=get_actor())
            found = [fetch_shown_action(connection, each.uid) for each in found]
    if json:
        one = actions is not None and len(actions) == 1
        print_json(found[0] if one else found)
        return
    verb = "Would delete" if dry_run else "Deleted"
    for each in found:
        out().print(f"{verb} {each.name} (uid {each.uid}).", markup=False)


def _find(given: list[str], *, app: str | None, everything: bool) -> list[ShownAction]:
    """
    Return what somebody wants to delete, each once.

    Raises:
        UsageError: Neither actions nor ``--all`` with ``--app`` are given, or both.
    """
    if everything == bool(given) or (everything and app is None):
        msg = "Name the actions to delete, or all of an app: --all --app APP."
        raise UsageError(msg)
    if everything and app == SYSTEM_APP:
        msg = (
            f"the actions of {SYSTEM_APP!r} are the scheduler's own. Name one of them."
        )
        raise UsageError(msg)
    with read_database() as connection:
        if app is not None and everything:
            fetch_app(connection, app)
            return [*fetch_listed_actions(connection, app=app)]
        rows = [find_action(connection, each, app=app) for each in given]
        for row in rows:
            if row.deleted_at is not None:
                refuse_action(row.uid)
        uids = dict.fromkeys(row.uid for row in rows)
        return [fetch_shown_action(connection, uid) for uid in uids]
