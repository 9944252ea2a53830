"""What users of other schedulers bring along, row by row, and what it becomes."""

from __future__ import annotations

import pickle
from typing import Any

from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from actions.importing.origins.apscheduler import fill_from_job
from actions.importing.origins.celery_beat import BeatEntry, fill_from_beat
from actions.importing.origins.crontab import fill_from_crontab, read_crontab
from actions.importing.origins.django_celery_beat import DjangoRow, fill_from_django
from actions.importing.origins.imported import Imported, ImportVerdict
from actions.importing.origins.kubernetes import CronJob, fill_from_cron_job
from actions.importing.origins.redbeat import RedbeatEntry, fill_from_redbeat
from actions.importing.readers.apscheduler_jobs import read_job
from tests.unit.actions.importing.documents import (
    NOW,
    get_step,
    get_when,
    import_one,
)

PARIS = {"timezone": "Europe/Paris"}


def beat(schedule: dict[str, Any], **options: Any) -> Imported:
    args, kwargs = options.pop("args", ()), options.pop("kwargs", {})
    entry = BeatEntry(
        "it", "proj.task", args, kwargs, options, schedule, "Europe/Paris"
    )
    return import_one(entry, fill_from_beat)


def crontab(**fields: Any) -> dict[str, Any]:
    return {"kind": "crontab", **fields}


def django(kind: str, schedule: dict[str, Any], **columns: Any) -> Imported:
    task = {
        "name": "it",
        "task": "proj.task",
        "args": "[1]",
        "kwargs": "{}",
        "enabled": True,
        "one_off": False,
        "headers": "{}",
        **columns,
    }
    return import_one(DjangoRow(task, kind, schedule), fill_from_django)


def cron_row(**fields: str) -> dict[str, str]:
    stars = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
    return {**dict.fromkeys(stars, "*"), "timezone": "Asia/Tokyo", **fields}


def redbeat(schedule: str) -> Imported:
    text = '{"name": "it", "task": "proj.task", "schedule": ' + schedule + "}"
    return import_one(RedbeatEntry("redbeat:it", text), fill_from_redbeat)


def job(trigger: Any, **state: Any) -> Imported:
    kept = {
        "func": "shop:report",
        "args": (),
        "kwargs": {},
        "next_run_time": NOW,
        "trigger": trigger,
        "misfire_grace_time": 1,
        **state,
    }
    return import_one(read_job("it", pickle.dumps(kept)), fill_from_job)


def lines(text: str, *, has_user: bool = False) -> list[Imported]:
    found = read_crontab(text, has_user=has_user)
    return [import_one(line, fill_from_crontab) for line in found]


def test_row_1_seven_each_day():
    """
    A plain crontab is a cron rule, exactly.
    """
    found = beat(crontab(minute=0, hour=7))

    assert (found.verdict, get_when(found)) == (
        ImportVerdict.EXACT,
        {"cron_rule": "0 7 * * *", **PARIS},
    )


def test_row_2_office_hours():
    """
    Steps, ranges and names stay as they were written.
    """
    found = beat(crontab(minute="*/15", hour="9-17", day_of_week="mon-fri"))

    assert get_when(found) == {"cron_rule": "*/15 9-17 * * mon-fri", **PARIS}


def test_row_3_both_days_must_hold():
    """
    A calendar rule says it, and the report says why it is none of cron.
    """
    found = beat(crontab(minute=0, hour=0, day_of_month="1", day_of_week="mon"))

    assert get_when(found) == {"calendar": "Mon *-*-01 00:00", **PARIS}
    assert ImportVerdict.DIFFERS is found.verdict
    assert "both hold" in found.notes[0]


def test_row_4_intervals_are_a_grid():
    """
    Half an hour, five minutes, 90 seconds; counted from the post, not the last run.
    """
    found = [beat({"kind": "interval", "seconds": s}) for s in (1800, 300.0, 90)]

    assert [get_when(each)["every"] for each in found] == ["PT30M", "PT5M", "PT1M30S"]
    assert {each.verdict for each in found} == {ImportVerdict.DIFFERS}
    assert all("fixed grid" in each.notes[0] for each in found)


def test_row_5_and_6_below_a_minute_and_the_sun():
    """
    Neither can be, and each says what to do.
    """
    short = beat({"kind": "interval", "seconds": 10.0})
    sun = beat({"kind": "solar", "event": "sunset", "latitude": 1, "longitude": 2})

    assert {ImportVerdict.CANNOT_BE} == {short.verdict, sun.verdict}
    assert "in a loop" in short.notes[0]
    assert "due date" in sun.notes[0]


def test_row_8_days_of_django_are_local_days():
    """
    Three days are the same time of day, and it is said that it was 72 hours.
    """
    found = django("interval", {"every": 3, "period": "days"})

    assert get_when(found)["every"] == "P3D"
    assert "PT72H" in found.notes[1]


def test_row_9_crontab_of_django_has_its_zone():
    """
    The zone is that of the row, not the default.
    """
    found = django("crontab", cron_row(minute="0", hour="7"))

    assert get_when(found) == {"cron_rule": "0 7 * * *", "timezone": "Asia/Tokyo"}
    assert ImportVerdict.EXACT is found.verdict


