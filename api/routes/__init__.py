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
ROUTERS = tuple(
    each.router
    for each in (
        *(actions, action_runs, backfills, bulk, apps, changes, data, events, keys),
        *(mails, operations, previews, stream, system, users),
    )
)
