"""
Does bulk changes, a batch at a time; any number of processes may have a runner.

The row of a bulk change holds who does it, until when, and the last one that was looked
at. A runner renews its claim with each batch. If it is killed, the claim runs out, and
another goes on from that place.

A batch of cancel, retry, pause or resume is one transaction with its progress, so it is
done once. Runs are recorded one by one, under ids that are derived from the bulk
change: a batch that is repeated records nothing again.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID, uuid4

import sqlalchemy as sa
import structlog
from pydantic import BaseModel, ValidationError

from actions.pausing.pause_and_resume import Refusal, pause_many, resume_many
from dispatch.bulk.requests import BULK_CHANGES, choose_operations, fetch_action_page
from dispatch.manual_runs import run_now
from models.database.engine import Author, Identifier, db_now, reading, writing
from models.database.tables import OPEN_BULK_CHANGES, bulk_changes
from models.database.transaction import keep_leader_out
from models.errors import (
    ConflictError,
    MinutehandError,
    NotFoundError,
    UnreachableError,
)
from models.fields.app_bounds import NOTHING_BOUND, AppBounds
from models.paging import Page, Part
from models.requests.actions import ActionFilterModel, RunModel
from models.requests.bulk_changes import BulkKind
from models.requests.notes import PauseModel
from models.requests.operations import OperationFilterModel
from operations.cancel_and_retry import Changed, OperationChange, change_page
from operations.reasons import CausePattern
from operations.selecting import fetch_page
from telemetry import Event

log = structlog.get_logger()

#: How long a claim lasts; each batch, which takes less than a second, renews it.
CLAIM_FOR = timedelta(seconds=30)

#: Operations, and actions to pause or resume, in one batch, for which the leader
#: waits: some tenth of a second.
OPERATIONS_AT_ONCE = 500
ACTIONS_AT_ONCE = 200

#: Actions that are run in one batch, each in a transaction of its own.
RUNS_AT_ONCE = 25

#: Seconds between two looks while there is nothing to do.
PAUSE_S = 1.0

_bulk = bulk_changes.c


@dataclass(slots=True)
class BulkRunner:
    """
    Does what is stored, until it is told to stop.

    Args:
        engine: Of its process.
        bounds: Of small apps: to resume what is more is refused.
        claim_for: How long its claim on a bulk change lasts without a batch.
        clock: Seconds, which never go back.
    """

    engine: sa.Engine
    bounds: Mapping[str, AppBounds] = field(default_factory=lambda: NOTHING_BOUND)
    claim_for: timedelta = CLAIM_FOR
    clock: Callable[[], float] = time.monotonic
    _token: UUID = field(default_factory=uuid4)

    def run(self, stop: threading.Event) -> None:
        """
        Do batches until *stop* is set, with a pause when there are none.

        After a batch it waits as long as that took: the leader, whom it kept out, has
        its turn, and half of the time, however large a bulk change is.
        """
        while not stop.is_set():
            began = self.clock()
            try:
                is_busy = self.look()
            except UnreachableError as error:
                log.warning(Event.DATABASE_UNREACHABLE, error=str(error))
                is_busy = False
            stop.wait(self.clock() - began if is_busy else PAUSE_S)

    def finish(self, bulk_id: UUID) -> None:
        """
        Do batches, as ``run`` does, until a bulk change is over.

        Raises:
            UnreachableError: It is not over; another runner may go on.
        """
        while not self._is_over(bulk_id):
            began = self.clock()
            is_busy = self.look()
            if not self._is_over(bulk_id):
                time.sleep(self.clock() - began if is_busy else PAUSE_S)

    def _is_over(self, bulk_id: UUID) -> bool:
        query = sa.select(_bulk.finished_at).where(_bulk.id == bulk_id)
        with reading(self.engine) as connection:
            return connection.scalar(query) is not None

    def look(self) -> bool:
        """
        Do one batch of the bulk change whose turn it is; return whether there was one.

        Raises:
            UnreachableError: The batch may be done or not; the next look knows.
        """
        row = self._claim()
        if row is None:
            return False
        try:
            self._do_batch(row)
        except UnreachableError:
            raise
        except (MinutehandError, sa.exc.DBAPIError) as error:
            # Not of one action or operation, so the next try would meet it, too.
            log.warning(Event.BULK_CHANGE_FAILED, bulk=str(row.id), error=str(error))
            with writing(self.engine, author=_get_author(row)) as connection:
                if self._hold(connection, row.id):
                    _finish(connection, row.id, error=str(error))
        return True

    def _claim(self) -> sa.Row[Any] | None:
        """Claim, or renew the claim on, the bulk change that has waited longest."""
        with reading(self.engine) as connection:
            is_open = sa.select(_bulk.id).where(OPEN_BULK_CHANGES.of("bulk_changes"))
            if connection.execute(is_open.limit(1)).first() is None:
                return None
        free = sa.or_(
            _bulk.claim_token.is_(None),
            _bulk.claim_token == sa.literal(self._token, Identifier),
            _bulk.lease_expires_at < db_now(),
        )
        first = (
            sa.select(_bulk.id)
            .where(OPEN_BULK_CHANGES.of("bulk_changes"), free)
            # our own, if there are others, when these have had their batch
            .order_by(sa.func.coalesce(_bulk.lease_expires_at, _bulk.created_at))
            .limit(1)
            .scalar_subquery()
        )
        with writing(self.engine) as connection:
            return connection.execute(
                sa.update(bulk_changes)
                .where(_bulk.id == first, free, _bulk.finished_at.is_(None))
                .values(
                    claim_token=self._token, lease_expires_at=db_now(self.claim_for)
                )
                .returning(*_bulk)
            ).one_or_none()

    def _hold(self, connection: sa.Connection, bulk_id: UUID) -> bool:
        """Lock a bulk change if it is still ours to do: not canceled, not taken."""
        is_ours = _bulk.claim_token == self._token, _bulk.finished_at.is_(None)
        held = sa.select(_bulk.id).where(_bulk.id == bulk_id, *is_ours)
        return connection.scalar(held.with_for_update()) is not None

    def _do_batch(self, row: sa.Row[Any]) -> None:
        kind = BulkKind(row.kind)
        with reading(self.engine) as connection:
            page = _fetch_page(connection, row, kind)
        changed = self._run_page(row, page) if kind is BulkKind.RUN else None
        with writing(self.engine, author=_get_author(row)) as connection:
            if changed is None:
                # The leader's transactions lock the lease first, and many rows after.
                keep_leader_out(connection)
            if self._hold(connection, row.id):
                if changed is None:
                    changed = _change_page(connection, row, kind, page, self.bounds)
                _note(connection, row, page, changed)

    def _run_page(self, row: sa.Row[Any], page: Part[Any]) -> Changed:
        changed = Changed()
        key, author = f"bulk {row.id}", _get_author(row)
        asked = RunModel.model_construct(note=(row.arguments or {}).get("note"))
        for action in page.entries:
            if action.event is not None:
                changed.refused[_OF_EVENTS] += 1
                continue
            try:
                run_now(self.engine, action.uid, asked, key=key, author=author)
            except ConflictError:
                changed.refused[_ALREADY_RUNNING] += 1
            except NotFoundError:
                changed.refused[Refusal.GONE] += 1
            else:
                changed.done += 1
        return changed


#: Why an action is not run. Whoever asks for a single run of one that events drive is
#: asked back.
_ALREADY_RUNNING = "already running"
_OF_EVENTS = "driven by events, so a run would be for all its recipients"


def _get_author(row: sa.Row[Any]) -> Author:
    return Author(row.requested_by, row.key_id, row.request_id)


_Filter = TypeVar("_Filter", bound=BaseModel)


def _read_filter(model: type[_Filter], row: sa.Row[Any]) -> _Filter:
    """
    Return the filter of a bulk change, which another version may have stored.

    Raises:
        ConflictError: This version cannot read it.
    """
    try:
        return model.model_validate(row.filter)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "/".join(str(part) for part in first["loc"])
        raise ConflictError(
            "its filter, which another version of Minutehand stored, cannot be read:"
            f" {place}: {first['msg']}. What is done stays done; start another bulk"
            " change for the rest."
        ) from error


def _fetch_page(
    connection: sa.Connection, row: sa.Row[Any], kind: BulkKind
) -> Part[Any]:
    """Return the next ones; nobody else moves on while the claim is ours."""
    at, last = row.created_at, row.position
    if not kind.is_of_operations:
        after = last and (last["uid"],)
        page = Page(RUNS_AT_ONCE if kind is BulkKind.RUN else ACTIONS_AT_ONCE, after)
        chosen = _read_filter(ActionFilterModel, row).but(app=row.app)
        return fetch_action_page(connection, chosen, page, at=at)
    after = last and (datetime.fromisoformat(last["recorded_at"]), UUID(last["id"]))
    page, change = Page(OPERATIONS_AT_ONCE, after), OperationChange(kind.value)
    asked = _read_filter(OperationFilterModel, row)
    kept = (row.arguments or {}).get("cause")
    cause = None if kept is None else CausePattern(**kept)
    wanted = choose_operations(connection, kind, asked, app=row.app, cause=cause)
    return fetch_page(connection, wanted, change, at=at, page=page)


def _change_page(
    connection: sa.Connection,
    row: sa.Row[Any],
    kind: BulkKind,
    page: Part[Any],
    bounds: Mapping[str, AppBounds],
) -> Changed:
    """Change them in the transaction of *connection*, which keeps the leader out."""
    if kind.is_of_operations:
        return change_page(connection, page.entries, OperationChange(kind.value))
    arguments = row.arguments or {}
    note = arguments.get("note")
    uids = [action.uid for action in page.entries]
    if kind is BulkKind.PAUSE:
        until = arguments.get("until")
        ends = None if until is None else datetime.fromisoformat(until)
        asked = PauseModel.model_construct(note=note, until=ends)
        switched = pause_many(connection, uids, asked)
    else:
        switched = resume_many(connection, uids, note, bounds)
    return Changed(switched.done, switched.refused)


def _note(
    connection: sa.Connection, row: sa.Row[Any], page: Part[Any], changed: Changed
) -> None:
    """Write what a batch did, and where the next begins; the row is locked."""
    refused = dict(Counter(row.refused or {}) + changed.refused)
    place = page.following
    is_of_operations = BulkKind(row.kind).is_of_operations
    names = ("recorded_at", "id") if is_of_operations else ("uid",)
    position = place and dict(zip(names, map(str, place), strict=True))
    connection.execute(
        sa.update(bulk_changes)
        .where(_bulk.id == row.id)
        .values(done=_bulk.done + changed.done, refused=refused, position=position)
    )
    if place is None:
        _finish(connection, row.id)


def _finish(
    connection: sa.Connection, bulk_id: UUID, *, error: str | None = None
) -> None:
    row = connection.execute(
        sa.update(bulk_changes)
        .where(_bulk.id == bulk_id)
        .values(finished_at=db_now(), claim_token=None, error=error)
        .returning(_bulk.app, _bulk.done, _bulk.refused, _bulk.total)
    ).one()
    word = "finished" if error is None else "failed"
    told = {"done": row.done, "refused": row.refused, "total": row.total}
    BULK_CHANGES.note(connection, bulk_id, row.app, word, told)
    log.info(Event.BULK_CHANGE_ENDED, bulk=str(bulk_id), done=row.done)
