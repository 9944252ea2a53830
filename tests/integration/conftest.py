"""Integration tests use real servers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from models.database.engine import make_engine
from operations.ports import Ports
from tests.integration import clocked
from tests.scheduling import add_app
from tests.unit.operations.fakes import World

_HERE = Path(__file__).parent

#: When a look is given up, and told in part: on a busy machine, any look might be.
_PATIENCE = (
    "actions.load.foresee.PATIENCE",
    "actions.load.forecast.QUIET_PATIENCE",
    "web.now.fetch_minutes.PATIENCE",
    "cli.connection._PEEK_WITHIN",
    "operations.adapters.identity_provider.TIMEOUT",
    "operations.adapters.identity_provider._PATIENCE",
)


@pytest.fixture(scope="session", autouse=True)
def _patience() -> Iterator[None]:
    """Give up no look before a minute is over; who tests that says when."""
    with pytest.MonkeyPatch.context() as patch:
        for name in _PATIENCE:
            patch.setattr(name, timedelta(minutes=1))
        patch.setattr("cli.options._DEADLINE_S", 60)
        yield


#: Faces ask what is tested on both databases below them, and so do the rooms whose
#: statements are the same on both. Of actions and dispatch they are the rules above
#: what they record: the simulation, the examples of routes and `test_minute.py` send
#: the same statements to SQLite.
_SAME_ON_BOTH = [
    _HERE / each
    for each in (
        *("api", "cli", "overview", "serving", "web"),
        *("actions/load", "actions/pausing", "actions/posting", "actions/small_apps"),
        *("actions/test_zone_changes.py", "dispatch/backfills", "dispatch/bulk"),
        *("dispatch/test_noticer.py", "dispatch/test_task_outbox.py"),
        "dispatch/test_watching.py",
    )
]
#: What has a statement of its own for each database.
_OWN_ON_EACH = {
    "test_apply.py",
    "test_examine.py",
    "test_installed.py",
    "test_killed_between_any_two_statements_it_does_each_once",
    "test_killed_between_any_two_statements_it_loses_and_doubles_nothing",
    "test_known_users.py",
    "test_live_events.py",
    "test_recent_runs.py",
    "test_repeats.py",
}
#: All routes of the API: on PostgreSQL, api/test_tenants.py asks them, and what is made
#: up. On SQLite, too, are all pages (web/test_walk.py) and all commands that read
#: (cli/test_walk.py).
_ON_SQLITE = {"test_examples.py"}
if "MINUTEHAND_TEST_ALL" in os.environ:
    _OWN_ON_EACH |= {"test_fuzzing.py", *_ON_SQLITE}


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Test on PostgreSQL alone what is the same on SQLite."""
    path = metafunc.definition.path
    is_same = any(map(path.is_relative_to, _SAME_ON_BOTH))
    is_same = is_same and not {path.name, metafunc.function.__name__} & _OWN_ON_EACH
    if is_same and "database_url" in metafunc.fixturenames:
        dialect = "sqlite" if path.name in _ON_SQLITE else "postgresql"
        # as a mark, which takes the place of the parameters of the fixture
        metafunc.definition.add_marker(
            pytest.mark.parametrize("database_url", [dialect], indirect=True)
        )


@pytest.fixture
def small_app(any_engine: sa.Engine) -> None:
    """Add the small app "app", whose users are ann, bob and eve."""
    add_app(any_engine, ids=["ann", "bob", "eve"])


@pytest.fixture
def other_app(any_engine: sa.Engine) -> None:
    """Add the small app "other", which has no users."""
    add_app(any_engine, "other")


@pytest.fixture
def world() -> clocked.World:
    """Give one clock for a database and its schedulers."""
    return clocked.World()


@pytest.fixture
def world_engine(sqlite_url: str, world: clocked.World) -> Iterator[sa.Engine]:
    """Give an engine whose clock is that of *world*; a statement takes time."""
    engine = make_engine(sqlite_url, clock=world.read)
    sa.event.listen(engine, "before_cursor_execute", world.pass_by)
    yield engine
    engine.dispose()


@pytest.fixture
def ports(tmp_path: Path) -> Ports:
    """Give what steps need in memory, with a sender that keeps what it is sent."""
    return World(tmp_path).make_context().ports
