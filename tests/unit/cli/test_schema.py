"""``schema`` prints what editors check documents with."""

from __future__ import annotations

import json

import pytest

from cli.main import main
from models.door.action_schema import make_action_schema


def test_schema_is_printed(capsys: pytest.CaptureFixture[str]):
    """That of the HTTP API, with the key that a document names it by."""
    assert 0 == main(["schema"])

    printed = json.loads(capsys.readouterr().out)
    assert make_action_schema() == printed
    assert "$schema" in printed["properties"]
