"""The pages as a browser without script sees them, on both databases."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa
from starlette.testclient import TestClient

from cli.web_app import make_app
from models.errors import UnreachableError
from models.role import Role
from serving.access.callers import Caller
from serving.access.manage_keys import create_key
from serving.access.sign_ins import make_link
from serving.limits import Rate, RequestClass, RequestLimits
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
    """Give a function that opens a browser, which keeps cookies and tells its page."""
    with ExitStack() as stack:

        def open_browser(
            address: str = "10.1.1.1", *, at_once: int | None = None, **settings: Any
        ) -> TestClient:
            given = make_settings(tmp_path, engine).model_copy(update=settings)
            limits = RequestLimits(clock=time.monotonic)
            if at_once is not None:  # and never again: the clock stands still
                rates = dict.fromkeys(RequestClass, Rate(at_once))
                limits = RequestLimits(clock=lambda: 0.0, rates=rates)
            services = Services(given, engine, limits)
            own = given.web_url or "http://testserver"
            client = TestClient(
                make_app(services),
                client=(address, 50_000),
                base_url=own,
                headers={"Origin": own},
                follow_redirects=False,
            )
            return stack.enter_context(client)

        yield open_browser


@pytest.fixture
def browser(browse: Browser) -> TestClient:
    """Give a browser."""
    return browse()


def new_key(engine: sa.Engine, role: Role = Role.ADMIN, app: str | None = None) -> str:
    return write_by(engine, create_key, app=app, role=role, name="ada").text


def new_link(engine: sa.Engine) -> str:
    return write_by(engine, make_link, Caller(None, "ada@host", Role.ADMIN, None))


def enter(browser: TestClient, secret: str, **more: Any) -> httpx2.Response:
    headers = more.pop("headers", None)
    return browser.post("/sign-in", data={"secret": secret, **more}, headers=headers)


def enter_as(
    browser: TestClient,
    engine: sa.Engine,
    role: Role = Role.ADMIN,
    app: str | None = None,
) -> TestClient:
    """Let somebody sign in who has *role*, and sees *app* alone; None: all apps."""
    assert 303 == enter(browser, new_key(engine, role, app)).status_code
    return browser


def read(browser: TestClient, path: str) -> str:
    """Return the text of a page."""
    answer = browser.get(path)
    assert answer.status_code == 200, answer.text[-2000:]
    return unescape(answer.text)


@dataclass(frozen=True)
class Person:
    """
    Somebody who is signed in.

    Args:
        shop: The small app that is looked at.
    """

    client: TestClient
    shop: Prepared

    def look(self, path: str, status: int = 200) -> str:
        """Return the text of a page, which must answer with *status*."""
        answer = self.client.get(path)
        assert status == answer.status_code, (path, answer.text[-2000:])
        return unescape(answer.text)

    def send(self, path: str, **fields: Any) -> httpx2.Response:
        """Send a form of the page at *path*, as it is, with *fields* filled in."""
        page = self.client.get(path).text
        hidden = re.findall(
            r'<input\s+type="hidden"\s+name="([^"]*)"\s+value="([^"]*)"', page
        )
        form: dict[str, Any] = {}
        for name, value in hidden:
            form.setdefault(name, []).append(unescape(value))
        (action,) = re.findall(r'id="dialog" method="post" action="([^"]*)"', page)
        action = unescape(action)
        return self.client.post(action, data={**form, **fields})

    def do(self, path: str, **fields: Any) -> str:
        """Send a form that is accepted; return the text of the page that follows."""
        answer = self.send(path, **fields)
        assert 303 == answer.status_code, answer.text[-2000:]
        return self.look(answer.headers["location"])


def take_away(patch: pytest.MonkeyPatch, place: str) -> None:
    """Let what is called at *place* find no database."""

    def fail(*_: object, **__: object) -> None:
        raise UnreachableError("the database does not answer")

    patch.setattr(place, fail)


@pytest.fixture
def ada(browser: TestClient, engine: sa.Engine) -> TestClient:
    """Give the browser of somebody who may do everything."""
    return enter_as(browser, engine)


@pytest.fixture
def shop(engine: sa.Engine, tmp_path: Path) -> Prepared:
    """Give a small app that has everything, beside another one."""
    shop, _books = prepare_two(engine, tmp_path)
    return shop


@pytest.fixture
def admin(shop: Prepared, browser: TestClient, engine: sa.Engine) -> Person:
    """Give somebody who may do everything."""
    return Person(enter_as(browser, engine), shop)


@pytest.fixture(scope="session")
def seeded_home(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Give the folder of a seeded installation; nobody may change it."""
    base = tmp_path_factory.getbasetemp()
    return make_seeded_home(base if worker_id == "master" else base.parent)
