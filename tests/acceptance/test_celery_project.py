"""docs/celery-project.md: what it tells to paste does what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.test_readme import Home
from tests.project import run_project
from tests.servers import ROOT, find_free_port, wait_until

PAGE = (ROOT / "docs" / "celery-project.md").read_text(encoding="utf-8")

#: In the place of celery beat, and beside a project with all of it; another block would
#: end the collection here.
BEAT, BLOCK = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_one_process_takes_the_place_of_beat(redis_url: str, tmp_path: Path) -> None:
    """On one file: an entry is imported, and runs; doctor finds nothing bad."""
    entry = {"task": "shop.report", "schedule": 3600.0, "kwargs": {"of": "sales"}}
    settings = {
        "beat_schedule": {"hourly report": entry},
        "task_default_queue": "reports",
    }
    environ = {
        "MINUTEHAND_WEB_ADDRESS": "none",
        "SHOP_BROKER": redis_url,
        "SHOP_SETTINGS": json.dumps(settings),
        "SHOP_LOG": str(tmp_path / "unused"),
    }
    pasted = BEAT.replace("redis://redis:6379/0", redis_url)
    pasted = pasted.replace("celery-beat shop ", "celery-beat shop_project ")

    with run_project(tmp_path, redis_url, "reports", settings=settings) as done:
        told = Home(tmp_path, environ).run(f"set -e -m\n{pasted}")

    # One more, if an hour begins meanwhile.
    first, *more = read_given(done)
    assert [[], {"of": "sales"}] == first
    assert [first] * len(more) == more
    assert "succeeded" in told


def read_given(done: Path) -> list[list[Any]]:
    return [json.loads(line)[1:] for line in done.read_text().splitlines()]


def test_the_lines_run_a_task_of_the_project(
    redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With its worker on its broker: the run ends as the task does."""
    home, project = tmp_path / "home", tmp_path / "project"
    home.mkdir()
    project.mkdir()
    monkeypatch.delenv("MINUTEHAND_TASK_CONNECTIONS", raising=False)
    environ = {"MINUTEHAND_WEB_ADDRESS": f"127.0.0.1:{find_free_port()}"}
    pasted = BLOCK.replace("redis://redis:6379/0", redis_url)

    connection, *_rest = pasted.splitlines()
    with run_project(project, redis_url, "reports") as done:
        user = Home(home, environ)
        told = user.run(f"set -e -m\n{pasted}")
        seen = [told]

        def is_answered() -> bool:
            if re.search(r"task queue reports .*1 consumer", seen[-1]):
                return True
            # A worker that a busy machine keeps for seconds is late; nobody leads now,
            # which is bad.
            seen.append(user.run(f"{connection}\nminutehand doctor", code=1))
            return False

        wait_until(is_answered, what="the worker to answer")

    # One more, if an hour begins meanwhile.
    given = read_given(done)
    assert given
    assert [([], {"due"})] * len(given) == [(args, {*named}) for args, named in given]
    assert "succeeded" in told
    assert "task queue reports" in told
