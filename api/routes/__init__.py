"""
The routes, a file for each resource.

Those of ``ROUTERS`` need a key; those of ``PUBLIC_ROUTERS`` answer everybody.
"""

from api.routes import actions, changes, keys, meta, operations, sign_in

PUBLIC_ROUTERS = (meta.router, sign_in.router)
ROUTERS = (actions.router, operations.router, keys.router, changes.router)
