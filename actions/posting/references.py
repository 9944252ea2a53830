"""
Names in an action that its small app, or the fleet, does not have.

They are not refused, since a small app may be applied after its actions, and a worker
started. But a mistyped name would fail at run time, or reach nobody, so its author is
warned at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import NamedTuple
from urllib.parse import urlsplit

import sqlalchemy as sa

from actions.small_apps.export import (
    fetch_domains,
    fetch_group_names,
    fetch_holidays,
    fetch_names,
)
from models.database.engine import read_clock
from models.database.recipient_filter import are_addressed, select_standing
from models.database.tables import IS_ALIVE, processes, users
from models.errors import Problem
from models.fields.addresses import is_refused
from models.fields.strict_model import find_near, show
from models.operation import EVERYONE, MAILING_STEPS, PublishModel, RecipientFilterModel
from models.operation_state import Queue
from models.scheduled_action import ScheduledActionModel
from models.timing import DayRange
from models.when import EventModel

#: Unknown names that are reported, known ones that a hint lists, filters looked at.
_MOST = 10

#: Users looked up in one statement.
_CHUNK = 1000

#: Users that a mistyped name is compared with; takes some 30 ms.
_COMPARED = 1000


class Wanted(NamedTuple):
    """A filter of recipients, and whether it is for users whose events trigger."""

    who: RecipientFilterModel
    on_event: bool


def get_wanted(action: ScheduledActionModel) -> Wanted | None:
    """Return the filter of *action* if it decides who gets mails, or what runs."""
    on_event = isinstance(action.when, EventModel)
    if action.recipients is None or action.mails_to_nobody:
        return None
    if on_event or not MAILING_STEPS.isdisjoint(action.operations.step_names):
        return Wanted(action.recipients, on_event)
    return None


@dataclass(frozen=True, slots=True)
class References:
    """
    What a small app has that actions may name, and the workers that run.

    Args:
        now: Of the database.
        holidays: The days of the app's holiday calendars.
        unreached: Filters that name users, but leave out each of them as they are now.
    """

    app: str
    now: datetime
    domains: Collection[str]
    documents: Collection[str]
    templates: Collection[str]
    groups: Collection[str]
    users: Collection[str]
    fleet: tuple[FleetWorker, ...] = ()
    holidays: Mapping[str, Sequence[DayRange]] = field(default_factory=dict)
    unreached: Collection[Wanted] = ()


def fetch_references(
    connection: sa.Connection, app: str, actions: Sequence[ScheduledActionModel]
) -> References:
    """
    Return what *app* has now; of its users, those in *actions* and some others.

    Args:
        connection: Nothing is written.
    """
    filters = [each.recipients for each in actions if each.recipients is not None]
    wanted = {user for who in filters for user in who.users}
    names, now = fetch_names(connection, app), read_clock(connection)
    return References(
        app=app,
        now=now,
        domains=_index(row.name for row in fetch_domains(connection, app)),
        documents=_index(names["documents"]),
        templates=_index(names["templates"]),
        groups=_index([EVERYONE, *fetch_group_names(connection, app)]),
        users=_fetch_users(connection, app, sorted(wanted)),
        fleet=fetch_fleet(connection),
        holidays=fetch_holidays(connection, app),
        unreached=_find_unreached(connection, app, actions, now),
    )


def _find_unreached(
    connection: sa.Connection,
    app: str,
    actions: Sequence[ScheduledActionModel],
    now: datetime,
) -> frozenset[Wanted]:
    """Return the filters of *actions* that name users and keep none of them."""
    wanted = dict.fromkeys(each for each in map(get_wanted, actions) if each)
    found = set()
    for each in islice(wanted, _MOST):
        named = sa.select(users.c.id).where(
            users.c.app == app, *are_addressed(each.who, on_event=each.on_event)
        )
        kept = named.where(select_standing(each.who, now).is_(None))
        any_named, any_kept = connection.execute(
            sa.select(sa.exists(named), sa.exists(kept))
        ).one()
        if any_named and not any_kept:
            found.add(each)
    return frozenset(found)


def find_unknown(known: References, action: ScheduledActionModel) -> list[Problem]:
    """
    Return the names in *action* that are not *known*, in the order of its steps.

    Returns:
        A problem for each template, domain, user and group that the app does not have,
        and for each part to publish that it does not have.
    """
    asked, who = action.operations, action.recipients
    lacks = f"small app {known.app!r} has no"
    found: list[Problem] = []
    if asked.refresh is not None:
        wanted = _place("/operations/refresh/domains", asked.refresh.domains or ())
        found += _find_missing(wanted, known.domains, f"{lacks} domain")
    if asked.publish is not None:
        parts = {*known.documents, *(["data"] if known.domains else [])}
        found += _find_unpublishable(known.app, asked.publish, parts)
    if asked.send_email is not None:
        wanted = {"/operations/send_email/template": asked.send_email.template}
        found += _find_missing(wanted, known.templates, f"{lacks} template")
    if who is not None:
        wanted = _place("/recipients/users", who.users)
        found += _find_missing(wanted, known.users, f"{lacks} user")
        wanted = _place("/recipients/groups", who.groups)
        said = f"no user of small app {known.app!r} is in group"
        found += _find_missing(wanted, known.groups, said)
    return found


def _index(names: Iterable[str]) -> dict[str, None]:
    """Return *names* in order, without repetitions, fast to look up."""
    return dict.fromkeys(names)


def _place(pointer: str, names: Sequence[str]) -> dict[str, str]:
    """Return *names* by their pointers in the list at *pointer*."""
    return {f"{pointer}/{n}": name for n, name in enumerate(names)}


def _find_missing(
    wanted: Mapping[str, str], known: Collection[str], said: str
) -> Iterator[Problem]:
    """Yield a problem for each of *wanted* that is not *known*, up to a bound."""
    missing = [each for each in wanted.items() if each[1] not in known]
    for pointer, name in missing[:_MOST]:
        near = find_near(name, known)
        hint = _make_hint(near, known)
        yield Problem(pointer, f"{said} {show(name)}.", hint, instead=near)
    for pointer, _ in missing[_MOST : _MOST + 1]:
        yield Problem(pointer, f"{len(missing) - _MOST:,} more are unknown.", "")


def _make_hint(near: str | None, known: Collection[str]) -> str:
    """Return a hint with the name that is *near*, or else with what there is."""
    if near is not None:
        return f"Did you mean '{near}'?"
    if not known:
        place = "on the page of the app (minutehand apps apply FILE)"
        return f"It has none yet; add some {place}"
    listed = ", ".join(islice(known, _MOST))
    return f"It has: {listed}{', ...' if len(known) > _MOST else ''}."


def _find_unpublishable(
    app: str, asked: PublishModel, parts: Collection[str]
) -> Iterator[Problem]:
    """Yield a problem for each part that *app* lacks; of all three, only if all are."""
    kinds = [kind for kind in PublishModel.model_fields if getattr(asked, kind)]
    missing = [kind for kind in kinds if kind not in parts]
    if len(kinds) == len(PublishModel.model_fields):
        if len(missing) == len(kinds):
            text = f"small app {app!r} has neither domains nor documents to publish."
            yield Problem("/operations/publish", text, "Apply some first.")
        return
    for kind in missing:
        what = "domain" if kind == "data" else f"document {kind!r}"
        text = f"small app {app!r} has no {what} to publish."
        yield Problem(f"/operations/publish/{kind}", text, "Apply one first.")


def _fetch_users(
    connection: sa.Connection, app: str, wanted: Sequence[str]
) -> dict[str, None]:
    """Return ids and addresses of users of *app*: those *wanted*, and some others."""
    if not wanted:
        return {}
    of_app = sa.select(users.c.id, users.c.email).where(users.c.app == app)
    rows = [*connection.execute(of_app.order_by(users.c.id).limit(_COMPARED))]
    for start in range(0, len(wanted), _CHUNK):
        some = wanted[start : start + _CHUNK]
        named = sa.or_(users.c.id.in_(some), users.c.email.in_(some))
        rows += connection.execute(of_app.where(named))
    return _index(each for row in rows for each in row if each)


_SECRET = "MINUTEHAND_WEBHOOK_SECRET"  # noqa: S105 - the name of a setting
_ALLOWED = "MINUTEHAND_WEBHOOK_ALLOWED_HOSTS"

#: Stands for a setting that has no value.
_NOT_SET = "not set"


@dataclass(frozen=True, slots=True)
class FleetWorker:
    """
    A worker that runs.

    Args:
        queues: Those that it takes.
        settings: As it describes them, by variable; none of an older version's that it
            does not know.
    """

    name: str
    queues: tuple[str, ...]
    settings: Mapping[str, str]


def fetch_fleet(connection: sa.Connection) -> tuple[FleetWorker, ...]:
    """Return the workers that gave a sign of life lately."""
    kept = processes.c
    rows = connection.execute(
        sa.select(kept.name, kept.queues, kept.settings)
        .where(kept.role == "worker", IS_ALIVE)
        .order_by(kept.name)
    )
    return tuple(FleetWorker(row.name, tuple(row.queues), row.settings) for row in rows)


def find_failing(
    fleet: tuple[FleetWorker, ...], action: ScheduledActionModel
) -> Iterator[Problem]:
    """Yield what in *action* no worker of *fleet* takes, or what would fail there."""
    queue = action.operations.queue
    if not fleet or queue is Queue.TASKS:
        return  # those are sent by schedulers
    takers = [each for each in fleet if queue in each.queues]
    if not takers:
        message = f"no worker takes the queue {queue.value!r}, so its runs would wait."
        hint = f"Start one for it (minutehand worker -Q {queue})."
        yield Problem("/operations", message, hint)
    asked = action.operations.call_webhook
    if asked is None:
        return
    unsigned = [each for each in takers if each.settings.get(_SECRET) == _NOT_SET]
    for each in unsigned[:1]:
        message = f"worker {each.name!r} has no secret to sign with, so it fails."
        hint = f"An operator sets {_SECRET}."
        yield Problem("/operations/call_webhook", message, hint)
    host = urlsplit(asked.url).hostname or ""
    allowed = (each.settings[_ALLOWED] for each in takers if _ALLOWED in each.settings)
    if any(is_refused(host, map(str.strip, each.split(","))) for each in allowed):
        message = f"{host} is not a public address, so the request is refused."
        hint = f"An operator can allow it in {_ALLOWED}."
        yield Problem("/operations/call_webhook/url", message, hint)
