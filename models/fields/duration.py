"""
Spans of time as people write them: ISO 8601 durations. Pure.

Years, months, weeks and days are calendar units, as in RFC 5545: how long they are
depends on where they start, and ``P1D`` after noon is noon. What stands behind the T is
elapsed time: ``PT24H`` after noon on the eve of a clock change is 11:00 or 13:00 on the
wall clock. (pydantic would read ``P1M`` as 30 days, so it never sees a duration.)
"""

from __future__ import annotations

import calendar
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import MAXYEAR, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import isodate

from models.errors import RuleError, UsageError
from models.fields.duration_words import read_duration
from models.fields.strict_model import show
from models.fields.zone import first_instant_at

#: The longest duration accepted: nobody plans further ahead, and instants stay within
#: the range of a datetime.
LONGEST_YEARS = 100

#: Occurrences fall on whole seconds. Which actions may have less than a minute, the
#: action itself knows.
SHORTEST_INTERVAL = timedelta(seconds=1)

_MONTHS_OF_YEAR = 12
_DAYS_OF_YEAR = 365.25
_DAY = timedelta(days=1)

#: Characters; a longer text is not a duration, whatever it says.
_LONGEST_TEXT = 64

#: ISO 8601-1 5.5.2.3, and weeks combined with other units, as isodate allows. Years
#: and months are whole, since half a month has no fixed length. isodate alone would
#: also accept a line feed at the end, a sign, and the form P0003-06-04T12:30:05.
_TEXT = re.compile(
    r"P(?=[0-9T])(?P<years>[0-9]+Y)?(?P<months>[0-9]+M)?"
    r"(?P<weeks>[0-9]+(?:[.,][0-9]+)?W)?(?P<days>[0-9]+(?:[.,][0-9]+)?D)?"
    r"(?:T(?=[0-9])(?:[0-9]+(?:[.,][0-9]+)?H)?(?:[0-9]+(?:[.,][0-9]+)?M)?"
    r"(?:[0-9]+(?:[.,][0-9]+)?S)?)?"
)

_HINT = "Write P7D for seven days, PT90M for 90 minutes, P1M for a calendar month."


