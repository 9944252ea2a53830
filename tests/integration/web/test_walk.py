"""
People walk through all pages, link by link, and meet nothing that is not theirs.

Links that differ only in what they name are one kind; one of each kind is followed.
"""

from __future__ import annotations

import shutil
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
import sqlalchemy as sa
from fastapi.routing import APIRoute
from starlette.routing import Match, Route
from starlette.testclient import TestClient

from cli.web_app import make_app
from models.database.engine import make_engine
from models.role import Role
from serving.access.callers import Caller
from serving.access.sign_ins import begin_session
from serving.services import Services
from serving.signing_in import name_cookie
from tests.database import write_by
from tests.integration.api.prepared import leave_one, prepare
from tests.integration.web.conftest import enter, new_key
from tests.integration.web.markup import Markup, find_uids, find_wrong_numbers
from tests.seeded.businesses import BUSINESSES
from tests.seeded.scene import NOW
from tests.seeded.serving import UNLIMITED, find_database, make_settings
from tests.seeded.sites import fetch_uids
from web.rendering import SECTIONS
from web.routes import PUBLIC_ROUTERS, ROUTERS

#: Where a walk begins: at Now, and at an action with a past.
_STARTS = ("/", "/actions/nightly-warehouse-load")

#: Where one comes only after something was done, or where there is nothing yet.
_NOT_LINKED = {
    "/apps/{app}/resume",
    "/backfills/{backfill_id}/cancel",
    "/begin",
    "/bulk/{bulk_id}",
    "/bulk/{bulk_id}/cancel",
    "/events/{app}/{event_id}/replay",
    "/guide",
}

#: The small app of somebody who may see only that one.
_APP = "harbour-logistics"

EnterAs = Callable[[Role, str | None], TestClient]


@pytest.fixture(scope="module")
def enter_as(
    seeded_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EnterAs]:
    """Give a function that opens a enter_asr in which somebody is signed in."""
    home = tmp_path_factory.mktemp("walk")
    shutil.copyfile(seeded_home / "minutehand.sqlite3", home / "minutehand.sqlite3")
    shutil.copytree(seeded_home / "workspace", home / "workspace")
    settings = make_settings(home)
    engine = make_engine(find_database(home), clock=lambda: NOW)
    app = make_app(Services(settings, engine, UNLIMITED))
    with TestClient(app, follow_redirects=False) as client:

        def enter(role: Role, app: str | None) -> TestClient:
            caller = Caller(None, f"{role}", role, app)
            session = write_by(engine, begin_session, caller)
            client.cookies.clear()
            client.cookies.set(name_cookie(settings), session.text)
            return client

        yield enter


@dataclass
class Walk:
    """
    Pages that were met, by path; what was wrong with them.

    Args:
        client: Of somebody who is signed in.
        met: Routes that answered, also with something else than a page.
        starts: Paths where it begins.
    """

    client: TestClient
    starts: tuple[str, ...] = _STARTS
    pages: dict[str, str] = field(default_factory=dict)
    met: set[str] = field(default_factory=set)
    faults: list[str] = field(default_factory=list)
    _followed: set[tuple[str, bool]] = field(default_factory=set)
    _ids: dict[str, set[str]] = field(default_factory=dict)
    _parts: set[str] = field(default_factory=set)

    def go(self) -> None:
        """Follow links of each kind."""
        waiting = deque((each, "the beginning") for each in self.starts)
        known = {*self.starts}
        while waiting:
            path, where = waiting.popleft()
            markup = self._read(path, where)
            if markup is None:
                continue
            for link in (*markup.links, *markup.questions):
                parts = urlsplit(link)
                if parts.scheme or parts.netloc or link in known:
                    continue
                known.add(link)
                if self._is_new(link):
                    waiting.append((link, path))
        for link in sorted(self._parts):
            to = urlsplit(link)
            if to.fragment not in self._ids.get(to.path, {to.fragment}):
                self.faults.append(f"no such part: {link}")

    def _is_new(self, link: str) -> bool:
        """Return whether *link* may lead to something that was not met yet."""
        kind = self.find_kind(link)
        is_new = kind not in self._followed
        self._followed.add(kind)
        return is_new

    def _read(self, path: str, where: str) -> Markup | None:
        answer = self.client.get(path, headers={"Accept": "text/html"})
        if answer.status_code == 303:  # a choice that is kept, or an id that was found
            return None
        if answer.status_code >= 400:
            self.faults.append(f"{answer.status_code}: {path}, linked from {where}")
            return None
        self.met.add(self.find_kind(path)[0])
        if not answer.headers["content-type"].startswith("text/html"):
            return None
        self.pages[path] = answer.text
        markup = Markup(path, answer.text)
        self._ids.setdefault(urlsplit(path).path, set()).update(markup.ids)
        self._parts.update(markup.parts)
        return markup

    def find_kind(self, link: str) -> tuple[str, bool]:
        """Return the route that *link* leads to, and whether it asks something."""
        parts = urlsplit(link)
        return find_route(parts.path) or parts.path, bool(parse_qsl(parts.query))


