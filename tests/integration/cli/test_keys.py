"""The commands ``keys create|list|revoke|rotate|link|invitations``."""

from __future__ import annotations

import re
from contextlib import redirect_stdout
from datetime import datetime

import pytest
import sqlalchemy as sa

from models.database.tables import sign_ins
from serving.access.callers import Caller
from serving.access.key_documents import DEFAULT_LIFETIME
from serving.access.keys import make_digest, recognize
from serving.access.sign_ins import LINK_COMMAND, follow_link
from tests.database import fetch_rows, read_by, write_by
from tests.integration.cli.calling import Answer, Call, Configure
from tests.servers import open_terminal


def create(call: Call, *more: str) -> Answer:
    return call("keys", "create", "--all", "--role", "viewer", *more)


def is_taken(engine: sa.Engine, text: str) -> bool:
    return isinstance(read_by(engine, recognize, text), Caller)


def test_key_stands_alone_on_standard_output(call: Call, engine: sa.Engine):
    """So that a script can keep it; what people should know is beside it."""
    answer = create(call, "--name", "nightly", "--expires", "P30D")

    assert 0 == answer.code
    assert is_taken(engine, answer.out.removesuffix("\n"))
    assert "(nightly), viewer of all small apps, expires: 20" in answer.err
    assert "not shown again" in answer.err


@pytest.mark.usefixtures("shop")
def test_keys_are_listed_without_their_secrets(call: Call):
    assert "minutehand keys create" in call("keys", "list").err
    text = call("keys", "create", "--app", "shop", "--role", "admin").out.strip()
    made = create(call, "--json").data
    table, listed = call("keys", "list").out, call("keys", "list", "--json").data
    of_shop = call("keys", "list", "--app", "shop", "--json").data

    assert text not in table
    assert made["key"] not in str(listed)
    assert [made["id"], text.split("_")[1]] == [key["id"] for key in listed]
    assert [("shop", "admin", "active")] == [
        (key["app"], key["role"], key["state"]) for key in of_shop
    ]
    assert {"mh_" + key["id"] + "_" for key in listed} == {
        key["prefix"] for key in listed
    }


def test_key_is_revoked_by_its_id_or_its_beginning(call: Call, engine: sa.Engine):
    first, second = (create(call).out.strip() for _ in range(2))
    by_id = call("keys", "revoke", first.split("_")[1])
    by_prefix = call("keys", "revoke", second[:16])

    assert (0, 0) == (by_id.code, by_prefix.code)
    assert "was revoked at" in by_id.out
    assert [False, False] == [is_taken(engine, key) for key in (first, second)]


def test_keys_end_as_those_of_the_pages_do(call: Call):
    """After a while, unless somebody wants one that does not end."""
    usual, endless = create(call, "--json").data, create(call, "--expires", "never")
    made = datetime.fromisoformat(usual["created_at"])

    assert made + DEFAULT_LIFETIME.elapsed == datetime.fromisoformat(
        usual["expires_at"]
    )
    assert "expires: never" in endless.err


def test_rotation_prints_the_successor_alone(call: Call, engine: sa.Engine):
    old = create(call).out.strip()
    rotated = call("keys", "rotate", old[:16])
    new = rotated.out.strip()

    assert f"Key {old.split('_')[1]} is taken until" in rotated.err
    assert [True, True] == [is_taken(engine, key) for key in (old, new)]

    last = call("keys", "rotate", new[:16], "--overlap", "PT0S", "--json").data
    assert last["replaces"] == new.split("_")[1]
    assert [False, True] == [is_taken(engine, k) for k in (new, last["key"])]
    assert 5 == call("keys", "rotate", new[:16]).code


@pytest.mark.usefixtures("shop")
def test_link_signs_in_with_a_role(call: Call, engine: sa.Engine, configure: Configure):
    """Printed alone, with the address that people see."""
    configure(WEB_URL="https://minutehand.example.org/")
    with open_terminal() as terminal, redirect_stdout(terminal.stream):
        answer = call("keys", "link", "--app", "shop", "--role", "viewer")
        address, _, secret = terminal.shown.strip().partition("#")
    session = write_by(engine, follow_link, secret)

    assert (0, "") == (answer.code, answer.err)
    assert "https://minutehand.example.org/sign-in" == address
    assert session is not None
    assert ("shop", "viewer") == (session.caller.app, session.caller.role)
    assert "@" in session.caller.name


