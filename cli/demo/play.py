"""The demo itself: the small app, its actions, what runs them, and what shows it."""

from __future__ import annotations

import shlex
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from importlib import resources
from pathlib import Path

import sqlalchemy as sa

from actions.posting.post import Posted, post_action
from actions.small_apps.apply import ApplyTerms, apply_small_app
from actions.tick import TickReport
from actions.user_events import NewEvent, record_events
from cli.connection import read_database, write_database
from cli.demo.check import check_demo
from cli.demo.data import (
    ABSENCE,
    APP,
    EVERY_MINUTE,
    REPORT,
    SLEEPER,
    TOCO,
    read_document,
    shorten_path,
    write_app,
    write_clocks,
)
from cli.demo.scenes import KilledWorker, find_program, post_missed
from cli.demo.teller import Teller
from cli.keys import make_link_here
from cli.output import err, out
from cli.up import leave_at_once, run_embedded, stopping_on_signals
from dispatch.manual_runs import run_now
from migrations.schema import migrate
from models.database.engine import make_engine, read_clock
from models.door.app_documents import read_small_app
from models.event import EventName
from models.role import Role
from serving.access.manage_keys import create_key
from serving.server import WebServer
from settings import Settings
from telemetry import configure_logging

#: The example action mails the sleeper this long after the start.
_WAKE_AFTER = timedelta(seconds=45)

_SIGN_IN = "To look at it in a browser, signed in (once, within 15 minutes):"

_EXAMPLES = ("weekly-update", "bring-back-inactive-users")


def play(folder: Path, seconds: int | None, *, say: Callable[[str], None]) -> int:
    """
    Run the demo until Ctrl-C, or for *seconds*, and check it then.

    Args:
        folder: Of the demo; empty.
        seconds: None: until Ctrl-C, and without a check.
        say: Called with what is being done.

    Returns:
        The exit code: 1 if a claim of the check did not hold.
    """
    settings = _make_settings(folder)
    engine = make_engine(settings.database_url, timeout=settings.database_timeout)
    doomed = KilledWorker()
    doomed.start(settings)
    say("Making the database, and a small app from the time zone database ...")
    posted = _prepare(engine, settings, folder)
    say("Starting scheduler, worker and pages ...")
    stop = threading.Event()
    with ExitStack() as stack:
        stack.callback(doomed.end)
        log = stack.enter_context((folder / "demo.log").open("w", encoding="utf-8"))
        configure_logging(log_format="console", stream=log)
        stack.enter_context(stopping_on_signals(stop))
        teller = Teller(engine, settings, stop, doomed, seconds=seconds)
        run_now(engine, posted["weekly update"].uid, key="demo")

        def begin(web: WebServer | None) -> None:
            doomed.take_report(engine)
            teller.ways_in = _write_ways_in(engine, settings, web)
            if web is not None and sys.stdout.isatty():
                link = make_link_here(web.url, engine=engine)
                teller.sign_in = [_SIGN_IN, f"  {link}"]
            teller.start()

        def keep_clocks(report: TickReport) -> None:
            write_clocks(folder / "data", now=report.now)

        try:
            ended = run_embedded(
                settings, stop, on_start=begin, on_tick=[teller.on_tick, keep_clocks]
            )
        finally:
            stop.set()
            if teller.ident is not None:
                teller.join()
    code = 0
    if seconds is not None and teller.is_complete:
        code = check_demo(engine, settings, teller.until)
    _say_where(settings)
    if not ended:
        leave_at_once(code)
    return code


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


def _prepare(engine: sa.Engine, settings: Settings, folder: Path) -> dict[str, Posted]:
    """Make the small app, post its actions, and let one user be absent."""
    migrate(engine)
    with read_database(engine) as connection:
        now = read_clock(connection)
    document = write_app(folder, now=now)
    app = read_small_app(document.read_bytes())
    yours = app.model_copy(update={"uid": YOURS, "name": "Yours"})
    with write_database(engine) as connection:
        apply_small_app(connection, app, ApplyTerms(folder))
        apply_small_app(connection, yours, ApplyTerms(folder))
    posted = {}
    for name in (*_EXAMPLES, EVERY_MINUTE, REPORT):
        action = read_document(name)
        with write_database(engine) as connection:
            posted[action.name] = post_action(connection, APP, action)
    post_missed(settings, now=now)
    seen_at = (now + _WAKE_AFTER - ABSENCE).replace(microsecond=0)
    with write_database(engine) as connection:
        record_events(
            connection, [NewEvent(APP, EventName.USER_LAST_SEEN, SLEEPER, at=seen_at)]
        )
    return posted


def _write_ways_in(
    engine: sa.Engine, settings: Settings, web: WebServer | None
) -> list[str]:
    """Write lines for a shell into a file, and return how to get in, in lines."""
    if web is None:
        return []
    with write_database(engine) as connection:
        key = create_key(connection, app=YOURS, role=Role.EDITOR, name="the demo")
    with resources.as_file(resources.files("cli") / "examples") as examples:
        lines = make_curl_lines(web.url, key.text, shorten_path(examples))
    script = Path(settings.home) / "try-the-api.sh"
    script.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [
        "To try the HTTP API from another shell, line by line or at once:",
        f"  sh {shlex.quote(str(shorten_path(script)))}",
    ]


def _say_where(settings: Settings) -> None:
    out().print(f"Mails:    {settings.smtp_url}", soft_wrap=True)
    out().print(f"Log:      {settings.home}/demo.log", soft_wrap=True)
    home = shlex.quote(str(settings.home))
    err().say(f"To explore: MINUTEHAND_HOME={home} {find_program()} operations list")


#: The small app that those lines write into; the demo itself leaves it alone.
YOURS = "yours"


def make_curl_lines(url: str, key: str, examples: Path) -> list[str]:
    """
    Return lines that preview, post, run, watch and cancel the two example actions.

    Each works as pasted into a POSIX shell, in this order, and a comment says what it
    does; curl 7.83 or later.

    Args:
        url: Where the API answers.
        key: Of an operator or more, who may also write actions.
        examples: The folder of the two documents.
    """
    asked = {
        # What each action takes to be run by hand.
        shlex.quote(f"@{examples / 'weekly-update.json'}"): "{}",
        shlex.quote(f"@{examples / 'bring-back-inactive-users.json'}"): shlex.quote(
            f'{{"user": "{TOCO}"}}'
        ),
    }
    preview = f'api "$WEB/api/v1/previews?app={YOURS}" --json'
    post = f'made "$WEB/api/v1/actions?app={YOURS}" --json'
    lines = [
        f"# The key opens the small app {YOURS!r} alone.",
        f"KEY={shlex.quote(key)} WEB={shlex.quote(url)}",
        "# api asks with the key; made prints the path of what was made.",
        'api() { curl -sS --oauth2-bearer "$KEY" "$@"; }',
        "made() { api -o /dev/null -w '%header{location}' \"$@\"; }",
    ]
    for document, body in asked.items():
        run = f'RUN=$(made "$WEB$ACTION/runs" --json {body})'
        lines += [
            "# When would it run, and who gets mails? Nothing is stored.",
            f"{preview} {document}",
            "# Post it: from now on it runs when it is due.",
            f"ACTION=$({post} {document})",
            "# Run it now, and wait until that is over.",
            f'{run}; api "$WEB$RUN/state?wait=30"',
            "# Run it once more, and cancel that.",
            f'{run}; api "$WEB$RUN/cancel" --json {{}}',
        ]
    return lines
