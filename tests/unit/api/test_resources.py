"""Everything that a person at the command line can do has a route."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from api.openapi import make_document

#: What there is to work with, and the routes of each; below /api/v1.
RESOURCES: Mapping[str, str] = {
    "small apps": """
        GET /apps
        GET /apps/{app}
        PUT /apps/{app}
        DELETE /apps/{app}
        GET /apps/{app}/document
        PUT /apps/{app}/pause
        DELETE /apps/{app}/pause
    """,
    "the installation": """
        PUT /pause
        DELETE /pause
    """,
    "users and groups": """
        GET /apps/{app}/users
        PUT /apps/{app}/users
        GET /apps/{app}/users/{user}
        PUT /apps/{app}/users/{user}
        PATCH /apps/{app}/users/{user}
        DELETE /apps/{app}/users/{user}
        GET /apps/{app}/groups
    """,
    "scheduled actions": """
        GET /actions
        POST /actions
        POST /actions/batch
        GET /actions/{uid}
        PUT /actions/{uid}
        PATCH /actions/{uid}
        DELETE /actions/{uid}
        GET /actions/{uid}/revisions
        GET /actions/{uid}/revisions/{revision}
        PUT /actions/{uid}/pause
        DELETE /actions/{uid}/pause
        POST /actions/{uid}/runs
        GET /actions/{uid}/occurrences
        GET /actions/{uid}/why
        GET /actions/{uid}/recipients
    """,
    "previews": """
        POST /previews
    """,
    "operations": """
        GET /operations
        GET /operations/{operation_id}
        GET /operations/{operation_id}/steps
        GET /operations/{operation_id}/log
        GET /operations/{operation_id}/state
        POST /operations/{operation_id}/cancel
        POST /operations/{operation_id}/retry
    """,
    "bulk changes": """
        POST /bulk
        GET /bulk/{bulk_id}
        POST /bulk/{bulk_id}/cancel
    """,
    "backfills": """
        POST /actions/{uid}/backfills
        GET /backfills/{backfill_id}
        POST /backfills/{backfill_id}/cancel
    """,
    "events": """
        GET /events
        POST /apps/{app}/events
        POST /apps/{app}/events/{event_id}/replay
    """,
    "data": """
        GET /apps/{app}/domains
        GET /apps/{app}/domains/{domain}
        POST /apps/{app}/data/refresh
        POST /apps/{app}/data/publish
        POST /apps/{app}/data/rollback
    """,
    "mails": """
        GET /mails
        GET /mails/{operation_id}/{step}/{recipient}
        POST /mails/resend
        POST /mails/confirm
        POST /mails/test
    """,
    "when things run": """
        GET /apps/{app}/calendar.ics
    """,
    "the system": """
        GET /status
        GET /workers
        POST /workers/{worker_id}/drain
        POST /workers/{worker_id}/resume
        PUT /queues/{queue}/pause
        DELETE /queues/{queue}/pause
        GET /doctor
        GET /audit
        GET /load
        GET /stream
        GET /changes
        GET /changes/export
    """,
    "keys": """
        GET /keys
        POST /keys
        POST /keys/{key_id}/revoke
        POST /keys/{key_id}/rotate
    """,
}

#: Outside of /api/v1.
META = {"/livez", "/readyz", "/version", "/metrics", "/schemas/scheduled-action"}

ROUTES = {
    f"{method.upper()} {path}"
    for path, item in make_document()["paths"].items()
    for method in item
}


def find_wanted(resource: str) -> set[str]:
    """Return the routes of a resource, with their whole path."""
    pairs = (line.split() for line in RESOURCES[resource].strip().splitlines())
    return {f"{method} /api/v1{path}" for method, path in pairs}


@pytest.mark.parametrize("resource", RESOURCES)
def test_resource_has_its_routes(resource: str):
    """Each of them is in the document."""
    assert sorted(find_wanted(resource) - ROUTES) == []


def test_every_route_belongs_to_a_resource():
    """A new one is added to the table above."""
    wanted = {route for each in RESOURCES for route in find_wanted(each)}

    assert ROUTES - wanted == {f"GET {path}" for path in META}
