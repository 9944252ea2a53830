"""Many clients at once: one change of a version wins, and one repeat does the work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import httpx2
import pytest
import sqlalchemy as sa

from tests.integration.api.conftest import UNLIMITED, Web, run_web
from tests.scheduling import count_revisions, make_document

CLIENTS = 20


@pytest.fixture
def web(postgres_engine: sa.Engine, tmp_path: Path) -> Iterator[Web]:
    """Give the API on PostgreSQL: SQLite has one writer anyway."""
    with run_web(postgres_engine, tmp_path, UNLIMITED) as made:
        yield made


def ask_at_once(ask: Callable[[int], httpx2.Response]) -> list[httpx2.Response]:
    """Let all clients ask at the same moment; *ask* gets the number of each."""
    barrier = Barrier(CLIENTS)

    def wait_and_ask(number: int) -> httpx2.Response:
        barrier.wait(60)
        return ask(number)

    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(wait_and_ask, range(CLIENTS)))


def count_statuses(answers: list[httpx2.Response]) -> Counter[int]:
    """Return how many answers have each status."""
    return Counter(each.status_code for each in answers)


def test_one_of_many_changes_of_a_version_wins(web: Web):
    """The others are told the version that there is now, and have changed nothing."""
    posted = web.post("/actions", make_document(uid="report"))
    headers = {"If-Match": posted.headers["etag"]}

    answers = ask_at_once(
        lambda number: web.put(
            "/actions/report",
            make_document(uid="report", name=f"by {number}"),
            headers=headers,
        )
    )

    assert count_statuses(answers) == {200: 1, 412: CLIENTS - 1}
    (winner,) = (each for each in answers if each.status_code == 200)
    lost = [each for each in answers if each.status_code == 412]
    assert {each.headers["etag"] for each in lost} == {winner.headers["etag"]}
    assert {each.json()["current"] for each in lost} == {winner.headers["etag"]}
    assert web.get("/actions/report").headers["etag"] == winner.headers["etag"]
    assert count_revisions(web.engine, "report") == 2
