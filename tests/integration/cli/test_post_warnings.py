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


@pytest.mark.parametrize("options", [(), ("--dry-run",), ("--json",)])
def test_names_the_app_does_not_have_are_told(
    call: Call, shop: Path, options: tuple[str, ...]
):
    """What is mistyped is accepted, and named on standard error with what was meant."""
    path = write_action(shop, **MISTYPED)

    answer = call("actions", "post", path, "--app", "shop", *options)

    assert 0 == answer.code
    warnings = [line for line in answer.err.splitlines() if "warning: " in line]
    assert len(TOLD) == len(warnings)
    for line, (pointer, reason, hint) in zip(warnings, TOLD, strict=True):
        assert line.startswith(f"warning: {pointer}: ")
        assert reason in line
        assert line.endswith(hint)


def test_action_whose_names_are_all_known_has_no_warning(call: Call, shop: Path):
    """Users are known by id and by address, and everybody is in "all"."""
    app = json.loads((shop / "app.json").read_text())
    activated = {"activated_at": "2026-01-01T00:00:00Z"}
    app["users"] += [{"id": "u1", "email": "grace@example.com", **activated}]
    (shop / "app.json").write_text(json.dumps(app))
    call("apps", "apply", str(shop))
    users = ["ada@example.com", "u1", "grace@example.com"]
    path = write_action(
        shop,
        operations={
            "refresh": {"domains": ["a"]},
            "publish": True,
            "send_email": {"template": "inactive"},
        },
        recipients={"users": users, "groups": ["all", "manager"]},
    )

    answer = call("actions", "post", path, "--app", "shop")

    assert (0, "") == (answer.code, answer.err)


def test_refused_document_has_no_warnings(call: Call, shop: Path):
    """What a refused document would have done is of no interest."""
    path = write_action(
        shop, recipients=None, when={"due_date": "2020-01-01T00:00:00Z"}
    )

    answer = call("actions", "post", path, "--app", "shop")

    assert 3 == answer.code
    assert ["error:"] == [line.split()[0] for line in answer.err.splitlines()]


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


def test_what_is_never_due_is_told(call: Call, shop: Path):
    """By the clock and the calendars of the database; it is stored all the same."""
    may = [{"from": "2099-05-01", "until": "2099-05-31"}]
    app = {"uid": "shop", "timezone": "UTC", "holidays": {"may": may}}
    (shop / "app.json").write_text(json.dumps(app))
    call("apps", "apply", str(shop))
    once = {"when": {"due_date": "2099-05-01T07:00:00"}}
    path = write_action(shop, **once, **{"except": [{"calendar": "may"}]})

    answer = call("actions", "post", path, "--app", "shop")

    assert 0 == answer.code
    told = "/except: each day on which it would be due is excepted"
    assert f"warning: {told}" in answer.err


#: What is said of actions, of an app whose one user, u1, is disabled.
LEAVE_OUT: list[tuple[dict[str, Any], str | None]] = [
    ({}, "send_email would reach nobody now."),
    ({"recipients": {"users": ["u1", "nobody"]}}, "send_email would reach nobody"),
    ({"when": {"on": "app.paid"}}, "no event would make it run now."),
    ({"when": {"on": "app.paid"}, "recipients": {}}, "no event would make it run now."),
    ({"recipients": {"groups": ["all"], "only_inactive_users": True}}, None),
    ({"recipients": {"groups": ["all"], "include_inactive_users": True}}, None),
    ({"recipients": {"groups": ["all"], "only_inactivated_users": True}}, "nobody"),
    ({"recipients": {"users": ["nobody"]}}, None),
    ({"operations": {"refresh": True}}, None),
]


def test_filter_that_leaves_out_all_it_names_is_told(call: Call, shop: Path):
    """As the users are now; it is stored, for they may change."""
    user = {"id": "u1", "activated_at": "2020-01-01T00:00:00Z", "disabled": True}
    (shop / "app.json").write_text(json.dumps({"uid": "shop", "users": [user]}))
    call("apps", "apply", str(shop))
    post = ("actions", "post", "--app", "shop", "--replace")
    said = "warning: /recipients: it leaves out each user whom it names"

    for document, told in LEAVE_OUT:
        answer = call(*post, write_action(shop, **document))

        lines = [line for line in answer.err.splitlines() if line.startswith(said)]
        assert (0, told is not None) == (answer.code, bool(lines)), document
        assert told is None or told in lines[0], document
