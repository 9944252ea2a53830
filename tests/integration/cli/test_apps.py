"""Small apps, listed and shown."""

from __future__ import annotations

import json
from pathlib import Path

from tests.integration.cli.calling import Answer, Call, Configure


def test_app_is_listed_and_shown(call: Call, shop: Path):
    listed, shown = (
        call("apps", "list", "--json"),
        call("apps", "show", "shop", "--json"),
    )

    assert [("shop", 1, 1, 0)] == [
        (app["uid"], app["users"], app["domains"], app["actions"])
        for app in listed.data
    ]
    assert {"file": "a.csv"} == shown.data["domains"][0]["source"]
    assert str(shop) == shown.data["source_folder"]
    assert "Europe/Paris" in call("apps", "show", "shop").out
    assert "shop" in call("apps", "list").out


def test_file_alone_keeps_the_folder(call: Call, shop: Path, tmp_path: Path):
    """Applying app.json from elsewhere does not say where files lie; one has to be."""
    path = tmp_path / "app.json"
    answers = []
    for uid in ("shop", "new"):
        domain = {"name": "b", "source": {"file": "b.csv"}}
        path.write_text(json.dumps({"uid": uid, "domains": [domain]}))
        answers.append(call("apps", "apply", str(path)))

    shown = call("apps", "show", "shop", "--json").data
    assert [0, 3] == [each.code for each in answers]
    assert str(shop) == shown["source_folder"]
    assert [{"file": "b.csv"}] == [each["source"] for each in shown["domains"]]
    assert "apps apply DIR" in answers[1].err


def test_connections_are_checked_as_far_as_they_are_known(
    call: Call, tmp_path: Path, configure: Configure
):
    """
    If none is, each is doubted; else one of another app is refused, as one that is not.

    A caller of the API learns no name of a connection that is not for its app.
    """
    theirs = {"erp": {"url": "postgresql://a:hunter2@db/erp", "apps": ["other"]}}

    def apply(connection: str) -> Answer:
        source = {"sql": "select 1", "connection": connection}
        document = {"uid": "shop", "domains": [{"name": "a", "source": source}]}
        (tmp_path / "app.json").write_text(json.dumps(document))
        return call("apps", "apply", str(tmp_path))

    doubted = apply("erp")
    configure(SQL_CONNECTIONS=json.dumps(theirs))
    refused, unknown = apply("erp"), apply("warehouse")

    assert (0, 3, 3) == (doubted.code, refused.code, unknown.code)
    assert "has no connection 'erp' here" in doubted.err
    assert "has no connection 'erp' here" in refused.err
    assert refused.err.replace("erp", "warehouse") == unknown.err
    assert "hunter2" not in refused.err


def test_what_is_doubted_is_told_beside_a_refusal(call: Call, tmp_path: Path):
    """Who mends the one mends the other with it."""
    document = {
        "uid": "shop",
        "notices": {"webhook": "http://10.0.0.1/"},
        "mail": {"from_address": "reports@shop.example"},
    }
    (tmp_path / "app.json").write_text(json.dumps(document))

    answer = call("apps", "apply", str(tmp_path))

    assert 3 == answer.code
    assert "10.0.0.1 is not a public address" in answer.err
    assert "MINUTEHAND_MAIL_SENDER_HOSTS" in answer.err


def test_keys_in_addresses_are_not_shown(call: Call, tmp_path: Path):
    """Neither people nor programs see the values of a query, nor more than a host."""
    url = "https://example.com/rates.csv?token=hunter2&hunter2#hunter2"
    asked = {"mail": ["ann@example.org"], "webhook": url}
    domains = [{"name": "a", "source": {"url": url}}]
    document = {"uid": "shop", "domains": domains, "notices": asked}
    (tmp_path / "app.json").write_text(json.dumps(document))
    assert 0 == call("apps", "apply", str(tmp_path)).code

    shown = call("apps", "show", "shop", "--json").data
    people = call("apps", "show", "shop").out

    hidden = "https://example.com/rates.csv?token=***&***"
    assert {"url": hidden} == shown["domains"][0]["source"]
    assert {"mail": ["ann@example.org"], "webhook": "example.com"} == shown["notices"]
    assert "ann@example.org" in people
    assert "hunter2" not in people


def test_dry_run_tells_and_does_nothing(call: Call, shop: Path):
    document = json.loads((shop / "app.json").read_text())
    document["users"] = [{"id": "bob@example.com"}]
    document["timezone"] = "Europe/Rome"
    path = shop / "app.json"
    path.write_text(json.dumps(document))
    before = call("apps", "export", "shop").data

    told = call("apps", "apply", str(shop), "--dry-run")
    listed = call("apps", "apply", str(shop), "--dry-run", "--json").data

    assert 0 == told.code
    for line in ("Small app shop would be updated.", "~ timezone", "- ada@", "+ bob@"):
        assert line in told.out
    assert {"added": 1, "changed": 0, "removed": 1} == listed["counts"]["users"]
    assert before == call("apps", "export", "shop").data
    call("apps", "apply", str(shop))
    again = call("apps", "apply", str(shop), "--dry-run").out
    assert "Small app shop would not change." in again


def test_app_is_deleted_and_brought_back(call: Call, shop: Path):
    """After a question, which a program answers beforehand."""
    asked = call("apps", "delete", "shop")
    deleted = call("apps", "delete", "shop", "--yes")

    assert 2 == asked.code
    assert "--yes" in asked.err
    assert (0, "Deleted small app shop, with 0 actions and 0 keys.\n") == (
        deleted.code,
        deleted.out,
    )
    assert 4 == call("apps", "show", "shop").code
    assert [] == call("apps", "list", "--json").data
    assert "Created small app shop." in call("apps", "apply", str(shop)).out
    assert 1 == call("apps", "show", "shop", "--json").data["users"]


def test_labels_and_what_is_on_mails_are_shown(call: Call, tmp_path: Path):
    """With a warning, as long as the sender is not used."""
    mail = {
        "from_name": "Shop reports",
        "from_address": "reports@shop.example",
        "reply_to": "help@shop.example",
    }
    sales = {"name": "sales", "source": {"file": "a.csv"}, "title": "Sales of the day"}
    path = tmp_path / "app.json"
    path.write_text(json.dumps({"uid": "shop", "mail": mail, "domains": [sales]}))
    call("apps", "apply", str(tmp_path))

    shown = call("apps", "show", "shop")
    told = call("apps", "show", "shop", "--json").data

    for words in ("Shop reports <reports@shop.example>", "help@shop.example"):
        assert words in shown.out
    assert "Sales of the day" in shown.out
    doubt = "'reports@shop.example' is of no host in MINUTEHAND_MAIL_SENDER_HOSTS here"
    assert doubt in shown.err.replace("\n", " ")
    assert mail == {name: text for name, text in told["mail"].items() if text}
    assert ["Sales of the day"] == [each["title"] for each in told["domains"]]
