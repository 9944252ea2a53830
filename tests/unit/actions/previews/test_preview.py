"""A preview shows what the tick will do, and what may surprise about it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from actions.occurrences import find_due, make_schedule
from actions.previews.preview import Preview, make_preview
from models.json_form import write_json
from models.timing import make_timing
from tests.unit.actions.rules import make_action

NEW_YORK = ZoneInfo("America/New_York")
NOVEMBER = datetime(2026, 11, 21, tzinfo=UTC)
MARCH = datetime(2027, 3, 27, tzinfo=UTC)
OCTOBER = datetime(2026, 10, 24, tzinfo=UTC)

SPRING = "28 March 2027, Europe/Paris: clocks go from 02:00 to 03:00"
AUTUMN = "31 October 2027, Europe/Paris: clocks go back from 03:00 to 02:00"

MANY = "02:00, 02:01, 02:02, 02:03 and others"
GAP = "02:30 does not exist on this day; due at the first instant after the gap"
ELAPSED = "hours of an interval are elapsed time, so local times shift from then on"


def preview(
    when: object,
    fields: Mapping[str, object] | None = None,
    *,
    start: datetime = NOVEMBER,
    end: datetime | None = None,
    count: int = 4,
) -> Preview:
    """Return the preview of an action that is due as *when* says."""
    action = make_action(when, **(fields or {}))
    timing = make_timing(action, holidays={}, created_at=start)
    return make_preview(
        action, timing, start=start, end=end, count=count, viewer_zone=NEW_YORK
    )


def in_paris(rule: str) -> dict[str, str]:
    """Return a cron rule of Paris."""
    return {"cron_rule": rule, "timezone": "Europe/Paris"}


def grid(every: str, anchor: str) -> dict[str, str]:
    """Return an interval of Paris."""
    return {"every": every, "anchor": anchor, "timezone": "Europe/Paris"}


def test_occurrence_is_shown_in_three_zones() -> None:
    """UTC, the zone of the rule, and the zone of whoever looks."""
    shown = json.loads(write_json(preview(in_paris("0 7 * * 1"), count=1)))

    assert "Mondays at 07:00, Europe/Paris" == shown["sentence"]
    assert [
        {
            "utc": "2026-11-23T06:00:00Z",
            "local": "2026-11-23T07:00:00+01:00",
            "zone": "Europe/Paris",
            "offset": "+01:00",
            "viewer": "2026-11-23T01:00:00-05:00",
            "viewer_zone": "America/New_York",
            "sent_at": "2026-11-23T06:00:00Z",
            "moved_from": [],
            "notes": [],
        }
    ] == shown["occurrences"]
    assert [] == shown["notes"]


def test_preview_ends_where_it_is_told() -> None:
    """The end is exclusive."""
    end = datetime(2026, 11, 30, 6, tzinfo=UTC)

    shown = preview(in_paris("0 7 * * 1"), end=end)

    assert [datetime(2026, 11, 23, 6, tzinfo=UTC)] == [
        each.at for each in shown.occurrences
    ]


def test_skipped_time_is_explained() -> None:
    """On the night clocks go forward 02:30 runs at 03:00, and both say why."""
    shown = preview(in_paris("30 2 * * *"), start=MARCH, count=2)

    assert datetime(2027, 3, 28, 1, tzinfo=UTC) == shown.occurrences[1].at
    offset = "UTC offset is +02:00 from here on, was +01:00"
    assert (GAP, offset) == shown.occurrences[1].notes


def test_repeated_time_is_explained() -> None:
    """On the night clocks go back 02:30 runs at its first pass."""
    shown = preview(in_paris("30 2 * * *"), start=OCTOBER, count=3)

    assert [
        (),
        ("02:30 comes twice on this day; this is the first pass",),
        ("UTC offset is +01:00 from here on, was +02:00",),
    ] == [each.notes for each in shown.occurrences]


INSTEAD = "does not exist: runs at 03:00 instead"
AT_FIRST = "comes twice: runs once, at the first pass"


@pytest.mark.parametrize(
    ("when", "spring", "autumn"),
    [
        (in_paris("30 2 * * *"), f"02:30 {INSTEAD}", f"02:30 {AT_FIRST}"),
        (
            in_paris("*/30 * * * *"),
            "02:00 and 02:30 do not exist: no runs of their own",
            "02:00 and 02:30 come twice: runs both times",
        ),
        # 03:00 is due anyway, and counts once
        (
            in_paris("0 2,3 * * *"),
            "02:00 does not exist: no run of its own",
            f"02:00 {AT_FIRST}",
        ),
        (
            {"calendar": "Sun 02:15 Europe/Paris"},
            *(f"02:15 {INSTEAD}", f"02:15 {AT_FIRST}"),
        ),
        (
            {"calendar": "*-*-* *:*:00", "timezone": "Europe/Paris"},
            f"{MANY} do not exist: no runs of their own",
            f"{MANY} come twice: runs both times",
        ),
        (grid("P1M", "2026-01-31T02:30"), None, f"02:30 {AT_FIRST}"),
        (grid("PT24H", "2026-01-01T07:00"), ELAPSED, None),
        (grid("P1DT12H", "2026-01-01T07:00"), ELAPSED, None),
        (grid("P1D", "2026-01-01T02:30"), f"02:30 {INSTEAD}", f"02:30 {AT_FIRST}"),
        (grid("P1W", "2026-01-01T07:00"), None, None),
        (in_paris("0 7 * * *"), None, None),
        (in_paris("30 2 * * 3"), None, None),
        ({"cron_rule": "30 2 * * *"}, None, None),
        ({"every": "PT24H"}, None, None),
        ({"due_date": "2026-12-01T02:30", "timezone": "Europe/Paris"}, None, None),
    ],
)
def test_next_nights_that_touch_the_rule_are_told(
    when: object, spring: str | None, autumn: str | None
) -> None:
    """Only rules that are due in a gap or a repeated hour have such nights."""
    nights = (SPRING, spring), (AUTUMN, autumn)

    assert preview(when).notes == tuple(f"{on}; {what}" for on, what in nights if what)


def test_nights_outside_the_bounds_are_not_told() -> None:
    """A clock change outside the bounds, or on an excluded day, is no news."""
    rule = in_paris("30 2 * * *")

    starting = preview(rule, {"starts_at": "2027-06-01T00:00:00Z"})
    ending = preview(rule, {"ends_at": "2027-06-01T00:00:00Z"})
    excluding = preview(rule, {"except": ["2027-03-28", "2027-10-31"]})

    assert [AUTUMN] == [note.partition(";")[0] for note in starting.notes]
    assert [SPRING] == [note.partition(";")[0] for note in ending.notes]
    assert () == excluding.notes


def test_date_that_never_came_is_not_made_up_for() -> None:
    """Samoa left out 30 December 2011, and a rule of that day."""
    shown = preview(
        {"cron_rule": "0 7 30 12 *", "timezone": "Pacific/Apia"},
        start=datetime(2011, 12, 1, tzinfo=UTC),
        count=1,
    )

    assert 2012 == shown.occurrences[0].at.year
    assert any(
        "07:00 does not exist: no run of its own" in note for note in shown.notes
    )


def test_each_rule_of_a_list_has_its_own_zone() -> None:
    """An occurrence is shown in the zone of the rule that is due."""
    shown = preview(
        [in_paris("0 7 * * *"), {"cron_rule": "0 7 * * *", "timezone": "Asia/Tokyo"}],
        count=2,
    )

    assert ["Europe/Paris", "Asia/Tokyo"] == [
        str(each.local.tzinfo) for each in shown.occurrences
    ]
    assert [7, 7] == [each.local.hour for each in shown.occurrences]


def test_leap_days_are_marked() -> None:
    """29 February comes every fourth year, mostly."""
    shown = preview({"cron_rule": "0 0 29 2 *"}, count=2)

    assert [2028, 2032] == [each.at.year for each in shown.occurrences]
    assert [("leap day",), ("leap day",)] == [each.notes for each in shown.occurrences]


def test_months_may_be_counted_from_the_first_day_there_is() -> None:
    """1 January 1970 in UTC is 1969 in New York, which no document could write."""
    monthly = {"every": "P1M", "anchor": "1970-01-01T00:00:00Z"}

    shown = preview({**monthly, "timezone": "America/New_York"}, count=1)

    assert [datetime(2026, 12, 1, tzinfo=UTC)] == [
        each.at for each in shown.occurrences
    ]


def test_tasks_alone_are_sent_at_their_second() -> None:
    """The leader sends them itself, and looks between two ticks."""
    fields = {"operations": {"run_task": {"name": "shop.look"}}}

    shown = preview({"every": "PT20S"}, fields, count=4)

    assert [0, 20, 40, 60] == [
        (each.sent_at - NOVEMBER).total_seconds() for each in shown.occurrences
    ]
    assert () == shown.notes


def test_seconds_wait_for_the_next_tick() -> None:
    """What falls between two ticks is sent at the later one, as the preview says."""
    fields = {"operations": {"send_email": {"template": "hello"}}}
    shown = preview({"calendar": "*:*:0/30"}, fields, count=3)

    minute = datetime(2026, 11, 21, 0, 1, tzinfo=UTC)
    assert [NOVEMBER, minute, minute] == [each.sent_at for each in shown.occurrences]
    assert (
        "Finer than a minute: sent at the next tick, on the minute.",
    ) == shown.notes


def test_jitter_is_shown_for_a_known_uid() -> None:
    """The minute that is shown is the one the tick takes."""
    fields = {"jitter": "PT30M", "uid": "weekly"}
    shown = preview(in_paris("0 7 * * 1"), fields, count=1)

    timing = make_timing(
        make_action(in_paris("0 7 * * 1"), **fields), holidays={}, created_at=NOVEMBER
    )
    assert timing is not None
    (due,) = find_due(
        make_schedule(timing),
        "weekly",
        start=NOVEMBER,
        now=datetime(2026, 11, 24, tzinfo=UTC),
    )
    assert due.due_at == shown.occurrences[0].sent_at
    minutes = (due.due_at - due.occurrence).seconds // 60
    assert (f"sent {minutes} min later (jitter)",) == shown.occurrences[0].notes


def test_jitter_without_uid_is_announced() -> None:
    """Before an action is posted nobody knows its minute."""
    shown = preview(in_paris("0 7 * * 1"), {"jitter": "PT30M"})

    assert shown.notes[0].startswith("Each run is sent up to 30 min later")
    assert shown.occurrences[0].at == shown.occurrences[0].sent_at


NOT_AGAIN = "Never due again: the due date has passed or is left out."
ENDED = {"ends_at": "2026-01-01T00:00:00Z"}


def test_moved_occurrence_says_from_where() -> None:
    """A note and a key; who runs on that day anyway has neither."""
    fields = {
        "except": [{"weekdays": ["Sat", "Sun"]}, "2026-12-25"],
        "instead": "before",
    }
    shown = preview(in_paris("0 18 25,26,28 * *"), fields, count=5)
    found = [
        (each.local.date().isoformat(), each.notes[:1], [*map(str, each.moved_from)])
        for each in shown.occurrences
    ]

    assert [
        ("2026-11-25", (), []),
        ("2026-11-26", (), []),
        ("2026-11-27", ("moved from 28 November 2026",), ["2026-11-28"]),
        (
            "2026-12-24",
            ("moved from 25 December 2026 and 26 December 2026",),
            ["2026-12-25", "2026-12-26"],
        ),
        ("2026-12-28", (), []),
    ] == found
    assert not shown.notes


def test_moved_into_a_gap_says_so() -> None:
    """02:30 of Saturday, moved to the Sunday on which it does not exist."""
    fields = {"except": ["2027-03-27"], "instead": "after"}
    shown = preview(
        in_paris("30 2 27 3 *"), fields, start=datetime(2027, 3, 1, tzinfo=UTC), count=1
    )

    assert datetime(2027, 3, 28, 1, tzinfo=UTC) == shown.occurrences[0].at
    assert ("moved from 27 March 2027", GAP) == shown.occurrences[0].notes


def test_what_cannot_be_moved_is_left_out() -> None:
    """More than a year of excepted days is left out, even if it could be moved."""
    years = {"from": "2026-12-01", "until": "2028-06-30"}
    fields = {"except": [years], "instead": "after"}

    shown = preview(in_paris("0 7 1 * *"), fields, count=1)

    assert "2028-07-01" == shown.occurrences[0].local.date().isoformat()


@pytest.mark.parametrize(
    ("when", "fields", "end", "note"),
    [
        ({"due_date": "2020-01-01T00:00"}, {}, None, NOT_AGAIN),
        *(
            (when, ENDED, None, "Never due again: ends_at has passed.")
            for when in ({"cron_rule": "0 7 * * *"}, {"on": "app.x"})
        ),
        (
            *({"calendar": "2020-01-01"}, {}, None),
            "Never due again: no date matches within the bounds.",
        ),
        (
            {"cron_rule": "0 7 * * 1"},
            {},
            datetime(2026, 11, 22, tzinfo=UTC),
            "Nothing is due before 2026-11-22T00:00:00Z; next at 2026-11-23T07:00:00Z.",
        ),
    ],
)
def test_nothing_to_show_is_explained(
    when: object, fields: dict[str, object], end: datetime | None, note: str
) -> None:
    """An empty preview says why it is empty."""
    shown = preview(when, fields, end=end)

    assert () == shown.occurrences
    assert (note,) == shown.notes


def test_event_action_has_a_sentence_only() -> None:
    """Nobody knows when users will do what the action waits for."""
    shown = preview(
        {"after": "instance.user.last_seen", "delay": "P7D"}, {"active": "false"}
    )

    assert "7 days after a user was last seen" == shown.sentence
    assert () == shown.occurrences
    assert (
        "Not active: nothing runs until 'active' is true.",
        "Occurrences depend on events, so none can be foreseen.",
    ) == shown.notes
