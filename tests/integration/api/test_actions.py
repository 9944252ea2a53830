"""Scheduled actions over HTTP: list, post, read, replace, patch, delete."""

from __future__ import annotations

import json
from typing import Any

import pytest

from api.routes.action_examples import MANY, PATCHES
from models.role import Role
from tests.integration.api.conftest import APP, OTHER, Web
from tests.scheduling import make_document


def create(web: Web, **document: Any) -> str:
    answer = web.post("/actions", make_document(**document))
    assert answer.status_code == 201, answer.text
    uid: str = answer.json()["uid"]
    return uid


def test_list_has_pages_and_filters(web: Web):
    """By app and name; the cursor goes on, and only with the same filters."""
    for name in ("a", "b", "c"):
        create(web, name=name, uid=f"x-{ord(name)}")
    web.post(f"/actions?app={OTHER}", make_document(), app=OTHER)

    first = web.get("/actions?limit=2&state=active").json()
    cursor = first["next_cursor"]
    second = web.get(f"/actions?limit=2&state=active&cursor={cursor}").json()

    assert ["a", "b"] == [each["name"] for each in first["items"]]
    assert ["c"] == [each["name"] for each in second["items"]]
    assert second["next_cursor"] is None
    assert ["Every day at 07:00, UTC"] == [each["sentence"] for each in second["items"]]
    assert 422 == web.get(f"/actions?cursor={cursor}").status_code
    assert 4 == len(web.get("/actions", app=None).json()["items"])
    assert 1 == len(web.get("/actions?text=B").json()["items"])
    (recent,) = web.get("/actions?text=b&runs=20").json()["items"]
    assert ({"runs": [], "median_s": None}, None) == (
        recent["recent"],
        second["items"][0]["recent"],
    )
    assert 404 == web.get(f"/actions?app={OTHER}").status_code


@pytest.mark.parametrize("name", PATCHES)
def test_patch_changes_some_members(web: Web, name: str):
    """RFC 7396, with its own media type."""
    uid = create(web, recipients={"groups": ["all"]})

    answer = web.patch(
        f"/actions/{uid}?note=why",
        PATCHES[name],
        headers={"Content-Type": "application/merge-patch+json", "If-Match": '"1"'},
    )

    assert (200, 2) == (answer.status_code, answer.json()["revision"])
    (last, _first) = web.get(f"/actions/{uid}/revisions").json()["items"]
    by = {"note": "why", "changed_by": f"admin of {APP}"}
    assert {"change": "replaced", **by}.items() <= last.items()


def test_many_are_posted_or_none(web: Web):
    """A list or JSON lines; pointers begin with the number of the action."""
    two = MANY["two"]
    bad = [two[0], {**two[1], "when": {"cron_rule": "x"}}]
    lines = "\n".join(json.dumps(make_document(name=f"n{i}")) for i in range(3))

    refused = web.post("/actions/batch", bad)
    tried = web.post("/actions/batch?dry_run=true", two)
    none = web.get("/actions").json()["items"]
    posted = web.post("/actions/batch", two)
    kind = {"Content-Type": "application/x-ndjson"}
    more = web.post("/actions/batch", headers=kind, content=lines)

    answers = (refused, tried, posted, more)
    assert [422, 200, 200, 200] == [each.status_code for each in answers]
    assert [] == none
    assert "/1/when/cron_rule" == refused.json()["errors"][0]["pointer"]
    many = web.post("/actions/batch", [{}] * 10_001)
    assert (422, "at most 10,000") == (
        many.status_code,
        many.json()["detail"].partition("; ")[2][:14],
    )
    assert 5 == len(web.get("/actions").json()["items"])


def test_dry_run_stores_nothing(web: Web):
    """A post or a replacement is answered, or refused, as it would be without it."""
    uid = create(web)
    before = web.get("/changes").json()
    edited = make_document(when={"cron_rule": "0 9 * * 1"})

    posted = web.post("/actions?dry_run=true", make_document(name="new"))
    replaced = web.put(f"/actions/{uid}?dry_run=true", edited)

    assert [200, 200] == [each.status_code for each in (posted, replaced)]
    assert {"uid": None, "created": True}.items() <= posted.json().items()
    assert {"uid": uid, "revision": 2}.items() <= replaced.json().items()
    assert "etag" not in posted.headers.keys() | replaced.headers.keys()
    assert [1] == [each["revision"] for each in web.get("/actions").json()["items"]]
    assert before == web.get("/changes").json()
    taken = web.post("/actions?dry_run=true", make_document())
    stale = {"If-Match": '"9"'}
    assert [409, 412, 403] == [
        taken.status_code,
        web.put(f"/actions/{uid}?dry_run=true", edited, headers=stale).status_code,
        web.post(
            "/actions?dry_run=true", make_document(name="x"), role=Role.VIEWER
        ).status_code,
    ]


MISTAKEN = {
    "operations": {"send_email": {"template": "never"}},
    "recipients": {"groups": ["nobodies"]},
}


def test_what_may_be_a_mistake_is_in_the_answer(web: Web):
    """Of a post, a replacement and a patch, as the command line has it."""
    posted = web.post("/actions", make_document(**MISTAKEN))
    path = f"/actions/{posted.json()['uid']}"
    replaced = web.put(path, make_document(**MISTAKEN))
    patched = web.patch(path, {"recipients": None})

    both = ["/operations/send_email/template", "/recipients/groups/0"]
    for answer in (posted, replaced):
        assert both == [each["pointer"] for each in answer.json()["warnings"]]
    assert "nobody is named" in patched.json()["warnings"][0]["message"]


def test_mistakes_of_a_list_name_the_action(web: Web):
    """The first ones of all; whether there may be more is said."""
    many = [make_document(name=f"n{n}", **MISTAKEN) for n in range(6)]

    answer = web.post("/actions/batch?dry_run=true", many).json()
    few = web.post("/actions/batch?dry_run=true", many[:1]).json()

    assert 10 == len(answer["warnings"])
    assert "/4/recipients/groups/0" == answer["warnings"][-1]["pointer"]
    assert (True, False) == (answer["more_warnings"], few["more_warnings"])


def test_the_next_due_come_first_if_asked_for(web: Web):
    """And not the first by name."""
    hourly = create(web, name="z", when={"cron_rule": "0 * * * *"})
    create(web, name="a", when={"due_date": "2035-12-01T09:00:00"})

    assert hourly == web.get("/actions?sort=next").json()["items"][0]["uid"]


def test_key_of_the_installation_names_the_app(web: Web):
    """A key of one app need not."""
    answer = web.post("/actions", make_document(), app=None)

    assert 400 == answer.status_code
    assert "?app=UID" in answer.json()["detail"]
