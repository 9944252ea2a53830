"""What commands refuse: calls that are not clear, and what names nothing there is."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.integration.api.prepared import digest_tables, prepare
from tests.integration.cli.calling import WEEKLY, Call, Post

#: Which no operation, backfill or mail has.
NEVER = "0add42d7-c39c-4585-ac96-97fee7c7a339"

_PERIOD = "--from 2026-11-23T07:00+01:00 --until"
_NOTE = r"error: --note: 'a\x1bb' contains the control character '\x1b'."
_LOAD = "load --from 2031-01-06T00:00Z --until"
_KEY = "keys create --all --role viewer"
_BACKWARDS = "--from 2026-01-02T00:00Z --until 2026-01-01T00:00Z"

#: Calls, and what is said of each.
UNCLEAR = {
    **dict.fromkeys(
        ("apps pause", "apps resume", "apps pause shop --all"),
        "Name either the uid of a small app, or --all",
    ),
    "apps pause shop --until 2020-01-01T00:00Z": "--until",
    "actions pause shop-report --until someday": "--until",
    "actions post / --app shop": "minutehand actions apply / --app shop",
    "operations cancel": "--all for all of them",
    "operations retry": "Name the operations to retry",
    "operations retry --all --app shop": "Leave out one or the other",
    "operations retry --state succeeded": "only to canceled, failed ones",
    "operations cancel --state failed": "only to pending, queued, running ones",
    f"operations cancel {NEVER} --all": "either the ID",
    f"operations cancel {_BACKWARDS}": "is not before --until",
    "operations cancel --reason typo": "typo",
    "operations list --from today --until -2d": "is not before --until -2d (",
    "mails confirm": "Name the mails: the ID of an operation, filters such as --app",
    "mails resend --all --app shop": "Name the mails: the ID of an operation, filters",
    "keys create --role viewer": "either --app UID or --all",
    f"{_KEY} --app a": "either --app UID or --all",
    "keys create --all": "For example: minutehand keys create --app shop --role",
    "keys create --all --role boss": "'viewer', 'operator', 'editor', 'admin'",
    f"{_KEY} --expires '30 days'": "Write P30D",
    f"{_KEY} --expires PT0S": "would expire at once",
    f"{_KEY} --name 'a\tb'": "control character",
    f"{_KEY} --name ' '": "is empty",
    f"{_KEY} --name {'x' * 201}": "201 characters",
    f"{_LOAD} 2031-02-06T00:00Z": "Ask for a shorter period",
    f"{_LOAD} 2031-01-07T00:00Z --at now": "needs --quiet",
    f"{_LOAD} 2031-01-07T00:00Z --quiet 20m": "PT20M",
    f"{_LOAD} 2031-01-07T00:00Z --quiet P8D": "from PT1M",
    f"preview {WEEKLY} --timezone Europe/Pariss": "error: --timezone: ",
    # None is an anchor; a typo there would look like a forgery.
    **{
        f"changes verify --anchor '{anchor}'": "NUMBER:HASH"
        for anchor in ("", "3", "x:y", "1:abc", f"-1:{'0' * 64}")
    },
    # No instant lies in the period.
    **{
        f"{command} {_PERIOD} 2026-11-23T{until}Z": "06:00:00Z) is not before --until"
        for command in ("audit", "operations list", f"preview {WEEKLY}")
        for until in ("05:00", "06:00")
    },
    # Whoever typed --note reads of --note, whatever is done beside.
    **{
        f"{command} --note 'a\x1bb'": _NOTE
        for command in (
            "actions backfill shop-report --from -1h",
            *("actions pause shop-report", "actions run shop-report"),
            *("queues pause quick", "workers drain quick@host"),
        )
    },
    **{
        f"operations {command} {option} {value}": f"error: {option}: "
        for command in ("list", "cancel", "retry")
        for option, value in (
            *(("--text", "x" * 201), ("--app", "'a b'")),
            ("--action", "' '"),
        )
    },
    # All that may be written is listed; what checked it is nobody's concern.
    **{
        f"operations list {option} '{value}'": f"{near} "
        for option, value, near in (
            ("--state", "failedd", "Did you mean 'failed'?"),
            ("--reason", "step failedd", "Did you mean 'step failed'?"),
            ("--queue", "quickk", "Did you mean 'quick'?"),
            ("--queue", "no such", "'celery'."),
        )
    },
}

#: A slip in the uid or the name of an app or action costs no look into a list.
_NEAR = {
    "apps show shpo": "shop",
    "apps pause shpo": "shop",
    "operations list --app Shop": "shop",
    "actions show shop-reprot": "shop-report",
    "actions show 'yearly closing Qshop'": "yearly closing Qshopq",
    "why shop-reprot --at 2026-11-23T06:00:00Z": "shop-report",
    "mails list --app shop --action shop-reprot": "shop-report",
}

UNKNOWN = {
    "actions run nope": "there is no scheduled action 'nope'",
    "actions list --app nope": "there is no small app 'nope'",
    f"actions post {WEEKLY} --app nope": "there is no small app 'nope'",
    "events send --app nope --event app.x --user u": "there is no small app 'nope'",
    "apps resume typo": "'typo'",
    "operations cancel --app typo --yes": "'typo'",
    "operations cancel --action typo --yes": "'typo'",
    f"mails resend {NEVER}": NEVER,
    "mails confirm typo": "'typo'",
    "mails confirm --app typo --yes": "'typo'",
    "keys revoke none": (
        "error: there is no invitation 'none' that has not ended, and there is no API"
        " key 'none'. List them with: minutehand keys list, or keys invitations"
    ),
    **{
        line: f" Did you mean '{near}'? List them with: "
        for line, near in _NEAR.items()
    },
    **{
        f"backfills {command} {text}": "there is no backfill"
        for command in ("show", "cancel")
        for text in ("nonsense", NEVER)
    },
    # Never "pending"; and waiting for it ends at once.
    **{
        f"operations {command} {text}": "there is no operation"
        for command in ("state --wait", "log", "show", "cancel", "retry")
        for text in (NEVER, "no-uuid", "00", "zzzz", "x" * 40, "''")
    },
}


@pytest.mark.parametrize(
    ("code", "calls"), [(2, UNCLEAR), (4, UNKNOWN)], ids=["unclear", "unknown"]
)
def test_what_is_refused_is_told_and_changes_nothing(
    call: Call, engine: sa.Engine, tmp_path: Path, code: int, calls: Mapping[str, str]
):
    """With the exit code that says which, and nothing on standard output."""
    prepare(engine, tmp_path, "shop", "Qshopq")
    before = digest_tables(engine, but=frozenset())
    wrong = {}
    for line, told in calls.items():
        answer = call(*shlex.split(line))
        said = " ".join(answer.err.replace("│", " ").split())
        if (code, "") != (answer.code, answer.out) or told not in f"{said} ":
            wrong[line] = answer

    assert {} == wrong
    assert before == digest_tables(engine, but=frozenset())


def test_actions_of_other_apps_are_not_what_was_meant(call: Call, post: Post):
    """With --app only the actions of that app count, for whoever may see no others."""
    post()

    answer = call("actions", "show", "helo", "--app", "minutehand")

    assert 4 == answer.code
    assert "hello" not in answer.err
