"""The page of queues, workers and the leader."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import sqlalchemy as sa
from starlette.testclient import TestClient

from actions.lease import Leader
from actions.pausing.queues import fetch_queue_pause, pause_queue
from models.database.engine import Author, writing
from models.database.tables import ALIVE_FOR
from models.operation_state import Queue
from models.requests.notes import PauseModel
from operations.fleet.processes import fetch_processes
from tests.database import read_by
from tests.integration.web.conftest import Browser, enter_as, read
from tests.presence import give_sign, make_worker
from tests.scheduling import add_app, edit, get_now, make_operation, record_all

WORKER = make_worker("w1", name="quick@w1", queues=("quick",), id=UUID(int=7))


def test_page_says_which_queues_are_served(ada: TestClient, engine: sa.Engine):
    """What waits, who takes it, who runs what, and who leads."""
    give_sign(engine, WORKER)
    Leader(engine).hold()
    waiting, running = make_operation(1), make_operation(2)
    record_all(engine, waiting, running)
    claim = {"worker": "quick@w1", "claim_token": running.id}
    edit(engine, running.id, state="running", **claim)

    page = read(ada, "/workers")

    assert "Every queue that is needed is served." in page
    assert "no worker needed" in page
    assert f'href="/operations/{running.id}"' in page
    assert "1 known, 1 alive" in page
    assert "working" in page
    assert "minutehand worker -Q heavy,celery -n heavy@%h" in page
    assert len(page) < 50_000


def test_nothing_runs_yet(ada: TestClient):
    """The command that starts a worker is there as it is to be typed."""
    page = read(ada, "/workers")

    assert "Every queue that is needed is served." in page
    assert "No worker is running" in page
    assert "minutehand worker -Q quick,heavy,celery -n quick@%h" in page
    assert "Nobody has led yet" in page


def test_queue_without_worker_is_told_as_by_doctor(ada: TestClient, engine: sa.Engine):
    """Of those that nobody takes, only what an operation needs is bad."""
    give_sign(engine, WORKER)
    record_all(engine, make_operation(1, queue=Queue.HEAVY))

    page = read(ada, "/workers")

    assert "No worker takes heavy." in page
    assert 1 == page.count("nobody takes from it</span>")


def test_queue_is_paused_and_resumed(ada: TestClient, engine: sa.Engine):
    """With note and end; the next page offers to undo it."""
    record_all(engine, make_operation(1))
    question = read(ada, "/workers/queues/quick/pause")
    data = {"note": "mail server", "until": "2099-01-01T00:00:00Z"}
    answer = ada.post("/workers/queues/quick/pause", data=data)
    page = read(ada, "/workers")
    pause = read_by(engine, fetch_queue_pause, Queue.QUICK)
    ada.post("/workers/queues/quick/resume")
    left = read_by(engine, fetch_queue_pause, Queue.QUICK)

    assert "Pause quick; 1 operation waits" in question
    assert (303, "/workers") == (answer.status_code, answer.headers["location"])
    assert 'action="/workers/queues/quick/resume"><button' in page
    assert "Paused quick; 1 operation waits." in page
    assert "mail server" in page
    assert pause is not None
    assert ("mail server", "ada") == (pause.note, pause.by)
    assert left is None


def test_worker_is_drained_and_resumed(ada: TestClient, engine: sa.Engine):
    """The question names the queues of which it is the only worker."""
    give_sign(engine, WORKER)
    path = f"/workers/{WORKER.id}"
    question = read(ada, f"{path}/drain")
    ada.post(f"{path}/drain", data={"note": ""})
    page = read(ada, "/workers")
    (asked,) = read_by(engine, fetch_processes)
    ada.post(f"{path}/resume")
    (resumed,) = read_by(engine, fetch_processes)

    assert "It is the only worker of quick" in question
    assert "Draining quick@w1; it takes nothing new within 20 seconds." in page
    assert "Asked by ada at " in page
    assert (True, False) == (
        asked.drain_asked_at is not None,
        resumed.drain_asked_at is not None,
    )


def test_silent_worker_says_so(ada: TestClient, engine: sa.Engine):
    """It cannot be drained any more, and a page that was left open is told."""
    give_sign(engine, WORKER, age=ALIVE_FOR * 2)

    page = read(ada, "/workers")
    answer = ada.post(f"/workers/{WORKER.id}/drain", data={})

    assert "Its last sign was at " in page
    assert f'href="/workers/{WORKER.id}/drain"' not in page
    assert 409 == answer.status_code
    assert "quick@w1 has given no sign of life" in answer.text


def test_what_waits_for_its_time_is_not_called_nothing(
    browse: Browser, engine: sa.Engine
):
    """On the page of the installation, and on that of an app."""
    add_app(engine, "shop")
    later = make_operation(1)
    record_all(engine, later)
    edit(engine, later.id, app="shop", send_at=get_now(engine) + timedelta(hours=1))
    for app in (None, "shop"):
        page = read(enter_as(browse(), engine, app=app), "/workers")

        assert 1 == page.count("<dd>their time has not come</dd>")


def test_tenant_sees_what_waits_of_its_app(browse: Browser, engine: sa.Engine):
    """No host, no name of an operator, and nothing to pause."""
    add_app(engine, "shop")
    give_sign(engine, WORKER)
    mine, other = make_operation(1), make_operation(2)
    record_all(engine, mine, other)
    edit(engine, mine.id, app="shop", send_at=get_now(engine) - timedelta(minutes=3))
    with writing(engine, author=Author("root@secret")) as connection:
        pause_queue(connection, Queue.QUICK, PauseModel(note="update"))
    browser = enter_as(browse(), engine, app="shop")

    page = read(browser, "/workers")
    answer = browser.get("/workers/queues/quick/pause")

    assert "heavy is paused" not in page
    assert "Quick is paused." in page
    assert "sent by the scheduler" in page
    assert "nobody takes from it" not in page
    assert "of shop waits" in page
    assert "update" in page
    assert "secret" not in page
    assert "quick@w1" not in page
    assert 403 == answer.status_code
