"""Small apps, listed and shown."""

from __future__ import annotations

import json
from pathlib import Path

from tests.integration.cli.calling import Call


def test_app_is_listed_and_shown(call: Call, shop: Path):
    """
    What was applied is listed; sources are named with whole paths.
    """
    listed, shown = (
        call("apps", "list", "--json"),
        call("apps", "show", "shop", "--json"),
    )

    assert [("shop", 1, 1, 0)] == [
        (app["uid"], app["users"], app["domains"], app["actions"])
        for app in listed.data
    ]
    assert {"file": f"{shop}/a.csv"} == shown.data["domains"][0]["source"]
    assert "Europe/Paris" in call("apps", "show", "shop").out
    assert "shop" in call("apps", "list").out


def test_keys_of_a_source_are_not_shown(call: Call, tmp_path: Path):
    """
    Neither people nor programs see the values of a query.
    """
    url = "https://example.com/rates.csv?token=hunter2&hunter2#hunter2"
    document = {"uid": "shop", "domains": [{"name": "a", "source": {"url": url}}]}
    (tmp_path / "app.json").write_text(json.dumps(document))
    assert 0 == call("apps", "apply", str(tmp_path)).code

    shown = call("apps", "show", "shop", "--json")

    hidden = "https://example.com/rates.csv?token=***&***"
    assert {"url": hidden} == shown.data["domains"][0]["source"]
    assert "hunter2" not in call("apps", "show", "shop").out
