"""The audit finds exactly what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from actions.explaining.audit import Fault, audit_action
from actions.explaining.recorded import ActionHistory, RecordedOperation, Revision
from actions.occurrences import parse_timing
from actions.when.searching import find_occurrences
from tests.unit.actions.explaining import recording

START = datetime(2026, 3, 1, tzinfo=UTC)
END = datetime(2026, 4, 15, tzinfo=UTC)
SECOND = timedelta(seconds=1)

#: Rules of every kind around the spring night in Paris (29 March 2026).
TIMINGS = {
    "cron": '{"when":[{"cron_rule":"30 2 * * *","timezone":"Europe/Paris"}]}',
    "wildcard": '{"when":[{"cron_rule":"*/20 * * * *","timezone":"Europe/Paris"}]}',
    "macro": '{"when":[{"cron_rule":"@daily","timezone":"Africa/Cairo"}]}',
    "last": '{"when":[{"cron_rule":"0 9 L * *","timezone":"Asia/Tokyo"}]}',
    "interval": '{"when":[{"every":"PT7H","anchor":"2026-01-01T00:00:00Z"}]}',
    "month": '{"when":[{"every":"P1M","anchor":"2026-01-31T02:30:00",'
    '"timezone":"Europe/Paris"}]}',
    "day": '{"when":[{"every":"P1D","anchor":"2026-01-31T02:30:00",'
    '"timezone":"Europe/Paris"}]}',
    "days and hours": '{"when":[{"every":"P1DT5H","anchor":"2026-01-31T02:30:00",'
    '"timezone":"Europe/Paris"}]}',
    "calendar": '{"when":[{"calendar":"Mon..Fri *-*-* 09:00","timezone":"UTC"}]}',
    # 01:00 in Tokyo is of the day before in UTC
    "own zone": '{"when":[{"calendar":"01:00 Asia/Tokyo","timezone":"UTC"}],'
    '"excluded":[["2026-03-10","2026-03-12"]]}',
    "excluded": '{"when":[{"cron_rule":"0 7 * * *","timezone":"Europe/Paris"}],'
    '"excluded":[["2026-03-10","2026-03-12"]]}',
    "weekdays": '{"when":[{"cron_rule":"0 7 * * *","timezone":"Europe/Paris"}],'
    '"weekdays":[5,6]}',
    # the Sunday of the clock change is excepted, and 02:30 moves to the Saturday
    "before": '{"when":[{"cron_rule":"30 2 * * 0","timezone":"Europe/Paris"}],'
    '"excluded":[["2026-03-29","2026-03-31"]],"weekdays":[6],"instead":"before"}',
    # moved into the gap, and over the end of the period
    "after": '{"when":[{"cron_rule":"30 2 28 * *","timezone":"Europe/Paris"},'
    '{"calendar":"*-*-28 02:45","timezone":"Europe/Paris"},'
    '{"every":"PT19H","anchor":"2026-01-01T00:00:00Z"}],'
    '"excluded":[["2026-02-20","2026-03-03"],["2026-03-28","2026-03-28"],'
    '["2026-04-10","2026-04-20"]],"instead":"after"}',
    "over the end": '{"when":[{"cron_rule":"0 9 15 * *","timezone":"UTC"}],'
    '"excluded":[["2026-04-15","2026-04-20"]],"instead":"before"}',
    "working day": '{"when":[{"working_day":-2,"at":"02:30","timezone":"Europe/Paris"},'
    '{"working_day":20,"at":"02:30","timezone":"Europe/Paris"}],'
    '"excluded":[["2026-03-02","2026-03-02"]],"weekdays":[4,5]}',
    "bounded": '{"when":[{"cron_rule":"0 7 * * *","timezone":"UTC"}],'
    '"starts_at":"2026-03-05T07:00:00Z","ends_at":"2026-03-20T07:00:00Z"}',
}


def make_revision(timing: str, **changes: Any) -> Revision:
    """Return the first revision of an action older than the period."""
    before = START - timedelta(days=30)
    return recording.make_revision(before, timing, **changes)


edit = partial(recording.edit, make_revision(TIMINGS["cron"]))


def decide(timing: str) -> list[RecordedOperation]:
    """Return a decision for each occurrence, a second after it was due."""
    occurrences = find_occurrences(parse_timing(timing), START, END)
    return [
        make_operation(number, occurrence)
        for number, occurrence in enumerate(occurrences)
    ]


def make_operation(
    number: int, occurrence: datetime, **changes: Any
) -> RecordedOperation:
    """Return a decision that is as it should be, with *changes*."""
    known = {"recorded_at": occurrence + SECOND, **changes}
    return recording.make_operation(occurrence, number, **known)


def find(
    timing: str, decided: Sequence[RecordedOperation], *later: Revision
) -> list[tuple[Fault, datetime]]:
    """Return fault and occurrence of each finding."""
    revisions = [make_revision(timing), *later]
    history = ActionHistory("action", "app", revisions, decided, (), catches_up=False)
    findings = audit_action(history, since=START, until=END)
    return [(finding.fault, finding.occurrence) for finding in findings]


@pytest.mark.parametrize("timing", TIMINGS.values(), ids=TIMINGS)
def test_what_the_tick_decides_passes(timing: str) -> None:
    """Two readings of the same rule agree, clock changes included."""
    assert [] == find(timing, decide(timing))


def test_each_kind_of_fault_is_found_and_nothing_else() -> None:
    """One occurrence lost, one invented, one too early, one too late, one doubled."""
    timing = TIMINGS["cron"]
    decided = decide(timing)
    lost = decided.pop(3).occurrence
    decided[5] = replace(decided[5], recorded_at=decided[5].occurrence - SECOND)
    decided[7] = replace(
        decided[7], recorded_at=decided[7].occurrence + timedelta(minutes=9)
    )
    decided.append(replace(decided[9], id=UUID(int=1000)))
    invented = lost + timedelta(minutes=7)
    decided.append(make_operation(1001, invented))

    expected = [
        (Fault.MISS, lost),
        (Fault.EXTRA, invented),
        (Fault.EARLY, decided[5].occurrence),
        (Fault.LATE, decided[7].occurrence),
        (Fault.DOUBLED, decided[9].occurrence),
    ]
    assert expected == find(timing, decided)


@pytest.mark.parametrize("state", ["missed", "skipped"])
def test_a_range_is_a_decision_about_each_occurrence_within(state: str) -> None:
    """What an outage or a later occurrence overtook is decided once, by one row."""
    timing = TIMINGS["cron"]
    decided = decide(timing)
    first, last = decided[4].occurrence, decided[11].occurrence
    details = {"first": first.isoformat(), "last": last.isoformat(), "count": 8}
    missed = make_operation(2000, first, state=state, details=details)

    assert [] == find(timing, [*decided[:4], missed, *decided[12:]])


def test_missed_and_decided_besides_is_doubled() -> None:
    """An occurrence inside a missed range that ran as well was decided twice."""
    timing = TIMINGS["cron"]
    decided = decide(timing)
    only = decided[4].occurrence
    details = {"first": only.isoformat(), "last": only.isoformat(), "count": 1}
    missed = make_operation(2000, only, state="missed", details=details)

    assert [(Fault.DOUBLED, only)] == find(timing, [*decided, missed])


def test_edited_while_paused_nothing_is_due() -> None:
    """An edit does not resume: until somebody does, no decision is missing."""
    decided = decide(TIMINGS["cron"])
    paused_at = decided[9].occurrence + timedelta(hours=1)
    edited_at = paused_at + timedelta(hours=1)
    edited = edit(edited_at, number=3, effective_from=edited_at)

    found = find(TIMINGS["cron"], decided[:10], edit(paused_at, "paused"), edited)

    assert [] == found


@pytest.mark.parametrize("change", ["replaced", "paused", "deleted", "quarantined"])
def test_what_an_edit_overtakes_in_an_outage_is_superseded(change: str) -> None:
    """
    Nobody led for days; what was due by the edit is superseded, not lost. What was
    due before nobody led, and has no decision either, is.
    """
    decided = decide(TIMINGS["cron"])
    edited_at = decided[12].occurrence - SECOND
    edited = edit(
        edited_at,
        change,
        effective_from=edited_at,
        undecided_from=decided[6].occurrence,
    )
    after = decided[12:] if change == "replaced" else []

    found = find(TIMINGS["cron"], [*decided[:5], *after], edited)

    assert [(Fault.MISS, decided[5].occurrence)] == found


def test_what_a_renaming_overtakes_is_decided_after_it() -> None:
    """The rule stays in effect: nothing is superseded, it is due under the new name."""
    timing = TIMINGS["cron"]
    decided = decide(timing)
    renamed = edit(
        decided[12].occurrence - SECOND, undecided_from=decided[9].occurrence
    )

    assert [] == find(timing, decided, renamed)
    found = find(timing, [*decided[:10], *decided[11:]], renamed)
    assert [(Fault.MISS, decided[10].occurrence)] == found


def test_a_holiday_that_comes_before_the_decision_counts() -> None:
    """What was due and not decided when its calendar changed follows the new one."""
    rule = '{"cron_rule":"0 7 * * *","timezone":"UTC"}'
    timing = f'{{"when":[{rule}]}}'
    decided = decide(timing)
    missing = decided.pop(9).occurrence
    free = f'{{"when":[{rule}],"excluded":[["{missing:%F}","{missing:%F}"]]}}'
    retimed = edit(
        *(missing + timedelta(minutes=20), "holidays"),
        timing=free,
        undecided_from=missing,
    )

    assert [] == find(timing, decided, retimed)


UNREADABLE = '{"when":[{"cron_rule":"61 * * * *","timezone":"UTC"}]}'


def test_rule_that_cannot_be_read_is_one_finding() -> None:
    """Nothing is said of what was decided by it, and everything of the rest."""
    timing = TIMINGS["interval"]
    decided = decide(timing)
    edited_at = START + timedelta(days=10)
    broken = edit(edited_at, timing=UNREADABLE, effective_from=edited_at)
    mended_at = edited_at + timedelta(days=10)
    mended = edit(mended_at, timing=timing, number=3, effective_from=mended_at)
    lost = decided.pop().occurrence

    expected = [(Fault.UNREADABLE, edited_at), (Fault.MISS, lost)]
    assert expected == find(timing, decided, broken, mended)


def test_backfill_is_no_fault():
    """
    It runs what a tick left out, as late as somebody asks for it: days after the rule
    was due, beside the row of the outage, or before the rule was in effect.
    """
    timing = TIMINGS["excluded"]
    decided = decide(timing)
    first, second, third, *others = decided
    outage = {"first": str(second.occurrence), "last": str(third.occurrence)}
    missed = replace(second, state="missed", details=outage)
    late: dict[str, Any] = {"trigger": "backfill", "recorded_at": END}
    before = replace(first, occurrence=first.occurrence + 3 * SECOND, **late)

    backfilled = [replace(each, **late) for each in (first, second, third)]

    assert [] == find(timing, [before, missed, *backfilled, *others])


def test_what_only_a_backfill_left_out_is_still_a_miss():
    """The backfill of one day does not excuse the next one."""
    timing = TIMINGS["cron"]
    first, second, *others = decide(timing)
    backfilled = replace(first, trigger="backfill", recorded_at=END)

    assert [(Fault.MISS, second.occurrence)] == find(timing, [backfilled, *others])
