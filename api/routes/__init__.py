"""
The routes, a file for each resource.

Those of ``ROUTERS`` need a key; those of ``PUBLIC_ROUTERS`` answer everybody.
"""

from api.routes import (
    action_runs,
    actions,
    apps,
    backfills,
    bulk,
    changes,
    data,
    events,
    keys,
    mails,
    meta,
    operations,
    previews,
    stream,
    system,
    users,
)

PUBLIC_ROUTERS = (meta.router,)
ROUTERS = (
    actions.router,
    action_runs.router,
    backfills.router,
    bulk.router,
    apps.router,
    changes.router,
    data.router,
    events.router,
    keys.router,
    mails.router,
    operations.router,
    previews.router,
    stream.router,
    system.router,
    users.router,
)
