"""Links that sign in once, and sessions, on both databases."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from models.database.engine import db_now, read_clock, reading, writing
from models.database.tables import api_keys, changes, sign_ins
from models.errors import ConflictError, NotFoundError
from models.role import Role
from serving.access.callers import Caller
from serving.access.key_documents import InvitationModel, ShownInvitation
from serving.access.keys import make_digest
from serving.access.manage_keys import MOST_INVITED, create_key, invite, revoke_key
from serving.access.sign_ins import (
    LINK_FOR,
    SESSION_FOR,
    Session,
    begin_session,
    fetch_invitations,
    follow_link,
    make_link,
    recognize_session,
    revoke_invitation,
    sign_out,
)
from tests.database import execute, fetch_rows, race, read_by, write_by
from tests.scheduling import add_app

ADA = Caller(None, "ada@host", Role.ADMIN, None)
SECOND = timedelta(seconds=1)


def link(engine: sa.Engine, caller: Caller = ADA) -> str:
    return write_by(engine, make_link, caller)


def follow(engine: sa.Engine, text: str) -> Session | None:
    return write_by(engine, follow_link, text)


def begin(engine: sa.Engine, caller: Caller = ADA) -> Session:
    return write_by(engine, begin_session, caller)


def recognize(engine: sa.Engine, text: str) -> Caller | None:
    return read_by(engine, recognize_session, text)


def leave(engine: sa.Engine, text: str) -> bool:
    return write_by(engine, sign_out, text)


def expire(engine: sa.Engine) -> None:
    execute(engine, sa.update(sign_ins).values(expires_at=db_now(-SECOND)))


def make_key_caller(engine: sa.Engine) -> Caller:
    key = write_by(engine, create_key, app=None, role=Role.OPERATOR, name="ada")
    return Caller(key.id, "ada", Role.OPERATOR, None)


@pytest.mark.parametrize("app", [None, "shop"])
def test_link_signs_in_once(engine: sa.Engine, app: str | None):
    """With the role and the app of whoever made it."""
    text = link(engine, Caller(None, "zoe", Role.VIEWER, app))
    first, second = follow(engine, text), follow(engine, text)

    assert first is not None
    assert second is None
    caller = recognize(engine, first.text)
    assert caller is not None
    assert ("zoe", Role.VIEWER, app) == (caller.name, caller.role, caller.app)
    assert caller.session is not None


def test_one_of_many_follows_a_link(engine: sa.Engine):
    text = link(engine)
    sessions = race(4, lambda _number: follow(engine, text))

    assert 1 == sum(session is not None for session in sessions)


def test_links_and_sessions_end_by_themselves(engine: sa.Engine):
    text, session = link(engine), begin(engine)
    with reading(engine) as connection:
        now = read_clock(connection)
        rows = connection.execute(sa.select(sign_ins.c.kind, sign_ins.c.expires_at))
        ends = {row.kind: row.expires_at for row in rows}
    expire(engine)

    assert now < ends["link"] <= now + LINK_FOR
    assert now < ends["session"] == session.expires_at <= now + SESSION_FOR
    assert follow(engine, text) is None
    assert recognize(engine, session.text) is None


def test_signing_out_ends_the_session(engine: sa.Engine):
    mine, other = begin(engine), begin(engine)

    assert leave(engine, mine.text)
    assert not leave(engine, mine.text)
    assert recognize(engine, mine.text) is None
    assert recognize(engine, other.text) is not None


@pytest.mark.parametrize("end", ["revoked", "expired"])
def test_end_of_a_key_ends_its_links_and_sessions(engine: sa.Engine, end: str):
    caller = make_key_caller(engine)
    session, text = begin(engine, caller), link(engine, caller)
    before = recognize(engine, session.text)
    with writing(engine) as connection:
        assert caller.key_id is not None  # it was made just now
        if end == "revoked":
            revoke_key(connection, caller.key_id)
        else:
            past = db_now(-SECOND)
            connection.execute(sa.update(api_keys).values(expires_at=past))

    assert before is not None
    assert caller.key_id == before.key_id
    assert recognize(engine, session.text) is None
    assert follow(engine, text) is None


def test_session_of_an_invitation_ends_with_it(engine: sa.Engine):
    """And with the key of whoever made it."""
    add_app(engine, "shop")
    maker = replace(make_key_caller(engine), role=Role.ADMIN)
    wanted = InvitationModel(role=Role.VIEWER, app="shop", name="zoe", expires="P20D")
    new = write_by(engine, invite, wanted, maker)
    session = follow(engine, new.text)
    assert session is not None
    before = recognize(engine, session.text)
    with writing(engine) as connection:
        assert maker.key_id is not None  # it was made just now
        revoke_key(connection, maker.key_id)

    assert new.expires_at == session.expires_at
    assert before is not None
    assert ("shop", Role.VIEWER) == (before.app, before.role)
    assert recognize(engine, session.text) is None
    assert follow(engine, new.text) is None


def ask_in(
    engine: sa.Engine, name: str, app: str = "shop", maker: Caller | None = None
) -> str:
    """Return the secret of a new invitation."""
    wanted = InvitationModel(role=Role.VIEWER, app=app, name=name)
    return write_by(engine, invite, wanted, maker).text


def read_invited(engine: sa.Engine, app: str | None = None) -> list[ShownInvitation]:
    return read_by(engine, fetch_invitations, app)


def test_invitations_that_have_not_ended_are_listed(engine: sa.Engine):
    for app in ("shop", "books"):
        add_app(engine, app)
    used, unused = ask_in(engine, "zoe", maker=ADA), ask_in(engine, "ben", "books")
    follow(engine, used)
    link(engine)
    ben, zoe = read_invited(engine)

    assert "zoe (invited by ada@host)" == zoe.name
    assert ("shop", Role.VIEWER, True) == (zoe.app, zoe.role, zoe.used_at is not None)
    assert ("books", None) == (ben.app, ben.used_at)
    assert [zoe] == read_invited(engine, "shop")
    assert make_digest(unused).startswith(ben.id)
    assert [None, None] == [follow(engine, e) for e in (ben.id, make_digest(unused))]


@pytest.mark.parametrize("end", ["its own", "of its key"])
def test_invitation_that_has_ended_is_not_known(engine: sa.Engine, end: str):
    """Neither listed nor revoked."""
    add_app(engine, "shop")
    maker = replace(make_key_caller(engine), role=Role.ADMIN)
    ask_in(engine, "zoe", maker=maker)
    (listed,) = read_invited(engine)
    if end == "its own":
        expire(engine)
    else:
        write_by(engine, revoke_key, str(maker.key_id))

    assert [] == read_invited(engine)
    with writing(engine) as connection, pytest.raises(NotFoundError):
        revoke_invitation(connection, listed.id)


@pytest.mark.parametrize("is_used", [True, False])
def test_revoked_invitation_ends_its_session(engine: sa.Engine, *, is_used: bool):
    """And no other: neither that of the next one to the same person, nor a link's."""
    add_app(engine, "shop")
    text, next_text = (ask_in(engine, "zoe") for _ in range(2))
    session = follow(engine, text) if is_used else None
    others = [follow(engine, next_text), begin(engine)]
    shown = next(e for e in read_invited(engine) if make_digest(text).startswith(e.id))
    write_by(engine, revoke_invitation, shown.id, "shop")
    noted = fetch_rows(engine, sa.select(changes)).all()[-1]

    assert follow(engine, text) is None
    assert session is None or recognize(engine, session.text) is None
    assert None not in [each and recognize(engine, each.text) for each in others]
    assert ("revoked", "invitation") == (noted.change, noted.kind)
    assert (shown.name, "shop") == (noted.subject, noted.app)
    assert shown.id not in [each.id for each in read_invited(engine)]


