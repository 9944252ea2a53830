"""
Post and edit actions as somebody wrote them: read at the door, then stored.

What cannot be read, or is no longer what its author has seen, changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

import sqlalchemy as sa
from pydantic import JsonValue

from actions.lookup import fetch_app
from actions.pausing.pause_state import hold_pause
from actions.posting.foretell import OneOutcome, make_outcome, post_with_outcome
from actions.posting.post import Posting, SeenAction, replace_action
from actions.posting.revisions import get_app_of, lock_action, refuse_stale
from models.database.engine import reading
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
    """Who changes something, and why in their words."""

    by: str | None = None
    note: str | None = None


def _make_posting(terms: Terms, signed: Signature) -> Posting:
    return Posting(lookback=terms.lookback, by=signed.by, note=signed.note)


def post_text(
    connection: sa.Connection,
    app: str,
    text: str | bytes,
    *,
    terms: Terms,
    signed: Signature,
) -> OneOutcome:
    """
    Post the action in *text*; nothing is replaced.

    Raises:
        NotFoundError, ConflictError, InvalidDocumentError: As ``read_action`` and
            ``post_action``.
    """
    action = _read(connection, app, text, terms)
    return post_with_outcome(connection, app, action, _make_posting(terms, signed))


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
        zone = _get_zone(connection, app, terms)
    read = read_actions(
        text, default_timezone=zone, task_rules=terms.task_rules, most=MOST_ACTIONS
    )
    return read if isinstance(read, tuple) else (read,)


def replace_text(
    connection: sa.Connection,
    seen: SeenAction,
    text: str | bytes,
    *,
    terms: Terms,
    signed: Signature,
) -> OneOutcome:
    """
    Put the action in *text* in the place of a stored one.

    Raises:
        NotFoundError, StaleError, ConflictError, InvalidDocumentError: As
            ``read_action`` and ``replace_action``.
    """
    owner = get_app_of(connection, seen.uid, app=seen.app)
    action = _read(connection, owner, text, terms)
    return _replace(connection, seen, action, _make_posting(terms, signed))


def patch_text(
    connection: sa.Connection,
    seen: SeenAction,
    text: str | bytes,
    *,
    terms: Terms,
    signed: Signature,
) -> OneOutcome:
    """
    Change a stored action by a JSON Merge Patch (RFC 7396).

    Raises:
        NotFoundError, StaleError, ConflictError, InvalidDocumentError: As
            ``replace_text``; or *text* is no object.
    """
    owner = get_app_of(connection, seen.uid, app=seen.app)
    patch = decode_json(text)
    if not isinstance(patch, dict):
        message = f"{show(patch)} is not an object."
        hint = 'Write the members to change, such as {"active": false}.'
        raise InvalidDocumentError((Problem("", message, hint),))
    hold_pause(connection, owner)  # before the action: a pause locks in this order
    row = lock_action(connection, seen.uid, app=seen.app)
    refuse_stale(connection, seen.uid, seen.revision)
    action = read_action_object(
        apply_merge_patch(_keep_waiting_as_it_is(row.document), patch),
        default_timezone=_get_zone(connection, owner, terms),
        task_rules=terms.task_rules,
    )
    known = replace(seen, revision=None)  # it is locked
    return _replace(connection, known, action, _make_posting(terms, signed))


def roll_back(
    connection: sa.Connection,
    seen: SeenAction,
    revision: int,
    *,
    terms: Terms,
    signed: Signature,
) -> OneOutcome:
    """
    Give a stored action the document of an earlier revision, as a new revision.

    It is read like any other post: what the installation or the small app has forbidden
    since then is refused.

    Raises:
        NotFoundError: There is no such action, or the revision was pruned.
        StaleError, ConflictError, InvalidDocumentError: As ``replace_text``.
    """
    owner = get_app_of(connection, seen.uid, app=seen.app)
    action = read_action_object(
        _keep_waiting_as_it_is(fetch_document(connection, seen.uid, revision)),
        default_timezone=_get_zone(connection, owner, terms),
        task_rules=terms.task_rules,
    )
    note = f"to revision {revision}"
    if signed.note:
        note = f"{note}; {signed.note}"
    how = _make_posting(terms, Signature(signed.by, note))
    return _replace(connection, seen, action, how, Change.ROLLED_BACK)


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


def _replace(
    connection: sa.Connection,
    seen: SeenAction,
    action: ScheduledActionModel,
    how: Posting,
    change: Change = Change.REPLACED,
) -> OneOutcome:
    posted = replace_action(connection, seen, action, how, change)
    return make_outcome(connection, posted, action)


def _read(
    connection: sa.Connection, app: str, text: str | bytes, terms: Terms
) -> ScheduledActionModel:
    return read_action(
        text,
        default_timezone=_get_zone(connection, app, terms),
        task_rules=terms.task_rules,
    )


def _get_zone(connection: sa.Connection, app: str, terms: Terms) -> str:
    """Return the zone of rules that name none."""
    zone: str | None = fetch_app(connection, app).timezone
    return zone or terms.timezone
