"""Signing in at a server as an operator starts it, with the link that it prints."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import httpx2
import pytest

from tests.servers import PATIENCE_S, run_process, wait_until

pytestmark = pytest.mark.integration

_WEB = (sys.executable, "-m", "cli.main", "web")


def test_server_prints_a_link_that_signs_in_once(tmp_path: Path):
    """
    With no key made yet, its first admin makes one at the API, from the server's page.
    """
    log = tmp_path / "log"
    environ = {
        "MINUTEHAND_HOME": str(tmp_path / "home"),
        "MINUTEHAND_WEB_ADDRESS": "127.0.0.1:0",
        "MINUTEHAND_ACTOR": "ada",
        "PATH": "/usr/bin:/bin",
    }

    def find_link() -> list[tuple[str, str]]:
        return re.findall(r"(http://\S+)/sign-in\?link=(\S+)", log.read_text())

    with run_process(_WEB, log=log, environ=environ) as process:
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

    assert (303, 201, 403, 401) == (
        first.status_code,
        key.status_code,
        second.status_code,
        nobody.status_code,
    )
    assert "<b>ada</b>, admin of" in page.text
    assert ("ada", "key", "created") == (
        change["by"],
        change["kind"],
        change["change"],
    )
    assert '"event": "web_signed_in"' in log.read_text()
    assert 0 == code, log.read_text()
    assert "Traceback" not in log.read_text()
