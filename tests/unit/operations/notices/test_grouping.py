"""Which failures are one cause, and what is said of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from operations.notices.grouping import (
    ACTIONS_NAMED,
    INSTALLATION,
    MOST_CAUSES,
    Notice,
    NoticeKind,
    Open,
    Scope,
    Unreported,
    sort_in,
)
from operations.notices.wording import (
    LONGEST_SUBJECT,
    make_event,
    make_headline,
    make_subject,
    make_text,
)
from operations.reasons import find_cause, make_cause_key
from tests.integration.web.markup import find_uids

NOW = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SALES = Scope("sales", "Europe/Paris", ("ann@example.org",))
ALL = Scope(INSTALLATION, "UTC", ("ops@example.org",))


def make_trouble(number: int = 0, **changes: object) -> Unreported:
    values: dict[str, object] = {
        "operation_id": UUID(int=number),
        "app": "sales",
        "action_uid": "weekly",
        "action_name": "weekly update",
        "kind": NoticeKind.FAILED,
        "cause": "send_email: mail server refused",
        "occurrence": NOW,
        "at": NOW + number * MINUTE,
        **changes,
    }
    return Unreported(**values)  # type: ignore[arg-type]  # the values above are of its types


def gather(*troubles: Unreported, scope: Scope = SALES) -> list[Notice]:
    opened: Open = {}
    sort_in(opened, [scope], troubles, NOW)
    return list(opened.values())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no user 'u1'", "no user 'u2'"),
        ("row 17 of 400", "row 3 of 12"),
        (
            "3771f246-cc92-5326-b56a-8665f62de245 is gone",
            "f9618ba1-93ff-5c61-953f-6cfef56c171f is gone",
        ),
        ("550 <ann@example.org> unknown", "550 <bob@example.com> unknown"),
        ("[Errno 111] refused", "[Errno 61] refused"),
    ],
)
def test_ids_and_numbers_make_no_other_cause(one: str, other: str):
    """Errors that differ by what they are about alone have one key."""
    assert make_cause_key(one) == make_cause_key(other)


@pytest.mark.parametrize(
    ("reason", "error", "expected"),
    [
        (
            "step failed: send_email",
            "send_email: 550 no\nTraceback",
            "send_email: 550 no",
        ),
        ("outage", None, "outage"),
        (
            "time limit",
            "the soft time limit was reached",
            "time limit: the soft time limit was reached",
        ),
        ("step failed: refresh", "a\x1b[31m\x00b", "a [31m b"),
        (None, None, "unknown"),
    ],
)
def test_cause_is_one_line_for_people(
    reason: str | None, error: str | None, expected: str
):
    """The first line of the error, and nothing that a terminal would act on."""
    assert expected == find_cause(reason, error)


def test_cause_is_bounded():
    """An error of a megabyte is not mailed."""
    assert 300 == len(find_cause("step failed: refresh", "x" * 1_000_000))


def test_one_cause_of_several_actions_is_one_notice():
    """A mail server that is away is one thing to know, whatever waits for it."""
    [notice] = gather(make_trouble(0), make_trouble(1, action_uid="daily"))

    assert {"weekly", "daily"} == set(notice.actions)
    assert 2 == notice.count


def test_kinds_are_told_apart():
    """What was missed did not fail."""
    kinds = (NoticeKind.FAILED, NoticeKind.MISSED, NoticeKind.UNCERTAIN)

    assert 3 == len(gather(*(make_trouble(kind=kind) for kind in kinds)))


def test_small_app_hears_nothing_of_others():
    """Whatever fails elsewhere stays there."""
    assert [] == gather(make_trouble(app="neighbour"))


def test_many_causes_are_told_together_in_the_end():
    """Beyond a number of open causes all others are one."""
    words = [f"{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(100)]
    notices = gather(*(make_trouble(n, cause=word) for n, word in enumerate(words)))

    assert MOST_CAUSES + 1 == len(notices)
    assert 100 - MOST_CAUSES == notices[-1].count
    assert notices[-1].cause.startswith("various causes")


def test_pause_doubles_up_to_a_day_but_for_who_joins():
    """
    A cause that lasts for days is told of once a day in the end; another action that
    fails of it is told of after five minutes.
    """
    [notice] = gather(make_trouble())
    told_after = []
    for hour in range(80):
        now = NOW + 60 * hour * MINUTE
        notice.add(make_trouble())
        if notice.is_due(now):
            notice.tell(SALES, NoticeKind.FAILED, now=now)
            told_after.append(hour)
    notice.add(make_trouble(action_uid="other"))

    assert [0, 1, 3, 7, 15, 31, 55, 79] == told_after
    assert not notice.is_due(now + 4 * MINUTE)
    assert notice.is_due(now + 5 * MINUTE)


def test_nothing_is_over_before_it_is_calm():
    """An action that fails and works in turns sends no mail a minute."""
    [notice] = gather(make_trouble())
    over = [
        notice.is_over(succeeded=["weekly"], idle=[], now=NOW + minutes * MINUTE)
        for minutes in (4, 5)
    ]

    assert [False, True] == over


def test_id_of_a_notice_follows_from_what_it_tells():
    """Whoever tells the same has the same id, and the database refuses the second."""
    [one], [other] = gather(make_trouble()), gather(make_trouble())
    one.tell(SALES, NoticeKind.FAILED, now=NOW)
    other.tell(SALES, NoticeKind.FAILED, now=NOW)
    first = one.operation_id
    one.tell(SALES, NoticeKind.RECOVERED, now=NOW)

    assert first == other.operation_id
    assert first != one.operation_id


@pytest.mark.parametrize(
    ("kind", "count", "expected"),
    [
        (NoticeKind.FAILED, 1, 'sales: "weekly update" failed: because'),
        (NoticeKind.FAILED, 400, 'sales: "weekly update" failed (400 times): because'),
        (NoticeKind.MISSED, 1, 'sales: "weekly update" was not run: because'),
        (NoticeKind.LATE, 1, 'sales: "weekly update" is late: because'),
        (
            NoticeKind.UNCERTAIN,
            2,
            'sales: "weekly update" left mails uncertain (2 times): because',
        ),
    ],
)
def test_headline_says_it_all(kind: NoticeKind, count: int, expected: str):
    """App, action, what happened, how often, and why."""
    [notice] = gather(make_trouble(kind=kind, count=count, cause="because"))

    assert expected == make_headline(notice.tell(SALES, kind, now=NOW))


def test_headline_of_many_apps_names_none():
    """The operator is told how many actions there are."""
    troubles = [
        make_trouble(n, app=f"app-{n}", action_uid=f"a{n}", cause="x") for n in range(3)
    ]
    [notice] = gather(*troubles, scope=ALL)

    headline = make_headline(notice.tell(ALL, NoticeKind.FAILED, now=NOW))

    assert "several apps: 3 actions failed (3 times): x" == headline


def test_more_is_said_to_be_more():
    """A later notice tells what came since, and the sum."""
    [notice] = gather(make_trouble())
    notice.tell(SALES, NoticeKind.FAILED, now=NOW)
    for number in range(1, 4):
        notice.add(make_trouble(number))
    facts = notice.tell(SALES, NoticeKind.FAILED, now=NOW)

    assert "failed again (3 more)" in make_headline(facts)
    assert "In total, there are 4 by now." in make_text(facts)


def test_subject_is_bounded():
    """However long name and cause are."""
    [notice] = gather(make_trouble(cause="y" * 300, action_name="x" * 200))

    subject = make_subject(notice.tell(SALES, NoticeKind.FAILED, now=NOW))

    assert LONGEST_SUBJECT == len(subject)
    assert subject.startswith("[minutehand] sales: ")


def test_mail_has_both_clocks_and_the_commands():
    """What, why, when by UTC and by the app's zone, and what to type."""
    [notice] = gather(make_trouble(0), make_trouble(1))

    text = make_text(notice.tell(SALES, NoticeKind.FAILED, now=NOW))

    body, _, footer = text.partition("\n\n-- \n")
    expected = """\
2 operations of small app sales failed, after all attempts.

Cause: send_email: mail server refused

First: 2026-11-23 07:00:00 +01:00 (06:00:00Z)
Last:  2026-11-23 07:01:00 +01:00 (06:01:00Z)

Commands that help:
    minutehand operations show 00000000-0000-0000-0000-000000000001
    minutehand operations list --action weekly --state failed
    minutehand operations retry 00000000-0000-0000-0000-000000000001"""
    assert expected == body
    expected = """\
You get this mail because app.json of small app sales names
your address.
The next mail about this cause comes in an hour at the earliest.
"""
    assert expected == footer


