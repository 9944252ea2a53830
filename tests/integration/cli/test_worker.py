"""Workers that could do nothing do not start, whichever command starts them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.integration.cli.calling import Call, Configure
from tests.servers import PATIENCE_S, run_warm

NOBODY = "redis://127.0.0.1:1/0"


@pytest.mark.parametrize(
    ("url", "setting"),
    [("", "MINUTEHAND_HOME"), ("postgresql://x@127.0.0.1:1/x", "MINUTEHAND_WORKSPACE")],
    ids=["database", "workspace"],
)
def test_worker_without_a_place_does_not_start(
    embedded: Call, tmp_path: Path, url: str, setting: str, configure: Configure
):
    """It is refused before a broker is asked for anything."""
    (tmp_path / "file").touch()
    configure(HOME=tmp_path / "file", DATABASE_URL=url, BROKER_URL=NOBODY)

    answer = embedded("worker")

    assert (2, "") == (answer.code, answer.out)
    assert f"Set {setting}" in answer.err


def run_celery(folder: Path, *options: str, **environ: str) -> tuple[int, str]:
    """Return how ``celery worker`` ends, and all that it prints."""
    log = folder / "celery.log"
    command = (sys.executable, "-m", "celery", "-A", "celery_app", "worker", *options)
    with run_warm(command, log=log, environ=environ) as process:
        code = process.wait(PATIENCE_S)
    return code, log.read_text()


@pytest.mark.parametrize(
    ("variable", "value"), [("LOKBACK", "PT5M"), ("WORKSPACE", "/proc/nowhere")]
)
def test_worker_of_celery_is_refused_with_the_same_words(
    embedded: Call, tmp_path: Path, variable: str, value: str, configure: Configure
):
    """At the start, without a traceback, and with the exit code of a wrong setting."""
    configure(BROKER_URL=NOBODY, **{variable: value})

    ours = embedded("worker")

    assert (2, "") == (ours.code, ours.out)
    assert (2, ours.err) == run_celery(tmp_path)


@pytest.mark.parametrize("option", ["-Q", "-X"])
def test_queue_that_is_not_ours_is_refused_by_either_command(
    embedded: Call, tmp_path: Path, option: str, configure: Configure
):
    """Celery would declare it, and consume it, whoever's it is."""
    configure(BROKER_URL=NOBODY)
    assert 0 == embedded("migrate").code

    code, printed = run_celery(tmp_path, option, "qiuck")
    ours = embedded("worker", "-Q", "qiuck")

    assert (2, 1) == (ours.code, code)
    assert "not a queue of ours" in ours.err
    assert "queue subset of ['qiuck']" in printed


def test_help_of_the_worker_of_celery_needs_no_settings(tmp_path: Path):
    """Nor does it tell of how they are looked at."""
    code, printed = run_celery(tmp_path, "--help", MINUTEHAND_LOKBACK="PT5M")

    assert (0, True) == (code, printed.startswith("Usage: "))
    assert "settings" not in printed
