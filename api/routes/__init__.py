"""
The routes, a file for each resource.

Those of ``ROUTERS`` need a key; those of ``PUBLIC_ROUTERS`` answer everybody.
"""

from api.routes import (
    action_history,
    action_runs,
    actions,
    apps,
    backfills,
    bulk,
    calendar,
    changes,
    data,
    events,
    keys,
    load,
    mails,
    meta,
    operations,
    previews,
    reference,
    stream,
    system,
    users,
)

PUBLIC_ROUTERS = (
    meta.router,
    reference.router,
)
ROUTERS = (
    actions.router,
    action_history.router,
    action_runs.router,
    backfills.router,
    bulk.router,
    apps.router,
    calendar.router,
    changes.router,
    data.router,
    events.router,
    keys.router,
    load.router,
    mails.router,
    operations.router,
    previews.router,
    stream.router,
    system.router,
    users.router,
)