@dataclass(frozen=True, slots=True)
class Duration:
    """
    A span of time, never negative.

    Args:
        months: Calendar months, years counted as twelve.
        days: Calendar days, weeks counted as seven.
        rest: Elapsed time, also that of a fraction of a day: P1.5D is P1DT12H.
    """

    months: int
    days: int
    rest: timedelta

    @classmethod
    def parse(cls, text: object) -> Duration:
        """
        Read an ISO 8601 duration of at most 100 years.

        Raises:
            RuleError: If *text* is not a duration, has a sign or a fraction of a month
                or year, or is too long. Zero is accepted; see ``is_zero``.

        >>> Duration.parse("P1Y2MT90M")
        Duration(months=14, days=0, rest=datetime.timedelta(seconds=5400))
        """
        # JSON may have any type here, whatever the annotation of a caller says.
        if not isinstance(text, str) or len(text) > _LONGEST_TEXT:
            raise _unreadable(text)
        match = _TEXT.fullmatch(text)
        if match is None:
            raise _unreadable(text)

        try:
            parsed = isodate.parse_duration(text, as_timedelta_if_possible=False)
            months = int(parsed.years) * _MONTHS_OF_YEAR + int(parsed.months)
            days = _count_days(match["weeks"], match["days"])
            rest = max(parsed.tdelta - days * _DAY, timedelta())
        except OverflowError:
            raise _too_long(text) from None

        if _years(months, parsed.tdelta) > LONGEST_YEARS:
            raise _too_long(text)

        return cls(months, days, rest)

    @classmethod
    def from_elapsed(cls, elapsed: timedelta) -> Duration:
        """Return *elapsed* as people write it: 24 hours of it are called a day."""
        return cls(0, elapsed.days, elapsed - elapsed.days * _DAY)

    @property
    def is_zero(self) -> bool:
        """True if adding it changes nothing."""
        return not self.months and not self.days and not self.rest

    @property
    def is_calendar(self) -> bool:
        """True if how long it is depends on where it starts."""
        return bool(self.months or self.days)

    @property
    def elapsed(self) -> timedelta:
        """All but the months, with days of 24 hours: for what is no date."""
        return self.days * _DAY + self.rest

    def added_to(self, instant: datetime, zone: ZoneInfo) -> datetime:
        """
        Return *instant* plus this duration: months, then days, then the rest.

        Months and days are added in the local calendar of *zone*; in a month that is
        too short, the sum is its last day. If the local time does not exist, it is the
        first instant after the gap; if it occurs twice, the first of the two. What is
        elapsed time is added to that instant.

        Args:
            instant: Aware UTC, up to the year 9890.
            zone: The zone in whose calendar months and days are added.

        Returns:
            Aware UTC datetime.

        Raises:
            OverflowError: If the sum is beyond the year 9999.

        >>> utc = ZoneInfo("UTC")
        >>> january = datetime(2027, 1, 31, 12, tzinfo=utc)
        >>> Duration.parse("P1M").added_to(january, utc).isoformat()
        '2027-02-28T12:00:00+00:00'
        """
        if self.is_calendar:
            local = instant.astimezone(zone).replace(tzinfo=None)
            instant = first_instant_at(self.stepped(local), zone)

        return instant + self.rest

    def stepped(self, local: datetime, count: int = 1) -> datetime:
        """
        Return *local* plus *count* times the months, then *count* times the days.

        Args:
            local: Naive; a date and a time of day on some calendar.
            count: Not negative. Months are added all at once, so that a short one on
                the way cuts nothing off.

        Raises:
            OverflowError: If that is beyond the year 9999.
        """
        if self.months:
            local = add_months(local, count * self.months)
        return local + count * self.days * _DAY

    def __str__(self) -> str:
        """Return the shortest ISO 8601 text that means the same."""
        years, months = divmod(self.months, _MONTHS_OF_YEAR)
        hours, below = divmod(self.rest, timedelta(hours=1))
        minutes, seconds = divmod(below.seconds, 60)
        fraction = f".{self.rest.microseconds:06}".rstrip("0").rstrip(".")
        date = ((years, "Y"), (months, "M"), (self.days, "D"))
        text = "P" + "".join(f"{count}{unit}" for count, unit in date if count)
        time = "".join(f"{n}{unit}" for n, unit in ((hours, "H"), (minutes, "M")) if n)
        if seconds or fraction:
            time += f"{seconds}{fraction}S"
        if time:
            return f"{text}T{time}"

        return "PT0S" if text == "P" else text


def parse_interval(text: str) -> Duration:
    """
    Read the ``every`` of an interval: at least a second, on whole seconds.

    Raises:
        RuleError: As ``Duration.parse``, or if it is shorter or has a fraction.
    """
    every = Duration.parse(text)
    if not every.is_calendar and every.rest < SHORTEST_INTERVAL:
        raise RuleError(f"{text!r} is shorter than a second.", "Write PT1S or more.")
    if every.rest % timedelta(seconds=1):
        msg = f"{text!r} has a fraction of a second; occurrences fall on whole seconds."
        raise RuleError(msg, "Write whole seconds.")

    return every


def read_elapsed(option: str, text: str) -> timedelta:
    """
    Return the duration that *text* names, which has no months or years.

    Raises:
        UsageError: *text* is not such a duration; the message says what *option* takes.
    """
    try:
        duration = Duration.parse(text)
    except RuleError as error:
        raise UsageError(f"{option}: {error}") from None
    if duration.months:
        msg = f"{option}: {text!r} has months, which differ. Count in days: P30D."
        raise UsageError(msg)
    return duration.elapsed


