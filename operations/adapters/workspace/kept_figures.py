"""What summaries said, kept beside the domains for the next summary of their action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from pydantic import JsonValue

from models.database.tables import domains

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
