"""
Make the seeded installation in a folder, and show its pages.

``make seeded`` runs it. The clock of the pages stands still in the night that was made,
so they are the same each time; with ``--now`` it goes on from this moment.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

from cli.up import stopping_on_signals
from models.database.engine import make_engine, read_host_clock, writing
from models.role import Role
from serving.access.callers import Caller
from serving.access.sign_ins import make_link
from tests.seeded.fill import fill
from tests.seeded.scene import HISTORY, NOW, Scene
from tests.seeded.serving import find_database, serve
from tests.seeded.sites import make_empty_home

#: Marks a folder that an earlier call made, and which may be removed.
_MARK = ".minutehand-seeded"


def main() -> None:
    """Make it, and serve it until Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.seeded", description=__doc__.split("\n\n")[0]
    )
    parser.add_argument("--home", type=Path, default=Path("build/seeded"))
    parser.add_argument("--port", type=int, default=8410)
    parser.add_argument("--days", type=int, default=HISTORY.days)
    parser.add_argument("--now", action="store_true", help="with the real clock")
    parser.add_argument("--keep", action="store_true", help="what was made before")
    options = parser.parse_args()
    home = options.home.absolute()
    clock = read_host_clock if options.now else lambda: NOW
    if not (options.keep and (home / _MARK).exists()):
        _make(home, Scene(now=clock(), history=timedelta(days=options.days)))
    stop = threading.Event()
    with stopping_on_signals(stop), serve(home, clock=clock, port=options.port) as url:
        engine = make_engine(find_database(home), clock=clock)
        with writing(engine) as connection:
            caller = Caller(None, "you", Role.ADMIN, None)
            link = make_link(connection, caller)
        engine.dispose()
        print(f"{url}/sign-in#{link}")  # noqa: T201 - what it was called for
        stop.wait()


def _make(home: Path, scene: Scene) -> None:
    if home.exists() and any(home.iterdir()) and not (home / _MARK).exists():
        sys.exit(f"{home} is not empty, and was not made by this program")
    shutil.rmtree(home, ignore_errors=True)
    began = time.monotonic()
    make_empty_home(home)
    (home / _MARK).touch()
    engine = make_engine(find_database(home), clock=lambda: scene.now)
    made = fill(engine, scene=scene, workspace=home / "workspace")
    engine.dispose()
    took_s = time.monotonic() - began
    print(  # noqa: T201 - a program
        f"{made['scheduled_actions']:,} actions, {made['operations']:,} operations, "
        f"made in {took_s:.0f} s in {home}"
    )


if __name__ == "__main__":
    main()
