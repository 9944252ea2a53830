"""The command line on a database of the test, and a small app in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.connection import get_engine, get_settings
from cli.main import main
from cli.output import err, out
from tests.integration.cli.calling import Answer, Call, Configure, Post, write_action

#: A user who gets mails.
ADA = {"id": "ada@example.com", "activated_at": "2026-01-01T00:00:00Z"}


@pytest.fixture
def configure(monkeypatch: pytest.MonkeyPatch) -> Configure:
    """Give a function that sets variables for all calls from then on."""

    def set_all(**values: object) -> None:
        for name, value in values.items():
            monkeypatch.setenv(f"MINUTEHAND_{name}", str(value))
        get_settings.cache_clear()

    return set_all


@pytest.fixture
def embedded(
    tmp_path: Path,
    configure: Configure,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[Call]:
    """Give a function that runs a command line with nothing set but the home."""
    configure(HOME=tmp_path / "home", BROKER_URL="memory://")
    monkeypatch.delenv("MINUTEHAND_DATABASE_URL", raising=False)
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
def call(embedded: Call, database_url: str, configure: Configure) -> Call:
    """Give a function that runs a command line on a database of this test."""
    # what a tick finds due must not depend on the hour the test runs at
    configure(DATABASE_URL=database_url, MAINTENANCE_ENABLED=False)
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


@pytest.fixture
def post(call: Call, shop: Path) -> Post:
    """Give a function that posts an action to that app."""

    def post_action(*options: str, **document: Any) -> Answer:
        path = write_action(shop, **document)
        return call("actions", "post", path, "--app", "shop", *options)

    return post_action
