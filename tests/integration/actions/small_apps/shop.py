"""A small app with a bit of everything, and what tests do with it."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa

from actions.small_apps.apply import Applied, ApplyTerms, apply_small_app
from actions.small_apps.export import fetch_document
from models.database.engine import Author, writing
from models.database.tables import changes
from models.door.app_documents import read_small_app
from tests.database import fetch_rows, read_by

ADA = {"id": "ada", "email": "ada@example.com", "name": "Ada", "groups": ["manager"]}

#: Every part of a document, with a key in each address.
WHOLE: dict[str, Any] = {
    "uid": "shop",
    "name": "Shop",
    "timezone": "Europe/Paris",
    "notices": {
        "mail": ["ops@example.com"],
        "webhook": "https://hooks.example.com/?key=hunter2",
    },
    "mail": {
        "from_name": "Shop reports",
        "from_address": "reports@shop.example",
        "reply_to": "help@shop.example",
        "unsubscribe": "mailto:help@shop.example?subject=stop",
        "locale": "fr",
    },
    "users": [
        {**ADA, "created_at": "2026-01-01T00:00:00.123456Z"},
        {"id": "bob@example.com", "disabled": True},
        {"id": "eve", "email": None, "groups": ["manager", "stock"]},
    ],
    "domains": [
        {"name": "a", "source": {"url": "https://example.com/a.csv?key=hunter2"}},
        {
            "name": "b",
            "source": {"sql": "select 1", "connection": "warehouse"},
            "title": "B & co",
            "description": "Said of b.",
            "columns": {"n": {"title": "N", "unit": "€", "sum": False}},
        },
    ],
    "templates": {
        "t": {"subject": "Hello", "text": "Hello"},
        "u": {"subject": "Hello", "html": "<p>Hello"},
    },
    "documents": {"design": {"color": ["red", {"a/b": 1}]}, "permissions": {}},
    "holidays": {
        "fr": ["2026-12-25", {"from": "2026-12-30", "until": "2027-01-02"}],
        "none": [],
    },
}

AUTHOR = Author("ann", key_id="k1", request_id="r1")


def apply(engine: sa.Engine, document: dict[str, Any], **options: Any) -> Applied:
    """Apply *document*, of app "shop" unless it says otherwise."""
    model = read_small_app(json.dumps({"uid": "shop", **document}))
    with writing(engine, author=AUTHOR) as connection:
        return apply_small_app(connection, model, ApplyTerms(**options))


def export(engine: sa.Engine, uid: str = "shop") -> dict[str, Any]:
    """Return the document of an app, as another program would read it."""
    document: dict[str, Any] = json.loads(
        json.dumps(read_by(engine, fetch_document, uid))
    )
    return document


def fetch_changes(engine: sa.Engine) -> list[sa.Row[Any]]:
    """Return the record of changes, in order."""
    query = sa.select(changes).order_by(changes.c.number)
    return list(fetch_rows(engine, query))
