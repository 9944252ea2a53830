"""The HTTP API in this process, on both databases, with keys of two small apps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from api.answers import ROOT
from cli.web_app import make_app
from models.database.engine import writing
from models.role import Role
from serving.access.manage_keys import create_key
from serving.limits import Rate, RequestClass, RequestLimits
from serving.services import Services
from settings import Settings, read_settings
from tests.integration.kept_rows import KeptRows
from tests.scheduling import add_app

#: The small app of most tests, and the one whose key must see nothing of it.
APP, OTHER = "shop", "books"

#: For those who look for faults, and so ask more often than anybody else.
UNLIMITED = RequestLimits(
    dict.fromkeys(RequestClass, Rate(10**9)), clock=time.monotonic
)


_kept: dict[str, tuple[KeptRows, dict[tuple[str | None, Role], str]]] = {}


@dataclass(frozen=True)
class Web:
    """The API as a client sees it; paths are below ``/api/v1``."""

    client: TestClient
    engine: sa.Engine
    keys: dict[tuple[str | None, Role], str]

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        role: Role = Role.ADMIN,
        app: str | None = APP,
        headers: dict[str, str] | None = None,
        **options: Any,
    ) -> httpx2.Response:
        """
        Send a request with a key of *app*, which has *role*.

        A change overwrites whatever there is, unless *headers* have an If-Match.
        """
        given = {"Authorization": f"Bearer {self.keys[app, role]}"}
        if method in {"PUT", "PATCH", "DELETE"}:
            given["If-Match"] = "*"
        given |= headers or {}
        if body is not None:
            options["json"] = body
        return self.client.request(method, f"{ROOT}{path}", headers=given, **options)

    def get(self, path: str, **options: Any) -> httpx2.Response:
        """Read."""
        return self.ask("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> httpx2.Response:
        """Make something, or have something done."""
        return self.ask("POST", path, body, **options)

    def put(self, path: str, body: Any = None, **options: Any) -> httpx2.Response:
        """Replace something."""
        return self.ask("PUT", path, body, **options)

    def patch(self, path: str, body: Any = None, **options: Any) -> httpx2.Response:
        """Change something."""
        return self.ask("PATCH", path, body, **options)

    def delete(self, path: str, **options: Any) -> httpx2.Response:
        """Remove something."""
        return self.ask("DELETE", path, **options)


def make_settings(home: Path, engine: sa.Engine) -> Settings:
    """Return the settings of an installation whose database is that of *engine*."""
    url = engine.url.render_as_string(hide_password=False)
    given = {
        "MINUTEHAND_HOME": str(home),
        "MINUTEHAND_DATABASE_URL": url,
        # Nobody asks it; with the one in memory, tasks of others would be refused.
        "MINUTEHAND_BROKER_URL": "redis://127.0.0.1:1/0",
        "MINUTEHAND_TASK_QUEUE": "reports",
    }
    return read_settings(given, None)


@pytest.fixture
def web(engine: sa.Engine, tmp_path: Path) -> Iterator[Web]:
    """Give the API with two small apps, and a key of each role for each and for all."""
    with run_web(engine, tmp_path, RequestLimits(clock=time.monotonic)) as made:
        yield made


@pytest.fixture
def free_web(engine: sa.Engine, tmp_path: Path) -> Iterator[Web]:
    """Give the same to a test that asks as often as it likes."""
    with run_web(engine, tmp_path, UNLIMITED) as made:
        yield made


@contextmanager
def run_web(engine: sa.Engine, home: Path, limits: RequestLimits) -> Iterator[Web]:
    """Run the API in this process."""
    keys = _write_keys(engine)
    services = Services(make_settings(home, engine), engine, limits)
    with TestClient(make_app(services)) as client:
        yield Web(client, engine, keys)


def _write_keys(engine: sa.Engine) -> dict[tuple[str | None, Role], str]:
    """Make the apps and their keys once for each dialect, and then copy their rows."""
    if kept := _kept.get(engine.dialect.name):
        rows, keys = kept
        rows.write(engine)
        return keys
    keys = {}
    for uid in (APP, OTHER):
        add_app(engine, uid, ids=("ada", "zoe"))
    with writing(engine) as connection:
        for app in (APP, OTHER, None):
            for role in Role:
                name = f"{role} of {app}"
                new = create_key(connection, app=app, role=role, name=name)
                keys[app, role] = new.text
    _kept[engine.dialect.name] = KeptRows.read(engine), keys
    return keys
