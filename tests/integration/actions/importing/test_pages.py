"""What the pages for those who come from elsewhere show, as it is shown."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.cli.calling import Answer, Call

DOCS = Path(__file__).parents[4] / "docs"

#: The address of a Redis on the page; the test has one of its own.
_REDIS = "redis://localhost:6379/1"


def read_example(page: str) -> tuple[str, str, str]:
    """Return what the example of a page has: its input, its command, its output."""
    text = (DOCS / f"{page}.md").read_text("utf-8").partition("## An example")[2]
    blocks = re.findall(r"^```\w+\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    command, _, output = blocks[1].partition("\n")
    return blocks[0], command.removeprefix("$ minutehand import "), output


def check(page: str, answer: Answer) -> None:
    """Compare what was printed with the page, and read what was written."""
    assert read_example(page)[2] == answer.out + answer.err
    for path in Path("actions").iterdir():
        assert json.loads(path.read_text("utf-8"))["operations"]["run_task"]


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("coming-from-crontab", "crontab"),
        ("coming-from-kubernetes", "cronjobs.yaml"),
        ("coming-from-celery-beat", "shop.py"),
    ],
)
def test_example_of_a_file(page: str, name: str, importing: Call):
    content, command, _ = read_example(page)
    Path(name).write_text(content, "utf-8")

    check(page, importing(*shlex.split(command)))


def test_example_of_apscheduler(importing: Call, run_program: Callable[[str], None]):
    """Its own job store, on SQLite."""
    program, command, _ = read_example("coming-from-apscheduler")
    run_program(program)

    check("coming-from-apscheduler", importing(*shlex.split(command)))


def test_example_of_django(importing: Call, run_django: Callable[[str], None]):
    """Its own tables, by its own migrations."""
    program, command, _ = read_example("coming-from-django-celery-beat")
    run_django(program)

    check("coming-from-django-celery-beat", importing(*shlex.split(command)))


def test_example_of_redbeat(
    importing: Call, run_program: Callable[[str], None], other_redis_url: str
):
    """Its own keys, in a Redis."""
    program, command, _ = read_example("coming-from-redbeat")
    run_program(program.replace(_REDIS, other_redis_url))

    answer = importing(*shlex.split(command.replace(_REDIS, other_redis_url)))

    check("coming-from-redbeat", answer)
