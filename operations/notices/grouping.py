"""
How failures become notices: which belong together, and when they are reported. Pure.

Failures with the same cause make one notice, whichever actions they belong to. While
the cause lasts, further failures are only counted, and reported ever less often.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from models.decision import get_action_name
from models.fields.addresses import name_monitor
from models.occurrence import str_to_uuid
from operations.reasons import clean_line, find_cause, make_cause_key

#: Key of the notice's facts in the details of the operation.
DETAILS_KEY = "notice"

#: Pause between the first notice of a cause and one that says "more"; then twice that,
#: and so on.
FIRST_PAUSE = timedelta(hours=1)

LONGEST_PAUSE = timedelta(days=1)

#: Pause if another action fails with the same cause: it may be somebody else's action.
JOIN_PAUSE = timedelta(minutes=5)

#: A cause is over only if no failure was added for so long: an action that alternately
#: fails and succeeds must not send two mails a minute.
CALM = timedelta(minutes=5)

#: A cause without further failures is forgotten after this time.
FORGET_AFTER = timedelta(days=30)

#: Open causes of one scope; further causes are reported together, as various. An app
#: with different words in each error must not fill anybody's mailbox.
MOST_CAUSES = 20

#: Actions that are remembered for one cause; failures of others are only counted.
MOST_ACTIONS = 1_000

#: How many actions and operations a notice lists.
ACTIONS_NAMED = 10
OPERATIONS_NAMED = 5

#: The scope of the installation: all small apps.
INSTALLATION = ""

_VARIOUS = "various causes"


class NoticeKind(StrEnum):
    """What a notice reports."""

    FAILED = "failed"
    MISSED = "missed"
    UNCERTAIN = "uncertain"
    LATE = "late"
    RESTED = "rested"
    RECOVERED = "recovered"
    TEST = "test"  # somebody tries whether it arrives


@dataclass(frozen=True, slots=True)
class Unreported:
    """
    An operation that must be reported.

    Args:
        cause: One line.
        count: 1 for a failed operation; otherwise the number of missed occurrences or
            of uncertain mails.
        at: When it became known, aware UTC.
    """

    operation_id: UUID
    app: str
    action_uid: str
    action_name: str
    kind: NoticeKind
    cause: str
    occurrence: datetime
    at: datetime
    count: int = 1


@dataclass(frozen=True, slots=True)
class Scope:
    """
    A group of addresses, and the small apps whose notices they get.

    Args:
        app: Uid of the small app. INSTALLATION: all small apps.
        zone: IANA name of the zone in which local times are given, besides UTC.
        mail: Mail addresses.
        webhook: URL. None: no requests are sent.
    """

    app: str
    zone: str
    mail: tuple[str, ...] = ()
    webhook: str | None = None


_LISTED = ("app", "name", "count", "occurrence")


@dataclass(slots=True)
class Notice:
    """
    A cause that lasts; a row of ``notices``.

    Args:
        actions: For each uid: app, name, count, the last failure (``last_at``,
            ``occurrence``), and whether it was reported (``told``).
        examples: Ids of operations, the latest failures last.
    """

    id: UUID
    scope: str
    kind: NoticeKind
    cause_key: str
    cause: str
    opened_at: datetime
    last_at: datetime
    count: int = 0
    untold: int = 0
    told_at: datetime | None = None
    tellings: int = 0
    actions: dict[str, dict[str, Any]] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)

    def add(self, trouble: Unreported) -> None:
        """Add *trouble* to the counts and examples."""
        self.count += trouble.count
        self.untold += trouble.count
        self.last_at = max(self.last_at, trouble.at)
        kept = [*self.examples, str(trouble.operation_id)]
        self.examples = kept[-OPERATIONS_NAMED:]
        known = self.actions.get(trouble.action_uid)
        if known is None:
            if len(self.actions) >= MOST_ACTIONS:
                return
            known = {"app": trouble.app, "count": 0, "told": False}
            self.actions[trouble.action_uid] = known
        known["name"] = trouble.action_name
        known["count"] += trouble.count
        known["last_at"] = _latest(known.get("last_at"), trouble.at)
        known["occurrence"] = _latest(known.get("occurrence"), trouble.occurrence)

    def is_due(self, now: datetime) -> bool:
        """Return whether it is time to report what was not reported yet."""
        if not self.untold:
            return False
        if self.told_at is None:
            return True
        pause: timedelta = min(FIRST_PAUSE * 2 ** (self.tellings - 1), LONGEST_PAUSE)
        if any(not action["told"] for action in self.actions.values()):
            pause = JOIN_PAUSE
        return now - self.told_at >= pause

    def tell(self, scope: Scope, kind: NoticeKind, *, now: datetime) -> dict[str, Any]:
        """
        Return the facts of a notice, as JSON, and count them as reported.

        Args:
            scope: Who gets the notice.
            kind: The kind of this cause, or RECOVERED.
            now: Aware UTC.
        """
        is_more = self.tellings > 0 and kind is not NoticeKind.RECOVERED
        facts = {
            "kind": str(kind),
            "was": str(self.kind),
            "app": scope.app or None,
            "zone": scope.zone,
            "cause": self.cause,
            "count": self.untold if is_more else self.count,
            "total": self.count,
            "more": is_more,
            "first_at": self.opened_at.isoformat(),
            "last_at": self.last_at.isoformat(),
            "actions": [
                {"uid": uid, **{key: action[key] for key in _LISTED}}
                for uid, action in sorted(
                    self.actions.items(), key=lambda item: -item[1]["count"]
                )[:ACTIONS_NAMED]
            ],
            "action_count": len(self.actions),
            "operations": list(self.examples),
            "mail": list(scope.mail),
            "webhook": scope.webhook,
        }
        self.untold = 0
        self.told_at = now
        self.tellings += 1
        for action in self.actions.values():
            action["told"] = True
        return facts

    @property
    def operation_id(self) -> UUID:
        """Id of the operation of the latest notice; the same for any leader."""
        return str_to_uuid(f"{self.id} | {self.tellings}")

    def is_over(
        self, *, succeeded: Iterable[str], idle: Iterable[str], now: datetime
    ) -> bool:
        """
        Return whether all failed actions have succeeded since.

        Args:
            succeeded: Uids of actions that have succeeded since their last failure.
            idle: Uids of actions that are not due again, and so need not succeed.
            now: Aware UTC.
        """
        works = self.actions.keys() & set(succeeded)
        left = self.actions.keys() - works - set(idle)
        return bool(works) and not left and now - self.last_at >= CALM


Open = dict[tuple[str, NoticeKind, str], Notice]


def sort_in(
    notices: Open,
    scopes: Sequence[Scope],
    troubles: Sequence[Unreported],
    now: datetime,
) -> None:
    """
    Add each of *troubles* to its notice, in each scope that gets it.

    Args:
        notices: Open notices, by scope, kind and key; new ones are added.
        scopes: Who gets notices.
        troubles: Each operation only once.
        now: Aware UTC.
    """
    for scope in scopes:
        for trouble in troubles:
            if scope.app not in {INSTALLATION, trouble.app}:
                continue
            cause, key = trouble.cause, make_cause_key(trouble.cause)
            if trouble.kind is NoticeKind.LATE:
                key = cause  # which has no number but the one that was not kept to
            place = (scope.app, trouble.kind, key)
            if place not in notices and _is_full(notices, scope.app, trouble.kind):
                cause, key = f"{_VARIOUS}; one is: {cause}", _VARIOUS
                place = (scope.app, trouble.kind, key)
            if place not in notices:
                name = f"notice | {' | '.join(place)} | {now.isoformat()}"
                notices[place] = Notice(
                    id=str_to_uuid(name),
                    scope=scope.app,
                    kind=trouble.kind,
                    cause_key=key,
                    cause=cause,
                    opened_at=trouble.at,
                    last_at=trouble.at,
                )
            notices[place].add(trouble)


def _is_full(notices: Open, scope: str, kind: NoticeKind) -> bool:
    same = sum(1 for place in notices if place[:2] == (scope, kind))
    return same >= MOST_CAUSES


def make_trouble(
    row: Any,
    kind: NoticeKind,
    *,
    mails: int = 0,
    cause: str | None = None,
    at: datetime | None = None,
) -> Unreported:
    """
    Return the trouble of an operation's row.

    Args:
        mails: How many of its mails are uncertain.
        cause: None: the reason and error of the row.
        at: When it became known, aware UTC. None: when it ended.
    """
    details: Mapping[str, Any] = row.details or {}
    cause, count = cause or find_cause(row.reason, row.error), 1
    if kind is NoticeKind.UNCERTAIN:
        cause, count = "a mail server or a worker failed while mails were sent", mails
    elif kind is NoticeKind.MISSED:
        count = int(details.get("count", 1))
    return Unreported(
        operation_id=row.id,
        app=row.app,
        action_uid=row.action_uid,
        action_name=clean_line(get_action_name(row.triggered_by)),
        kind=kind,
        cause=cause,
        occurrence=row.occurrence,
        at=at or row.finished_at,
        count=count,
    )


def _latest(known: str | None, instant: datetime) -> str:
    """Return the later of two instants, as JSON keeps them."""
    if known is not None and datetime.fromisoformat(known) >= instant:
        return known
    return instant.isoformat()


def hide_webhook(details: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """
    Return the *details* of an operation; of a notice's webhook, the host alone.

    Whoever knows the rest can post there, too.
    """
    if not details or not (facts := details.get(DETAILS_KEY)):
        return details
    if not (webhook := facts.get("webhook")):
        return details
    return {**details, DETAILS_KEY: {**facts, "webhook": name_monitor(webhook)}}
