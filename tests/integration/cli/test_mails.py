"""Uncertain mails on the command line."""

from __future__ import annotations

import re
from uuid import UUID

import pytest
import sqlalchemy as sa

from cli.connection import get_engine
from models.database.tables import operations
from tests.database import execute
from tests.integration.cli.calling import Call, Post
from tests.scheduling import add_mails, add_steps, edit, get_now


@pytest.fixture
def mailed(call: Call, post: Post) -> str:
    """Give the id of an operation that does not know of two of its mails."""
    assert 0 == post().code
    id_: str = call("actions", "run", "hello", "--json").data["id"]
    engine, operation = get_engine(), UUID(id_)
    edit(engine, operation, state="succeeded")
    add_steps(engine, operation, {"name": "send_email", "state": "succeeded"})
    mails = dict.fromkeys(("ann", "ben"), "uncertain")
    add_mails(engine, operation, mails, at=get_now(engine))
    return id_


def test_mails_are_listed_and_decided_about(call: Call, mailed: str):
    assert "Total: 2 uncertain." in call("mails", "list", "--app", "shop").out

    confirmed = call("mails", "confirm", mailed, "ann")
    resent = call("mails", "resend", "--all", "--yes", "--json")

    assert (0, "Marked as sent: 1 of 1.\n") == (confirmed.code, confirmed.out)
    assert {"matched": 1, "changed": 1, "refused": {}, "dry_run": False} == resent.data
    listed = call("mails", "list", "--operation", mailed, "--json").data
    assert {("ann", "sent"), ("ben", "failed")} == {
        (each["recipient"], each["state"]) for each in listed
    }
    assert all("@" in each["resolved_by"] for each in listed)
    assert "pending" == call("operations", "show", mailed, "--json").data["state"]
    assert "decided by" in call("mails", "list").out


@pytest.mark.usefixtures("mailed")
def test_many_are_counted_first(call: Call):
    """Without anybody to ask, --yes must say so."""
    looked = call("mails", "resend", "--app", "shop", "--dry-run")
    refused = call("mails", "confirm", "--app", "shop")

    assert (0, "Matched 2 uncertain mails.\n") == (looked.code, looked.out)
    assert (2, True) == (refused.code, "Mark 2 uncertain mails as sent?" in refused.err)
    assert 2 == len(call("mails", "list", "--state", "uncertain", "--json").data)


@pytest.mark.usefixtures("mailed")
def test_what_refuses_all_is_a_conflict(call: Call):
    """Of an operation that is not over; it is named."""
    execute(get_engine(), sa.update(operations).values(state="pending"))

    answer = call("mails", "resend", "--all", "--yes")

    assert 5 == answer.code
    assert "left unchanged: the mails of operation" in answer.out
    late = ("--action", "hello", "--from", "2100-01-01T00:00Z")
    assert "No uncertain mail" in call("mails", "confirm", *late).out


@pytest.mark.parametrize("line", ["list", "show {} ann"])
def test_mails_are_told_by_the_clock_of_their_rule(call: Call, mailed: str, line: str):
    """As the operations that sent them, whatever the clock of the host."""
    told = call("mails", *line.format(mailed).split()).out

    assert re.search(r"\d\d:\d\d:\d\d \+0[12]:00 \(", told)
