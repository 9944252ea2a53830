"""
Post and edit actions as somebody wrote them: read at the door, then stored.

What cannot be read, or is no longer what its author has seen, changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import sqlalchemy as sa
from pydantic import JsonValue

from actions.lookup import fetch_app
from actions.pausing.pause_state import hold_pause
from actions.posting.foretell import (
    ListOutcome,
    OneOutcome,
    make_outcome,
    post_all_with_outcomes,
    post_with_outcome,
)
from actions.posting.post import replace_action
from actions.posting.revisions import get_app_of, lock_action, refuse_stale
from models.database.engine import Author, reading, writing
from models.database.tables import scheduled_action_revisions
from models.door.documents import read_action, read_action_object, read_actions
from models.door.json_text import decode_json
from models.door.merge_patch import apply_merge_patch
from models.errors import InvalidDocumentError, NotFoundError, Problem
from models.fields.strict_model import show
from models.fields.task_rules import TaskRules
from models.occurrence import LOOKBACK
from models.revision import Change
from models.scheduled_action import ScheduledActionModel

#: The most actions of one text: some seconds of work.
MOST_ACTIONS = 10_000


@dataclass(frozen=True, slots=True)
class Terms:
    """
    What an installation says about the actions that are posted to it.

    Args:
        timezone: IANA name, for rules that name no zone, in apps that have none.
        task_rules: Where ``run_task`` may send tasks. None: anywhere.
        lookback: A due date older than this is refused.
    """

    timezone: str = "UTC"
    task_rules: TaskRules | None = None
    lookback: timedelta = LOOKBACK


@dataclass(frozen=True, slots=True)
class Signature:
    """
    Who posts or edits an action, and why.

    Args:
        by: Such as ``root@host``, or the name of an API key.
        note: In their words; kept with the revision.
    """

    by: str | None = None
    note: str | None = None


def post_text(
    connection: sa.Connection,
    app: str,
    text: str | bytes,
    *,
    terms: Terms,
    signed: Signature,
) -> OneOutcome:
    """
    Store the action that *text* describes as a new one of *app*.

    Raises:
        NotFoundError, ConflictError, InvalidDocumentError: As ``post_action``, or the
            door refuses *text*.
    """
    action = read_action(
        text,
        default_timezone=_get_zone(connection, app, terms),
        task_rules=terms.task_rules,
    )
    return post_with_outcome(
        connection,
        app,
        action,
        replace=False,
        lookback=terms.lookback,
        by=signed.by,
        note=signed.note,
    )


def post_all_text(  # noqa: PLR0913 - those of post_actions, and what it reads with
    engine: sa.Engine,
    app: str,
    text: str | bytes,
    *,
    terms: Terms,
    signed: Signature,
    author: Author,
    dry_run: bool = False,
) -> ListOutcome:
    """
    Store all the actions that *text* describes as new ones of *app*, or none.

    They are read before the transaction begins: reading ten thousand takes seconds, in
    which it would keep others waiting.

    Args:
        engine: The caller's.
        text: A JSON list or JSON lines, at most MOST_ACTIONS and 32 MiB; or one action.
        signed: Who posts them.
        author: The same, for the record of changes.
        dry_run: Whether to store nothing.

    Raises:
        NotFoundError, ConflictError, InvalidDocumentError: As ``post_actions``, or the
            door refuses *text*. Pointers begin with the number of the action, from 0,
            if *text* has several.
    """
    with reading(engine) as connection:
        zone = _get_zone(connection, app, terms)
    read = read_actions(
        text, default_timezone=zone, task_rules=terms.task_rules, most=MOST_ACTIONS
    )
    with writing(engine, author=author) as connection:
        return post_all_with_outcomes(
            connection,
            app,
            read if isinstance(read, tuple) else (read,),
            replace=False,
            lookback=terms.lookback,
            by=signed.by,
            note=signed.note,
            dry_run=dry_run,
        )


def replace_text(  # noqa: PLR0913 - those of replace_action
    connection: sa.Connection,
    uid: str,
    text: str | bytes,
    *,
    app: str | None,
    expected_revision: int | None,
    terms: Terms,
    signed: Signature,
) -> OneOutcome:
    """
    Store the action that *text* describes in place of the one whose uid is *uid*.

    Args:
        uid: Of an action that is not deleted.
        text: One JSON object.
        app: Uid of a small app; other apps' actions are unknown. None: of any app.
        expected_revision: As for ``refuse_stale``.
        signed: Who replaces it.

    Raises:
        NotFoundError, ConflictError, StaleError, InvalidDocumentError: As
            ``replace_action``, or the door refuses *text*.
    """
    owner = get_app_of(connection, uid, app=app)
    action = read_action(
        text,
        default_timezone=_get_zone(connection, owner, terms),
        task_rules=terms.task_rules,
    )
    return _replace(
        connection, uid, action, owner, expected_revision, terms=terms, signed=signed
    )


def patch_text(  # noqa: PLR0913 - those of replace_text
    connection: sa.Connection,
    uid: str,
    text: str | bytes,
    *,
    app: str | None,
    expected_revision: int | None,
    terms: Terms,
    signed: Signature,
) -> OneOutcome:
    """
    Change some members of a stored action: a JSON Merge Patch (RFC 7396).

    The patch is applied to the document as it is stored, and the result is read at the
    door as a whole.

    Args:
        uid: Of an action that is not deleted.
        text: One JSON object; null removes a member.
        app: As for ``replace_text``.
        expected_revision: The same.
        terms: The same.
        signed: The same.

    Raises:
        NotFoundError, ConflictError, StaleError, InvalidDocumentError: As
            ``replace_text``. Pointers are into the merged document.
    """
    owner = get_app_of(connection, uid, app=app)
    patch = decode_json(text)
    if not isinstance(patch, dict):
        message = f"{show(patch)} is not an object."
        hint = 'Write the members to change, such as {"active": false}.'
        raise InvalidDocumentError((Problem("", message, hint),))
    hold_pause(connection, owner)  # before the action: a pause locks in this order
    row = lock_action(connection, uid, app=app)
    refuse_stale(connection, uid, expected_revision)
    action = read_action_object(
        apply_merge_patch(_keep_waiting_as_it_is(row.document), patch),
        default_timezone=_get_zone(connection, owner, terms),
        task_rules=terms.task_rules,
    )
    return _replace(connection, uid, action, owner, None, terms=terms, signed=signed)


def roll_back(  # noqa: PLR0913 - those of replace_text
    connection: sa.Connection,
    uid: str,
    revision: int,
    *,
    app: str | None,
    expected_revision: int | None,
    terms: Terms,
    signed: Signature,
) -> OneOutcome:
    """
    Give an action the document of one of its earlier revisions, as a new revision.

    Args:
        uid: Of an action that is not deleted.
        revision: The number of the earlier one.
        app: As for ``replace_text``.
        expected_revision: The same.
        terms: The same. What it says now counts, not what it said at that time.
        signed: Who rolls it back.

    Raises:
        NotFoundError: There is no such action, or no such revision of it.
        ConflictError, StaleError, InvalidDocumentError: As ``replace_text``.
    """
    owner = get_app_of(connection, uid, app=app)
    action = read_action_object(
        _keep_waiting_as_it_is(fetch_document(connection, uid, revision)),
        default_timezone=_get_zone(connection, owner, terms),
        task_rules=terms.task_rules,
    )
    note = f"to revision {revision}"
    if signed.note:
        note = f"{note}; {signed.note}"
    return _replace(
        connection,
        uid,
        action,
        owner,
        expected_revision,
        terms=terms,
        signed=Signature(signed.by, note),
        change=Change.ROLLED_BACK,
    )


def _keep_waiting_as_it_is(document: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """
    Return *document* with what its task has always meant written out.

    For new documents the default is to wait for the end of the task. A stored one
    without a word about it does not, and a change of something else must not change it.
    """
    steps = document["operations"]
    task = steps.get("run_task") if isinstance(steps, dict) else None
    if not isinstance(steps, dict) or not isinstance(task, dict) or "wait" in task:
        return document
    return {**document, "operations": {**steps, "run_task": {**task, "wait": False}}}


def fetch_document(
    connection: sa.Connection, uid: str, revision: int
) -> dict[str, JsonValue]:
    """
    Return the document of one revision of an action, deleted or not.

    Raises:
        NotFoundError: There is no such revision, or it was pruned.
    """
    kept = scheduled_action_revisions.c
    found: dict[str, JsonValue] | None = connection.execute(
        sa.select(kept.document).where(kept.uid == uid, kept.revision == revision)
    ).scalar_one_or_none()
    if found is None:
        msg = (
            f"action {uid!r} has no revision {revision}. Old ones are pruned; to list"
            f" those that are kept: minutehand actions show {uid}"
        )
        raise NotFoundError(msg)
    return found


def _replace(  # noqa: PLR0913 - those of replace_text
    connection: sa.Connection,
    uid: str,
    action: ScheduledActionModel,
    app: str,
    expected_revision: int | None,
    *,
    terms: Terms,
    signed: Signature,
    change: Change = Change.REPLACED,
) -> OneOutcome:
    posted = replace_action(
        connection,
        uid,
        action,
        app=app,
        expected_revision=expected_revision,
        lookback=terms.lookback,
        by=signed.by,
        note=signed.note,
        change=change,
    )
    return make_outcome(connection, posted, action)


def _get_zone(connection: sa.Connection, app: str, terms: Terms) -> str:
    """Return the zone of rules that name none."""
    zone: str | None = fetch_app(connection, app).timezone
    return zone or terms.timezone
