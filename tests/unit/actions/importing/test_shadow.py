"""What celery beat logged, beside the actions that were imported from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from celery import Celery
from celery.schedules import crontab

from actions.importing.origins.imported import read_schedule
from actions.importing.shadow import (
    BeatLog,
    ShadowAction,
    ShadowEntry,
    ShadowVerdict,
    compare_with_beat,
    read_beat_log,
)
from models.errors import UsageError

BERLIN = ZoneInfo("Europe/Berlin")
LATE = timedelta(seconds=30)
GAP = timedelta(minutes=10)

#: A day before, and a day after, clocks change.
SPRING = datetime(2026, 3, 28, 6, 30, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 24, 6, 30, tzinfo=UTC)
TWO_DAYS = timedelta(days=2)

APP = Celery("shadowed", broker="memory://")
APP.conf.timezone = "Europe/Berlin"


def make_rules() -> dict[str, str]:
    """Return a hundred cron rules by the names of their entries."""
    rules = {f"daily {n}": f"{n * 7 % 60} {n % 24} * * *" for n in range(60)}
    rules |= {f"on weekdays {n}": f"{n} {n % 24} * * 1-5" for n in range(20)}
    return rules | {f"hourly {n}": f"{n * 3} * * * *" for n in range(20)}


def step(rule: str, since: datetime) -> Iterator[datetime]:
    """Yield when Celery's own schedule is due within two days, a moment late."""
    now = last = since
    minute, hour, day, month, weekday = rule.split()
    schedule = crontab(minute, hour, weekday, day, month, app=APP, nowfun=lambda: now)
    while now < since + TWO_DAYS:
        left = schedule.remaining_estimate(last)
        if left <= timedelta():
            yield now + timedelta(milliseconds=3)
            last = now
        else:
            now += left


def write_line(at: datetime, entry: str, zone: ZoneInfo = BERLIN) -> str:
    """Return the line that beat logs."""
    local = at.astimezone(zone)
    clock = f"{local:%Y-%m-%d %H:%M:%S},{local.microsecond // 1000:03}"
    sent = f"Scheduler: Sending due task {entry} (shop.task)"
    return f"[{clock}: INFO/MainProcess] {sent}"


def write_log(sent: dict[str, list[datetime]], since: datetime) -> list[str]:
    """Return the lines of what was *sent*, from the start of beat to its end."""
    first, last = (
        write_line(at, "").replace("Scheduler: Sending due task  (shop.task)", said)
        for at, said in ((since, "beat: Starting..."), (since + TWO_DAYS, "beat: bye"))
    )
    runs = sorted((at, entry) for entry, each in sent.items() for at in each)
    return [first, *(write_line(*run) for run in runs), last]


def make_action(name: str, rule: object) -> ShadowAction:
    """Return the inactive action *name* that is due as *rule* says."""
    timezone = {} if isinstance(rule, dict) else {"timezone": "Europe/Berlin"}
    when = rule if isinstance(rule, dict) else {"cron_rule": rule, **timezone}
    schedule = read_schedule({"when": when}, SPRING)
    return ShadowAction(f"uid of {name}", name, schedule, None)


def compare(log: BeatLog, *actions: ShadowAction) -> list[ShadowEntry]:
    """Return what the command shows at the end of *log*."""
    return compare_with_beat(log, actions, now=log.until, late=LATE, gap=GAP)


def compare_sent(name: str, runs: list[datetime], action: ShadowAction) -> ShadowEntry:
    """Return what is shown of one entry, which beat sent at these instants."""
    log = read_beat_log(write_log({name: runs}, SPRING), BERLIN)
    [found] = compare(log, action)
    return found


@pytest.mark.parametrize("since", [SPRING, AUTUMN], ids=["spring", "autumn"])
def test_hundred_entries_agree_but_for_what_was_planted(since: datetime):
    """Each of ten differences is named, and nothing else but the hour of the clocks."""
    rules = make_rules()
    sent = {entry: list(step(rule, since)) for entry, rule in rules.items()}
    actions = {entry: make_action(entry, rule) for entry, rule in rules.items()}
    minute = timedelta(minutes=1)
    del sent["daily 0"][0]
    sent["daily 1"].append(sent["daily 1"][0] + 90 * minute)
    sent["daily 2"][0] += minute
    sent["daily 3"].append(sent["daily 3"][0] + timedelta(seconds=1))
    sent["only with beat"] = [since + minute]
    sent["daily 4"] = []
    actions["daily 5"] = make_action("daily 5", "36 5 * * *")
    actions["daily 6"] = make_action("daily 6", "42 6 * * 1")
    actions["daily 7"] = make_action(
        "daily 7", {"cron_rule": "49 7 * * *", "timezone": "Asia/Tokyo"}
    )
    actions["daily 8"] = replace(actions["daily 8"], runs_from=since)

    log = read_beat_log(write_log(sent, since), BERLIN)
    found = compare(log, *actions.values())

    planted = {"only with beat", *(f"daily {n}" for n in range(9))}
    differing = {each.name: each.differences for each in found if each.differences}
    assert planted <= differing.keys()
    # The hour that is missing in March, and the one that comes twice in October.
    changed = since.replace(hour=1, minute=0) + timedelta(days=1)
    for name in differing.keys() - planted:
        for each in differing[name]:
            assert changed <= each.at < changed + timedelta(hours=1), name
    expected = {f"hourly {n}" for n in range(20)}
    if since == SPRING:
        expected = {f"daily {n}" for n in range(60) if n % 24 == 2}
    assert differing.keys() - planted == expected - planted


