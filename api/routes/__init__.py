"""
The routes, a file for each resource.

Those of ``ROUTERS`` need a key; those of ``PUBLIC_ROUTERS`` answer everybody.
"""

from api.routes import (
    actions,
    changes,
    keys,
    meta,
    operations,
    sign_in,
    stream,
)

PUBLIC_ROUTERS = (
    meta.router,
    sign_in.router,
)
ROUTERS = (
    actions.router,
    changes.router,
    keys.router,
    operations.router,
    stream.router,
)
