"""``preview``, of one action and of many."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cli.calling import Call, write_action

NEVER = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_preview_says_how_a_switch_was_read(
    call: Call, tmp_path: Path, options: tuple[str, ...]
):
    """As a post does, and not among the data."""
    answer = call("preview", write_action(tmp_path, active="yes"), *options)

    assert 0 == answer.code
    assert "warning: /active: 'yes' was read as true. Write true.\n" == answer.err


def test_holidays_need_an_app(call: Call, tmp_path: Path):
    """Without one nobody knows whose they are."""
    path = write_action(tmp_path, **{"except": [{"calendar": "fr"}]})

    answer = call("preview", path)

    assert 3 == answer.code
    assert "Name the app with --app." in answer.err
