"""What ``mcp`` says if it cannot serve; how it does, tests/acceptance/test_mcp.py."""

from __future__ import annotations

import sys

import pytest

from tests.integration.cli.calling import Call, Configure


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("", "error: MINUTEHAND_MCP_KEY is not set:"),
        ("mh_typo", "error: MINUTEHAND_MCP_KEY is no API key, or one with a typo:"),
    ],
)
def test_agent_without_a_key_may_do_nothing(
    embedded: Call, key: str, told: str, configure: Configure
):
    """Unlike who calls the command line, it is no operator of the installation."""
    configure(MCP_KEY=key)

    answer = embedded("mcp")

    assert (2, "") == (answer.code, answer.out)
    assert answer.err.startswith(told)
    assert "minutehand keys create --app UID --role viewer" in answer.err
    assert "mh_typo" not in answer.err


def test_package_that_is_missing_is_named(
    embedded: Call, monkeypatch: pytest.MonkeyPatch
):
    """With what to type; all other commands do without it."""
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    monkeypatch.delitem(sys.modules, "cli.mcp_server", raising=False)

    answer = embedded("mcp")

    assert (2, "") == (answer.code, answer.out)
    assert "pip install 'minutehand[mcp]'" in " ".join(answer.err.split())
