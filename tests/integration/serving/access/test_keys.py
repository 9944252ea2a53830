"""API keys: recognized, made, rotated and revoked, on both databases."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from models.database.engine import Author, db_now, reading, writing
from models.database.tables import api_keys, changes
from models.errors import ConflictError, ForbiddenError, NotFoundError
from models.fields.duration import Duration
from models.json_form import get_members, write_json
from models.paging import Page
from models.role import Role
from serving.access.callers import Caller
from serving.access.key_documents import NewKey, ShownKey
from serving.access.keys import RefusedKey, note_use, recognize
from serving.access.manage_keys import (
    MOST_KEYS,
    create_key,
    fetch_key,
    fetch_keys,
    revoke_key,
    rotate_key,
)
from tests.database import execute, fetch_rows, race, read_by, turn_pages
from tests.scheduling import add_app

ADA = Author("ada@host")
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)


@pytest.fixture
def engine(engine: sa.Engine) -> sa.Engine:
    """Give a database with two small apps."""
    add_app(engine, "shop")
    add_app(engine, "bank")
    return engine


def make(engine: sa.Engine, app: str | None = "shop", **options: Any) -> NewKey:
    options = {"role": Role.OPERATOR, "name": "nightly", **options}
    with writing(engine, author=ADA) as connection:
        return create_key(connection, app=app, **options)


def revoke(engine: sa.Engine, key: NewKey, maker: Caller | None = None) -> ShownKey:
    with writing(engine, author=ADA) as connection:
        return revoke_key(connection, key.id, maker=maker)


def rotate(engine: sa.Engine, key: NewKey, **options: Any) -> NewKey:
    with writing(engine, author=ADA) as connection:
        return rotate_key(connection, key.id, **options)


def ask(engine: sa.Engine, text: str) -> Caller | None:
    found = read_by(engine, recognize, text)
    return None if isinstance(found, RefusedKey) else found


def edit(engine: sa.Engine, key: NewKey, **values: Any) -> None:
    """Move a key in time: the databases have real clocks."""
    execute(engine, sa.update(api_keys).where(api_keys.c.id == key.id).values(**values))


def show(engine: sa.Engine, key: NewKey, app: str | None = None) -> ShownKey:
    return read_by(engine, fetch_key, key.id, app=app)


def caller_of(engine: sa.Engine, key: NewKey) -> Caller:
    caller = ask(engine, key.text)
    assert caller is not None  # it was made just now
    return caller


def test_whoever_has_the_key_is_known(engine: sa.Engine):
    """Its name, its role and its small app come with it; without one, its id."""
    key, nameless = make(engine), make(engine, app=None, name=None)

    assert Caller(key.id, "nightly", Role.OPERATOR, "shop") == ask(engine, key.text)
    assert f"key {nameless.id}" == caller_of(engine, nameless).name


def test_keys_of_an_app_are_bounded(engine: sa.Engine):
    """Those that have ended do not count, nor those of others."""
    with writing(engine, author=ADA) as connection:
        first, second, *_ = [
            create_key(connection, app="shop", role=Role.VIEWER)
            for _ in range(MOST_KEYS)
        ]

    with pytest.raises(ConflictError, match=r"at most 100 are allowed\. Revoke those"):
        make(engine)
    with pytest.raises(ConflictError, match="at most 100 are allowed"):
        rotate(engine, first)
    first = rotate(engine, first, overlap=Duration.parse("PT0S"))
    make(engine, "bank")
    make(engine, None)
    revoke(engine, first)
    make(engine)
    edit(engine, second, expires_at=second.created_at)
    make(engine)


def test_secret_is_not_stored(engine: sa.Engine):
    """Whoever reads the database, or the record, cannot ask with it."""
    key = make(engine)
    secret = key.text.removeprefix(key.prefix)
    rotate(engine, key)

    with reading(engine) as connection:
        for table in (api_keys, changes):
            rows = connection.execute(sa.select(table)).mappings().all()
            assert secret not in str(rows)
        digests = connection.execute(sa.select(api_keys.c.digest)).scalars().all()
        noted = str(connection.execute(sa.select(changes)).mappings().all())

    assert [digest for digest in digests if digest in noted] == []
    assert "digest" not in write_json(show(engine, key))


def test_secret_of_another_key_is_refused(engine: sa.Engine):
    """The id finds the row, and the secret must be that of the row."""
    key, other = make(engine), make(engine)
    edit(engine, key, digest=show_digest(engine, other))

    assert ask(engine, key.text) is None


def show_digest(engine: sa.Engine, key: NewKey) -> str:
    digest: str = fetch_rows(
        engine, sa.select(api_keys.c.digest).where(api_keys.c.id == key.id)
    ).scalar_one()
    return digest


def test_end_of_a_key_ends_asking(engine: sa.Engine):
    """The reason is told to whoever has the whole key."""
    revoked, expired, gone = make(engine), make(engine), make(engine)
    revoke(engine, revoked)
    edit(engine, expired, expires_at=db_now(-MINUTE))
    execute(engine, sa.delete(api_keys).where(api_keys.c.id == gone.id))

    with reading(engine) as connection:
        told = [
            recognize(connection, text)
            for text in (revoked.text, expired.text, gone.text, gone.text[:-1])
        ]

    assert [
        RefusedKey("the API key was revoked"),
        RefusedKey("the API key has expired"),
        RefusedKey("there is no such API key"),
        RefusedKey("this is not an API key, or it has a typo: its checksum is wrong"),
    ] == told


def test_typo_asks_no_database(engine: sa.Engine):
    """Guessing costs us nothing but a checksum."""
    typo = make(engine).text[:-1] + "!"
    asked: list[str] = []
    sa.event.listen(
        engine, "before_cursor_execute", lambda *given: asked.append(given[2])
    )

    assert ask(engine, typo) is None
    assert [text for text in asked if "api_keys" in text and "SELECT" in text] == []


def test_key_lives_as_long_as_was_asked_for(engine: sa.Engine):
    key = make(engine, lifetime=Duration.parse("P30D"))
    assert key.expires_at is not None  # it was asked for

    assert 30 * DAY == key.expires_at - key.created_at
    assert {**get_members(show(engine, key)), "key": key.text} == get_members(key)
    assert make(engine).expires_at is None


def test_last_use_is_noted_once_a_minute(engine: sa.Engine):
    """A request writes nothing if another was noted within the minute."""
    key = make(engine)
    first = caller_of(engine, key)
    note_use(engine, first)
    assert show(engine, key).last_used_at is not None

    edit(engine, key, last_used_at=db_now(DAY))  # surely within the minute
    noted = show(engine, key).last_used_at
    second = caller_of(engine, key)
    note_use(engine, second)
    note_use(engine, first)  # it came at the same time as the other

    assert show(engine, key).last_used_at == noted
    assert (first.use_is_due, second.use_is_due) == (True, False)

    edit(engine, key, last_used_at=db_now(-MINUTE))
    before = show(engine, key).last_used_at
    note_use(engine, caller_of(engine, key))
    after = show(engine, key).last_used_at

    assert before != after


def test_keys_of_unknown_apps_are_refused(engine: sa.Engine):
    """The command line may name any app that there is, and is told the likely one."""
    with pytest.raises(NotFoundError, match="Did you mean 'shop'"):
        make(engine, app="shopp")


def test_key_of_an_app_makes_keys_of_that_app_only(engine: sa.Engine):
    """Whether there is another app, it does not learn."""
    admin = caller_of(engine, make(engine, role=Role.ADMIN))

    made = make(engine, maker=admin)
    with pytest.raises(NotFoundError) as other:
        make(engine, app="bank", maker=admin)
    with pytest.raises(NotFoundError) as unknown:
        make(engine, app="none", maker=admin)
    with pytest.raises(ForbiddenError, match="makes keys of that app only"):
        make(engine, app=None, maker=admin)

    assert "shop" == made.app
    assert str(other.value).replace("bank", "none") == str(unknown.value)


def test_nobody_gives_a_role_above_their_own(engine: sa.Engine):
    """Neither by making a key, nor by rotating one that is above theirs."""
    editor = caller_of(engine, make(engine, role=Role.EDITOR))
    admin = make(engine, role=Role.ADMIN)

    assert Role.EDITOR == make(engine, role=Role.EDITOR, maker=editor).role
    with pytest.raises(ForbiddenError, match="the role admin is above editor"):
        make(engine, role=Role.ADMIN, maker=editor)
    with pytest.raises(ForbiddenError):
        rotate(engine, admin, maker=editor)
    with pytest.raises(ForbiddenError):
        revoke(engine, admin, maker=editor)


def test_keys_of_others_are_unknown(engine: sa.Engine):
    """Rotating, revoking and reading another app's key: exactly as if it were none."""
    admin = caller_of(engine, make(engine, role=Role.ADMIN))
    others = [make(engine, app="bank"), make(engine, app=None)]
    texts = set()
    for key in others:
        for act in (
            lambda key=key: rotate(engine, key, maker=admin),
            lambda key=key: revoke(engine, key, maker=admin),
            lambda key=key: show(engine, key, app="shop"),
        ):
            with pytest.raises(NotFoundError) as refusal:
                act()
            texts.add(str(refusal.value).replace(key.id, "ID"))

    assert {"there is no API key 'ID'. List them with: minutehand keys list"} == texts
    assert [ask(engine, key.text) is not None for key in others] == [True, True]


