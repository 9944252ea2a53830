"""Stores of other schedulers, filled by those schedulers themselves."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.connection import get_engine, get_settings
from cli.main import main
from cli.output import err, out
from tests.integration.cli.calling import Answer, Call

#: Seconds for a child on a busy machine.
PATIENCE = 240

_DJANGO = """
import django
from django.conf import settings
from django.core.management import call_command

settings.configure(
    DATABASES={
        "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3"}
    },
    INSTALLED_APPS=["django_celery_beat"],
    USE_TZ=True,
)
django.setup()
call_command("migrate", verbosity=0)
"""


@pytest.fixture
def importing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Call]:
    """Give a function that runs ``import`` in an empty folder, beside a broker."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("MINUTEHAND_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MINUTEHAND_BROKER_URL", "redis://:geheim@127.0.0.1:1/0")
    monkeypatch.delenv("MINUTEHAND_DATABASE_URL", raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    for cached in (get_settings, get_engine, out, err):
        cached.cache_clear()

    def run(*arguments: str) -> Answer:
        code = main(("import", *arguments))
        printed = capsys.readouterr()
        return Answer(code, printed.out, printed.err)

    yield run
    for cached in (get_settings, out, err):
        cached.cache_clear()


@pytest.fixture
def run_program() -> Callable[[str], None]:
    """Give a function that runs a program in the working directory."""

    def run(program: str) -> None:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    return run


@pytest.fixture
def run_django(run_program: Callable[[str], None]) -> Callable[[str], None]:
    """Give a function that runs a program in a project with its own migrations."""
    return lambda program: run_program(_DJANGO + program)