def test_row_10_once():
    """
    A clocked task is a due date; a one-off crontab is its next occurrence.
    """
    clocked = django("clocked", {"clocked_time": "2026-12-01 08:00:00"}, one_off=True)
    once = django("crontab", cron_row(minute="0", hour="7"), one_off=True)
    passed = django("clocked", {"clocked_time": "2026-01-01 08:00:00"}, one_off=True)

    assert get_when(clocked)["due_date"] == "2026-12-01T08:00:00+00:00"
    assert get_when(once)["due_date"] == "2026-11-22T22:00:00+00:00"
    assert "runs once" in once.notes[0]
    assert "has passed" in passed.notes[0]


def test_row_11_bounds_and_switch_of_django():
    """
    Disabled is not active; the dates are bounds; a description is not kept.
    """
    found = django(
        "crontab",
        cron_row(),
        enabled=False,
        start_time="2026-12-01 00:00:00",
        expires="2027-12-01 00:00:00",
        description="for the board",
    )
    assert found.document is not None

    assert found.document["active"] is False
    assert found.document["starts_at"] == "2026-12-01T00:00:00+00:00"
    assert found.document["ends_at"] == "2027-12-01T00:00:00+00:00"
    assert "for the board" in " ".join(found.notes)


def test_row_12_and_13_rules_of_redbeat():
    """
    The last Friday of a month; every second week on two days.
    """
    friday = redbeat(
        '{"__type__": "rrule", "freq": 1, "dtstart": 1793610000,'
        ' "byweekday": {"__type__": "weekday", "wkday": 4, "n": -1}}'
    )
    weeks = redbeat(
        '{"__type__": "rrule", "freq": 2, "interval": 2, "dtstart": 1793610000,'
        ' "byweekday": [{"__type__": "weekday", "wkday": 0},'
        ' {"__type__": "weekday", "wkday": 2}]}'
    )

    assert get_when(friday)["cron_rule"].endswith("5L")
    assert [rule["every"] for rule in get_when(weeks)] == ["P2W", "P2W"]


def test_row_14_cron_of_apscheduler():
    """
    Last days and n-th weekdays are exact, years are bounds; seconds cannot be.
    """
    last = job(CronTrigger(day="last", timezone="UTC"))
    second = job(CronTrigger(day="2nd fri", hour=9, timezone="UTC"))
    weeks = job(CronTrigger(week="*/2", day_of_week="mon", timezone="UTC"))
    years = job(CronTrigger(year="2027-2028", timezone="UTC"))
    fine = job(CronTrigger(second="*/15", timezone="UTC"))
    assert years.document is not None

    assert get_when(last)["cron_rule"] == "0 0 L * *"
    assert get_when(second)["cron_rule"] == "0 9 * * 5#2"
    assert {last.verdict, second.verdict, years.verdict} == {ImportVerdict.EXACT}
    assert (get_when(weeks)["every"], weeks.verdict) == ("P2W", ImportVerdict.DIFFERS)
    assert years.document["starts_at"] == "2027-01-01T00:00:00+00:00"
    assert years.document["ends_at"] == "2029-01-01T00:00:00+00:00"
    assert ImportVerdict.CANNOT_BE is fine.verdict


def test_row_15_and_16_interval_and_date_of_apscheduler():
    """
    Jitter, grace, coalescing and instances have their fields; a date is a due date.
    """
    trigger = IntervalTrigger(hours=2, start_date=NOW, timezone="UTC", jitter=120)
    found = job(trigger, misfire_grace_time=None, coalesce=True, max_instances=1)
    once = job(DateTrigger("2026-12-01 09:00:00", timezone="Europe/Paris"))
    assert found.document is not None

    assert get_when(found)["every"] == "PT2H"
    assert found.document["jitter"] == "PT2M"
    assert found.document["catch_up"] == {"runs": "latest"}
    assert found.document["overlap"] == "skip"
    assert get_when(once)["due_date"] == "2026-12-01T09:00:00+01:00"


def test_row_17_lines_of_a_crontab():
    """
    Each line has its report, in the zone of CRON_TZ.
    """
    hourly, daily, reboot = lines(
        "MAILTO=ops\nCRON_TZ=Europe/Paris\n"
        "17 * * * * root cd / && run-parts --report /etc/cron.hourly\n"
        "@daily root backup\n@reboot root start\n",
        has_user=True,
    )

    assert get_when(hourly) == {"cron_rule": "17 * * * *", **PARIS}
    assert get_when(daily) == {"cron_rule": "@daily", **PARIS}
    assert get_step(daily)["kwargs"] == {"command": "backup", "user": "root"}
    assert ImportVerdict.CANNOT_BE is reboot.verdict


def test_row_18_and_19_two_day_fields():
    """
    Either is enough, as in Debian's cron; the first Monday is written otherwise.
    """
    either, first = lines("0 0 1,15 * 5 pay\n0 9 1-7 * MON meet\n")

    assert get_when(either)["cron_rule"] == "0 0 1,15 * 5"
    assert "either of them" in either.notes[0]
    assert "MON#1" in first.notes[0]


def test_row_20_cron_job_of_kubernetes():
    """
    Rule, zone, overlap, what is caught up, and whether it is active.
    """
    spec = {
        "schedule": "0 7 * * *",
        "timeZone": "Europe/Berlin",
        "concurrencyPolicy": "Forbid",
        "startingDeadlineSeconds": 3600,
        "suspend": True,
    }
    found = import_one(CronJob("it", None, spec), fill_from_cron_job)
    assert found.document is not None

    assert get_when(found) == {"cron_rule": "0 7 * * *", "timezone": "Europe/Berlin"}
    assert found.document["overlap"] == "skip"
    assert found.document["catch_up"] == {"runs": "latest", "within": "PT1H"}
    assert found.document["active"] is False