def test_rotated_key_goes_on_for_a_while(engine: sa.Engine):
    old = make(engine)
    new = rotate(engine, old, overlap=Duration.parse("P7D"))
    ending = show(engine, old)

    assert ending.expires_at == new.created_at + 7 * DAY
    assert new.replaces == old.id
    assert new.expires_at is None
    assert caller_of(engine, new).name == caller_of(engine, old).name
    assert caller_of(engine, new).role == Role.OPERATOR


@pytest.mark.parametrize(("overlap", "days"), [("P7D", 3), ("P1D", 1), ("PT0S", 0)])
def test_rotation_never_prolongs_a_key(engine: sa.Engine, overlap: str, days: int):
    """
    The old one ends when it was to end, or at once if somebody else has seen it; the
    new one lives as long as it was to live.
    """
    old = make(engine, lifetime=Duration.parse("P3D"))
    new = rotate(engine, old, overlap=Duration.parse(overlap))
    ends = show(engine, old).expires_at

    assert ends == (old.expires_at if days == 3 else new.created_at + days * DAY)
    assert new.expires_at == new.created_at + 3 * DAY
    assert bool(days) == (ask(engine, old.text) is not None)
    assert ask(engine, new.text) is not None


def test_key_that_ended_is_not_rotated(engine: sa.Engine):
    """It would come to life again."""
    revoked, expired, rotated = make(engine), make(engine), make(engine)
    revoke(engine, revoked)
    edit(engine, expired, expires_at=db_now(-MINUTE))
    successor = rotate(engine, rotated)

    with pytest.raises(ConflictError, match="is revoked"):
        rotate(engine, revoked)
    with pytest.raises(ConflictError, match="is expired"):
        rotate(engine, expired)
    with pytest.raises(ConflictError, match=f"its successor, {successor.id}"):
        rotate(engine, rotated)

    revoke(engine, successor)
    assert ask(engine, rotate(engine, rotated).text) is not None


