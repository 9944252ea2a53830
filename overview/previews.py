"""When an action that is not stored would run in its small app."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from actions.lookup import fetch_app
from actions.posting.post import fetch_holidays
from actions.previews.preview import Preview, make_preview
from models.scheduled_action import ScheduledActionModel
from models.timing import DayRange, make_timing


@dataclass(frozen=True, slots=True)
class AppCalendar:
    """
    The time zone and holidays that a small app gives the rules of its actions.

    Args:
        timezone: IANA name, for rules that do not name a zone.

        holidays: The day ranges of each of its holiday calendars.
    """

    timezone: str
    holidays: Mapping[str, Sequence[DayRange]] = field(default_factory=dict)


def fetch_app_calendar(
    connection: sa.Connection, app: str, *, default_timezone: str
) -> AppCalendar:
    """
    Return the zone and the holidays of *app*.

    Args:
        connection: Any.

        app: Uid of a small app.

        default_timezone: IANA name, for an app that has no zone of its own.

    Raises:
        NotFoundError: No such small app.
    """
    zone = fetch_app(connection, app).timezone or default_timezone
    return AppCalendar(zone, fetch_holidays(connection, app))


def preview_action(  # noqa: PLR0913 - those of make_preview, and the clock
    action: ScheduledActionModel,
    calendar: AppCalendar,
    *,
    now: datetime,
    start: datetime | None,
    end: datetime | None,
    count: int,
    viewer_zone: ZoneInfo,
) -> Preview:
    """
    Return what *action* would do if it were posted now; nothing is stored.

    Args:
        action: As the door read it, in the zone of *calendar*.

        calendar: Of its small app; without one, the zone of the installation.

        now: Aware UTC.

        start: Aware, inclusive. None: everything after *now*.

        end: Aware, exclusive. None: no end.

        count: The most occurrences to show.

        viewer_zone: In which times are shown to the caller.
    """
    created_at = now if start is None else start
    timing = make_timing(action, holidays=calendar.holidays, created_at=created_at)
    return make_preview(
        action,
        timing,
        start=now + timedelta.resolution if start is None else start,
        end=end,
        count=count,
        viewer_zone=viewer_zone,
    )
