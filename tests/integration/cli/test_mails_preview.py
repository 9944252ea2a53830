"""``mails preview``: who would get what, on the command line."""

from __future__ import annotations

import json
from email import message_from_bytes, policy
from pathlib import Path

import pytest
import sqlalchemy as sa

from cli.connection import get_engine
from models.database.engine import reading
from models.database.tables import deliveries, mail_contents, operations
from tests.integration.cli.calling import Call, write_action

LONG_AGO = "2026-01-05T09:00:00Z"


@pytest.fixture
def people(call: Call, shop: Path) -> Path:
    """Give the folder of an app with people of all kinds, and what it writes."""
    document = {
        "uid": "shop",
        "name": "Shop",
        "mail": {"from_name": "Shop reports", "reply_to": "help@shop.example"},
        "users": [
            {"id": "ada", "email": "ada@example.com", "activated_at": LONG_AGO},
            {"id": "ben", "email": "ben@example.com", "activated_at": LONG_AGO},
            {"id": "eve", "email": "eve@example.com", "disabled": True},
            {"id": "new", "email": "new@example.com"},
            {"id": "none", "activated_at": LONG_AGO},
        ],
        "templates": {
            "inactive": {"subject": "Hi {{ user.id }}", "text": "Bye", "html": "<p>"}
        },
    }
    (shop / "more.json").write_text(json.dumps(document))
    assert 0 == call("apps", "apply", str(shop / "more.json")).code
    return shop


def test_preview_shows_who_would_get_what(call: Call, people: Path):
    found = call("mails", "preview", write_action(people), "--app", "shop")

    assert 0 == found.code
    assert "3 users would get it" in found.out
    assert "Left out: 2" in found.out
    assert "the account is disabled or has expired" in found.out.replace("\n", " ")
    assert "Reply-To: help@shop.example" in found.out
    assert "Subject: Hi ada" in found.out
    assert "send_email to ben: Hi ben" in found.out
    assert "User 'none' has no email address." in found.err
    with reading(get_engine()) as connection:
        for table in (operations, deliveries, mail_contents):
            count = sa.select(sa.func.count()).select_from(table)
            assert 0 == connection.execute(count).scalar_one()


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ("ben", "ben would get its mails: every user is in group 'all'."),
        ("eve@example.com", "eve would not get its mails: the account is disabled"),
    ],
)
def test_one_user_may_be_asked_for(call: Call, people: Path, user: str, said: str):
    """By id or by address; of a stored action, too."""
    assert 0 == call("actions", "post", write_action(people), "--app", "shop").code

    found = call("mails", "preview", "hello", "--user", user)

    assert 0 == found.code
    assert said in found.out.replace("\n", " ")
    assert ("Hi ben" in found.out) is (user == "ben")


def test_mails_are_written_as_files(call: Call, people: Path, tmp_path: Path):
    """What a mail program opens, and the HTML beside it."""
    folder = tmp_path / "out" / "here"

    found = call(
        *("mails", "preview", write_action(people), "--app", "shop"),
        *("--out", str(folder), "--limit", "1", "--json"),
    )

    assert {"001-send_email-ada.eml", "001-send_email-ada.html"} == {
        path.name for path in folder.iterdir()
    }
    assert sorted(map(str, folder.iterdir())) == found.data["files"]
    content = (folder / "001-send_email-ada.eml").read_bytes()
    message = message_from_bytes(content, policy=policy.default)
    assert "Shop reports <minutehand@localhost>" == message["From"]
    assert [("ada", "Hi ada")] == [
        (mail["recipient"], mail["subject"]) for mail in found.data["mails"]
    ]


def test_summary_without_data_is_shown_all_the_same(call: Call, people: Path):
    action = write_action(people, operations={"send_execsum": True})

    found = call("mails", "preview", action, "--app", "shop", "--user", "ada")

    assert 0 == found.code
    assert "Subject: Executive summary: Shop" in found.out
    assert "Nothing was published yet" in found.out
    assert "Attached: Shop-" in found.out


@pytest.mark.parametrize(
    ("operations_", "said"),
    [
        ({"send_email": {"template": "inactvie"}}, "has no template 'inactvie'"),
        ({"publish": True}, "The action sends no mails."),
    ],
)
def test_what_would_go_wrong_is_told(
    call: Call, people: Path, operations_: dict[str, object], said: str
):
    """Instead of mails that nobody would get."""
    action = write_action(people, operations=operations_)

    found = call("mails", "preview", action, "--app", "shop", "--json")

    assert [] == found.data["mails"]
    (problem,) = {
        (each["step"], each["message"])
        for each in found.data["problems"]
        if "no email address" not in each["message"]
    }
    assert said in problem[1]
    assert problem[0] in {None, *operations_}


def test_mistakes_of_the_call_are_named(call: Call, people: Path):
    action = write_action(people)
    here = ("mails", "preview", action)

    assert "--app is missing" in call(*here).err
    assert "has no user 'zoe'" in call(*here, "--app", "shop", "--user", "zoe").err
    out = call(*here, "--app", "shop", "--out", action)
    assert "--out" in out.err
    assert 0 != out.code
    assert "there is no scheduled action 'nope'" in call("mails", "preview", "nope").err
    for path in ("nofile.json", "no/file"):
        gone = call("mails", "preview", path, "--app", "shop")
        assert (2, f"error: {path}: No such file or directory") == (
            gone.code,
            gone.err.strip(),
        )
