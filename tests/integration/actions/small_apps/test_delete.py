"""A deleted small app does nothing any more, and can be brought back."""

from __future__ import annotations

from uuid import uuid4

import pytest
import sqlalchemy as sa

from actions.lookup import SYSTEM_APP, fetch_app
from actions.own_actions import fetch_watch
from actions.pausing.targets import pause_target
from actions.receive_events import receive_events
from actions.small_apps.delete import DeletedApp, delete_small_app
from actions.small_apps.export import fetch_apps
from models.database.engine import db_now, reading, writing
from models.database.tables import (
    api_keys,
    operations,
    scheduled_action_revisions,
    scheduled_actions,
    small_apps,
)
from models.door.documents import read_event_object
from models.errors import ConflictError, NotFoundError, StaleError
from models.operation_state import OperationState
from tests.database import execute, fetch_rows, read_by, write_by
from tests.integration.actions.small_apps.shop import (
    AUTHOR,
    WHOLE,
    apply,
    export,
    fetch_changes,
)
from tests.scheduling import (
    MINUTE,
    add_app,
    edit,
    fetch_all,
    get_now,
    make_dispatcher,
    post,
    post_at,
    put,
    tick,
)

EVERY_MINUTE = {"cron_rule": "* * * * *"}


def _delete(engine: sa.Engine, uid: str = "shop", **options: int) -> DeletedApp:
    with writing(engine, author=AUTHOR) as connection:
        return delete_small_app(connection, uid, by="ann", **options)


def _add_key(engine: sa.Engine, app: str | None, key_id: str) -> None:
    execute(
        engine,
        sa.insert(api_keys).values(
            id=key_id,
            app=app,
            role="viewer",
            digest=key_id,
            created_at=db_now(),
            created_by="ann",
        ),
    )


def test_deleted_app_is_nowhere(engine: sa.Engine):
    apply(engine, WHOLE)
    add_app(engine, "other")
    _delete(engine)

    event = read_event_object({"event": "app.x", "user": "ada"})
    with reading(engine) as connection:
        assert ["other"] == [row.uid for row in fetch_apps(connection)]
        with pytest.raises(NotFoundError):
            fetch_app(connection, "shop")
    with pytest.raises(NotFoundError):
        post(engine, "shop")
    with writing(engine) as connection, pytest.raises(NotFoundError):
        receive_events(connection, "shop", [event])
    with writing(engine) as connection, pytest.raises(NotFoundError):
        pause_target(connection, "shop")
    with pytest.raises(NotFoundError):
        _delete(engine)


def test_its_actions_and_keys_end(engine: sa.Engine):
    apply(engine, WHOLE)
    add_app(engine, "other")
    mine = [post(engine, "shop", name=name).uid for name in "ab"]
    post(engine, "other")
    for key_id, app in (("k1", "shop"), ("k2", "other"), ("k3", None)):
        _add_key(engine, app, key_id)

    deleted = _delete(engine)

    assert DeletedApp("shop", actions=2, keys=1) == deleted
    kept = scheduled_actions.c
    changes = scheduled_action_revisions.c
    with reading(engine) as connection:
        gone = connection.execute(
            sa.select(kept.uid).where(
                kept.deleted_at.is_not(None), kept.next_due_at.is_(None)
            )
        ).scalars()
        assert set(mine) == set(gone)
        noted = connection.execute(
            sa.select(changes.uid).where(changes.change == "deleted")
        ).scalars()
        assert set(mine) == set(noted)
        revoked = connection.execute(
            sa.select(api_keys.c.id, api_keys.c.revoked_by).where(
                api_keys.c.revoked_at.is_not(None)
            )
        ).all()
        assert [("k1", "ann")] == [tuple(row) for row in revoked]
    last = fetch_changes(engine)[-1]
    assert ("app", "shop", "deleted") == (last.kind, last.subject, last.change)
    assert {"actions": 2, "keys": 1} == last.after


def test_nothing_of_it_becomes_due(engine: sa.Engine):
    add_app(engine, "shop")
    now = get_now(engine)
    post_at(engine, now - 2 * MINUTE, "shop", when=EVERY_MINUTE)
    _delete(engine)

    tick(make_dispatcher(engine), now + MINUTE)

    assert [] == fetch_all(engine)


@pytest.mark.parametrize("state", ["pending", "queued", "running", "canceled"])
def test_live_operations_prevent_it(engine: sa.Engine, state: str):
    apply(engine, WHOLE)
    # What is canceled is over when its worker has noticed.
    token = uuid4() if state in {"running", "canceled"} else None
    operation_id = put(engine, app="shop", state=state, claim_token=token)

    with pytest.raises(ConflictError, match=f"1 operation .*{operation_id}"):
        _delete(engine)

    edit(engine, operation_id, state=OperationState.SUCCEEDED, claim_token=None)
    _delete(engine)


def test_its_operations_stay_known(engine: sa.Engine):
    """History is no part of the app."""
    apply(engine, WHOLE)
    operation_id = put(engine, app="shop", state=OperationState.FAILED)
    _delete(engine)

    found = fetch_rows(engine, sa.select(operations.c.id)).scalar_one()
    assert operation_id == found


def test_applying_its_document_brings_it_back(engine: sa.Engine):
    apply(engine, WHOLE)
    post(engine, "shop")
    write_by(engine, pause_target, "shop")
    before = export(engine)
    _delete(engine)
    # a request that was let in just before the deletion
    with pytest.raises(NotFoundError):
        apply(engine, WHOLE, may_create=False)

    applied = apply(engine, {}, expected_revision=0)

    assert applied.created
    assert 3 == applied.revision
    assert before == export(engine)
    assert post(engine, "shop").created
    row = fetch_rows(engine, sa.select(small_apps)).one()
    assert (None, None) == (row.paused_at, row.deleted_at)


def test_what_may_not_be_deleted_stays(engine: sa.Engine):
    """Who read another revision deletes nothing, and nobody the scheduler's own app."""
    apply(engine, WHOLE)

    with pytest.raises(StaleError) as caught:
        _delete(engine, expected_revision=9)
    with pytest.raises(ConflictError, match="scheduler's own"):
        _delete(engine, SYSTEM_APP)

    assert 1 == caught.value.current
    _delete(engine, expected_revision=1)


def test_its_people_get_no_notices(engine: sa.Engine):
    """Of failures before the deletion, too."""
    apply(engine, WHOLE)
    make_dispatcher(engine)
    assert ["shop"] == [uid for uid, _, _ in read_by(engine, fetch_watch).apps]
    _delete(engine)

    assert [] == read_by(engine, fetch_watch).apps


def test_action_posted_meanwhile_is_not_left_behind(postgres_engine: sa.Engine):
    """Whoever posts to an app that is being deleted waits, and finds it gone."""
    engine = postgres_engine
    apply(engine, WHOLE)
    slow = engine.connect()
    slow.execute(sa.text("set lock_timeout = '100ms'"))
    with writing(engine) as connection:
        delete_small_app(connection, "shop", by="ann")
        with pytest.raises(sa.exc.OperationalError, match="lock timeout"):
            slow.execute(sa.select(small_apps.c.uid).with_for_update(read=True)).all()
    slow.close()

    with pytest.raises(NotFoundError):
        post(engine, "shop")
