"""The revision of a small app, and who may make one."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from models.errors import NotFoundError, StaleError
from tests.integration.actions.small_apps.shop import ADA, WHOLE, apply, fetch_changes


def test_revision_counts_what_changes(engine: sa.Engine):
    """It begins at 1; a document that changes nothing leaves it, and is not noted."""
    revisions = [
        apply(engine, WHOLE).revision,
        apply(engine, WHOLE).revision,
        apply(engine, {"name": "Shops"}).revision,
        apply(engine, {"users": [ADA]}).revision,
        apply(engine, {"users": [ADA]}).revision,
    ]

    assert [1, 1, 2, 3, 3] == revisions
    assert ["created", "applied", "applied"] == [
        row.change for row in fetch_changes(engine)
    ]


def test_what_changed_is_noted_without_secrets(engine: sa.Engine):
    """Settings with their values, parts by number, addresses not at all."""
    apply(engine, WHOLE)
    apply(engine, {"timezone": None, "notices": None, "users": [ADA]})

    created, applied = fetch_changes(engine)
    assert ("app", "shop", "shop", "ann") == (
        applied.kind,
        applied.subject,
        applied.app,
        applied.by,
    )
    assert "Europe/Paris" == applied.before["timezone"]
    assert applied.after["timezone"] is None
    assert {"added": 0, "changed": 0, "removed": 2} == applied.after["parts"]["users"]
    told = f"{created.after} {applied.before} {applied.after}"
    assert "hunter2" not in told
    assert "select 1" not in told


@pytest.mark.parametrize(("expected", "current"), [(1, None), (2, 1), (0, 1), (7, 1)])
def test_stale_document_is_refused(
    engine: sa.Engine, expected: int, current: int | None
):
    apply(engine, WHOLE)
    if current is None:
        assert 2 == apply(engine, {"name": "B"}, expected_revision=expected).revision
        return

    with pytest.raises(StaleError) as caught:
        apply(engine, {"name": "B"}, expected_revision=expected)

    assert current == caught.value.current
    assert 1 == apply(engine, WHOLE).revision


def test_unknown_app_has_no_revision(engine: sa.Engine):
    """0 stands for an app that there is not; any other revision of it is stale."""
    with pytest.raises(StaleError):
        apply(engine, WHOLE, expected_revision=1)

    assert apply(engine, WHOLE, expected_revision=0).created


def test_tenants_make_no_apps(engine: sa.Engine):
    for _ in range(2):
        with pytest.raises(NotFoundError, match="no small app 'shop'"):
            apply(engine, WHOLE, may_create=False)

    apply(engine, WHOLE)
    assert 2 == apply(engine, {"name": "B"}, may_create=False).revision
