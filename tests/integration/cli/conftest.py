"""The command line on a database of the test, and a small app in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.connection import get_engine, get_settings
from cli.main import main
from cli.output import err, out
from tests.integration.cli.calling import Answer, Call

#: A user who gets mails.
ADA = {"id": "ada@example.com", "activated_at": "2026-01-01T00:00:00Z"}


@pytest.fixture
def embedded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Call]:
    """Give a function that runs a command line with nothing set but the home."""
    monkeypatch.setenv("MINUTEHAND_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MINUTEHAND_DATABASE_URL", raising=False)
    monkeypatch.setenv("MINUTEHAND_BROKER_URL", "memory://")
    monkeypatch.delenv("COLUMNS", raising=False)
    for cached in (get_settings, get_engine, out, err):
        cached.cache_clear()

    def run(*arguments: str) -> Answer:
        code = main(arguments)
        printed = capsys.readouterr()
        return Answer(code, printed.out, printed.err)

    yield run
    if get_engine.cache_info().currsize:
        get_engine().dispose()
    for cached in (get_settings, get_engine, out, err):
        cached.cache_clear()


@pytest.fixture
def call(embedded: Call, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Give a function that runs a command line on a database of this test."""
    monkeypatch.setenv("MINUTEHAND_DATABASE_URL", database_url)
    # so that what a tick finds due does not depend on the hour the test runs at
    monkeypatch.setenv("MINUTEHAND_MAINTENANCE_ENABLED", "false")
    return embedded


@pytest.fixture
def shop(call: Call, tmp_path: Path) -> Path:
    """Give the folder of a small app that has been applied."""
    document = {
        "uid": "shop",
        "timezone": "Europe/Paris",
        "users": [{**ADA, "groups": ["manager"]}],
        "domains": [{"name": "a", "source": {"file": "a.csv"}}],
        "templates": {"inactive": {"subject": "Hello", "text": "Hello"}},
    }
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "app.json").write_text(json.dumps(document))
    assert 0 == call("apps", "apply", str(folder)).code
    return folder
