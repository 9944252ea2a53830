"""Schedules from code: the page as pasted, and beside somebody else's settings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from models.database.engine import make_engine, reading
from models.database.tables import changes
from models.operation_state import OperationState
from overview.schedules import (
    ConflictError,
    InvalidDocumentError,
    NotFoundError,
    Schedules,
    UnreachableError,
    UsageError,
)
from tests.scheduling import add_app, make_document

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "code.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def url(engine: sa.Engine) -> str:
    """Give the URL of a migrated database that has the small apps app and sales."""
    add_app(engine)
    add_app(engine, "sales")
    return engine.url.render_as_string(hide_password=False)


def make_plain(**changes: Any) -> dict[str, Any]:
    """Return an action that publishes each morning."""
    return make_document(operations={"publish": {"data": True}}, **changes)


def call_python(code: str, folder: Path, **environment: str) -> str:
    """Run *code* in a process of its own, in *folder*, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "" == done.stderr
    assert 0 == done.returncode
    return done.stdout


def test_page_does_what_it_says(url: str, tmp_path: Path) -> None:
    """
    Preview, post, run, a refusal and a deletion, as they stand there.
    """
    said = call_python(SNIPPETS[0], tmp_path, MINUTEHAND_DATABASE_URL=url).splitlines()

    assert said[0].startswith("Mondays at 09:00, Europe/Paris ['20")
    assert said[1].startswith("report-ada 1 20")
    assert said[2].endswith(" pending")
    assert "minutes go from 0 to 59" in said[3]


def test_django_keeps_its_settings(url: str, tmp_path: Path) -> None:
    """
    A project whose settings are a top-level module of that name, with its own log.
    """
    (tmp_path / "settings.py").write_text(
        f"MINUTEHAND_DATABASE_URL = {url!r}\nTIME_ZONE = 'Europe/Paris'\n"
        "SECRET_KEY = 'x'\n"
    )
    code = (
        "import django, logging, os, sys\n"
        "os.environ['DJANGO_SETTINGS_MODULE'] = 'settings'\n"
        # what nobody asked for: it would be refused, if somebody read it
        "os.environ['MINUTEHAND_NONSENSE'] = '1'\n"
        "django.setup()\n"
        f"{SNIPPETS[1]}\n"
        "before = logging.getLogger().handlers[:]\n"
        "first = remind('ada@example.com', '2126-12-01')\n"
        "assert first == remind('ada@example.com', '2126-12-01')\n"
        "assert before == logging.getLogger().handlers\n"
        "assert not {'celery', 'kombu'} & set(sys.modules)\n"
        "print(sys.modules['settings'].__file__)\n"
    )

    said = call_python(code, tmp_path)

    assert f"{tmp_path / 'settings.py'}\n" == said


def test_changes_have_their_author(url: str, engine: sa.Engine) -> None:
    """
    As those of the command line and of an API key.
    """
    with Schedules(url, by="shop@web-1") as schedules:
        posted = schedules.post("app", make_plain(uid="one"), note="why")
        again = schedules.run("one", key="k"), schedules.run("one", key="k")
        state = schedules.wait(again[0], timeout=timedelta(0))

    assert (True, 1) == (posted["created"], posted["revision"])
    assert 1 == len(set(again))
    assert OperationState.PENDING is state
    with reading(engine) as connection:
        query = sa.select(changes.c.by).where(changes.c.subject == "one")
        assert {"shop@web-1"} == set(connection.execute(query).scalars())


def test_errors_are_those_of_the_command_line(url: str) -> None:
    """
    What is refused, unknown or taken has its own type, and says what to do.
    """
    with Schedules(url, by="shop") as schedules:
        schedules.post("app", make_plain(uid="one"))
        with pytest.raises(ConflictError, match="already has an action"):
            schedules.post("app", make_plain(uid="one"))
        with pytest.raises(NotFoundError, match="there is no small app"):
            schedules.post("nowhere", make_plain())
        with pytest.raises(NotFoundError, match="no scheduled action"):
            schedules.run("nothing")
        with pytest.raises(InvalidDocumentError) as refused:
            schedules.post("app", '{"name": "x", // why\n}')

    assert "JSON has no comments" in str(refused.value)


def test_database_that_is_away_is_told_within_the_deadline() -> None:
    """
    And one that was never migrated says what to run.
    """
    away = "postgresql://nobody@127.0.0.1:1/none"
    with (
        Schedules(away, by="shop", timeout=timedelta(seconds=1)) as schedules,
        pytest.raises(UnreachableError),
    ):
        schedules.preview(make_plain(), app="app")


def test_database_without_schema_says_so(tmp_path: Path) -> None:
    """
    The program does not migrate what it was only given to use.
    """
    url = f"sqlite:///{tmp_path / 'empty.db'}"
    make_engine(url).connect().close()

    with (
        Schedules(url, by="shop") as schedules,
        pytest.raises(UsageError, match="minutehand migrate"),
    ):
        schedules.post("app", make_plain())
