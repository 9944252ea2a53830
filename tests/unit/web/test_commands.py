"""What a command can do, its admin can do on the pages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from starlette.routing import Route

from cli.lazy import Group
from cli.main import COMMANDS
from web.routes import PUBLIC_ROUTERS, ROUTERS

#: Commands that read or change what an admin has, and the page that does the same. What
#: is posted is marked; `apps apply` is one form for each part of a small app.
PAGES = {
    "actions apply": "POST /actions/{uid}/edit",
    "actions backfill": "POST /actions/{uid}/backfill",
    "actions delete": "POST /actions/{uid}/delete",
    "actions list": "GET /actions",
    "actions pause": "POST /actions/{uid}/pause",
    "actions post": "POST /actions/new",
    "actions resume": "POST /actions/{uid}/resume",
    "actions run": "POST /actions/{uid}/run",
    "actions show": "GET /actions/{uid}",
    "apps apply": "POST /apps/{app}/parts/{part}",
    "apps delete": "POST /apps/{app}/delete",
    "apps export": "GET /apps/{app}/document",
    "apps list": "GET /apps",
    "apps pause": "POST /apps/{app}/pause",
    "apps resume": "POST /apps/{app}/resume",
    "apps show": "GET /apps/{app}",
    "apps test-notice": "POST /apps/{app}/test-notice",
    "backfills cancel": "POST /backfills/{backfill_id}/cancel",
    "backfills list": "GET /actions/{uid}/backfill",
    "backfills show": "GET /backfills/{backfill_id}",
    "changes export": "GET /settings/changes",
    "changes list": "GET /settings/changes",
    "changes verify": "GET /settings/changes/verify",
    "events send": "POST /events/send",
    "keys create": "POST /settings/keys/new",
    "keys invitations": "GET /settings",
    "keys link": "POST /settings/invite",
    "keys list": "GET /settings",
    "keys revoke": "POST /settings/keys/{key_id}/revoke",
    "keys rotate": "POST /settings/keys/{key_id}/rotate",
    "load": "GET /calendar",
    "mails confirm": "POST /mails/confirm",
    "mails list": "GET /mails",
    "mails preview": "POST /mails/test",
    "mails show": "GET /mails/{operation_id}/{step}/{recipient:path}",
    "mails resend": "POST /mails/resend",
    "operations cancel": "POST /operations/{operation_id}/cancel",
    "operations list": "GET /operations",
    "operations log": "GET /operations/{operation_id}",
    "operations retry": "POST /operations/{operation_id}/retry",
    "operations show": "GET /operations/{operation_id}",
    "operations state": "GET /operations/{operation_id}",
    "operations watch": "GET /operations/{operation_id}",
    "preview": "POST /actions/new",
    "queues list": "GET /workers",
    "queues pause": "POST /workers/queues/{queue}/pause",
    "queues resume": "POST /workers/queues/{queue}/resume",
    "status": "GET /",
    "support-bundle": "GET /settings/support-bundle",
    "why": "GET /actions/{uid}",
    "doctor": "GET /settings/doctor",
    "workers drain": "POST /workers/{worker_id}/drain",
    "workers list": "GET /workers",
    "workers resume": "POST /workers/{worker_id}/resume",
}

#: What only whoever has a shell on the hosts does, and what only a shell needs.
OPERATORS = {
    *("up", "demo", "scheduler", "worker", "web", "mcp", "migrate", "restored", "tick"),
    *("audit", "schema", "queues aside"),
    # They read what another scheduler has on its hosts.
    *("import", "shadow"),
}


def _list_commands(group: Group, before: str = "") -> Iterator[str]:
    for name, entry in group.entries.items():
        path = f"{before} {name}".strip()
        if isinstance(entry, Group) and path not in OPERATORS:
            yield from _list_commands(entry, path)
        else:
            yield path


def test_each_command_has_its_page():
    """Or it is for whoever runs the hosts."""
    routes: list[Any] = [each for r in (*PUBLIC_ROUTERS, *ROUTERS) for each in r.routes]
    known = {
        f"{method} {route.path}"
        for route in routes
        if isinstance(route, Route)
        for method in route.methods or ()
    }

    assert {*_list_commands(COMMANDS)} == PAGES.keys() | OPERATORS
    assert set() == {*PAGES.values()} - known
