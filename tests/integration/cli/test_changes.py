"""The commands ``changes list|export|verify``."""

from __future__ import annotations

import hashlib
import json

import sqlalchemy as sa

from models.database.tables import changes
from tests.database import execute
from tests.integration.cli.calling import Call


def make_keys(call: Call, count: int) -> None:
    for number in range(count):
        call("keys", "create", "--all", "--role", "viewer", "--name", f"key {number}")


def test_list_is_for_people(call: Call):
    make_keys(call, 2)
    lines = call("changes", "list").out.splitlines()

    assert 3 == len(lines)
    assert "created" in lines[1]
    assert "role: viewer" in lines[1]
    assert "name: key 1" in lines[1]
    assert "No changes." in call("changes", "list", "--app", "none").err


def test_filters_and_limit_are_heeded(call: Call):
    """The same as those of the HTTP API."""
    make_keys(call, 3)
    (last,) = call("changes", "list", "--limit", "1", "--json").data
    subject = ("--kind", "key", "--subject", last["subject"])

    assert "key 2" == last["after"]["name"]
    assert [last] == call("changes", "list", *subject, "--json").data
    assert 3 == len(call("changes", "list", "--by", last["by"], "--json").data)
    assert [] == call("changes", "list", "--by", "nobody", "--json").data
    assert [] == call("changes", "list", "--until", "2026-01-01T00:00Z", "--json").data
    assert 2 == call("changes", "list", "--from", "someday").code


def test_export_can_be_verified_by_the_documentation_alone(call: Call):
    """docs/cli.md says how the hash is computed."""
    make_keys(call, 3)
    lines = [json.loads(line) for line in call("changes", "export").out.splitlines()]
    previous = "0" * 64
    for line in lines:
        at = line["at"].replace("T", " ").replace("Z", "+00:00")
        at = at if "." in at else at.replace("+00:00", ".000000+00:00")
        names = ("by", "key_id", "request_id", "app", "kind", "subject", "change")
        more = ("before", "after", "note", "previous_hash")
        values = [line["number"], at, *(line[name] for name in (*names, *more))]
        text = json.dumps(values, separators=(",", ":"), sort_keys=True)

        assert previous == line["previous_hash"]
        previous = line["hash"]
        assert hashlib.sha256(text.encode()).hexdigest() == previous
    assert [1, 2, 3] == [line["number"] for line in lines]


def test_whole_chain_is_verified(call: Call):
    """It prints what to keep, which is taken as it is printed."""
    assert "The chain is whole: 0 changes.\n" == call("changes", "verify").out
    make_keys(call, 2)
    answer = call("changes", "verify")
    first, anchor = answer.out.splitlines()

    assert (0, "The chain is whole: 2 changes.") == (answer.code, first)
    make_keys(call, 1)
    assert 0 == call("changes", "verify", "--anchor", anchor).code
    assert {"is_whole": True, "changes": 3, "broken": None}.items() <= (
        call("changes", "verify", "--json").data.items()
    )


def test_broken_chain_is_told_with_its_place(call: Call, engine: sa.Engine):
    """And with exit code 1, for a job that looks each night."""
    make_keys(call, 3)
    forged = sa.update(changes).where(changes.c.number == 2).values(by="eve")
    execute(engine, forged)
    answer, as_json = call("changes", "verify"), call("changes", "verify", "--json")

    assert (1, 1) == (answer.code, as_json.code)
    assert "the chain is broken at change 2: change 2 is not what" in answer.err
    assert (2, "altered") == (
        as_json.data["broken"]["number"],
        as_json.data["broken"]["fault"],
    )
