"""
The pages, a file for each.

Those of ``ROUTERS`` need somebody who is signed in; those of ``PUBLIC_ROUTERS`` answer
everybody.
"""

from web import backfills, bulk, data, events, keys_help, settings, workers
from web.actions import one_action, revisions
from web.actions import routes as actions
from web.apps import changes as app_changes
from web.apps import routes as apps
from web.calendar import routes as calendar
from web.editor import routes as editor
from web.mails import routes as mails
from web.now import begin
from web.now import routes as now
from web.operations import one_operation
from web.operations import routes as operations
from web.rendering import router as static_files
from web.search import routes as search
from web.sign_in import company
from web.sign_in import routes as sign_in
from web.timeline import routes as timeline

PUBLIC_ROUTERS = (sign_in.router, company.router, static_files)
ROUTERS = (
    app_changes.router,  # before /apps/{app}: "_new" is no uid
    apps.router,
    calendar.router,
    begin.router,
    data.router,
    events.router,
    editor.router,  # before /actions/{uid}: "new" is no uid
    actions.router,
    one_action.router,
    backfills.router,
    bulk.router,
    keys_help.router,
    mails.router,
    now.router,
    # before those of one operation, whose paths are alike
    operations.router,
    one_operation.router,
    revisions.router,
    timeline.router,
    settings.router,
    workers.router,
    search.router,
)
