"""
Others on our Redis database or vhost: Celery projects, and another installation.

Neither takes what is the other's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import sqlalchemy as sa

from models.database.tables import operation_steps
from models.operation_state import FINAL_STATES
from operations.foreign_tasks import make_task_id
from tests.acceptance.test_celery_project import BEAT
from tests.acceptance.test_readme import Home
from tests.chaos.installation import Installation, make_worker_command
from tests.chaos.steps import EFFECTS
from tests.database import fetch_rows
from tests.neighbours.django_site.tasks import is_to_fail
from tests.neighbours.meeting import ping, record_many, record_runs
from tests.neighbours.project import Project, make_projects, make_site
from tests.scheduling import count_states, fetch_all
from tests.servers import PATIENCE_S, ROOT, run_warm, wait_until

#: Tasks of each side.
COUNT = 20


@contextmanager
def run_real_worker(installation: Installation) -> Iterator[None]:
    """Run a worker whose steps are ours, not those of the other tests."""
    environ = {k: v for k, v in installation.environ.items() if k != EFFECTS}
    with run_warm(
        make_worker_command("real", 2),
        log=installation.folder / "real.log",
        environ=environ,
        stop_timeout_s=5,
    ):
        yield


def record_reports(installation: Installation, site: Project) -> list[UUID]:
    """Record runs that send a task to *site*, and wait for its end."""
    task = {
        "name": "site.report",
        "args": ["{{ operation.id }}"],
        "kwargs": {"due": "{{ scheduled_for }}"},
        "queue": site.queue,
        "wait": True,
    }
    uid = installation.add("report", operations={"run_task": task})
    return record_runs(installation, uid, COUNT)


def test_each_of_four_minds_its_own(
    installation: Installation, sqlite_url: str, tmp_path: Path
) -> None:
    """
    Two projects, one of them with a default queue called like ours, and two
    installations of the same names, one of which sends tasks to a project: each runs
    once, where it should. A neighbour that tells all workers to stop stops its own.
    """
    plain, site = projects = make_projects(installation.broker_url, tmp_path)
    folder = tmp_path / "second"
    folder.mkdir()
    second = Installation(sqlite_url, installation.broker_url, folder)
    with (
        plain.worker() as stopped,
        site.worker(),
        installation.worker() as ours,
        run_real_worker(second),
        installation.scheduler(),
        second.scheduler(),
    ):
        ids = record_many(installation, COUNT)
        reports = record_reports(second, site)
        for each in projects:
            each.send(COUNT)
        wait_until(
            lambda: (
                installation.count_live() == second.count_live() == 0
                and [COUNT] * 2 == [len(each.fetch_done()) for each in projects]
            ),
            timeout_s=200,
            every_s=0.2,
            what="the tasks of all sides",
        )

        assert [list(range(COUNT))] * 2 == [each.fetch_done() for each in projects]
        assert {str(each): 1 for each in ids} == installation.read_effects(done=True)
        assert {"succeeded": COUNT} == count_states(installation.engine)
        assert_every_outcome_is_told(second, reports, site)

        theirs_found = wait_until(plain.ping, what="their workers to answer")
        ours_found = wait_until(lambda: ping(installation), what="ours to answer")
        plain.shut_down()
        stopped.wait(PATIENCE_S)

        assert {"plain@x", "django_site@x"} >= set(theirs_found)
        assert {"worker@tests", "real@tests"} >= set(ours_found)
        assert ours.poll() is None
        (last,) = record_many(installation, 1)
        assert installation.wait_for_state(last, *FINAL_STATES).state == "succeeded"
    second.engine.dispose()


def assert_every_outcome_is_told(
    installation: Installation, ids: Sequence[UUID], site: Project
) -> None:
    """Assert that each operation has ended as its task did, which ran once."""
    failing = {each for each in ids if is_to_fail(str(each))}
    rows = {row.id: row for row in fetch_all(installation.engine)}
    found = fetch_rows(installation.engine, sa.select(operation_steps))
    steps = {row.operation_id: row for row in found}
    assert set(ids) == set(rows)
    for each in ids:
        if each in failing:
            assert "failed" == rows[each].state
            assert make_task_id(each) in rows[each].error
        else:
            assert "succeeded" == rows[each].state, rows[each]
            assert {"due", "at"} == set(steps[each].result["returned"])
    ran = site.fetch_done("report")
    assert sorted(each.int for each in set(ids) - failing) == ran


def test_a_scheduler_takes_the_place_of_its_beat(
    redis_url: str, tmp_path: Path
) -> None:
    """As docs/celery-project.md says, with nothing else of ours."""
    site = make_site(redis_url, tmp_path)
    environ = {
        **site.environ,
        "PYTHONPATH": str(ROOT),
        "MINUTEHAND_WEB_ADDRESS": "none",
    }
    pasted = BEAT.replace("redis://redis:6379/0", redis_url)
    pasted = pasted.replace(
        "celery-beat shop ", "celery-beat tests.neighbours.django_site "
    )

    with site.worker():
        told = Home(tmp_path, environ).run(f"set -e -m\n{pasted}")

    assert {7} == set(site.fetch_done())  # once more, if an hour begins meanwhile
    assert "succeeded" in told
