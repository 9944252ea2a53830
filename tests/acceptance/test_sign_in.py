"""Signing in at a server as an operator starts it, with the link that it prints."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import httpx2

from tests.servers import PATIENCE_S, open_terminal, run_process, run_warm, wait_until

_WEB = (sys.executable, "-m", "cli.main", "web")


def make_environ(tmp_path: Path) -> dict[str, str]:
    return {
        "MINUTEHAND_HOME": str(tmp_path / "home"),
        "MINUTEHAND_WEB_ADDRESS": "127.0.0.1:0",
        "MINUTEHAND_ACTOR": "ada",
        "PATH": "/usr/bin:/bin",
    }


def test_server_prints_a_link_that_signs_in_once(tmp_path: Path):
    """Its first admin makes a key at the API, from the server's page."""
    environ = make_environ(tmp_path)

    def find_link() -> list[tuple[str, str]]:
        return re.findall(r"(http://\S+)/sign-in#(\S+)", terminal.shown)

    with (
        open_terminal() as terminal,
        run_process(_WEB, log=terminal, environ=environ) as process,
    ):
        wait_until(find_link, what="the link")
        ((url, secret),) = find_link()
        own, form = {"Origin": url}, {"secret": secret}
        with httpx2.Client(base_url=url, timeout=60) as browser:
            first = browser.post("/sign-in", data=form, headers=own)
            page = browser.get("/sign-in")
            key = browser.post(
                "/api/v1/keys", json={"role": "viewer", "app": None}, headers=own
            )
            change = browser.get("/api/v1/changes").json()["items"][0]
        with httpx2.Client(base_url=url, timeout=60) as other:
            second = other.post("/sign-in", data=form, headers=own)
            nobody = other.get("/api/v1/keys")
        process.send_signal(signal.SIGINT)
        code = process.wait(PATIENCE_S)
        log = terminal.shown

    assert (303, 201, 403, 401) == (
        first.status_code,
        key.status_code,
        second.status_code,
        nobody.status_code,
    )
    assert "<b>ada</b>, admin of" in page.text
    assert ("ada", "key", "created") == (change["by"], change["kind"], change["change"])
    assert "web_signed_in" in log
    assert 0 == code, log
    assert "Traceback" not in log


def test_log_gets_no_link(tmp_path: Path):
    """Whoever reads it could sign in as an admin."""
    log = tmp_path / "log"
    with run_warm(_WEB, log=log, environ=make_environ(tmp_path)):
        wait_until(lambda: "To sign in" in log.read_text(), what="the start")

    assert "minutehand keys link --all --role admin" in log.read_text()
    assert "mhl_" not in log.read_text()
