"""What is accepted, and may be a mistake: what needs no database to be seen."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest

from actions.posting.doubts import find_doubts
from actions.posting.references import References
from models.door.documents import read_action
from tests.unit.models.documents import action

NOW = datetime(2026, 11, 23, 7, tzinfo=UTC)
KNOWN = References("app", NOW, (), (), (), (), ())


@pytest.mark.parametrize(
    ("members", "told"),
    [({"retries": 5}, ["/retries"]), ({"retries": 0}, []), ({}, [])],
)
def test_retries_that_no_task_has_are_told(members: dict[str, object], told: list[str]):
    """Its own worker tries a task again, or nobody does."""
    for wait, expected in ((True, told), (False, [])):
        task = {"name": "shop.report", "wait": wait}
        read = read_action(action(operations={"run_task": task}, **members))

        pointers = [each.pointer for each in find_doubts(KNOWN, read)]
        assert expected == [each for each in pointers if each == "/retries"]


def tell(known: References, about: str, **members: Any) -> list[str]:
    """Return what is told of such an action *about* a part of it, by its pointer."""
    read = read_action(action(**members))
    return [
        f"{each.pointer}: {each.message} {each.hint}".rstrip()
        for each in find_doubts(known, read)
        if each.pointer.startswith(about)
    ]


@pytest.mark.parametrize(
    ("publish", "documents", "pointers"),
    [
        (True, (), ["/operations/publish"]),
        (True, ("design",), []),
        ({"data": True}, ("design",), ["/operations/publish/data"]),
        (
            {"design": True, "permissions": True},
            (),
            ["/operations/publish/design", "/operations/publish/permissions"],
        ),
    ],
)
def test_app_with_nothing_to_publish_is_told(
    publish: object, documents: tuple[str, ...], pointers: list[str]
):
    """Each kind that is asked for by name needs something; all three need one."""
    known = replace(KNOWN, documents=documents)

    told = tell(known, "/operations/publish", operations={"publish": publish})

    assert pointers == [each.partition(": ")[0] for each in told]


def test_many_unknown_names_are_counted():
    """The first ten are named; nobody reads a thousand lines."""
    users = [f"nobody-{n}" for n in range(25)]

    told = tell(KNOWN, "/recipients/users", recipients={"users": users})

    assert (11, "/recipients/users/10: 15 more are unknown.") == (len(told), told[-1])


#: Each May as long as the actions below last.
MAYS = [(date(year, 5, 1), date(year, 5, 31)) for year in range(2026, 2110)]
DAYS = replace(KNOWN, holidays={"may": MAYS})
MONDAYS = {"cron_rule": "0 7 * * 1", "timezone": "UTC"}
NO_MONDAY = [{"weekdays": ["Mon"]}]
NO_MAY = [{"calendar": "may"}]


@pytest.mark.parametrize(
    ("members", "is_told"),
    [
        ({"when": MONDAYS, "except_": NO_MONDAY}, True),
        ({"when": MONDAYS, "except_": NO_MONDAY, "instead": "after"}, False),
        (
            {"when": {**MONDAYS, "cron_rule": "0 7 * * 1-2"}, "except_": NO_MONDAY},
            False,
        ),
        (
            {"when": {"due_date": "2099-05-01T07:00:00"}, "except_": ["2099-05-01"]},
            True,
        ),
        ({"when": {"cron_rule": "0 7 1 5 *"}, "except_": NO_MAY}, True),
        ({"when": {"cron_rule": "0 7 1 6 *"}, "except_": NO_MAY}, False),
    ],
)
def test_days_that_leave_none_to_run_are_told(
    members: dict[str, Any], *, is_told: bool
):
    """It is stored, since a calendar may change; but nobody should wait for it."""
    told = tell(DAYS, "/except", **members, ends_at="2109-12-01T00:00:00Z")

    never = "each day on which it would be due is excepted, so it never runs."
    assert is_told == bool(told)
    assert all(never in each for each in told)


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({"when": {"calendar": "2020-01-01 09:00"}}, ["/when: no date is left"]),
        ({"ends_at": "2020-01-01T00:00:00Z"}, ["/ends_at: it has passed"]),
        ({"when": {"calendar": "2090-01-01 09:00"}}, []),
        ({"ends_at": "2099-01-01T00:00:00Z"}, []),
    ],
)
def test_action_that_is_over_is_told(members: dict[str, Any], told: list[str]):
    """It is stored, as one that was due once; but nobody should wait for it."""
    found = [
        each for part in ("/when", "/ends") for each in tell(DAYS, part, **members)
    ]

    assert len(told) == len(found)
    assert all(map(str.startswith, found, told))


@pytest.mark.parametrize(
    ("calendars", "excepted", "is_told"),
    [
        (["fr", "de"], [], True),
        (["fr"], [{"calendar": "fr"}], False),
        (["fr"], ["2026-12-25"], False),
        ([], [], False),
    ],
)
def test_holidays_that_count_as_working_days_are_told(
    calendars: list[str], excepted: list[Any], *, is_told: bool
):
    """With what to write; a small app that has no calendar has no holidays."""
    known = replace(DAYS, holidays=dict.fromkeys(calendars, MAYS))
    rule = {"working_day": -1, "at": "17:00"}

    told = tell(known, "/when", when=rule, except_=excepted)

    assert is_told == bool(told)
    assert all(
        each.endswith('Write "except": [{"calendar": "de"}, {"calendar": "fr"}].')
        for each in told
    )