def test_invitations_to_others_are_unknown(engine: sa.Engine):
    for app in ("shop", "books"):
        add_app(engine, app)
    text = ask_in(engine, "zoe")
    (listed,) = read_invited(engine)
    made_up = (listed.id[:-1], make_digest(text), text, "", "%")
    unknown: dict[str, str | None] = {listed.id: "books", **dict.fromkeys(made_up)}
    for wrong, scope in unknown.items():
        with writing(engine) as connection, pytest.raises(NotFoundError):
            revoke_invitation(connection, wrong, scope)

    assert [listed] == read_invited(engine)
    assert follow(engine, text) is not None


def test_small_app_has_so_many_invitations(engine: sa.Engine):
    """Each session may ask as often as any other."""
    for app in ("shop", "books"):
        add_app(engine, app)
    wanted = InvitationModel(role=Role.VIEWER, app="shop", name="zoe")
    with writing(engine) as connection:
        for _time in range(MOST_INVITED):
            invite(connection, wanted)
        with pytest.raises(ConflictError, match="100 invitations"):
            invite(connection, wanted)
        revoke_invitation(connection, fetch_invitations(connection, "shop")[0].id)
        invite(connection, wanted)
        invite(connection, wanted.model_copy(update={"app": "books"}))


def test_links_and_sessions_are_not_each_other(engine: sa.Engine):
    """Neither can be used as the other, and text that is neither asks no database."""
    text, session = link(engine), begin(engine)

    assert recognize(engine, text) is None
    assert follow(engine, session.text) is None
    assert not leave(engine, text)
    assert [follow(engine, each) for each in ("", "mhl_", "x" * 100_000)] == [None] * 3


def test_secrets_are_not_stored(engine: sa.Engine):
    """Whoever reads the database signs in as nobody."""
    texts = [link(engine), begin(engine).text]
    rows: Any = fetch_rows(engine, sa.select(sign_ins)).all()

    assert [text for text in texts if text in str(rows)] == []
