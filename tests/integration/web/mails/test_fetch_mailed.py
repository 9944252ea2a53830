"""Who was to get the mails of an operation, and why not the others."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from models.database.tables import users
from models.paging import Page, Position
from tests.database import execute, read_by
from tests.scheduling import (
    add_app,
    add_mails,
    add_steps,
    edit,
    make_operation,
    post,
    record_all,
)
from web.mails.fetch_mailed import MailedPart, fetch_mailed_part

STEP = "send_email"
MAILING: dict[str, Any] = {
    "operations": {STEP: {"template": "report"}},
    "recipients": {"users": ["ann", "bob"], "include_inactivated_users": True},
}


@pytest.fixture
def operation(engine: sa.Engine) -> UUID:
    """Give an operation of an action that mails to two of four users."""
    add_app(engine, ids=["ann", "bob", "cat", "dan"])
    uid = post(engine, **MAILING).uid
    new = make_operation(0, action_uid=uid)
    record_all(engine, new)
    return new.id


def _begin(engine: sa.Engine, operation_id: UUID, *ids: str) -> None:
    """Freeze the recipients of the step, and mail to the first."""
    memo = {"recipients": {"ids": list(ids), "warnings": ["no eve"]}}
    add_steps(engine, operation_id, {"name": STEP, "state": "running", "memo": memo})
    failed = {ids[0]: "failed"}
    add_mails(engine, operation_id, failed, step=STEP, error="550", app="app")


def _fetch(
    engine: sa.Engine, operation_id: UUID, page: Page | None = None, **options: Any
) -> MailedPart:
    return read_by(engine, fetch_mailed_part, operation_id, page or Page(), **options)


def _reasons(found: MailedPart) -> dict[str, tuple[bool, str]]:
    return {each.user.id: (each.is_in, each.reason) for each in found.part.entries}


def test_before_the_step_it_is_who_would_get_them(engine: sa.Engine, operation: UUID):
    """As the action says, and as the users are."""
    found = _fetch(engine, operation)

    assert (STEP, None, ()) == (found.step, found.count, found.warnings)
    reasons = _reasons(found)
    assert (True, "named as 'ann'") == reasons["ann"]
    assert (False, True) == (reasons["cat"][0], "named" in reasons["cat"][1])


def test_who_was_in_stays_in(engine: sa.Engine, operation: UUID):
    """Whatever the user is now; and who came later is told so."""
    _begin(engine, operation, "ann", "cat")
    execute(engine, sa.update(users).values(disabled=users.c.id != "bob"))

    found = _fetch(engine, operation)

    assert (STEP, 2, ["no eve"]) == (found.step, found.count, list(found.warnings))
    reasons = _reasons(found)
    assert [True, False, True, False] == [reasons[each][0] for each in sorted(reasons)]
    assert "only since the step began: named as 'bob'" == reasons["bob"][1]
    assert "neither the user" in reasons["dan"][1]
    assert [("failed", "550"), (None, None)] == [
        (each.state, each.error) for each in found.part.entries[:2]
    ]


@pytest.mark.parametrize("limit", [1, 2, 3, 50])
def test_parts_are_the_whole(engine: sa.Engine, operation: UUID, limit: int):
    """Of those who were left out, each once."""
    _begin(engine, operation, "ann")
    found: list[str] = []
    after: Position | None = None
    while True:
        part = _fetch(engine, operation, Page(limit, after), inside=False).part
        found += [each.user.id for each in part.entries]
        after = part.following
        if after is None:
            break

    assert ["bob", "cat", "dan"] == found


def test_run_for_one_user_is_for_nobody_else(engine: sa.Engine, operation: UUID):
    """Although the action names them."""
    edit(engine, operation, user_id="ann")

    reasons = _reasons(_fetch(engine, operation))

    assert "the run is for user 'ann' alone" == reasons["bob"][1]
    assert reasons["ann"][0]


def test_what_is_not_known_any_more_is_not_made_up(engine: sa.Engine):
    """Of an action whose revision is gone, those who got mails are known."""
    add_app(engine, ids=["ann", "bob"])
    new = make_operation(0, action_uid="gone")
    record_all(engine, new)
    nothing = _fetch(engine, new.id)
    _begin(engine, new.id, "ann")

    reasons = _reasons(_fetch(engine, new.id))

    assert (None, ()) == (nothing.step, nothing.part.entries)
    assert "not among the recipients when the step began" == reasons["bob"][1]
