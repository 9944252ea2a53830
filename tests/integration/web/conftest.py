"""The pages as a browser without script sees them, on both databases."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from cli.web_app import make_app
from models.database.engine import db_now, writing
from models.database.tables import processes
from serving.access.callers import Caller, Role
from serving.access.manage_keys import create_key
from serving.access.sign_ins import make_link
from serving.limits import RequestLimits
from serving.services import Services
from tests.integration.api.conftest import make_settings
from tests.integration.api.prepared import Prepared, prepare
from tests.integration.kept_rows import KeptRows
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
    with writing(engine) as connection:
        return create_key(connection, app=None, role=role, name="ada", **options).text


def new_link(engine: sa.Engine) -> str:
    with writing(engine) as connection:
        return make_link(connection, Caller(None, "ada@host", Role.ADMIN, None))


def enter(browser: TestClient, secret: str, **more: Any) -> httpx2.Response:
    headers = more.pop("headers", OWN)
    return browser.post("/sign-in", data={"secret": secret, **more}, headers=headers)


@dataclass(frozen=True)
class _Kept:
    """A prepared installation, to copy: preparing one takes longer than most tests."""

    shop: Prepared
    home: Path
    rows: KeptRows
    made_at: float

    @property
    def is_fresh(self) -> bool:
        """Whether what is said to have happened just now did."""
        return time.monotonic() - self.made_at < 60

    @classmethod
    def make(cls, engine: sa.Engine, home: Path) -> _Kept:
        """Prepare the empty database of *engine*."""
        made_at = time.monotonic()
        prepare(engine, home, "books", "Qbooksq")
        shop = prepare(engine, home, "shop", "Qshopq")
        return cls(shop, home, KeptRows.read(engine), made_at)


_kept: dict[str, _Kept] = {}


@pytest.fixture
def shop(
    engine: sa.Engine, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Prepared:
    """Give a small app that has everything, beside another one."""
    kept = _kept.get(engine.dialect.name)
    if kept is not None and kept.is_fresh:
        kept.rows.write(engine)
    else:
        kept = _Kept.make(engine, tmp_path_factory.mktemp("prepared"))
        _kept[engine.dialect.name] = kept
    shutil.copytree(kept.home / "workspace", tmp_path / "workspace")
    with writing(engine) as connection:
        connection.execute(sa.update(processes).values(heartbeat_at=db_now()))
    return deepcopy(kept.shop)


@pytest.fixture(scope="session")
def seeded_home(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Give the folder of a seeded installation; nobody may change it."""
    base = tmp_path_factory.getbasetemp()
    return make_seeded_home(base if worker_id == "master" else base.parent)
