"""What routes refuse, and where in what was sent they say it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from api.routes.action_examples import PREVIEWS
from tests.integration.api.conftest import OTHER, Web
from tests.integration.api.prepared import digest_tables, prepare_two
from tests.scheduling import make_document

_WEEK = {"from": "2026-01-05T00:00:00Z", "until": "2026-01-12T00:00:00Z"}
_NEVER = {"from": "2026-01-06T08:00:00Z", "until": "2026-01-06T09:00:00Z"}
_MAIL = {"template": "report", "to": "ada"}
_VIEWER = {"role": "viewer"}

#: What is sent, the status of the answer, the pointer or parameter that it names, and
#: words of it. None: it is about no part.
REFUSED: tuple[tuple[str, Any, int, str | None, str], ...] = (
    ("POST /keys", {"role": "editr"}, 422, "/role", "Did you mean 'editor'?"),
    ("POST /keys", {**_VIEWER, "expires": "30 days"}, 422, "/expires", "Write P30D."),
    ("POST /keys", {**_VIEWER, "name": ""}, 422, "/name", "1 to 200"),
    ("POST /keys", {**_VIEWER, "app": "../"}, 422, "/app", "letters"),
    # Nobody changes what nobody has counted.
    ("POST /bulk", {"kind": "pause", "filter": {}}, 422, "", "dry_run"),
    (
        *("POST /bulk", {"kind": "cancel", "filter": {"stat": ["failed"]}}, 422),
        *("/filter/stat", "'state'"),
    ),
    (
        *("POST /bulk", {"kind": "cancel", "filter": {"ids": ["x"]}}, 422),
        *("/filter/ids/0", ""),
    ),
    ("POST /actions/{uid}/backfills", {}, 422, "/from", "'from' is missing"),
    (
        *("POST /actions/{uid}/backfills", {**_WEEK, "until": "2096-01-01T00:00:00Z"}),
        *(400, None, "later than now"),
    ),
    ("POST /actions/{uid}/backfills", _NEVER, 409, None, ""),
    ("POST /actions/{uid}/runs", {"steps": ["publsh"]}, 422, "/steps/0", ""),
    ("POST /actions/{uid}/runs", {"note": "\x1b[31mred"}, 422, "/note", ""),
    ("POST /actions/{uid}/runs", {"stpes": ["run_task"]}, 422, "/stpes", ""),
    ("POST /actions/{uid}/runs", {"user": "ada"}, 400, None, ""),
    ("POST /actions/shop-event/runs", {"user": "nobody"}, 404, None, ""),
    ("POST /actions/shop-event/runs?dry_run=true", {"user": "nobody"}, 404, None, ""),
    ("GET /actions/{uid}/why?at=soon", None, 422, "at", ""),
    ("POST /actions?note=%1B[31m", make_document(), 422, "note", ""),
    # An unknown parameter is not ignored, and no database is asked for a NUL.
    ("POST /actions?foo=1", make_document(), 422, "foo", ""),
    ("POST /actions?app=a%00b", make_document(), 422, "app", ""),
    ("GET /actions?state=broken", None, 422, "state", ""),
    ("GET /changes?from=yesterday", None, 422, "from", "Write '2026-12"),
    ("GET /operations?state=faild", None, 422, "state.0", "failed"),
    (f"GET /operations?{'state=failed&' * 17}", None, 422, "state", "at most 8 are"),
    ("GET /operations?from=2026-11-23T06:00:00", None, 422, "from", "T06:00:00"),
    (
        "GET /operations?from=2026-11-23T06:00:00Z&until=2026-11-23T06:00:00Z",
        *(None, 422, "until", "nothing lies between"),
    ),
    ("GET /operations?text=%00", None, 422, "text", "NUL"),
    # A minute is as long as proxies hold a connection.
    *(
        (f"GET /operations/{{operation_id}}/state?wait={wait}", None, 422, "wait", "")
        for wait in ("61", "-1", "soon", "1.5")
    ),
    ("PUT /apps/shop", {"uid": OTHER}, 422, "/uid", ""),
    (
        *("PUT /apps/shop", {"domains": [{"name": "a", "source": {"file": "/x"}}]}),
        *(422, "/domains/0/source/file", ""),
    ),
    (
        *("PUT /apps/shop/users/ada", {"emial": "x"}, 422, "/emial"),
        "Did you mean 'email'",
    ),
    ("PUT /apps/shop/users/ada", {"id": "bob"}, 422, "/id", ""),
    ("PATCH /apps/shop/users/ada", {"email": "nobody"}, 422, "/email", ""),
    ("PATCH /apps/shop/users/ada", [], 422, "", ""),
    (
        *("PUT /apps/shop/users", {"users": [{"id": "a"}, {"id": "a"}]}, 422),
        *("/users/1/id", ""),
    ),
    # Whoever may write templates cannot mail anything to anybody.
    ("POST /mails/test", {**_MAIL, "template": "reprot"}, 422, "/template", ""),
    ("POST /mails/test", {**_MAIL, "to": "eve@example.com"}, 422, "/to", ""),
    (
        *("POST /previews", {"when": {"cron_rule": "61 * * * *"}}, 422),
        *("/when/cron_rule", '"line": 1'),
    ),
    (
        *("POST /previews?timezone=Mars/Base", PREVIEWS["only when"], 422),
        *("timezone", ""),
    ),
)


def test_what_is_refused_says_where_and_changes_nothing(free_web: Web, tmp_path: Path):
    """By pointer into the body or by parameter, and in words that help."""
    shop, _books = prepare_two(free_web.engine, tmp_path)
    traces = frozenset({"api_keys"})
    before = digest_tables(free_web.engine, but=traces)
    wrong = []
    for asked, body, status, place, words in REFUSED:
        method, path = asked.format(**shop.ids).split(" ", 1)
        answer = free_web.ask(method, path, body)
        errors = answer.json()["errors"]
        places = {each["parameter"] or each["pointer"] for each in errors} or {None}
        is_told = words in answer.text
        if (status, True) != (answer.status_code, is_told) or place not in places:
            wrong.append((asked, body, answer.text))

    assert [] == wrong
    assert before == digest_tables(free_web.engine, but=traces)
    assert [] == [*tmp_path.glob("mails/**/*.eml")]