def test_mail_lists_the_actions():
    """The ones that fail most come first, and the rest is counted."""
    troubles = [make_trouble(n, action_uid=f"a{n}", count=n + 1) for n in range(15)]
    [notice] = gather(*troubles)

    text = make_text(notice.tell(SALES, NoticeKind.FAILED, now=NOW))

    assert "        15  sales: weekly update\n" in text
    assert f"and {15 - ACTIONS_NAMED} more actions" in text


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (NoticeKind.MISSED, "minutehand why weekly --at 2026-11-23T06:00:00Z"),
        (
            NoticeKind.UNCERTAIN,
            "minutehand mails confirm 00000000-0000-0000-0000-000000000000",
        ),
    ],
)
def test_commands_fit_what_happened(kind: NoticeKind, expected: str):
    """Each kind has the one that helps."""
    [notice] = gather(make_trouble(kind=kind))

    assert expected in make_text(notice.tell(SALES, kind, now=NOW))


@pytest.mark.parametrize("kind", [*NoticeKind])
@pytest.mark.parametrize("scope", [SALES, ALL], ids=["app", "installation"])
def test_actions_are_called_by_their_names(kind: NoticeKind, scope: Scope):
    """A uid stands in what is to be pasted alone."""
    was = NoticeKind.FAILED if kind is NoticeKind.RECOVERED else kind
    several = [make_trouble(n, action_uid=f"a7f3-{n}", kind=was) for n in range(2)]
    for troubles in (several, several[:1]):
        [notice] = gather(*troubles, scope=scope)
        notice.tell(scope, was, now=NOW)
        facts = notice.tell(scope, kind, now=NOW)

        told = f"{make_subject(facts)}\n{make_text(facts)}"

        assert [] == find_uids(told, {"a7f3-0", "a7f3-1"})


