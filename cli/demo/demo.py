"""``demo``: Minutehand at work, on a small app with real data."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import threading
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from importlib import resources
from json import dumps
from pathlib import Path
from typing import Annotated

import sqlalchemy as sa
import typer
from rich.text import Text

from actions.posting.post import Posted, post_action
from actions.small_apps.apply import apply_small_app
from actions.tick import TickReport
from actions.user_events import NewEvent, record_events
from cli.connection import read_database, write_database
from cli.demo.check import ENOUGH_S, check_demo
from cli.demo.curl_lines import YOURS, make_curl_lines
from cli.demo.data import (
    ABSENCE,
    APP,
    EVERY_MINUTE_ACTION,
    SLEEPER,
    write_app,
    write_clocks,
)
from cli.demo.screen import Screen
from cli.embedded import run_embedded
from cli.output import out, print_note
from cli.sign_in_links import make_link_here
from cli.up import leave_at_once, stopping_on_signals
from dispatch.manual_runs import run_now
from migrations.schema import migrate
from models.database.engine import make_engine, read_clock
from models.door.app_documents import read_small_app
from models.door.documents import read_action
from models.errors import UsageError
from models.event import EventName
from overview.access.manage_keys import create_key
from overview.access.roles import Role
from serving.server import WebServer
from settings import Settings
from telemetry import configure_logging

#: This file marks the folder of an earlier demo, which may be removed.
_MARK = ".minutehand-demo"

#: The example action mails the sleeper this long after the start.
_WAKE_AFTER = timedelta(seconds=45)

_EXAMPLES = ("weekly-update.json", "bring-back-inactive-users.json")


def demo(
    *,
    seconds: Annotated[
        int | None,
        typer.Option(
            "--for",
            metavar="SECONDS",
            min=1,
            help="Stop after this time, then check that each minute ran exactly once;"
            f" needs {ENOUGH_S} or more.",
        ),
    ] = None,
    home: Annotated[
        Path,
        typer.Option(
            "--home", metavar="DIR", help="Folder of the demo; emptied at each start."
        ),
    ] = Path(".minutehand/demo"),
) -> None:
    """
    Show what Minutehand does, with real data.

    Scheduler and worker run in this process, on one SQLite file. Nothing is installed
    and nothing is sent: mails are written into a folder. Ctrl-C stops the demo.
    """
    folder = _make_folder(home)
    settings = _make_settings(folder)
    engine = make_engine(settings.database_url, timeout=settings.database_timeout)
    posted = _prepare(engine, folder)
    stop = threading.Event()
    with ExitStack() as stack:
        log = stack.enter_context((folder / "demo.log").open("w", encoding="utf-8"))
        configure_logging(log_format="console", stream=log)
        stack.enter_context(stopping_on_signals(stop))
        screen = Screen(engine, settings, stop, seconds=seconds)
        screen.start()
        run_now(engine, posted["weekly update"].uid, key="demo")

        def keep_clocks(report: TickReport) -> None:
            write_clocks(folder / "data", now=report.now)

        try:
            ended = run_embedded(
                settings,
                stop,
                on_start=partial(_print_ways_in, engine),
                on_tick=[screen.on_tick, keep_clocks],
            )
        finally:
            stop.set()
            screen.join()
    code = 0
    if seconds is not None and screen.is_complete:
        code = check_demo(engine, settings, screen.until)
    _say_where(settings)
    if not ended:
        leave_at_once(code)
    raise typer.Exit(code)


def _make_settings(folder: Path) -> Settings:
    """Return settings of its own: the environment may name a production system."""
    return Settings.model_validate(
        {
            "home": str(folder),
            "timezone": "Europe/Paris",
            # The usual one may be that of an installation.
            "web_address": "127.0.0.1:0",
        }
    )


def _make_folder(home: Path) -> Path:
    """Return *home*, emptied; refuse a folder that was not made by an earlier demo."""
    folder = home.expanduser().absolute()
    if folder.is_dir() and any(folder.iterdir()):
        if not (folder / _MARK).exists():
            msg = (
                f"--home: {folder} is not empty, and no demo made it. Name an empty"
                " folder, or a new one."
            )
            raise UsageError(msg)
        shutil.rmtree(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _MARK).touch()
    except OSError as error:
        msg = f"--home: {folder}: {error.strerror}"
        raise UsageError(msg) from None
    return folder


def _prepare(engine: sa.Engine, folder: Path) -> dict[str, Posted]:
    """Make the small app, post its actions, and let one user be absent."""
    migrate(engine)
    with read_database(engine) as connection:
        now = read_clock(connection)
    document = write_app(folder, now=now)
    app = read_small_app(document.read_bytes())
    yours = app.model_copy(update={"uid": YOURS, "name": "Yours"})
    with write_database(engine) as connection:
        apply_small_app(connection, app, folder=folder)
        apply_small_app(connection, yours, folder=folder)
    examples = resources.files("cli.examples")
    texts = [examples.joinpath(name).read_text("utf-8") for name in _EXAMPLES]
    posted = {}
    for text in (*texts, dumps(EVERY_MINUTE_ACTION)):
        action = read_action(text, default_timezone="Europe/Paris")
        with write_database(engine) as connection:
            posted[action.name] = post_action(connection, APP, action)
    seen_at = (now + _WAKE_AFTER - ABSENCE).replace(microsecond=0)
    with write_database(engine) as connection:
        record_events(
            connection,
            [NewEvent(APP, EventName.USER_LAST_SEEN, SLEEPER, at=seen_at)],
        )
    return posted


def _print_ways_in(engine: sa.Engine, web: WebServer | None) -> None:
    """Print lines for a shell and, last, since most want that, a link to the pages."""
    if web is None:
        return
    _print_curl_lines(engine, web)
    link = make_link_here(web.url, engine=engine)
    out().print(
        Text("To look at it in a browser, signed in (once, within 15 minutes):\n")
        .append(f"  {link}", style="bold")
        .append("\n"),
        soft_wrap=True,
    )


def _print_curl_lines(engine: sa.Engine, web: WebServer) -> None:
    with write_database(engine) as connection:
        key = create_key(connection, app=YOURS, role=Role.EDITOR, name="the demo")
    with resources.as_file(resources.files("cli.examples")) as examples:
        lines = make_curl_lines(web.url, key.text, _shorten(examples))
    out().print(f"To try the HTTP API at {web.url} from another shell:", soft_wrap=True)
    for line in lines:
        # As it is: nothing is markup, and nothing is cut.
        out().print(Text(f"  {line}"), soft_wrap=True)


def _shorten(folder: Path) -> Path:
    """Return *folder* as seen from here, if it is below."""
    here = Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder


def _say_where(settings: Settings) -> None:
    out().print(f"Mails:    {settings.smtp_url}", soft_wrap=True)
    out().print(f"Log:      {settings.home}/demo.log", soft_wrap=True)
    home = shlex.quote(str(settings.home))
    print_note(f"To explore: MINUTEHAND_HOME={home} {_find_program()} operations list")


def _find_program() -> str:
    """Return how to call this program; ``make demo`` activates no environment."""
    if shutil.which("minutehand"):
        return "minutehand"
    return shlex.quote(os.path.relpath(Path(sys.executable).with_name("minutehand")))
