"""Installations whose pages are looked at: a seeded one, and an empty one."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import sqlalchemy as sa

from migrations.schema import migrate
from models.database.engine import Clock, make_engine, writing
from models.database.tables import operations, scheduled_actions
from models.operation_state import OperationState
from models.role import Role
from serving.access.callers import Caller
from serving.access.sign_ins import begin_session
from settings import Settings
from tests.seeded.fill import fill
from tests.seeded.scene import NOW, Scene
from tests.seeded.serving import find_database, make_settings, serve

#: How much of the past there is: enough for each page, and made in seconds.
PAST = timedelta(days=3)


@dataclass(frozen=True)
class Site:
    """
    An installation that is served.

    Args:
        url: Where its pages are.
        home: Its folder.
        engine: Of its database, with the clock of its pages.
        scene: When it is; nothing of it changes but what a test does.
    """

    url: str
    home: Path
    engine: sa.Engine
    scene: Scene

    @property
    def settings(self) -> Settings:
        """Its settings."""
        return make_settings(self.home)

    def sign_in(self, role: Role = Role.ADMIN, app: str | None = None) -> str:
        """Return the cookie of somebody who has *role*, in *app* alone or in all."""
        with writing(self.engine) as connection:
            caller = Caller(None, f"{role} of {app or 'all'}", role, app)
            return begin_session(connection, caller).text

    def find_latest(self, uid: str, state: OperationState) -> UUID:
        """Return the id of the latest operation of an action in *state*."""
        query = (
            sa.select(operations.c.id)
            .where(operations.c.action_uid == uid, operations.c.state == state)
            .order_by(operations.c.occurrence.desc())
            .limit(1)
        )
        with self.engine.connect() as connection:
            found: UUID = connection.execute(query).scalar_one()
        return found


@contextmanager
def run_site(
    home: Path, clock: Clock = lambda: NOW, more: Mapping[str, str] | None = None
) -> Iterator[Site]:
    """Serve the installation in *home*, whose clock stands still, or is *clock*."""
    with serve(home, clock=clock, more=more) as url:
        engine = make_engine(find_database(home), clock=clock)
        yield Site(url, home, engine, Scene(history=PAST))
        engine.dispose()


def make_seeded_home(folder: Path, scene: Scene | None = None) -> Path:
    """
    Return the folder of a seeded installation.

    Args:
        folder: Shared by the processes of this run; the first one makes it.
        scene: When it is. None: with a few days of the past.
    """
    scene = scene or Scene(history=PAST)
    home = folder / "seeded"
    with (folder / "seeded.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "done").exists():
            shutil.rmtree(home, ignore_errors=True)
            make_empty_home(home)
            engine = make_engine(find_database(home), clock=lambda: NOW)
            fill(engine, scene=scene, workspace=home / "workspace")
            engine.dispose()
            (home / "done").touch()
    return home


def fetch_uids(engine: sa.Engine) -> set[str]:
    """Return the uids of actions that nothing else is called by."""
    kept = scheduled_actions.c
    with engine.connect() as connection:
        query = sa.select(kept.uid).where(kept.uid.like(kept.app + "-%"))
        return {*connection.execute(query).scalars()}


def make_empty_home(home: Path) -> Path:
    """Make an installation that has nothing but its tables."""
    home.mkdir(parents=True)
    engine = make_engine(find_database(home), clock=lambda: NOW)
    migrate(engine)
    engine.dispose()
    return home
