"""
Report failures: the leader looks for them once a minute, and records notices.

A notice is an operation. It is recorded under the fence, together with its content, and
then sent, claimed, marked and tried again like any other operation. So it is delivered
as reliably as everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
import structlog
from pydantic import ValidationError

from actions import own_actions
from actions.lease import Leader
from dispatch.notice_operations import make_notice_operation
from models.database.engine import writing
from models.decision import NewOperation
from models.small_app import NoticesModel
from operations.notices import stored
from operations.notices.grouping import (
    CALM,
    INSTALLATION,
    Notice,
    NoticeKind,
    Open,
    Scope,
    Unreported,
    sort_in,
)
from operations.record import record
from telemetry import Event

log = structlog.get_logger()

#: Operations that one look handles; the next look finds the rest.
MOST_AT_ONCE = 2_000


@dataclass(slots=True)
class Noticer:
    """
    Looks for failures that must be reported.

    Args:
        engine: The leader's engine.
        leader: Everything is written under its fence.
        mail: Addresses that get the notices of all small apps.
        webhook: URL that gets the notices of all small apps. None: no URL does.
        zone: IANA name of the installation's zone.
        is_behind: Whether the last look reached its limit, so that the next one should
            follow at once.
    """

    engine: sa.Engine
    leader: Leader
    mail: tuple[str, ...] = ()
    webhook: str | None = None
    zone: str = "UTC"
    is_behind: bool = False

    def look(self, *, now: datetime | None = None) -> int:
        """
        Record a notice for each cause that is new, continues, or is over.

        Args:
            now: Aware UTC. None: the database's clock; tests move it.

        Returns:
            How many were recorded; they wait to be sent.

        Raises:
            LeadershipLostError, UnreachableError: Nothing was written; the next look
                finds the same.
        """
        self.is_behind = False
        with writing(self.engine) as connection:
            watch = own_actions.fetch_watch(connection)
            scopes = self._find_scopes(watch)
            if not scopes:
                if watch.noticed_until is not None:
                    self.leader.check(connection)
                    own_actions.record_watch(connection, None)
                return 0
            fence = self.leader.check(connection)
            now = now or watch.now
            told = self._tell(connection, scopes, watch, now)
            new = self._make_operations(connection, told, now)
            recorded = record(connection, new, fence=fence)
        if recorded:
            log.warning(Event.NOTICES_RECORDED, notices=len(recorded))
        return len(recorded)

    def add(
        self,
        connection: sa.Connection,
        troubles: Sequence[Unreported],
        *,
        now: datetime,
    ) -> None:
        """
        Add troubles that are no ends of operations, such as late runs, to their causes.

        The next look reports them.

        Args:
            connection: In a transaction under the fence.
            troubles: Each only once.
            now: Aware UTC.
        """
        scopes = self._find_scopes(own_actions.fetch_watch(connection))
        if not scopes or not troubles:
            return
        opened = stored.fetch_open(connection)
        sort_in(opened, scopes, troubles, now)
        for notice in opened.values():
            if notice.untold:
                stored.store_notice(connection, notice)

    def _find_scopes(self, watch: own_actions.Watch) -> list[Scope]:
        scopes = []
        if self.mail or self.webhook:
            mail = tuple(dict.fromkeys(self.mail))
            scopes.append(Scope(INSTALLATION, self.zone, mail, self.webhook))
        for uid, zone, document in watch.apps:
            try:
                asked = NoticesModel.model_validate(document)
            except ValidationError as error:
                # Somebody wrote this past the door; the other apps get their notices.
                log.warning(Event.NOTICES_UNREADABLE, app=uid, error=str(error))
                continue
            mail = tuple(dict.fromkeys(asked.mail))
            scopes.append(Scope(uid, zone or self.zone, mail, asked.webhook))
        return scopes

    def _tell(
        self,
        connection: sa.Connection,
        scopes: Sequence[Scope],
        watch: own_actions.Watch,
        now: datetime,
    ) -> list[tuple[Notice, dict[str, Any]]]:
        """Add new failures to their causes; return the notices that are due now."""
        everybody = any(scope.app == INSTALLATION for scope in scopes)
        # A clock that was set back must not hide failures until it has caught up.
        since = min(watch.noticed_until or watch.now, watch.now)
        troubles = stored.fetch_unreported(
            connection,
            since=since,
            apps=None if everybody else [scope.app for scope in scopes],
            limit=MOST_AT_ONCE,
        )
        opened = stored.fetch_open(connection)
        if troubles:
            stored.mark_noticed(connection, troubles)
            sort_in(opened, scopes, troubles, now)
        told = _tell_each(connection, opened, scopes, now)
        self.is_behind = len(troubles) >= MOST_AT_ONCE
        until = watch.noticed_until
        # Not every minute: the next look goes back further than that anyway.
        if not self.is_behind and (
            until is None or abs(watch.now - until) >= stored.OVERLAP / 2
        ):
            own_actions.record_watch(connection, watch.now)
        return told

    def _make_operations(
        self,
        connection: sa.Connection,
        told: Sequence[tuple[Notice, dict[str, Any]]],
        now: datetime,
    ) -> list[NewOperation]:
        if not told:
            return []
        stored.forget_old_notices(connection, now=now)
        revision = own_actions.ensure_notices(connection)
        if revision is None:
            return []
        return [
            make_notice_operation(notice.operation_id, facts, revision, now)
            for notice, facts in told
        ]


def _tell_each(
    connection: sa.Connection, opened: Open, scopes: Sequence[Scope], now: datetime
) -> list[tuple[Notice, dict[str, Any]]]:
    """Return the notices that are due, one for a cause, and store all causes."""
    told = []
    by_app = {scope.app: scope for scope in scopes}
    for notice in opened.values():
        scope = by_app.get(notice.scope)
        if scope is None:  # nobody asks for these notices any more
            stored.close_notice(connection, notice, now=now)
        elif _is_over(connection, notice, now):
            told.append((notice, notice.tell(scope, NoticeKind.RECOVERED, now=now)))
            stored.store_notice(connection, notice)
            stored.close_notice(connection, notice, now=now)
        elif stored.is_stale(notice, now=now):
            stored.close_notice(connection, notice, now=now)
        elif notice.untold:
            if notice.is_due(now):
                told.append((notice, notice.tell(scope, notice.kind, now=now)))
            stored.store_notice(connection, notice)
    return told


def _is_over(connection: sa.Connection, notice: Notice, now: datetime) -> bool:
    if notice.kind in stored.ENDLESS or notice.told_at is None:
        return False
    if now - notice.last_at < CALM:
        return False
    if notice.kind is NoticeKind.LATE:
        return not stored.has_late(connection, notice)
    succeeded = stored.find_succeeded(connection, notice)
    if not succeeded:
        return False
    idle = own_actions.find_idle(connection, sorted(notice.actions.keys() - succeeded))
    return notice.is_over(succeeded=succeeded, idle=idle, now=now)
