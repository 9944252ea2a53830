"""Users, groups and templates from both databases; what workers may import."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from models.database.tables import memberships, small_apps, users
from models.fields.zone import load_zone
from operations.adapters.app_users import RealDirectory
from operations.mail.message import Letterhead, MailingApp
from operations.recipients import User
from tests.database import execute

NOW = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)


@pytest.fixture
def directory(engine: sa.Engine) -> RealDirectory:
    """Give two apps, of which the other has the same user id."""
    with engine.begin() as connection:
        connection.execute(
            small_apps.insert(),
            [{"uid": "demo", "name": "Demo"}, {"uid": "other", "name": "Other"}],
        )
        connection.execute(
            users.insert(),
            [
                {"app": "demo", "id": "b", "email": "b@x.org", "activated_at": NOW},
                {"app": "demo", "id": "a", "email": "a@x.org", "activated_at": None},
                {"app": "other", "id": "a", "email": "z@x.org", "activated_at": None},
            ],
        )
        connection.execute(
            memberships.insert(),
            [
                {"app": "demo", "group_name": "g", "user_id": "b"},
                {"app": "demo", "group_name": "h", "user_id": "b"},
                {"app": "other", "group_name": "g", "user_id": "a"},
            ],
        )
    return RealDirectory(engine)


def test_users_have_the_groups_of_their_app(directory: RealDirectory):
    """Users come by id, and nothing crosses from one small app to another."""
    assert (
        User("a", "a@x.org"),
        User("b", "b@x.org", groups=frozenset({"g", "h"}), activated_at=NOW),
    ) == directory.fetch_users("demo")


def test_app_has_what_it_writes_on_its_mails(
    engine: sa.Engine, directory: RealDirectory
):
    """One that names no zone has that of the installation; an unknown one is None."""
    mail = {"from_name": "S", "reply_to": "r@x.org", "locale": "fr"}
    execute(engine, sa.update(small_apps).values(mail=mail))

    app = RealDirectory(engine, timezone="Asia/Tokyo").get_app("demo")

    letterhead = Letterhead(name="S", reply_to="r@x.org")
    assert MailingApp("Demo", load_zone("Asia/Tokyo"), "fr", letterhead) == app
    assert directory.get_app("none") is None


def test_importing_the_steps_does_not_import_polars():
    """Polars in the parent of the worker processes would hang its forked children."""
    modules = ["operations.steps", "operations.running.attempt"] + [
        ".".join(path.with_suffix("").parts)
        for path in Path("operations/adapters").rglob("[a-z]*.py")
    ]
    program = f"import sys, {', '.join(modules)}; print('polars' in sys.modules)"

    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, text=True
    )

    assert "False" == answer.stdout.strip()
