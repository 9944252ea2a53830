"""
Chromium, and installations to look at with it.

Each test fails on whatever the browser complains of: errors of scripts, refusals of the
policy, answers that failed. `looker.watch.expected` names those that a test asks for.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.looking import PATIENCE_MS, Looker, Watch
from tests.programs import demand_program
from tests.seeded.sites import Site, make_empty_home, make_seeded_home, run_site


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """
    Give a browser, to the tests of a module.

    Not to all: while Playwright is there, nothing else can run an event loop in this
    thread.
    """
    path = demand_program("chromium-headless-shell")
    # `expect` has a patience of its own, of five seconds.
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        # The sandbox needs privileges that containers and root do not have.
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox"]
        )
        yield browser
        browser.close()


@pytest.fixture
def looker(chromium: Browser) -> Iterator[Looker]:
    """Give what opens pages; at its end, nothing may have gone wrong in them."""
    looker = Looker(chromium, Watch())
    yield looker
    looker.close()

    assert [] == looker.watch.faults


@pytest.fixture(scope="session")
def seeded_home(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Give the folder of a seeded installation; nobody may change it."""
    base = tmp_path_factory.getbasetemp()
    return make_seeded_home(base if worker_id == "master" else base.parent)


@pytest.fixture(scope="module")
def site(seeded_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Give a seeded installation, to tests that change nothing in it."""
    with _copy(seeded_home, tmp_path_factory.mktemp("site")) as made:
        yield made


@pytest.fixture
def own_site(seeded_home: Path, tmp_path: Path, looker: Looker) -> Iterator[Site]:
    """Give a seeded installation to one test, which may change it."""
    with _copy(seeded_home, tmp_path) as made:
        yield made
        looker.close()  # a page that is still open would ask the server as it stops


@pytest.fixture
def empty_site(tmp_path: Path, looker: Looker) -> Iterator[Site]:
    """Give an installation that has nothing."""
    with run_site(make_empty_home(tmp_path / "empty")) as made:
        yield made
        looker.close()


def _copy(seeded: Path, folder: Path) -> AbstractContextManager[Site]:
    home = folder / "home"
    home.mkdir()
    shutil.copyfile(seeded / "minutehand.sqlite3", home / "minutehand.sqlite3")
    # Files of data are never changed, only replaced by others.
    shutil.copytree(seeded / "workspace", home / "workspace", copy_function=_link)
    return run_site(home)


def _link(source: str, target: str) -> None:
    Path(target).hardlink_to(source)
