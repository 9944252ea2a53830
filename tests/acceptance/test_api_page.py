"""
docs/api.md: the clients that it shows do what it says, as they stand there.

They talk to a ``minutehand up`` of their own, in processes of their own.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mail_server import run_mail_server
from tests.programs import demand_program
from tests.servers import ROOT, find_free_port, run_to_end, run_warm, wait_until

PAGE = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent


def read_blocks(language: str) -> list[str]:
    """Return the fenced blocks of the page that are in *language*."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


#: How the first key is made, and one client in each language.
KEY, CURL = read_blocks("sh")
# httpx2 is what came after httpx, with the same calls; only it is installed here.
(PYTHON,) = (
    text.replace(", httpx\n", ", httpx2 as httpx\n") for text in read_blocks("python")
)
(JAVASCRIPT,) = read_blocks("js")


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Give the environment of a client of a running installation, with its key."""
    with run_mail_server() as mails:
        # What is run is still at work when a client that was kept waiting cancels it.
        mails.takes_s = 2.0
        yield from run_installation(tmp_path_factory.mktemp("api"), mails.url)


def run_installation(folder: Path, smtp_url: str) -> Iterator[dict[str, str]]:
    port = find_free_port()
    settings = {
        "MINUTEHAND_HOME": str(folder / "home"),
        "MINUTEHAND_SMTP_URL": smtp_url,
        "MINUTEHAND_WEB_ADDRESS": f"127.0.0.1:{port}",
        "PATH": f"{BIN}:/usr/bin:/bin",
    }
    log = folder / "up.log"
    command = [sys.executable, "-m", "cli.main", "up"]
    with run_warm(command, log=log, environ=settings):
        wait_until(
            lambda: "The pages and the HTTP API answer at" in log.read_text(),
            what="the HTTP API",
        )
        script = KEY.replace("127.0.0.1:8400", f"127.0.0.1:{port}")
        # Whoever reads this page has followed the README before.
        post = "minutehand actions post docs/examples/action.json --app sales"
        told = run(["sh", "-euc", f'{script}\n{post}\necho "$WEB $KEY"'], settings)
        web, key = told.splitlines()[-1].split()
        yield {**settings, "WEB": web, "KEY": key}


def run(command: list[str], environ: dict[str, str]) -> str:
    """Return what *command* prints, in the folder of the project; it must succeed."""
    lang = os.environ.get("LANG", "C.UTF-8")
    done = run_to_end(command, environ={**environ, "LANG": lang})
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_client_in_curl(environ: dict[str, str]):
    demand_program("curl")
    told = run(["sh", "-euc", CURL], environ)

    assert '"sentence"' in told
    assert '"refusals": []' in told
    assert '"succeeded"' in told
    assert '"canceled"' in told


@pytest.mark.parametrize(
    ("program", "text"),
    [
        ([sys.executable, "-"], PYTHON),
        (["node", "--input-type=module", "-"], JAVASCRIPT),
    ],
    ids=["python", "javascript"],
)
def test_client_in_a_program(environ: dict[str, str], program: list[str], text: str):
    """It prints when the action would run, and how the two runs ended."""
    if program[0] == "node":
        demand_program("nodejs")
    done = run_to_end(program, environ=environ, given=text)

    assert done.returncode == 0, done.stderr
    sentence, ended, canceled = done.stdout.splitlines()
    assert "Monday" in sentence
    assert (ended, canceled) == ("succeeded", "canceled")
