"""The demo and the embedded form as people start them: a process of their own."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa

from actions.small_apps.apply import ApplyTerms, apply_small_app
from cli.main import main
from dispatch.manual_runs import run_now
from migrations.schema import migrate
from models.database.engine import make_engine
from models.door.app_documents import read_small_app
from operations.list_operations import fetch_steps
from settings import read_settings
from tests.database import read_by, write_by
from tests.programs import demand_program
from tests.scheduling import get, post
from tests.servers import run_process, run_to_end, run_warm, wait_until

_MINUTEHAND = (sys.executable, "-m", "cli.main")

#: Twenty times what a stop may take on a quiet machine: more is a hang, not a load.
STOPS_WITHIN_S = 60


@dataclass(frozen=True, slots=True)
class Demo:
    """A demo that runs in *home*, and prints to *log*."""

    home: Path
    log: Path
    process: subprocess.Popen[bytes]

    def wait_for(self, text: str) -> str:
        """Wait until it has printed *text*; return all that it has printed."""
        wait_until(lambda: text in self.log.read_text(), timeout_s=240, what=text)
        return self.log.read_text()


#: As make calls it: nobody has activated the environment.
_ENVIRON = {"PATH": "/usr/bin:/bin"}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """Give one demo to the tests below, which look at it in turn."""
    folder = tmp_path_factory.mktemp("demo")
    home, log = folder / "demo", folder / "log"
    command = [*_MINUTEHAND, "demo", "--home", str(home)]
    with run_process(command, log=log, environ=_ENVIRON) as process:
        yield Demo(home, log, process)


def _run_line(line: str) -> subprocess.CompletedProcess[str]:
    return run_to_end(["/bin/sh", "-c", line], environ=_ENVIRON)


def test_curl_lines_of_the_demo_work_as_pasted(demo: Demo):
    """They preview, post, run, watch and cancel both of the original actions."""
    demand_program("curl")
    told = demo.wait_for("weekly update: succeeded")
    (advice,) = re.findall(r"^  (sh .*try-the-api.sh)$", told, re.MULTILINE)

    done = _run_line(advice)

    assert 0 == done.returncode, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    weekly, ran, canceled, inactive, mailed, ended = answers
    assert weekly["sentence"] == "Mondays at 07:00, Europe/Paris"
    assert inactive["recipients"]["on_event"] is True
    assert ran["state"] == mailed["state"] == "succeeded"
    assert canceled["state"] == "canceled"
    # A mail may be gone before the next line is typed; then there is nothing to cancel.
    assert ended.get("state") == "canceled" or ended["status"] == 409


def test_demo_shows_what_no_cron_does(demo: Demo):
    """A killed worker is replaced; an outage is missed, and ``why`` says so."""
    told = demo.wait_for("daily report: succeeded")

    assert "was killed (SIGKILL)" in told
    assert re.search(r"picked it up, and attempt \d succeeded", told)
    assert "figures: missed (outage)" in told
    assert re.search(
        rf"  MINUTEHAND_HOME={demo.home} \S*minutehand why figures --at ", told
    )
    assert "Staged: a worker that is killed, an outage" in told
    # Before anything is loaded, it says what it does.
    assert told.startswith("Minutehand demo\nEverything is in ")


def test_demo_shows_a_run_and_stops_at_once(demo: Demo):
    """Its mails are files, Ctrl-C ends it with 0, and what it tells to type works."""
    demo.wait_for("weekly update: succeeded")
    demo.process.send_signal(signal.SIGINT)
    code = demo.process.wait(STOPS_WITHIN_S)

    told = demo.log.read_text()
    assert 0 == code, told
    (advice,) = re.findall(r"To explore: (.*)", told)
    looked = _run_line(advice)
    assert "weekly update" in looked.stdout, looked.stderr
    assert 3 <= len(list((demo.home / "mails").glob("*.eml")))
    assert "Traceback" not in told + (demo.home / "demo.log").read_text()
    # Database, data versions, mails, a key: they are nobody else's on this host.
    written = [demo.home, *demo.home.rglob("*")]
    kinds = {path.suffix for path in written}
    assert {".sqlite3", ".parquet", ".eml", ".log", ".sh"} <= kinds
    assert [] == [path for path in written if path.stat().st_mode & 0o077]


@pytest.mark.parametrize(
    ("home", "told"),
    [
        ("", "is not empty"),
        ("thesis.txt/demo", "Not a directory. Name a folder that may be written to."),
    ],
    ids=["of something else", "that cannot be made"],
)
def test_demo_leaves_other_folders_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], home: str, told: str
):
    """It is refused, not emptied; and whoever may not write there learns a way out."""
    (tmp_path / "thesis.txt").write_text("years of work")

    code = main(["demo", "--home", str(tmp_path / home)])

    assert 2 == code
    assert told in " ".join(capsys.readouterr().err.split())
    assert "years of work" == (tmp_path / "thesis.txt").read_text()


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[sa.Engine]:
    """Give the database of a home, with a small app that reads a file."""
    (tmp_path / "home").mkdir()
    (tmp_path / "a.csv").write_text("x,y\n1,2\n")
    given = {"MINUTEHAND_HOME": str(tmp_path / "home")}
    engine = make_engine(read_settings(given, None).database_url)
    migrate(engine)
    document = b'{"domains": [{"name": "a", "source": {"file": "a.csv"}}]}'
    app = read_small_app(document, uid="shop")
    write_by(engine, apply_small_app, app, ApplyTerms(tmp_path, by="ada"))
    yield engine
    engine.dispose()


def test_up_survives_being_killed(tmp_path: Path, embedded: sa.Engine):
    """What waited is run by the next one; a second beside it is refused."""
    steps = {"refresh": True, "publish": {"data": True}}
    uid = post(embedded, "shop", operations=steps).uid
    command = [*_MINUTEHAND, "up"]
    environ = {
        "MINUTEHAND_HOME": str(tmp_path / "home"),
        "MINUTEHAND_WEB_ADDRESS": "127.0.0.1:0",
    }
    log, other = tmp_path / "log", tmp_path / "other"

    with run_warm(command, log=log, environ=environ) as process:
        wait_until(lambda: "tick_done" in log.read_text(), what="a tick")
        process.kill()
        process.wait()
    first = run_now(embedded, uid)
    with run_warm(command, log=log, environ=environ) as process:
        wait_until(lambda: get(embedded, first).finished_at, what="its end")
        with run_warm(command, log=other, environ=environ) as beside:
            refused = beside.wait(STOPS_WITHIN_S)
        process.send_signal(signal.SIGTERM)
        code = process.wait(STOPS_WITHIN_S)

    found = read_by(embedded, fetch_steps, [first])[first]
    assert "succeeded" == get(embedded, first).state
    assert ["succeeded"] * 2 == [step.state for step in found]
    assert 5 == refused
    assert 0 == code
    assert "Traceback" not in log.read_text()