@cache
def find_route(path: str) -> str | None:
    """Return the route of a page, as it is declared."""
    scope = {"type": "http", "method": "GET", "path": path, "root_path": ""}
    for router in (*PUBLIC_ROUTERS, *ROUTERS):
        for route in router.routes:
            if isinstance(route, Route) and route.matches(scope)[0] is Match.FULL:
                return route.path
    return None


def walk(client: TestClient, starts: tuple[str, ...] = _STARTS) -> Walk:
    """Return what there is for whoever *client* is."""
    made = Walk(client, starts)
    made.go()
    return made


@pytest.fixture(scope="module")
def walked_by_admin(enter_as: EnterAs) -> Walk:
    """Give all pages of the installation."""
    return walk(enter_as(Role.ADMIN, None))


def test_every_page_can_be_found(walked_by_admin: Walk):
    """An admin comes to each page by links alone."""
    assert [] == walked_by_admin.faults
    pages = {
        route.path
        for router in ROUTERS
        for route in router.routes
        if isinstance(route, APIRoute) and "GET" in (route.methods or ())
    }

    assert _NOT_LINKED == pages - walked_by_admin.met


def test_viewer_is_offered_nothing_to_do(walked_by_admin: Walk, enter_as: EnterAs):
    """But to sign out, on one page of each route that they may look at."""
    paths = {find_route(urlsplit(path).path): path for path in walked_by_admin.pages}
    viewer = enter_as(Role.VIEWER, None)
    answers = {path: viewer.get(path) for path in paths.values()}

    seen = {path: each for path, each in answers.items() if each.status_code != 403}
    assert {200} == {each.status_code for each in seen.values()}
    assert len(SECTIONS) <= len(seen)
    assert set() == {
        (path, form.action)
        for path, each in seen.items()
        for form in Markup(path, each.text).forms
        if form.method == "post" and form.action != "/sign-out"
    }


def test_others_are_not_seen(enter_as: EnterAs):
    """
    Nowhere is another small app named to somebody who has a key of one; nor is
    whoever follows what a page offers refused.
    """
    walked = walk(enter_as(Role.ADMIN, _APP))
    others = [each for each in BUSINESSES if each.uid != _APP]
    names = {
        name
        for each in others
        for name in (each.uid, each.name, each.host, *each.jobs_named)
    }
    # most lines of a page are those of others
    lines = {
        line: path for path, text in walked.pages.items() for line in text.splitlines()
    }
    seen = {
        (path, name) for line, path in lines.items() for name in names if name in line
    }

    assert [] == walked.faults
    assert len(SECTIONS) <= len(walked.pages)
    assert set() == seen


def test_ids_are_given_once(walked_by_admin: Walk):
    """What a label, a link or a script means by an id is one thing."""
    found = {
        path: Markup(path, text).ids for path, text in walked_by_admin.pages.items()
    }

    assert {} == {
        path: twice
        for path, ids in found.items()
        if (twice := {each for each in ids if ids.count(each) > 1})
    }


def test_actions_are_called_by_their_names(walked_by_admin: Walk, seeded_home: Path):
    """A uid stands in an address, in what is to be pasted, and where it says so."""
    uids = fetch_uids(make_engine(find_database(seeded_home)))

    assert [] == [
        (path, wrong)
        for path, text in walked_by_admin.pages.items()
        for wrong in find_uids(Markup(path, text).prose, uids)
    ]


def test_one_is_not_told_as_many(
    browser: TestClient, engine: sa.Engine, tmp_path: Path
):
    """Where there is one of each thing, its noun and its verb are those of one."""
    made = prepare(engine, tmp_path, "shop", "Qshopq")
    leave_one(engine, made)
    assert enter(browser, new_key(engine)).status_code == 303

    starts = (
        "/",
        f"/actions/{made.ids['uid']}",
        f"/operations/{made.ids['operation']}",
    )
    walked = walk(browser, starts)

    assert [] == walked.faults
    assert [] == [
        (path, wrong)
        for path, text in walked.pages.items()
        for wrong in find_wrong_numbers(Markup(path, text).words)
    ]
