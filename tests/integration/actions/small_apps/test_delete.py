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
from models.database.engine import writing
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
from tests.scheduling import add_app, edit, get_now, make_dispatcher, post, put


def _delete(engine: sa.Engine, uid: str = "shop", **options: int) -> DeletedApp:
    with writing(engine, author=AUTHOR) as connection:
        return delete_small_app(connection, uid, by="ann", **options)


def test_deleted_app_is_nowhere(engine: sa.Engine):
    apply(engine, WHOLE)
    add_app(engine, "other")
    _delete(engine)

    event = read_event_object({"event": "app.x", "user": "ada"})
    assert ["other"] == [row.uid for row in read_by(engine, fetch_apps)]
    for use in (
        lambda: read_by(engine, fetch_app, "shop"),
        lambda: post(engine, "shop"),
        lambda: write_by(engine, receive_events, "shop", [event], is_list=False),
        lambda: write_by(engine, pause_target, "shop"),
        lambda: _delete(engine),
    ):
        with pytest.raises(NotFoundError):
            use()


def test_its_actions_and_keys_end(engine: sa.Engine):
    apply(engine, WHOLE)
    add_app(engine, "other")
    mine = [post(engine, "shop", name=name).uid for name in "ab"]
    post(engine, "other")
    of = {"role": "viewer", "created_at": get_now(engine), "created_by": "ann"}
    keys = [
        {**of, "id": key_id, "digest": key_id, "app": app}
        for key_id, app in (("k1", "shop"), ("k2", "other"), ("k3", None))
    ]
    execute(engine, sa.insert(api_keys), keys)

    deleted = _delete(engine)

    assert DeletedApp("shop", actions=2, keys=1) == deleted
    kept, changes, key = scheduled_actions.c, scheduled_action_revisions.c, api_keys.c
    gone = kept.deleted_at.is_not(None), kept.next_due_at.is_(None)
    noted = sa.select(changes.uid).where(changes.change == "deleted")
    for query in (sa.select(kept.uid).where(*gone), noted):
        assert set(mine) == set(fetch_rows(engine, query).scalars())
    revoked = sa.select(key.id, key.revoked_by).where(key.revoked_at.is_not(None))
    assert [("k1", "ann")] == [tuple(row) for row in fetch_rows(engine, revoked)]
    last = fetch_changes(engine)[-1]
    assert ("app", "shop", "deleted") == (last.kind, last.subject, last.change)
    assert {"actions": 2, "keys": 1} == last.after


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
