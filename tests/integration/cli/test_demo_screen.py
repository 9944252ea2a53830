"""What the demo leaves on a terminal."""

from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa

from cli.connection import get_settings
from cli.demo.scenes import KilledWorker
from cli.demo.screen import Screen


@pytest.mark.usefixtures("call")
def test_stopped_demo_leaves_no_link_that_nobody_answers(
    engine: sa.Engine,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    """It is shown while the demo runs, twice: what is above may have scrolled away."""
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("TERM", "xterm")
    stop = threading.Event()
    screen = Screen(engine, get_settings(), stop, KilledWorker(), seconds=None)
    screen.sign_in, screen.ways_in = ["http://link"], ["sh try-the-api.sh"]
    stop.set()

    screen.run()

    _drawn, _end_of_screen, left = capsys.readouterr().out.partition("\x1b[?1049l")
    assert "What no cron does" in left
    assert "http://link" not in left
    assert "try-the-api" not in left