def add_months(local: datetime, months: int) -> datetime:
    """
    Return *local* plus *months*, clamped to the end of the month.

    Raises:
        OverflowError: If that is beyond the year 9999.
    """
    year, month = divmod(local.year * _MONTHS_OF_YEAR + local.month - 1 + months, 12)
    if year > MAXYEAR:
        msg = f"{months} months after {local} is beyond the year {MAXYEAR}"
        raise OverflowError(msg)

    # The calendar module knows the length of a month without building dates.
    day = local.day
    if day > 28:
        day = min(day, calendar.monthrange(year, month + 1)[1])

    return local.replace(year=year, month=month + 1, day=day)


def _count_days(weeks: str | None, days: str | None) -> int:
    """Return the whole days in the text of weeks and days, each with its letter."""
    counts = [Decimal((text or "0D")[:-1].replace(",", ".")) for text in (weeks, days)]
    return int(counts[0] * 7 + counts[1])


def _years(months: int, rest: timedelta) -> float:
    return months / _MONTHS_OF_YEAR + rest.days / _DAYS_OF_YEAR


def _too_long(text: str) -> RuleError:
    return RuleError(
        f"{text!r} is longer than {LONGEST_YEARS} years.",
        "Write a shorter duration, such as P1Y.",
    )


def _unreadable(text: object) -> RuleError:
    shown = repr(text)
    if len(shown) > _LONGEST_TEXT:
        return RuleError(f"{shown[:20]}... is far too long for a duration.", _HINT)

    if not isinstance(text, str):
        return RuleError(f"{shown} is not text.", _HINT)

    if text.startswith(("-", "+", "P-", "P+")):
        msg = f"{shown} has a sign; a duration is never negative and needs no sign."
        return RuleError(msg, "Write it without the sign.")

    if re.fullmatch(r"P[0-9.,YM]*[.,][0-9]+[YM].*", text, re.DOTALL):
        msg = f"{shown} has a fraction of a month or year, whose length varies."
        return RuleError(msg, "Write whole months, or days: P45D.")

    return RuleError(f"{shown} is not an ISO 8601 duration.", _suggest(text))


def _suggest(text: str) -> str:
    """Return the hint for *text*: what its author most likely meant."""
    said = text.strip().upper()
    # "p7d", or "7 days" and "P1H" (without its T)
    for meant in (said, read_duration(said.removeprefix("P"))):
        if _TEXT.fullmatch(meant):
            with suppress(RuleError):  # it is too long
                Duration.parse(meant)
                return f"Write {meant}."

    return _HINT


#: The longest: what takes longer than a month is not waited for.
LONGEST_ELAPSED = timedelta(days=31)


def parse_elapsed(text: str) -> timedelta:
    """
    Read an ISO 8601 duration of hours, minutes and seconds: PT36H, never P1D.

    Days are left to those durations for which the calendar matters.

    Raises:
        RuleError: It is not such a duration, is zero, or is longer than a month.

    >>> parse_elapsed("PT90M")
    datetime.timedelta(seconds=5400)
    """
    elapsed = Duration.parse(text).rest
    if not text.startswith("PT"):
        msg = (
            f"{show(text)} has days or longer units, whose length depends on the date."
        )
        raise RuleError(msg, "Write hours, minutes and seconds: PT24H for a day.")
    if not elapsed:
        hint = "Write PT1M, for instance."
        raise RuleError(f"{show(text)} is no time at all.", hint)
    if elapsed > LONGEST_ELAPSED:
        raise RuleError(f"{show(text)} is more than a month.", "Write at most PT744H.")
    return elapsed


def recall_elapsed(stored: str | None) -> timedelta | None:
    """
    Return what a document has stored, as ``parse_elapsed`` reads it.

    None: it has nothing; or a newer version has written what this one cannot read, for
    which whoever leads must not end.
    """
    with suppress(RuleError):
        return None if stored is None else parse_elapsed(stored)
    return None


def write_elapsed(seconds: int) -> str:
    """
    Return *seconds* of elapsed time: hours, never days, which the calendar counts.

    >>> write_elapsed(90), write_elapsed(259_200)
    ('PT1M30S', 'PT72H')
    """
    return str(Duration(0, 0, timedelta(seconds=seconds)))
