"""A directory of users, in memory and on both databases, keeps its promises."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from models.database.tables import memberships, small_apps, templates, users
from operations.adapters.app_users import RealDirectory
from operations.mail.message import Template
from operations.ports import Directory
from operations.recipients import User
from tests.unit.operations.fakes import FakeDirectory

NOW = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)
ANN = User("ann", "ann@example.org")
BEN = User(
    "ben",
    "ben@example.org",
    locale="fr",
    groups=frozenset({"g", "h"}),
    activated_at=NOW,
)
HELLO = Template("hello", "Hello", "Text", None)
BYE = Template("bye", "Bye", None, "<p>")


@pytest.fixture(params=["memory", "postgresql", "sqlite"])
def directory(request: pytest.FixtureRequest) -> Directory:
    """Give each directory there is, of one app that has two users and two templates."""
    if request.param == "memory":
        return FakeDirectory(
            app="shop",
            name="Shop",
            users=(BEN, ANN),
            templates={each.name: each for each in (HELLO, BYE)},
        )
    engine: sa.Engine = request.getfixturevalue(f"{request.param[:8]}_engine")
    with engine.begin() as connection:
        connection.execute(small_apps.insert().values(uid="shop", name="Shop"))
        for user in (BEN, ANN):
            connection.execute(
                users.insert().values(
                    app="shop",
                    id=user.id,
                    email=user.email,
                    locale=user.locale or None,
                    activated_at=user.activated_at,
                )
            )
        # another app has a user of the same id, in a group of the same name
        connection.execute(small_apps.insert().values(uid="else", name="Else"))
        stranger = {"app": "else", "id": "ann", "email": "z@example.org"}
        connection.execute(users.insert().values(stranger))
        connection.execute(
            memberships.insert(),
            [
                {"app": "shop", "group_name": "g", "user_id": "ben"},
                {"app": "shop", "group_name": "h", "user_id": "ben"},
                {"app": "else", "group_name": "g", "user_id": "ann"},
            ],
        )
        for each in (HELLO, BYE):
            connection.execute(
                templates.insert().values(
                    app="shop",
                    name=each.name,
                    subject=each.subject,
                    text=each.text,
                    html=each.html,
                )
            )
    return RealDirectory(engine)


def test_users_come_by_id(directory: Directory) -> None:
    """With their groups, and none of another app."""
    assert (ANN, BEN) == directory.fetch_users("shop")
    assert () == directory.fetch_users("other")
    assert BEN == directory.get_user("shop", BEN.id)
    assert directory.get_user("other", BEN.id) is None
    assert directory.get_user("shop", "nobody") is None


def test_templates_belong_to_their_app(directory: Directory) -> None:
    """One that is not there is None; their names are in order."""
    assert [HELLO, BYE, None] == [
        directory.get_template("shop", name) for name in ("hello", "bye", "none")
    ]
    assert directory.get_template("other", "hello") is None
    assert ("bye", "hello") == directory.fetch_template_names("shop")
    assert () == directory.fetch_template_names("other")


def test_app_is_as_its_mails_show_it(directory: Directory) -> None:
    """One that is not there is None."""
    app = directory.get_app("shop")

    assert app is not None
    assert "Shop" == app.name
    assert directory.get_app("other") is None


def test_locales_come_by_address(directory: Directory) -> None:
    """Of users of the app who have one."""
    asked = [ANN.email, BEN.email, "nobody@example.org"]
    expected = {user.email: user.locale for user in (ANN, BEN) if user.locale}

    assert expected == directory.fetch_locales("shop", asked)
    assert {} == directory.fetch_locales("other", asked)
