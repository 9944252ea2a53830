"""Workers that could do nothing do not start, whichever command starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.cli.calling import Call
from tests.servers import ROOT

NOBODY = "redis://127.0.0.1:1/0"


@pytest.mark.parametrize(
    ("url", "setting"),
    [("", "MINUTEHAND_HOME"), ("postgresql://x@127.0.0.1:1/x", "MINUTEHAND_WORKSPACE")],
    ids=["database", "workspace"],
)
def test_worker_without_a_place_does_not_start(
    embedded: Call,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    url: str,
    setting: str,
):
    """It is refused before a broker is asked for anything."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("MINUTEHAND_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("MINUTEHAND_DATABASE_URL", url)
    monkeypatch.setenv("MINUTEHAND_BROKER_URL", NOBODY)

    answer = embedded("worker")

    assert (2, "") == (answer.code, answer.out)
    assert f"Set {setting}" in answer.err


@pytest.mark.parametrize(
    ("variable", "value"), [("LOKBACK", "PT5M"), ("WORKSPACE", "/proc/nowhere")]
)
def test_worker_of_celery_is_refused_with_the_same_words(
    embedded: Call, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
):
    """At the start, without a traceback, and with the exit code of a wrong setting."""
    monkeypatch.setenv("MINUTEHAND_BROKER_URL", NOBODY)
    monkeypatch.setenv(f"MINUTEHAND_{variable}", value)
    ours = embedded("worker")

    theirs = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "celery_app", "worker"],
        cwd=ROOT,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert (2, "") == (ours.code, ours.out)
    assert (2, "", ours.err) == (theirs.returncode, theirs.stdout, theirs.stderr)


@pytest.mark.parametrize("option", ["-Q", "-X"])
def test_queue_that_is_not_ours_is_refused_by_either_command(
    embedded: Call, monkeypatch: pytest.MonkeyPatch, option: str
):
    """Celery would declare it, and consume it, whoever's it is."""
    monkeypatch.setenv("MINUTEHAND_BROKER_URL", NOBODY)
    assert 0 == embedded("migrate").code

    theirs = subprocess.run(
        [
            *(sys.executable, "-m", "celery", "-A", "celery_app", "worker"),
            option,
            "qiuck",
        ],
        cwd=ROOT,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    ours = embedded("worker", "-Q", "qiuck")

    assert (2, 2) == (ours.code, theirs.returncode)
    told = "'qiuck' is not a queue of ours. Write one or more of quick, heavy, celery."
    assert f"error: {option}: {told}" in theirs.stderr
    assert "not a queue of ours" in ours.err


def test_help_of_the_worker_of_celery_needs_no_settings(embedded: Call):
    """Nor does it tell of how they are looked at."""
    del embedded
    environ = {**os.environ, "MINUTEHAND_LOKBACK": "PT5M"}

    helped = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "--help"],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert (0, "") == (helped.returncode, helped.stderr)
    assert "settings" not in helped.stdout