@pytest.mark.usefixtures("shop")
def test_colleague_is_invited(call: Call, engine: sa.Engine):
    """By a link to a terminal, which is on record without its secret."""
    invite = ("keys", "link", "--app", "shop", "--role", "viewer", "--invite", "zoe")
    with open_terminal() as terminal, redirect_stdout(terminal.stream):
        answer = call(*invite, "--expires", "P2D")
        _, _, secret = terminal.shown.strip().partition("#")
        wrong = [
            call(*invite, "--expires", "P31D"),
            call(*invite, "--expires", "soon"),
            call(*invite[:-1], "  "),
            call(*invite[:-2], "--expires", "P2D"),
            call("keys", "link", "--all", *invite[4:]),
        ]
    kept = call(*invite)
    noted = call("changes", "list", "--kind", "invitation", "--json").data
    session = write_by(engine, follow_link, secret)

    assert 0 == answer.code
    assert "For zoe, viewer of small app shop: once, and until" in answer.err
    assert [2] * 6 == [each.code for each in [*wrong, kept]]
    assert session is not None
    assert session.caller.name.startswith("zoe (invited by ")
    assert [session.caller.name] == [each["subject"] for each in noted]
    assert secret not in str(noted)


@pytest.mark.usefixtures("shop")
def test_invitations_are_listed_and_revoked(call: Call, engine: sa.Engine):
    """Without their secrets; by an id by which nobody comes in."""
    assert "keys link --app APP --role viewer" in call("keys", "invitations").err
    invite = ("keys", "link", "--app", "shop", "--role", "viewer", "--invite", "zoe")
    with open_terminal() as terminal, redirect_stdout(terminal.stream):
        call(*invite)
        _, _, secret = terminal.shown.strip().partition("#")
    table = call("keys", "invitations").out
    (listed,) = call("keys", "invitations", "--app", "shop", "--json").data
    others = call("keys", "invitations", "--app", "books", "--json").data
    told = call("keys", "revoke", listed["id"])
    again = call("keys", "revoke", listed["id"])
    session = write_by(engine, follow_link, secret)

    assert re.search(r"zoe \(invited by \S+\) +shop +viewer +not yet ", table)
    assert {"id", "app", "role", "name", "expires_at", "used_at"} == listed.keys()
    assert make_digest(secret) not in table + str(listed)
    assert [] == others
    assert f"The invitation of {listed['name']} was revoked" in told.out
    assert (4, None) == (again.code, session)
    assert f"no invitation {listed['id']!r} that has not ended, and" in again.err


def test_link_is_printed_to_a_terminal_alone(call: Call, engine: sa.Engine):
    """What goes elsewhere is kept, and read by others; then no link is made, either."""
    refused = call("keys", "link", "--all", "--role", "admin")

    assert (2, "") == (refused.code, refused.out)
    assert "Call this in a terminal" in refused.err
    assert [] == fetch_rows(engine, sa.select(sign_ins)).all()


def test_link_says_what_it_needs(embedded: Call):
    """With an example that works, which the page for signing in shows, too."""
    refused = embedded("keys", "link")

    assert 2 == refused.code
    assert "--role viewer|operator|editor|admin" in refused.err
    assert f"For example: {LINK_COMMAND}" in refused.err
    assert ["link", "--all", "--role", "admin"] == LINK_COMMAND.split()[-4:]


def test_link_needs_to_know_where_the_pages_are(call: Call, configure: Configure):
    """A port that is chosen at the start is known to nobody else."""
    with open_terminal() as terminal, redirect_stdout(terminal.stream):
        call("keys", "link", "--all", "--role", "viewer")
        unknown = call("keys", "link", "--app", "none", "--role", "viewer")
        configure(WEB_ADDRESS="127.0.0.1:0")
        anywhere = call("keys", "link", "--all", "--role", "viewer")
        printed = terminal.shown

    assert printed.startswith("http://127.0.0.1:8400/sign-in#mhl_")
    assert (4, 2) == (unknown.code, anywhere.code)
    assert "Set MINUTEHAND_WEB_URL." in anywhere.err