def test_recovery_says_what_is_over():
    """With how much it had been, and no command: there is nothing to do."""
    [notice] = gather(make_trouble(0), make_trouble(1))
    notice.tell(SALES, NoticeKind.FAILED, now=NOW)
    facts = notice.tell(SALES, NoticeKind.RECOVERED, now=NOW)

    assert (
        'sales: "weekly update" works again, after: send_email: mail server refused'
        == make_headline(facts)
    )
    assert "has succeeded since: 2 operations of small app sales." in make_text(facts)
    assert "Commands that help" not in make_text(facts)


def test_end_of_what_was_late_says_so():
    """A run that has ended may have failed: it does not work again."""
    [notice] = gather(make_trouble(kind=NoticeKind.LATE, cause="took more than 1 min"))
    notice.tell(SALES, NoticeKind.LATE, now=NOW)
    facts = notice.tell(SALES, NoticeKind.RECOVERED, now=NOW)

    assert (
        'sales: "weekly update" ended after all: took more than 1 min'
        == make_headline(facts)
    )
    assert "that was late has ended after all: 1 run" in make_text(facts)


def test_event_is_for_programs():
    """The payload has a type, the cause, the counts and the ids; and no addresses."""
    [notice] = gather(make_trouble())
    facts = notice.tell(SALES, NoticeKind.FAILED, now=NOW)

    event = json.loads(make_event(facts, operation_id=UUID(int=7)))

    assert "operation.failed" == event["type"]
    assert {
        "notice_id": str(UUID(int=7)),
        "app": "sales",
        "headline": 'sales: "weekly update" failed: send_email: mail server refused',
        "cause": "send_email: mail server refused",
        "count": 1,
        "total": 1,
        "first_at": "2026-11-23T06:00:00+00:00",
        "last_at": "2026-11-23T06:00:00+00:00",
        "actions": [
            {"uid": "weekly", "app": "sales", "name": "weekly update", "count": 1}
        ],
        "action_count": 1,
        "operations": [str(UUID(int=0))],
    } == {key: event["data"][key] for key in event["data"] if key != "commands"}
    assert "ann@example.org" not in json.dumps(event)
