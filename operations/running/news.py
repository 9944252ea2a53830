"""Whether a refresh brought something new, for actions that go on only then."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

import sqlalchemy as sa

from models.database.engine import reading
from models.database.tables import domain_versions, domains, operations
from models.operation_state import OperationState
from models.scheduled_action import ScheduledActionModel
from operations.claiming.claimed import STEPS_KEY, Claim

#: Former runs that are looked at for one that went all the way.
_LOOKED_AT = 100

_kept, _version = operations.c, domain_versions.c


def goes_on(engine: sa.Engine, claim: Claim, action: ScheduledActionModel) -> bool:
    """Tell whether the steps after refresh run: there is news, or it was forced."""
    asked = action.operations.refresh
    if action.if_ is None or asked is None or claim.details.get("force"):
        return True
    with reading(engine) as connection:
        return _brings_news(connection, claim, asked.domains)


def _brings_news(
    connection: sa.Connection, claim: Claim, names: Collection[str] | None
) -> bool:
    """
    Tell whether what is staged now is new since the action last succeeded.

    So what a run refreshed that failed before its last step is new to the next run, and
    what somebody else refreshed is, too. Equal content is not new, though it was read
    again. In doubt it is: after a change of the action, or if the version of then is
    gone.

    Args:
        claim: Of the run; its refresh is staged.
        names: The domains that it refreshed. None: all.
    """
    succeeded_at = _find_success(connection, claim)
    if succeeded_at is None:
        return True
    mine = [] if names is None else [domains.c.name.in_(names)]
    rows = connection.execute(
        sa.select(
            *(domains.c.name, domains.c.staged_version),
            *(_version.version, _version.sha256, _version.created_at),
        )
        .join(
            domain_versions,
            sa.and_(_version.app == domains.c.app, _version.domain == domains.c.name),
        )
        .where(domains.c.app == claim.app, *mine)
        .order_by(_version.version)
    ).all()
    before = {row.name: row.sha256 for row in rows if row.created_at <= succeeded_at}
    now = {row.name: row.sha256 for row in rows if row.version == row.staged_version}
    return any(before.get(name) != digest for name, digest in now.items())


def _find_success(connection: sa.Connection, claim: Claim) -> datetime | None:
    """Return when the action, as it is, last did all of its steps."""
    rows = connection.execute(
        sa.select(_kept.finished_at, _kept.details)
        .where(
            _kept.action_uid == claim.action_uid,
            _kept.action_revision == claim.action_revision,
            _kept.state == OperationState.SUCCEEDED,
        )
        .order_by(_kept.occurrence.desc())
        .limit(_LOOKED_AT)
    )
    whole = (row.finished_at for row in rows if STEPS_KEY not in (row.details or {}))
    return max(whole, default=None)