def test_two_rotations_at_once_make_one_successor(postgres_engine: sa.Engine):
    """The second finds that the first was there."""
    add_app(postgres_engine, "shop")
    old = make(postgres_engine)

    def try_rotate(_number: int) -> bool:
        try:
            rotate(postgres_engine, old)
        except ConflictError:
            return False
        return True

    assert 1 == race(4, try_rotate).count(True)


def test_revoked_key_stays_revoked(engine: sa.Engine):
    key = make(engine)
    first = revoke(engine, key)
    second = revoke(engine, key)

    assert first == second == show(engine, key)
    assert ("revoked", "ada@host") == (first.state, first.revoked_by)
    assert ["created", "revoked"] == [row.change for row in read_changes(engine)]


def read_changes(engine: sa.Engine) -> list[Any]:
    return list(fetch_rows(engine, sa.select(changes).order_by(changes.c.number)))


def test_what_is_done_to_keys_is_on_record(engine: sa.Engine):
    old = make(engine, lifetime=Duration.parse("P1D"))
    new = rotate(engine, old)
    created, rotated, successor = read_changes(engine)

    assert ("key", old.id, "shop", "ada@host") == (
        created.kind,
        created.subject,
        created.app,
        created.by,
    )
    assert {"role": "operator", "name": "nightly"}.items() <= created.after.items()
    assert ("rotated", old.id) == (rotated.change, rotated.subject)
    assert new.id == rotated.after["replaced_by"]
    assert ("created", new.id) == (successor.change, successor.subject)


def test_list_has_the_latest_first_part_by_part(engine: sa.Engine):
    keys = [make(engine, name=str(number)) for number in range(5)]
    make(engine, app="bank")
    make(engine, app=None)
    revoke(engine, keys[2])
    edit(engine, keys[1], expires_at=db_now(-MINUTE))
    parts = turn_pages(
        lambda page: read_by(engine, fetch_keys, app="shop", page=page), 2
    )
    seen = [key for part in parts for key in part]
    everything = read_by(engine, fetch_keys, app=None, page=Page(50))

    assert ["4", "3", "2", "1", "0"] == [key.name for key in seen]
    assert ["active", "active", "revoked", "expired", "active"] == [
        key.state for key in seen
    ]
    assert 7 == len(everything.entries)
    assert everything.following is None
