"""The pages as a browser without script sees them, on both databases."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from cli.web_app import make_app
from models.role import Role
from serving.access.callers import Caller
from serving.access.manage_keys import create_key
from serving.access.sign_ins import make_link
from serving.limits import RequestLimits
from serving.services import Services
from tests.database import write_by
from tests.integration.api.conftest import make_settings
from tests.integration.api.prepared import Prepared, prepare_two
from tests.seeded.sites import make_seeded_home

OWN = {"Origin": "http://testserver"}
FOREIGN = {"Origin": "https://evil.example"}

Browser = Callable[..., TestClient]


@pytest.fixture
def browse(engine: sa.Engine, tmp_path: Path) -> Iterator[Browser]:
    """Give a function that opens a browser, which keeps cookies."""
    with ExitStack() as stack:

        def open_browser(address: str = "10.1.1.1", **settings: Any) -> TestClient:
            given = make_settings(tmp_path, engine).model_copy(update=settings)
            services = Services(given, engine, RequestLimits(clock=time.monotonic))
            client = TestClient(
                make_app(services),
                client=(address, 50_000),
                base_url=given.web_url or "http://testserver",
                follow_redirects=False,
            )
            return stack.enter_context(client)

        yield open_browser


@pytest.fixture
def browser(browse: Browser) -> TestClient:
    """Give a browser."""
    return browse()


def new_key(engine: sa.Engine, role: Role = Role.ADMIN, **options: Any) -> str:
    return write_by(engine, create_key, app=None, role=role, name="ada", **options).text


def new_link(engine: sa.Engine) -> str:
    return write_by(engine, make_link, Caller(None, "ada@host", Role.ADMIN, None))


def enter(browser: TestClient, secret: str, **more: Any) -> httpx2.Response:
    headers = more.pop("headers", OWN)
    return browser.post("/sign-in", data={"secret": secret, **more}, headers=headers)


@pytest.fixture
def shop(engine: sa.Engine, tmp_path: Path) -> Prepared:
    """Give a small app that has everything, beside another one."""
    shop, _books = prepare_two(engine, tmp_path)
    return shop


@pytest.fixture(scope="session")
def seeded_home(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Give the folder of a seeded installation; nobody may change it."""
    base = tmp_path_factory.getbasetemp()
    return make_seeded_home(base if worker_id == "master" else base.parent)
