"""What a key of one app could still learn of the others, or of the operators."""

from __future__ import annotations

from uuid import uuid4

import sqlalchemy as sa

from actions.pausing.targets import pause_target
from models.database.engine import Author, writing
from models.database.tables import small_apps
from models.requests.notes import PauseModel
from tests.database import execute
from tests.integration.api.conftest import APP, OTHER, Web
from tests.scheduling import make_document, make_operation, record_all

OPERATOR = "root@secret-host"


def post(web: Web, app: str) -> str:
    """Post an action of *app*; return its uid."""
    return str(web.post("/actions", make_document(), app=app).json()["uid"])


def test_resuming_an_app_counts_its_own_actions_alone(web: Web):
    """How many actions of others are paused is nothing to tell."""
    other = post(web, OTHER)
    post(web, APP)
    web.put(f"/actions/{other}/pause", {}, app=OTHER)
    web.put(f"/apps/{APP}/pause", {"note": "stocktaking"})

    resumed = web.delete(f"/apps/{APP}/pause")

    assert (1, 0) == (resumed.json()["actions"], resumed.json()["still_paused"])


def test_who_paused_everything_is_told_to_operators_alone(web: Web):
    """A tenant sees since when and why, in each place that tells of the pause."""
    post(web, APP)
    with writing(web.engine, author=Author(OPERATOR)) as connection:
        pause_target(connection, None, PauseModel(note="disks"))
    places = ("/status", "/actions")

    seen = {path: web.get(path).text for path in places}
    whole = {path: web.get(path, app=None).text for path in places}

    assert [path for path, text in seen.items() if OPERATOR in text] == []
    assert [path for path, text in seen.items() if "disks" not in text] == []
    assert [path for path, text in whole.items() if OPERATOR not in text] == []


def test_id_of_another_app_is_answered_like_one_that_never_was(web: Web):
    """Also where it is looked for as a text."""
    (foreign,) = record_all(web.engine, make_operation(app=OTHER))

    known, never = (
        web.get(f"/operations?text={each}").json() for each in (foreign, uuid4())
    )

    assert known == never


def test_taken_uid_of_another_app_tells_nothing_more(web: Web):
    """Neither whose it is, nor whether its action lives; and it cannot be replaced."""
    uid = post(web, OTHER)
    lives = web.post("/actions", make_document(uid=uid))
    web.delete(f"/actions/{uid}", app=OTHER)
    was = web.post("/actions", make_document(uid=uid))
    put = web.put(f"/actions/{uid}", make_document())

    assert (409, 409, 404) == (lives.status_code, was.status_code, put.status_code)
    assert lives.json()["detail"] == was.json()["detail"]
    assert OTHER not in lives.text


def test_refused_key_is_refused_again(web: Web):
    """A refusal has no secret: its repeat gets the same answer."""
    headers = {"Idempotency-Key": "mine"}
    asked = {"role": "admin", "app": "never"}

    first, again = (web.post("/keys", asked, headers=headers) for _ in range(2))

    assert first.status_code == again.status_code == 404
    assert first.json()["detail"] == again.json()["detail"]


def test_header_of_an_event_is_part_of_the_request(web: Web):
    """Another event under the same Idempotency-Key is another request."""
    event = {"specversion": "1.0", "type": "app.paid", "source": "/till"}
    event |= {"subject": "ada", "time": "2026-01-05T07:00:00Z"}
    headers = {f"ce-{name}": text for name, text in event.items()}
    headers |= {"Idempotency-Key": "mine", "Content-Type": "application/json"}

    answers = [
        web.post(
            f"/apps/{APP}/events", headers={**headers, "ce-id": number}
        ).status_code
        for number in ("1", "1", "2")
    ]

    assert answers[0] == answers[1] < 300
    assert answers[2] == 422


def test_folder_of_the_sources_is_told_to_operators_alone(web: Web):
    """It is a path on their hosts."""
    folder = {"source_folder": "/srv/secret"}
    execute(web.engine, sa.update(small_apps).values(folder))

    assert web.get(f"/apps/{APP}").json()["source_folder"] is None
    assert web.get(f"/apps/{APP}", app=None).json()["source_folder"] == "/srv/secret"


def test_conflict_of_the_moment_is_not_repeated(web: Web):
    """What was refused because of something that ended may be asked again."""
    headers = {"Idempotency-Key": "mine"}
    uid = post(web, APP)

    refused = web.post("/actions", make_document(), headers=headers)
    web.delete(f"/actions/{uid}")
    again = web.post("/actions", make_document(), headers=headers)

    assert (refused.status_code, again.status_code) == (409, 201)
