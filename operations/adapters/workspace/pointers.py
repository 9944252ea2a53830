"""
Move the pointers of a small app, each kind in one statement.

A pointer moves only if it changes. So a repetition moves nothing, and the version that
was live before is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, cast

import sqlalchemy as sa
from pydantic import JsonValue

from models.database.tables import app_documents, domains
from models.errors import StepError
from operations.domains import Move, MoveKind


def has_staged(connection: sa.Connection, app: str, kind: str) -> bool:
    """Return whether *app* has anything staged of *kind*."""
    found = (
        sa.exists().where(domains.c.app == app, domains.c.staged_version.is_not(None))
        if kind == "data"
        else sa.exists().where(
            app_documents.c.app == app,
            app_documents.c.part == kind,
            app_documents.c.staged.is_not(None),
        )
    )
    return bool(connection.execute(sa.select(found)).scalar())


def explain_nothing_staged(app: str, kind: str) -> StepError:
    """Return the error for a *kind* that has nothing staged."""
    hint = (
        'Run "refresh" before "publish".'
        if kind == "data"
        else f'Apply a document "{kind}" first (minutehand apps apply FILE).'
    )
    msg = f"small app {app!r} has nothing staged for {kind}. {hint}"
    return StepError(msg, permanent=True)


def publish_data(
    connection: sa.Connection,
    app: str,
    now: datetime,
    names: Collection[str] | None = None,
) -> list[Move]:
    """Make the staged data of *names* (None: all) live; return what moved, by name."""
    staged = domains.c.staged_version
    is_new = staged.is_distinct_from(domains.c.live_version)
    return _point_at_data(connection, staged, app, now, names, is_new)


def roll_back_data(
    connection: sa.Connection,
    app: str,
    now: datetime,
    names: Collection[str] | None = None,
) -> list[Move]:
    """Swap live data of *names* (None: all) with what was live before; return moves."""
    return _point_at_data(connection, domains.c.previous_version, app, now, names)


def _point_at_data(
    connection: sa.Connection,
    version: sa.ColumnElement[str],
    app: str,
    now: datetime,
    names: Collection[str] | None,
    *conditions: sa.ColumnElement[bool],
) -> list[Move]:
    """Make *version* live where there is one; return what moved, by name."""
    if names is not None:
        conditions += (domains.c.name.in_(names),)
    statement = (
        sa.update(domains)
        .where(domains.c.app == app, version.is_not(None), *conditions)
        .values(
            previous_version=domains.c.live_version,
            live_version=version,
            published_at=now,
        )
        .returning(domains.c.name, domains.c.previous_version, domains.c.live_version)
    )
    rows = sorted(connection.execute(statement).all())
    return [Move("data", name, before, after) for name, before, after in rows]


def publish_document(
    connection: sa.Connection, app: str, kind: str, now: datetime
) -> list[Move]:
    """Make the staged document live; return a move if that changed it."""
    staged = app_documents.c.staged
    is_new = staged.is_distinct_from(app_documents.c.live)
    return _point_at_document(connection, staged, app, kind, now, is_new)


def roll_back_document(
    connection: sa.Connection, app: str, kind: str, now: datetime
) -> list[Move]:
    """Swap the live document with the one that was live before."""
    return _point_at_document(connection, app_documents.c.previous, app, kind, now)


def _point_at_document(
    connection: sa.Connection,
    document: sa.ColumnElement[str],
    app: str,
    kind: str,
    now: datetime,
    *conditions: sa.ColumnElement[bool],
) -> list[Move]:
    """Make *document* live if there is one; return a move if that changed anything."""
    kept = app_documents.c
    statement = (
        sa.update(app_documents)
        .where(kept.app == app, kept.part == kind, document.is_not(None), *conditions)
        .values(previous=kept.live, live=document, published_at=now)
    )
    moved = connection.execute(statement).rowcount
    return [Move(cast("MoveKind", kind), kind, None, None)] if moved else []


#: Actions of which figures are kept for a domain: those that sent one last. An app has
#: one or two; without a bound, deleted actions would stay for ever.
MOST_ACTIONS = 50


def keep_figures(
    connection: sa.Connection,
    app: str,
    action_uid: str,
    figures: Mapping[str, JsonValue],
) -> None:
    """
    Store *figures*, by domain; domains that are gone meanwhile are left out.

    Args:
        connection: In a transaction that holds the claim.
        action_uid: The action that sent the summary.
        figures: As ``Former.as_json`` has them.
    """
    rows = connection.execute(
        sa.select(domains.c.name, domains.c.summarized)
        .where(domains.c.app == app, domains.c.name.in_(figures))
        .order_by(domains.c.name)
        .with_for_update()
    ).all()
    for name, stored in rows:
        kept = {**(stored or {}), action_uid: figures[name]}
        connection.execute(
            sa.update(domains)
            .where(domains.c.app == app, domains.c.name == name)
            .values(summarized=_keep_latest(kept))
        )


def _keep_latest(kept: dict[str, Any]) -> dict[str, Any]:
    latest = sorted(kept.items(), key=lambda entry: entry[1]["at"], reverse=True)
    return dict(latest[:MOST_ACTIONS])