def test_each_difference_is_told():
    """By its instant: what was due, and what was sent."""
    due, sent = (datetime(2026, 3, 28, hour, tzinfo=UTC) for hour in (7, 9))

    found = compare_sent("mail", [sent], make_action("mail", "0 8 28 * *"))

    assert found.verdict is ShadowVerdict.DIFFERS
    assert [(each.at, each.told) for each in found.differences] == [
        (due, "due here; beat did not send it"),
        (sent, "beat sent it; not due here"),
    ]
    assert found.gap is None


def test_entry_that_agrees_is_taken_over_between_two_runs():
    """The first gap that is long enough, without the run that it begins after."""
    sent = list(step("*/5 8 * * *", SPRING))

    found = compare_sent("often", sent, make_action("often", "*/5 8 * * *"))

    assert found.verdict is ShadowVerdict.AGREES
    assert found.agreed == len(sent) > 10
    assert found.gap is not None
    # The log ends at 08:30 in Berlin: the last run of this hour is at 08:55.
    assert (found.gap.since, found.gap.until) == (
        datetime(2026, 3, 30, 6, 55, 1, tzinfo=UTC),
        datetime(2026, 3, 31, 6, tzinfo=UTC),
    )


def test_what_is_due_each_minute_has_no_gap():
    """All of it is taken over at once, by stopping beat."""
    runs = [SPRING + timedelta(minutes=n, milliseconds=3) for n in range(60 * 48)]

    found = compare_sent("each", runs, make_action("each", "* * * * *"))

    assert (found.verdict, found.gap) == (ShadowVerdict.AGREES, None)


def test_interval_is_held_to_its_length():
    """Beat counts from its start, and the action from its post."""
    half = timedelta(minutes=30)
    runs = [SPRING + timedelta(seconds=71) + n * half for n in range(96)]
    action = make_action("clean up", {"every": "PT30M"})

    found = compare_sent("clean up", runs, action)

    assert (found.agreed, found.differences) == (95, [])
    assert found.gap is not None
    assert found.gap.until == runs[-1].replace(microsecond=0) + 2 * half

    del runs[50]
    del runs[90:]
    found = compare_sent("clean up", runs, action)
    assert [each.told for each in found.differences] == [
        "beat sent it 1 h after the run before, not 30 min",
        "beat sent it then, and not again for 2 h 58 min",
    ]


def test_taken_over_entry_is_beats_before_and_ours_after():
    """What beat sends afterwards runs twice."""
    sent = list(step("0 * * * *", SPRING))
    switch = SPRING + timedelta(hours=12)
    action = replace(make_action("mail", "0 * * * *"), runs_from=switch)

    found = compare_sent("mail", sent[:12], action)
    assert (found.agreed, found.differences, found.gap) == (12, [], None)

    found = compare_sent("mail", sent[:13], action)
    assert [each.told for each in found.differences] == [
        "beat sent it, and it runs here"
    ]


@pytest.mark.parametrize(
    ("switched", "sent", "told"),
    [
        (20, None, "due before it ran here; beat did not send it"),
        (-20, 0.003, "beat sent it, and it runs here"),
        (0, 0.003, "beat sent it, and it runs here"),
        (0, -0.2, "beat sent it, and it runs here"),
        (20, 0.003, None),
        (1, 2, None),
        (-20, None, None),
        (0, None, None),
    ],
)
def test_run_at_the_switch_is_told_if_it_was_lost_or_doubled(
    switched: float, sent: float | None, told: str | None
):
    """Whoever was first to stop or to begin, and however near to the run."""
    due = SPRING.replace(minute=0) + timedelta(hours=3)
    runs = [due - timedelta(hours=2), due - timedelta(hours=1)]
    if sent is not None:
        runs.append(due + timedelta(seconds=sent))
    action = make_action("mail", "0 * * * *")
    runs_from = due + timedelta(seconds=switched)

    found = compare_sent("mail", runs, replace(action, runs_from=runs_from))

    assert ([told] if told else []) == [each.told for each in found.differences]


def test_nothing_is_said_of_what_the_log_does_not_cover():
    """Neither what was due before it, nor what beat may still send."""
    at = SPRING.replace(minute=0)
    lines = [write_line(at + timedelta(milliseconds=5), "other")]
    log = read_beat_log(lines, BERLIN)

    found = compare(
        log, make_action("mail", "* * * * *"), make_action("other", "0 * * * *")
    )

    assert [each.verdict for each in found] == [
        ShadowVerdict.UNSEEN,
        ShadowVerdict.AGREES,
    ]


def test_lines_of_others_are_passed_over():
    """Colours, tracebacks, workers, and schedulers of other names."""
    line = write_line(SPRING, "mail (daily)").replace(
        "Scheduler:", "DatabaseScheduler:"
    )
    lines = [
        "celery beat v5.6 is starting.",
        f"\x1b[34m{line}\x1b[0m",
        "Traceback (most recent call last):",
        "[2026-03-28 07:31:00,000: ERROR/MainProcess] Removing corrupted schedule file",
    ]

    log = read_beat_log(lines, BERLIN)

    assert log.sent == {"mail (daily)": [SPRING]}
    assert log.until == SPRING + timedelta(minutes=1)


@pytest.mark.parametrize("text", ["", "{}", "[2026-03-28 7:00: INFO] nothing"])
def test_file_that_is_no_log_is_refused(text: str):
    """With a line as it should be."""
    with pytest.raises(UsageError, match="no line is of celery beat"):
        read_beat_log(text.splitlines(), BERLIN)
