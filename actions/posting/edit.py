"""
Post and edit actions as somebody wrote them: read at the door, then stored.

What cannot be read, or is no longer what its author has seen, changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from actions.lookup import fetch_app, get_action
from actions.posting.bounds import hold_bounds
from actions.posting.doubts import Doubts, find_doubts, find_doubts_of_all
from actions.posting.post import (
    Posted,
    Posting,
    SeenAction,
    post_action,
    post_actions,
    replace_action,
)
from actions.posting.references import fetch_references
from actions.posting.revisions import refuse_stale, require_action
from actions.read_actions import fetch_document, fetch_rows, get_action_state
from actions.read_rules import find_next, find_zone
from models.database.engine import reading
from models.database.journal import rolled_back
from models.door.differences import apply_merge_patch
from models.door.documents import (
    ReadContext,
    read_action,
    read_action_object,
    read_actions,
)
from models.door.json_text import decode_json
from models.errors import InvalidDocumentError, Problem
from models.fields.strict_model import show
from models.fields.task_rules import TaskRules
from models.json_form import ASIDE
from models.revision import ActionState, Change
from models.scheduled_action import ScheduledActionModel
from models.units import format_count

#: The most actions of one text: some seconds of work.
MOST_ACTIONS = 10_000


#: Next occurrences that are shown of one action; of each of many, the first.
NEXT_SHOWN = 10


@dataclass(frozen=True, slots=True)
class PostedEntry:
    """
    An action that was posted, or would be; times are aware UTC.

    Args:
        uid: None: it would be new.
        document_revision: The revision that its document has.
        created: Whether it is new.
        next: The next occurrences; none if it waits for events, or does not run.
        superseded: Occurrences that were due before this edit, and will not run.
        zone: In which its rule is read.
    """

    uid: str | None
    name: str
    app: str
    revision: int
    document_revision: int
    state: ActionState
    created: bool
    next: list[datetime]
    superseded: list[datetime]
    zone: ZoneInfo = field(metadata=ASIDE)


@dataclass(frozen=True, slots=True)
class PostedAction(PostedEntry):
    """The same, with what may be a mistake."""

    warnings: list[Problem]
    #: It may take 30 ms, which no transaction should wait for: see ``judge``.
    look: Callable[[], list[Problem]] = field(metadata=ASIDE)

    def judge(self) -> PostedAction:
        """Return it with its warnings; to be asked for after the commit."""
        return replace(self, warnings=self.look())


@dataclass(frozen=True, slots=True)
class PostedActions:
    """Many; pointers of *warnings* begin with the place in the list."""

    items: list[PostedEntry]
    warnings: list[Problem]
    more_warnings: bool
    look: Callable[[], Doubts] = field(metadata=ASIDE)

    def judge(self) -> PostedActions:
        """Return them with the first of their warnings."""
        found = self.look()
        more = found.may_be_more
        return replace(self, warnings=list(found.problems), more_warnings=more)


@dataclass(frozen=True, slots=True)
class Terms(Posting):
    """
    How actions are posted to an installation, and what it says of reading them.

    Args:
        timezone: IANA name, for rules that name no zone, in apps that have none.
        task_rules: Where ``run_task`` may send tasks. None: anywhere.
    """

    timezone: str = "UTC"
    task_rules: TaskRules | None = None

    def make_reading(self, app: str | None, timezone: str | None) -> ReadContext:
        """Return how actions of *app*, whose zone is *timezone*, are read."""
        rules = None if self.task_rules is None else self.task_rules.of(app)
        return ReadContext(timezone or self.timezone, rules)

    def find_reading(self, connection: sa.Connection, app: str) -> ReadContext:
        """
        Return how actions of *app* are read.

        Raises:
            NotFoundError: No such small app.
        """
        return self.make_reading(app, fetch_app(connection, app).timezone)


def post_text(
    connection: sa.Connection,
    app: str,
    text: str | bytes,
    *,
    terms: Terms,
    dry_run: bool = False,
) -> PostedAction:
    """
    Post the action in *text*; nothing is replaced.

    Args:
        dry_run: Whether to roll everything back in the end.

    Raises:
        NotFoundError, ConflictError, InvalidDocumentError: As ``read_action`` and
            ``post_action``.
    """
    action = read_action(text, terms.find_reading(connection, app))
    with rolled_back(connection) if dry_run else nullcontext():
        found = post_with_outcome(connection, app, action, terms)
    return replace(found, uid=None) if dry_run else found


def read_all_text(
    engine: sa.Engine, app: str, text: str | bytes, terms: Terms
) -> tuple[ScheduledActionModel, ...]:
    """
    Return the actions in *text*, at most MOST_ACTIONS, for *app*.

    Reading may take seconds, in which no transaction is open.

    Raises:
        NotFoundError: No such small app.
        InvalidDocumentError: As ``read_actions``.
    """
    with reading(engine) as connection:
        how = terms.find_reading(connection, app)
    read = read_actions(text, how, most=MOST_ACTIONS)
    return read if isinstance(read, tuple) else (read,)


def replace_text(
    connection: sa.Connection,
    seen: SeenAction,
    text: str | bytes,
    *,
    terms: Terms,
    dry_run: bool = False,
) -> PostedAction:
    """
    Put the action in *text* in the place of a stored one.

    Args:
        dry_run: Whether to roll everything back in the end.

    Raises:
        NotFoundError, StaleError, ConflictError, InvalidDocumentError: As
            ``read_action`` and ``replace_action``.
    """
    owner = require_action(connection, seen.uid, app=seen.app).app
    action = read_action(text, terms.find_reading(connection, owner))
    with rolled_back(connection) if dry_run else nullcontext():
        return _replace(connection, seen, action, terms)


def patch_text(
    connection: sa.Connection, seen: SeenAction, text: str | bytes, *, terms: Terms
) -> PostedAction:
    """
    Change a stored action by a JSON Merge Patch (RFC 7396).

    Raises:
        NotFoundError, StaleError, ConflictError, InvalidDocumentError: As
            ``replace_text``; or *text* is no object.
    """
    owner = require_action(connection, seen.uid, app=seen.app).app
    patch = decode_json(text)
    if not isinstance(patch, dict):
        message = f"{show(patch)} is not an object."
        hint = 'Write the members to change, such as {"active": false}.'
        raise InvalidDocumentError((Problem("", message, hint),))
    # before the action: a pause locks in this order
    hold_bounds(connection, owner, terms.bounds)
    row = require_action(connection, seen.uid, app=seen.app, lock=True)
    refuse_stale(connection, seen.uid, seen.revision)
    changed = apply_merge_patch(row.document, patch)
    action = read_action_object(changed, terms.find_reading(connection, owner))
    known = replace(seen, revision=None)  # it is locked
    return _replace(connection, known, action, terms)


def roll_back(
    connection: sa.Connection, seen: SeenAction, revision: int, *, terms: Terms
) -> PostedAction:
    """
    Give a stored action the document of an earlier revision, as a new revision.

    It is read like any other post: what the installation or the small app has forbidden
    since then is refused.

    Raises:
        NotFoundError: There is no such action, or the revision was pruned.
        StaleError, ConflictError, InvalidDocumentError: As ``replace_text``.
    """
    owner = require_action(connection, seen.uid, app=seen.app).app
    document = fetch_document(connection, seen.uid, revision)
    action = read_action_object(document, terms.find_reading(connection, owner))
    said = filter(None, (f"to revision {revision}", terms.note))
    how = replace(terms, note="; ".join(said))
    return _replace(connection, seen, action, how, Change.ROLLED_BACK)


def _replace(
    connection: sa.Connection,
    seen: SeenAction,
    action: ScheduledActionModel,
    how: Posting,
    change: Change = Change.REPLACED,
) -> PostedAction:
    posted = replace_action(connection, seen, action, how, change)
    return make_outcome(connection, posted, action)


def post_with_outcome(
    connection: sa.Connection, app: str, action: ScheduledActionModel, how: Posting
) -> PostedAction:
    """Post an action as ``post_action`` does, and return what comes of it."""
    return make_outcome(connection, post_action(connection, app, action, how), action)


def make_outcome(
    connection: sa.Connection, posted: Posted, action: ScheduledActionModel
) -> PostedAction:
    """Return what came of posting *action*."""
    row = get_action(connection, posted.uid)
    known = fetch_references(connection, row.app, [action])
    members = _describe(posted, row, count=NEXT_SHOWN)
    return PostedAction(
        **members, warnings=[], look=partial(find_doubts, known, action)
    )


def post_all_with_outcomes(
    connection: sa.Connection,
    app: str,
    actions: Sequence[ScheduledActionModel],
    how: Posting,
    *,
    dry_run: bool = False,
) -> PostedActions:
    """
    Post actions as ``post_actions`` does, and return what comes of each.

    Args:
        dry_run: Whether to roll everything back in the end.
    """
    with rolled_back(connection) if dry_run else nullcontext():
        posted = post_actions(connection, app, actions, how)
        rows = fetch_rows(connection, [each.uid for each in posted])
    entries = [
        PostedEntry(**_describe(each, rows[each.uid], count=1, is_stored=not dry_run))
        for each in posted
    ]
    known = fetch_references(connection, app, actions)
    look = partial(find_doubts_of_all, known, actions)
    return PostedActions(entries, warnings=[], more_warnings=False, look=look)


def _describe(
    posted: Posted, row: sa.Row[Any], *, count: int, is_stored: bool = True
) -> dict[str, Any]:
    return {
        "uid": posted.uid if is_stored or not posted.created else None,
        "name": row.name,
        "app": row.app,
        "revision": posted.revision,
        # In a paused app, a new action has a second revision, of the same document.
        "document_revision": 1 if posted.created else posted.revision,
        "state": get_action_state(row),
        "created": posted.created,
        "next": find_next(row, count=count),
        "superseded": list(posted.superseded),
        "zone": find_zone(row),
    }


def tell_superseded(count: int) -> str:
    """Return what every face says of so many superseded occurrences."""
    many = format_count(count, "occurrence was", "occurrences were")
    return f"{many} due before this edit and will not run."
