"""What ``actions post`` accepts, and says may not be what was meant."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.calling import Call, write_action

MISTYPED: dict[str, Any] = {
    "operations": {
        "refresh": {"domains": ["a", "b"]},
        "send_email": {"template": "in-active"},
    },
    "recipients": {
        "users": ["ada@example.org", "ada@example.com"],
        "groups": ["managers", "all"],
    },
}


#: Where, what and the way out, of each of them.
TOLD = [
    ("/operations/refresh/domains/1", "no domain 'b'", "It has: a."),
    ("/operations/send_email/template", "no template 'in-active'", "'inactive'?"),
    ("/recipients/users/0", "no user 'ada@example.org'", "'ada@example.com'?"),
    ("/recipients/groups/0", "in group 'managers'", "Did you mean 'manager'?"),
]


@pytest.mark.parametrize("option", [(), ("--dry-run",)])
@pytest.mark.parametrize("form", [(), ("--json",)])
def test_names_the_app_does_not_have_are_told(
    call: Call, shop: Path, option: tuple[str, ...], form: tuple[str, ...]
):
    """What is mistyped is accepted, and named on standard error with what was meant."""
    path = write_action(shop, **MISTYPED)

    answer = call("actions", "post", path, "--app", "shop", *option, *form)

    assert 0 == answer.code
    warnings = [line for line in answer.err.splitlines() if "warning: " in line]
    assert len(TOLD) == len(warnings)
    for line, (pointer, reason, hint) in zip(warnings, TOLD, strict=True):
        assert line.startswith(f"warning: {pointer}: ")
        assert reason in line
        assert line.endswith(hint)


def test_warnings_leave_the_data_alone(call: Call, shop: Path):
    """Standard output is that of any other post."""
    path = write_action(shop, **MISTYPED)

    answer = call("actions", "post", path, "--app", "shop", "--json")

    names = "uid name app revision document_revision state created next superseded"
    names += " warnings"
    assert set(names.split()) == set(answer.data)


def test_action_whose_names_are_all_known_has_no_warning(call: Call, shop: Path):
    """Users are known by id and by address, and everybody is in "all"."""
    path = write_action(
        shop,
        operations={
            "refresh": {"domains": ["a"]},
            "publish": True,
            "send_email": {"template": "inactive"},
        },
        recipients={"users": ["ada@example.com"], "groups": ["all", "manager"]},
    )

    answer = call("actions", "post", path, "--app", "shop")

    assert (0, "") == (answer.code, answer.err)


def test_users_are_known_by_their_address(call: Call, shop: Path):
    """A recipient may be an id or an address."""
    user = {"id": "u1", "email": "grace@example.com"}
    user["activated_at"] = "2026-01-01T00:00:00Z"
    app = {"uid": "shop", "users": [user]}
    (shop / "app.json").write_text(json.dumps(app))
    call("apps", "apply", str(shop))
    path = write_action(shop, recipients={"users": ["u1", "grace@example.com"]})

    answer = call("actions", "post", path, "--app", "shop")

    assert "" == answer.err


@pytest.mark.parametrize(
    ("publish", "pointers"),
    [
        (True, ["/operations/publish"]),
        ({"data": True}, ["/operations/publish/data"]),
        (
            {"design": True, "permissions": True},
            ["/operations/publish/design", "/operations/publish/permissions"],
        ),
    ],
)
def test_app_with_nothing_to_publish_is_told(
    call: Call, shop: Path, publish: object, pointers: list[str]
):
    """
    Each kind that is asked for by name needs something; all three need one of them.
    """
    (shop / "app.json").write_text(json.dumps({"uid": "shop", "domains": []}))
    call("apps", "apply", str(shop))
    path = write_action(shop, operations={"publish": publish})

    answer = call("actions", "post", path, "--app", "shop")

    assert 0 == answer.code
    told = [line.split(": ")[:2] for line in answer.err.splitlines()]
    assert [["warning", pointer] for pointer in pointers] == told


def test_many_unknown_names_are_counted(call: Call, shop: Path):
    """The first ten are named; nobody reads a thousand lines."""
    users = [f"nobody-{n}" for n in range(25)]
    path = write_action(shop, recipients={"users": users})

    answer = call("actions", "post", path, "--app", "shop")

    lines = answer.err.splitlines()
    assert 11 == len(lines)
    assert "warning: /recipients/users/10: 15 more are unknown." == lines[-1]


def test_refused_document_has_no_warnings(call: Call, shop: Path):
    """What a refused document would have done is of no interest."""
    path = write_action(
        shop, recipients=None, when={"due_date": "2020-01-01T00:00:00Z"}
    )

    answer = call("actions", "post", path, "--app", "shop")

    assert 3 == answer.code
    assert ["error:"] == [line.split()[0] for line in answer.err.splitlines()]


def test_mail_to_nobody_is_told(call: Call, shop: Path):
    """An action that mails, and names no recipients, reaches nobody."""
    path = write_action(shop, recipients=None)

    answer = call("actions", "post", path, "--app", "shop")

    assert 0 == answer.code
    assert (
        "warning: /recipients: nobody is named, so send_email reaches nobody.\n"
        == answer.err
    )


def test_first_of_many_warnings_are_told(call: Call, shop: Path):
    """
    Of a list each says which action it is about, what many share is one line with a
    count, and there is an end to them.
    """
    path = shop / "many.json"
    wrong = json.loads(Path(write_action(shop, **MISTYPED)).read_text())
    path.write_text(
        json.dumps([{**wrong, "uid": f"a{n}", "name": f"a{n}"} for n in range(40)])
    )

    answer = call("actions", "post", str(path), "--app", "shop", "--json")

    lines = [line for line in answer.err.splitlines() if "warning: " in line]
    assert 0 == answer.code
    assert [f"a{n}" for n in range(40)] == [each["uid"] for each in answer.data]
    assert re.match(
        r"warning: /0/operations/refresh/domains/1 and \d+ more: ", lines[0]
    )
    assert "There may be more warnings; these are the first." in lines[-1]
    assert len(lines) == 1 + len({line.partition(": /")[2] for line in lines[:-1]})


NEVER = "each day on which it would be due is excepted, so it never runs."


@pytest.mark.parametrize(
    ("document", "count"),
    [
        ({"when": {"cron_rule": "0 7 * * 1"}, "except": [{"weekdays": ["Mon"]}]}, 1),
        (
            {
                "when": {"cron_rule": "0 7 * * 1"},
                "except": [{"weekdays": ["Mon"]}],
                "instead": "after",
            },
            0,
        ),
        ({"when": {"cron_rule": "0 7 * * 1-2"}, "except": [{"weekdays": ["Mon"]}]}, 0),
        ({"when": {"due_date": "2099-05-01T07:00:00"}, "except": ["2099-05-01"]}, 1),
        ({"when": {"cron_rule": "0 7 1 5 *"}, "except": [{"calendar": "may"}]}, 1),
        ({"when": {"cron_rule": "0 7 1 6 *"}, "except": [{"calendar": "may"}]}, 0),
    ],
)
def test_days_that_leave_none_to_run_are_told(
    call: Call, shop: Path, document: dict[str, Any], count: int
):
    """It is stored, since a calendar may change; but nobody should wait for it."""
    days = [
        {"from": f"{year}-05-01", "until": f"{year}-05-31"}
        for year in range(2026, 2110)
    ]
    app = {"uid": "shop", "timezone": "UTC", "holidays": {"may": days}}
    document = {**document, "ends_at": "2109-12-01T00:00:00Z"}
    (shop / "app.json").write_text(json.dumps(app))
    call("apps", "apply", str(shop))

    answer = call("actions", "post", write_action(shop, **document), "--app", "shop")

    assert 0 == answer.code
    assert count == answer.err.count(f"warning: /except: {NEVER}")


@pytest.mark.parametrize(
    ("holidays", "excepted", "count"),
    [
        ({"fr": ["2026-12-25"], "de": ["2026-12-26"]}, [], 1),
        ({"fr": ["2026-12-25"]}, [{"calendar": "fr"}], 0),
        ({"fr": ["2026-12-25"]}, ["2026-12-25"], 0),
        ({}, [], 0),
    ],
)
def test_holidays_that_count_as_working_days_are_told(
    call: Call,
    shop: Path,
    holidays: dict[str, list[str]],
    excepted: list[Any],
    count: int,
):
    """With what to write; a small app that has no calendar has no holidays."""
    app = {"uid": "shop", "timezone": "UTC", "holidays": holidays}
    (shop / "app.json").write_text(json.dumps(app))
    call("apps", "apply", str(shop))
    rule = {"working_day": -1, "at": "17:00"}
    path = write_action(shop, **{"when": rule, "except": excepted})

    answer = call("actions", "post", path, "--app", "shop")

    hint = 'Write "except": [{"calendar": "de"}, {"calendar": "fr"}].'
    assert 0 == answer.code
    assert count == answer.err.count("warning: /when: working days are counted")
    assert count == answer.err.count(hint)


PAST = "2020-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"when": {"calendar": "2020-01-01 09:00"}}, "/when: no date is left"),
        ({"ends_at": PAST}, "/ends_at: it has passed"),
        ({"when": {"on": "app.paid"}, "ends_at": PAST}, "/ends_at: it has passed"),
        ({"when": {"calendar": "2090-01-01 09:00"}}, None),
        ({"ends_at": "2099-01-01T00:00:00Z"}, None),
    ],
)
def test_action_that_is_over_is_told(
    call: Call, shop: Path, document: dict[str, Any], told: str | None
):
    """It is stored, as one that was due once; but nobody should wait for it."""
    path = write_action(shop, **document)

    answer = call("actions", "post", path, "--app", "shop")

    assert 0 == answer.code
    assert (told is not None) == ("never due again" in " ".join(answer.err.split()))
    assert told is None or f"warning: {told}" in answer.err


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({}, "send_email would reach nobody now."),
        ({"recipients": {"users": ["u1", "nobody"]}}, "send_email would reach nobody"),
        ({"when": {"on": "app.paid"}}, "no event would make it run now."),
        (
            {"when": {"on": "app.paid"}, "recipients": {}},
            "no event would make it run now.",
        ),
        ({"recipients": {"groups": ["all"], "only_inactive_users": True}}, None),
        ({"recipients": {"groups": ["all"], "include_inactive_users": True}}, None),
        ({"recipients": {"groups": ["all"], "only_inactivated_users": True}}, "nobody"),
        ({"recipients": {"users": ["nobody"]}}, None),
        ({"operations": {"refresh": True}}, None),
    ],
)
def test_filter_that_leaves_out_all_it_names_is_told(
    call: Call, shop: Path, document: dict[str, Any], told: str | None
):
    """As the users are now; it is stored, for they may change."""
    user = {"id": "u1", "activated_at": "2020-01-01T00:00:00Z", "disabled": True}
    (shop / "app.json").write_text(json.dumps({"uid": "shop", "users": [user]}))
    call("apps", "apply", str(shop))

    answer = call("actions", "post", write_action(shop, **document), "--app", "shop")

    assert 0 == answer.code
    said = "warning: /recipients: it leaves out each user whom it names"
    lines = [line for line in answer.err.splitlines() if line.startswith(said)]
    assert (told is not None) == bool(lines)
    assert told is None or told in lines[0]


def test_app_without_users_has_nobody_to_leave_out(call: Call, shop: Path):
    """It may get them later."""
    (shop / "app.json").write_text(json.dumps({"uid": "shop", "users": []}))
    call("apps", "apply", str(shop))

    answer = call("actions", "post", write_action(shop), "--app", "shop")

    assert "leaves out" not in answer.err
